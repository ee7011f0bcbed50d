"""Telemetry policies: what measured values say about nodes, which may not be used, which are better, how to label them.

Pure: values come in by `TelemetryEngine.update`, time is an argument, and verdicts are made when something changes and
not when a pod asks. Facts: the TASPolicy of telemetry.intel.com/v1alpha1 as Telemetry Aware Scheduling reads it; what
is done otherwise on purpose stands in docs/telemetry.md.
"""

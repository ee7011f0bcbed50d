"""What is to be written to a cluster so that nodes, pods and policies say what measured values and cards mean.

Labels of nodes, labels of pods on cards that are given up, evictions, waking pods that wait, the status of policies and
events in words. Pure: each plan is made from what is there and what should be, so that making it again after it was
carried out gives nothing to do; time is an argument. Facts: how Telemetry Aware Scheduling and GPU Aware Scheduling
label and deschedule; policy/v1 Eviction; pkg/scheduler of Kubernetes 1.36 for what wakes a pod.
"""

"""Every call to the API server that the extender makes, as a role has to allow it."""

from __future__ import annotations

from bayplan.cluster.rights import Right, rights

RIGHTS: tuple[Right, ...] = (
    *rights("", "nodes", "list watch", "which nodes there are, and what they offer"),
    *rights("", "pods", "list watch", "who holds which cards"),
    *rights("", "pods", "get", "the pod that is to be bound, and whether it is bound already"),
    *rights("", "pods/binding", "create", "binding pods that were given cards"),
    *rights("telemetry.intel.com", "taspolicies", "list watch", "the policies"),
    *rights("bayplan.dev", "telemetrypolicies", "list watch", "the policies"),
    *rights("bayplan.dev", "nodelayouts", "list watch", "what nodes' own policies would refuse"),
    *rights("topology.node.k8s.io", "noderesourcetopologies", "list watch", "the same, of nodes that tell it so"),
    *rights("events.k8s.io", "events", "create patch", "events in words, and how often they were"),
    *rights("custom.metrics.k8s.io", "*", "get", "what is measured of nodes"),
    *rights("coordination.k8s.io", "leases", "get create update", "which replica binds", own_namespace=True),
)

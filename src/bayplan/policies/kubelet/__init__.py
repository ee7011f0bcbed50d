"""The kubelet's answers: CPU, memory, device and Topology manager of Kubernetes 1.36."""

from bayplan.policies.kubelet.policy import KubeletPolicy

__all__ = ["KubeletPolicy"]

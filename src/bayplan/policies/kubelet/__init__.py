"""The kubelet's answers: CPU, memory, device and Topology manager of Kubernetes 1.36."""

"""What a pod asks for: the model and the readers of Kubernetes manifests."""

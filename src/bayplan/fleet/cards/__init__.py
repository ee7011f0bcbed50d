"""Cards that are shared in parts: which node, and which of its cards, a pod goes to."""

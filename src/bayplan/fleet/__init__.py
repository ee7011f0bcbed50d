"""All nodes of a cluster: which node a pod goes to."""

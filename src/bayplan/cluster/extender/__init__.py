"""`bayplan extender`: kube-scheduler's questions over HTTP, answered by what the fleet's checks know."""

"""Bayplan's own card policy: a pod goes where the fleet's value for the pods still to come drops least."""

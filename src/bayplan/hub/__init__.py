"""One node: what a container gets."""

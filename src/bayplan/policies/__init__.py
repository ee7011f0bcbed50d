"""How to choose on a node; every policy is found through its entry point."""

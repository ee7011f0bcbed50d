"""The controller: what upkeep plans, carried out at an API server by the one replica that leads."""

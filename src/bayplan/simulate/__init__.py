"""Replay of traces on a fleet: what a card policy would have made of them, measured."""

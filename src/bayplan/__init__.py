"""Bayplan: decides where every container of a heterogeneous cluster goes, and says why."""

__version__ = "0.1.0"

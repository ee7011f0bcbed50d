from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any


def load_policy(name: str) -> Any:
    return next(iter(entry_points(group="bayplan.policies", name=name))).load()


def load_resources() -> Any:
    return tuple(e.load()() for e in entry_points(group="bayplan.resources"))

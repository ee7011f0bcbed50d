"""The contract of a kind of resource: what there is of it, where it could be had, taking it, giving it back.

A plugin keeps no state: what is held is a value (`Holdings`, opaque to the hub) that goes in and comes out. The hub
asks every plugin to take every grant that a policy proposes; a plugin that sees its resource promised twice raises
`ConflictError`, and nothing of the proposal happens. In-tree plugins are found as anyone else's, through the entry
point group `bayplan.resources`.
"""

from __future__ import annotations

from typing import Any, Protocol

from bayplan.errors import BayplanError
from bayplan.machine import Machine
from bayplan.resources.decision import Grant
from bayplan.resources.effects import Effects

ENTRY_POINTS = "bayplan.resources"

Holdings = Any
"""A plugin's own immutable value."""


class ConflictError(BayplanError):
    """A grant promises what somebody holds already, or what is not there."""

    def __init__(self, resource: str, container: str, problem: str) -> None:
        self.resource = resource
        self.container = container
        self.problem = problem
        super().__init__(f"{container}: {resource}: {problem}")


class ResourcePlugin(Protocol):
    """One kind of resource."""

    name: str

    def empty(self, machine: Machine) -> Holdings:
        """What is held on a machine on which nobody holds anything."""

    def free(self, machine: Machine, holdings: Holdings) -> dict[str, int]:
        """What nobody holds, by the names and units of Kubernetes resources."""

    def take(self, machine: Machine, holdings: Holdings, grant: Grant) -> Holdings:
        """The holdings with this grant among them. Raises `ConflictError`."""

    def give_back(self, machine: Machine, holdings: Holdings, grant: Grant) -> Holdings:
        """The holdings without a grant. One that was never taken changes nothing."""

    def effects(self, machine: Machine, grant: Grant, effects: Effects) -> Effects:
        """The effects with this resource's part filled in."""

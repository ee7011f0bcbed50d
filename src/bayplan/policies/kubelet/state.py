"""What one kubelet's managers remember: the policy's part of a ledger.

A value by agreement: admission works on a `copy()` and hands back the copy; nobody changes a state that was handed
out. Copies are shallow and inner tables are replaced, never changed, so a copy costs microseconds on a full node.
Sets of CPUs and nodes are int masks.
"""

from __future__ import annotations

from typing import NamedTuple

from bayplan.workload.model import Pod


class Block(NamedTuple):
    """Memory of a type promised to a container from a mask of nodes together."""

    nodes: int
    type: str
    size: int


class Hint(NamedTuple):
    """The Topology manager's answer for a container: a mask of nodes (None: none) and whether it is preferred."""

    nodes: int | None
    preferred: bool


NO_HINT = Hint(None, False)

Memory = dict[str, tuple[int, ...]]
"""Type -> bytes by position of the node; -1 where a node has no such type."""


class State:
    """Everything that changes.

    `assigned`, `blocks`, `given` (devices) and `hints` are pod uid -> container -> value. The reusable tables belong
    to the one pod that was touched last: (uid, value). `cells` holds for each node the group of nodes that share its
    memory, `assignments` how many blocks lie on it. `hung` says why this kubelet answers no more. `policies` are the
    names of the CPU and memory policy that wrote the state (None: not known), `registered` the extended resources that
    it has seen, `started` the containers (uid, name) that started since the kubelet did.
    """

    __slots__ = (
        "assigned",
        "assignments",
        "blocks",
        "cells",
        "free",
        "given",
        "hints",
        "hung",
        "in_use",
        "pods",
        "policies",
        "registered",
        "reserved",
        "reusable_cpus",
        "reusable_devices",
        "reusable_memory",
        "shared",
        "started",
    )

    def __init__(self) -> None:
        self.shared = 0
        self.assigned: dict[str, dict[str, int]] = {}
        self.reusable_cpus: tuple[str, int] = ("", 0)
        self.assignments: tuple[int, ...] = ()
        self.cells: tuple[int, ...] = ()
        self.free: Memory = {}
        self.reserved: Memory = {}
        self.blocks: dict[str, dict[str, tuple[Block, ...]]] = {}
        self.reusable_memory: tuple[str, dict[int, dict[str, int]]] = ("", {})
        self.given: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
        self.in_use: dict[str, frozenset[str]] = {}
        self.reusable_devices: tuple[str, dict[str, frozenset[str]]] = ("", {})
        self.hints: dict[str, dict[str, Hint]] = {}
        self.pods: dict[str, Pod] = {}
        self.policies: tuple[str, str] | None = None
        self.registered: frozenset[str] = frozenset()
        self.started: frozenset[tuple[str, str]] = frozenset()
        self.hung = ""

    def copy(self) -> State:
        """A copy that can be changed without this one changing."""
        new = State.__new__(State)
        new.shared = self.shared
        new.assigned = self.assigned.copy()
        new.reusable_cpus = self.reusable_cpus
        new.assignments = self.assignments
        new.cells = self.cells
        new.free = self.free.copy()
        new.reserved = self.reserved.copy()
        new.blocks = self.blocks.copy()
        new.reusable_memory = self.reusable_memory
        new.given = self.given.copy()
        new.in_use = self.in_use.copy()
        new.reusable_devices = self.reusable_devices
        new.hints = self.hints.copy()
        new.pods = self.pods.copy()
        new.policies = self.policies
        new.registered = self.registered
        new.started = self.started
        new.hung = self.hung
        return new

    def hint_of(self, pod: str, container: str) -> Hint:
        """The stored hint, or none."""
        return self.hints.get(pod, {}).get(container, NO_HINT)


class AdmissionError(Exception):
    """A refusal with the kubelet's reason and message, and the numbers behind it where there are any.

    `container` is the one at which admission ended (empty: the pod as a whole), `manager` the kubelet's manager that
    refused it (`cpu`, `memory`, `device`, `topology`).
    """

    def __init__(
        self, reason: str, message: str, *, resource: str = "", asked: int | None = None, free: int | None = None
    ) -> None:
        self.reason = reason
        self.message = message
        self.resource = resource
        self.asked = asked
        self.free = free
        self.container = ""
        self.manager = "topology"
        super().__init__(message)


def unexpected(
    message: str, *, resource: str = "", asked: int | None = None, free: int | None = None
) -> AdmissionError:
    """What the kubelet makes of any error in an allocation."""
    text = f"Allocate failed due to {message}, which is unexpected"
    return AdmissionError("UnexpectedAdmissionError", text, resource=resource, asked=asked, free=free)


NIL_POINTER = "runtime error: invalid memory address or nil pointer dereference"


class KubeletPanicError(Exception):
    """The kubelet process would die here; the text is Go's."""

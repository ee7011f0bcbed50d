"""Which node a series belongs to: by its labels, a map of renames, and the names and addresses of the cluster's nodes.

Exporters name nodes in many ways: by a label `node`, by the address that was scraped (`instance`), by a host name. A
series is given to a node only if that node is known; a guess could forbid the wrong machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.scheduling.events import Event, NodeChanged, NodeGone
from bayplan.protocols.kubernetes import NodeObject, NodeStatus, ObjectMeta
from bayplan.protocols.promql import is_label_name

NODE_LABELS = ("node", "exported_node", "kubernetes_node", "Hostname", "nodename", "exported_instance", "instance")


class ClusterNodes:
    """The names by which the cluster's nodes may be called. Immutable; made anew when nodes change.

    `ClusterNodes.unknown()` is for a process that knows no nodes: every name is then taken for a node's.
    """

    __slots__ = ("_called", "knows_all")

    def __init__(self, called: Mapping[str, str], *, knows_all: bool = True) -> None:
        self._called = called
        self.knows_all = knows_all

    @classmethod
    def unknown(cls) -> ClusterNodes:
        """No node is known, and any name could be one."""
        return cls({}, knows_all=False)

    @classmethod
    def of(cls, nodes: Iterable[NodeObject]) -> ClusterNodes:
        """Nodes by name, and by every address that only one of them has."""
        called: dict[str, str] = {}
        shared: set[str] = set()
        names = []
        for node in nodes:
            names.append(node.name)
            for address in {entry.address for entry in node.addresses if entry.address}:
                shared |= {address} if called.get(address, node.name) != node.name else set()
                called[address] = node.name
        for address in shared:
            del called[address]
        return cls(called | {name: name for name in names})

    def named(self, text: str) -> str | None:
        """The node that is called so."""
        return self._called.get(text) if self.knows_all else text


class NodeNaming(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How series say which node they are of.

    `labels` are tried in their order, and the first whose text leads to a node is taken. The text is looked up in
    `renames` (first as it is, then without its port), and then among the names and addresses of the nodes.
    """

    labels: tuple[str, ...] = NODE_LABELS
    renames: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not self.labels:
            raise InputError("no label to tell nodes by", place="labels")
        for number, label in enumerate(self.labels):
            if not is_label_name(label):
                raise InputError("not a label name", place=f"labels[{number}]", value=label)

    def node_of(self, labels: Mapping[str, str], nodes: ClusterNodes) -> str | None:
        """The node of a series, or None."""
        for label in self.labels:
            text = labels.get(label)
            if text and (node := self._named(text, nodes)):
                return node
        return None

    def _named(self, text: str, nodes: ClusterNodes) -> str | None:
        host = without_port(text)
        renamed = self.renames.get(text) or self.renames.get(host)
        if renamed is not None:
            return nodes.named(renamed)
        return (nodes.named(text) if nodes.knows_all else None) or nodes.named(host)


def without_port(address: str) -> str:
    """The host of `host:port`: `10.0.0.1`, `::1` for `[::1]:9100`; anything else as it is."""
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        return host if closed and (not rest or rest[1:].isdecimal()) else address
    host, colon, port = address.rpartition(":")
    return host if colon and ":" not in host and port.isdecimal() else address


class NodeBook:
    """The nodes as events tell of them; `current` is the same object until a name or an address changes."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeObject] = {}
        self._current: ClusterNodes | None = None

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def take(self, event: Event) -> None:
        """An event; those that are not of nodes say nothing."""
        if isinstance(event, NodeChanged):
            known = self._nodes.get(event.node.name)
            if known is None or known.addresses != event.node.addresses:
                self._current = None
                # Of 5,000 nodes of 7 KB only this is needed.
                status = NodeStatus(addresses=event.node.addresses)
                self._nodes[event.node.name] = NodeObject(metadata=ObjectMeta(name=event.node.name), status=status)
        elif isinstance(event, NodeGone) and self._nodes.pop(event.name, None) is not None:
            self._current = None

    @property
    def current(self) -> ClusterNodes:
        """The nodes by all their names."""
        if self._current is None:
            self._current = ClusterNodes.of(self._nodes.values())
        return self._current

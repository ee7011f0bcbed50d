"""From what a person names (files of nodes, pods, orders, or a preset) to a trace for each seed.

`{seed}` in the name of a file stands for the seed, where the orders of several seeds are given. What a file of pods is
is told by its beginning: a table, JSON Lines, or Kubernetes manifests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bayplan.errors import InputError
from bayplan.files.documents import open_documents
from bayplan.files.tables import PRESET, Lines, open_lines
from bayplan.fleet.cards.dialects import CardDialect
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate import orders
from bayplan.simulate.node_tables import read_node_order, read_nodes
from bayplan.simulate.pod_tables import PodList, is_openb, read_pod_lines, read_pods
from bayplan.simulate.trace import Trace
from bayplan.workload.documents import Document, read_documents

SEED = "{seed}"
PRESETS = ("small",)
PRESET_NODES = "nodes.csv"
PRESET_PODS = "pods.csv"

Tell = Callable[[str], None]


class Wishes(NamedTuple):
    """Which pods, in which order.

    `pods` is a file; with `as_given` its order is taken as it is. `times`: whether pods come and go at their times
    (None: where they have some, but for openb's lists, whose published experiments leave times out of account).
    `load`: see `orders.shuffled` (None: the default).
    """

    pods: str
    as_given: bool = False
    node_order: str | None = None
    times: bool | None = None
    load: float | None = None


def open_nodes(path: str) -> tuple[CardNode, ...]:
    """The nodes in a table. Raises `InputError`."""
    with open_lines(path) as lines:
        return read_nodes(lines.all)


def preset_file(name: str, file: str) -> str:
    """The file of a preset (`preset:small`). Raises `InputError` for one that is none."""
    if name.removeprefix(PRESET) not in PRESETS:
        raise InputError("unknown preset", value=name, expected=" or ".join(f"{PRESET}{known}" for known in PRESETS))
    return f"{name}/{file}"


class TraceSource:
    """Makes the trace of a seed; what does not depend on it is read once. `tell` is told what was noticed."""

    def __init__(self, nodes: Sequence[CardNode], wishes: Wishes, dialect: CardDialect, tell: Tell) -> None:
        self._nodes = tuple(nodes)
        self._wishes = wishes
        self._dialect = dialect
        self._tell = tell
        self._path = ""
        self._pods = PodList([], (), orders.NOBODY)
        self._openb = False

    def trace(self, seed: int) -> Trace:
        """The trace of this seed. Raises `InputError`."""
        wishes = self._wishes
        self._read(wishes.pods.replace(SEED, str(seed)))
        times = wishes.times
        if times is None:
            times = self._pods.arrives_s is not None and not self._openb and not wishes.as_given
        if wishes.load is not None and (times or wishes.as_given):
            raise InputError("no load to choose where the arrivals are given", source="--load", value=wishes.load)
        try:
            if times:
                return orders.by_time(self._ranked(seed), self._pods)
            if wishes.as_given:
                return orders.given(self._ranked(seed), self._pods)
            load = orders.DEFAULT_LOAD if wishes.load is None else wishes.load
            trace = orders.shuffled(self._nodes, self._pods, seed, load)
        except InputError as error:
            raise error.within(source=self._path) from error
        return trace if wishes.node_order is None else trace._replace(nodes=self._ranked(seed))

    def _ranked(self, seed: int) -> tuple[CardNode, ...]:
        order = self._wishes.node_order
        if order is not None:
            with open_lines(order.replace(SEED, str(seed))) as lines:
                return read_node_order(lines.all, self._nodes)
        return self._nodes if self._wishes.as_given else orders.shuffled_nodes(self._nodes, seed)

    def _read(self, path: str) -> None:
        if path == self._path:
            return
        if os.path.isdir(path):
            self._pods, self._openb = self._read_manifests(open_documents([path])), False
        else:
            with open_lines(path) as lines:
                self._pods, self._openb = self._read_lines(lines, path)
        self._path = path

    def _read_lines(self, lines: Lines, path: str) -> tuple[PodList, bool]:
        head = lines.first.strip()
        if head.startswith("{") and head.endswith("}") and '"kind"' not in head and '"name"' in head:
            return read_pod_lines(lines.all), False
        if "," in head and not head.startswith(("{", "[", "#", "-")) and ": " not in head:
            return read_pods(lines.all), is_openb(head.split(","))
        return self._read_manifests(read_documents("".join(lines.all), path)), False

    def _read_manifests(self, documents: Iterable[Document]) -> PodList:
        # Imported here, so that a table is read without YAML.
        from bayplan.simulate.kubernetes import read_manifests

        models = sorted({node.model for node in self._nodes if node.cards})
        read = read_manifests(documents, models, self._dialect)
        for note in read.notes:
            self._tell(str(note))
        return read.pods

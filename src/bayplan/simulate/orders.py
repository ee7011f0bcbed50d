"""From a list of pods to a trace: in the order that is given, in the order of their times, or shuffled by a seed.

Shuffled is the event model of the FGD paper (USENIX ATC'23): pods sorted by name and shuffled, then, up to a load,
copies of pods drawn one by one with replacement; the nodes sorted by name and shuffled as well. All draws come from
`fleet.cards.generator`, the nodes' first, so that one seed gives one order of nodes whatever the load.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bayplan.errors import InputError
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.mix import PodKind, kind_of
from bayplan.fleet.cards.model import WHOLE, CardNode
from bayplan.fleet.cards.state import Bools, Ints
from bayplan.simulate.pod_tables import PodList
from bayplan.simulate.trace import Trace

DEFAULT_LOAD = 1.3
MAX_LOAD = 100.0
MAX_ARRIVALS = 5_000_000
COPY = "-tuned-"
NOBODY: Ints = np.zeros(0, np.int64)
_COPY_NAME = re.compile(rf".*{COPY}\d+", re.DOTALL)


def given(nodes: Sequence[CardNode], pods: PodList) -> Trace:
    """Pods and nodes as they stand; nobody leaves. The workload are the pods that are no copies (`x-tuned-7`)."""
    originals = np.array([_COPY_NAME.fullmatch(name) is None for name in pods.names], np.bool_)
    return Trace(tuple(nodes), pods.requests, pods.which, pods.names, _counts(pods, originals))


def by_time(nodes: Sequence[CardNode], pods: PodList) -> Trace:
    """Pods in the order of their arrival, of equal times in that of the list, each until it ends.

    Raises `InputError` where the pods have no times.
    """
    if pods.arrives_s is None or pods.leaves_s is None:
        raise InputError("no times of arrival", expected="a time for each pod, or --no-times")
    order = np.argsort(pods.arrives_s, kind="stable")
    return Trace(
        nodes=tuple(nodes),
        requests=pods.requests,
        arrivals=pods.which[order],
        names=[pods.names[i] for i in order.tolist()],
        counts=_counts(pods),
        arrives_s=pods.arrives_s[order],
        leaves_s=pods.leaves_s[order],
    )


def shuffled(nodes: Sequence[CardNode], pods: PodList, seed: int, load: float = DEFAULT_LOAD) -> Trace:
    """Pods in an order drawn by `seed`, with copies up to `load` times the cards of the nodes; nodes too are shuffled.

    Where the pods ask for more than that already, the last of the shuffled ones are left out instead. Copies end before
    the first drawn pod whose part of one card would pass the load. Raises `InputError` for too many arrivals.
    """
    if not 0 <= load <= MAX_LOAD:
        raise InputError("not a load", source="--load", value=load, expected=f"0 to {MAX_LOAD:g} times the cards")
    generator = Generator(seed)
    ranked = _shuffled_nodes(nodes, generator)
    by_name = sorted(range(len(pods.names)), key=pods.names.__getitem__)
    order = [by_name[i] for i in generator.shuffled(len(by_name)).tolist()]
    names = [pods.names[i] for i in order]
    requests, which = pods.requests, pods.which.tolist()
    target = load * WHOLE * sum(node.cards for node in nodes)
    total = sum(requests[which[i]].total_milli for i in order)
    if total > target:
        kept = order[: _fitting(pods, order, target)]
        return Trace(ranked, requests, pods.which[np.array(kept, np.int64)], names[: len(kept)], _counts(pods))
    while 0 < total < target:
        drawn = by_name[generator.below(len(by_name))]
        request = requests[which[drawn]]
        if total + request.milli > target:
            break
        if len(order) >= MAX_ARRIVALS:
            raise InputError(
                "too many arrivals", value=load, expected=f"a load that at most {MAX_ARRIVALS} pods make up"
            )
        names.append(f"{pods.names[drawn]}{COPY}{len(order) - len(by_name)}")
        order.append(drawn)
        total += request.total_milli
    return Trace(ranked, requests, pods.which[np.array(order, np.int64)], names, _counts(pods))


def shuffled_nodes(nodes: Sequence[CardNode], seed: int) -> tuple[CardNode, ...]:
    """The nodes as `shuffled` has them for this seed."""
    return _shuffled_nodes(nodes, Generator(seed))


def _shuffled_nodes(nodes: Sequence[CardNode], generator: Generator) -> tuple[CardNode, ...]:
    by_name = sorted(nodes, key=lambda node: node.name)
    return tuple(by_name[i] for i in generator.shuffled(len(by_name)).tolist())


def _fitting(pods: PodList, order: Sequence[int], target: float) -> int:
    """How many of the first pods ask for no more cards than that."""
    asked: Ints = np.array([request.total_milli for request in pods.requests], np.int64)[pods.which[np.array(order)]]
    return int(np.searchsorted(np.cumsum(asked), target, side="right"))


def _counts(pods: PodList, among: Bools | None = None) -> Counter[PodKind]:
    which = pods.which if among is None else pods.which[among]
    numbers, often = np.unique(which, return_counts=True)
    counts: Counter[PodKind] = Counter()
    for number, count in zip(numbers.tolist(), often.tolist(), strict=True):
        counts[kind_of(pods.requests[number])] += count
    return counts

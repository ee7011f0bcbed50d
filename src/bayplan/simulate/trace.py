"""A trace: the nodes of a fleet, and the pods that arrive one after the other, as arrays.

One row an arrival, so that a million of them stay small: `arrivals[i]` is the position in `requests` of what arrival
`i` asks; equal requests are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import CardNode, CardRequest
from bayplan.fleet.cards.state import Floats, Ints


class Trace(NamedTuple):
    """What is replayed.

    `nodes` stand in the order in which ties are broken. `arrives_s` and `leaves_s` are seconds by arrival (leaving is
    infinity for a pod that never ends; both None where the trace has no times: nobody leaves). Arrivals are in order.
    `counts` is what a policy may know beforehand: how often each kind of pod occurs in the workload.
    """

    nodes: tuple[CardNode, ...]
    requests: tuple[CardRequest, ...]
    arrivals: Ints
    names: Sequence[str]
    counts: Mapping[PodKind, int]
    arrives_s: Floats | None = None
    leaves_s: Floats | None = None

"""The pods that run on a cluster, from manifests and from tables, as what repacking works on.

Which cards a pod has is told by an annotation: Bayplan's, GPU Aware Scheduling's or Alibaba's. Where none tells it,
whole cards are taken to be the lowest that are free, and a part to be on the card with the least that suffices.

A pod is never moved that says so, that nobody would make again elsewhere (DaemonSets, static pods, pods without a
controller), or that comes from a table which says so. Facts: cluster-autoscaler's FAQ (`safe-to-evict`, pods that are
not replicated), kubelet (`kubernetes.io/config.source`, mirror pods), intel/platform-aware-scheduling (GAS),
AliyunContainerService/gpushare-scheduler-extender and alibaba/open-gpu-share (`gpu-index`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from bayplan.errors import InputError
from bayplan.fleet.cards.dialects import KNOWN, CardDialect, card_request
from bayplan.fleet.cards.model import CardNode, CardRequest, Spot
from bayplan.fleet.cards.repack.board import put
from bayplan.fleet.cards.repack.model import COST_UNIT, RunningPod
from bayplan.fleet.cards.state import Bools, CardFleet, likely_cards
from bayplan.fleet.filters import Standing, Wishes, standing_objection, wishes_of
from bayplan.workload.model import Pod
from bayplan.workload.notes import Note
from bayplan.workload.times import PodTimes

CARDS = ("bayplan.dev/cards", "gas-container-cards", "gpu.intel.com/cards", "alibabacloud.com/gpu-index")
"""Annotations that tell a pod's cards: numbers, or `card0`, with `,`, `|` or `-` between them."""
MOVABLE = "bayplan.dev/movable"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_STATIC = ("kubernetes.io/config.mirror", "kubernetes.io/config.source")
_CARD = re.compile(r"(?:card|gpu)?(\d{1,4})", re.ASCII)
_HOUR_S = 3600


class Prices(NamedTuple):
    """What a move costs: for every pod, for each card's worth that it holds, and for each such card's hour of work that
    a restart may lose."""

    pod: float = 0.1
    card: float = 1.0
    card_hour: float = 0.0

    def cost(self, request: CardRequest, age_s: float = 0.0) -> int:
        """In thousandths, rounded."""
        cards = request.total_milli / 1000
        return round(COST_UNIT * (self.pod + self.card * cards + self.card_hour * cards * age_s / _HOUR_S))


class Told(NamedTuple):
    """A pod as it was told: `cards` None where its cards are not; `group` as in `RunningPod`."""

    name: str
    request: CardRequest
    node: str
    cards: tuple[int, ...] | None
    fixed: str
    cost: int
    group: int = 0


class Cluster(NamedTuple):
    """All that runs, for a `Board`. `waiting` are requests of pods that have no node yet: they count for the mix."""

    pods: tuple[RunningPod, ...]
    groups: tuple[Bools, ...]
    waiting: tuple[CardRequest, ...] = ()
    notes: tuple[Note, ...] = ()


class Groups:
    """The sets of nodes that pods may go to, one for pods that say the same of nodes."""

    def __init__(self, nodes: Sequence[Standing]) -> None:
        self._nodes = nodes
        self._known: dict[bytes, int] = {}
        self.masks: list[Bools] = [
            self._mask(Wishes(selector={}, terms=None, preferences=(), tolerations=(), named=None))
        ]

    def of(self, pod: Pod) -> int:
        """The number of a pod's set."""
        wishes = wishes_of(pod)
        key = msgspec.msgpack.encode((wishes.selector, wishes.terms, wishes.tolerations))
        if key not in self._known:
            self._known[key] = len(self.masks)
            self.masks.append(self._mask(wishes))
        return self._known[key]

    def _mask(self, wishes: Wishes) -> Bools:
        return np.array([standing_objection(node, wishes) is None for node in self._nodes], np.bool_)


def of_manifests(
    pods: Sequence[Pod],
    times: Mapping[str, PodTimes],
    nodes: Sequence[CardNode],
    standing: Sequence[Standing],
    prices: Prices,
    now_s: float | None = None,
    dialect: CardDialect = KNOWN,
) -> Cluster:
    """What pods of manifests are, where they run. `standing` are the same nodes with their labels and taints.

    `now_s`: ages are counted up to it (None: up to the last time that a pod came). Raises `InputError`.
    """
    models = {node.model for node in nodes if node.cards}
    groups = Groups(standing)
    now = now_s
    if now is None:
        now = max((time.arrives_s for time in times.values() if time.arrives_s is not None), default=0.0)
    told: list[Told] = []
    waiting: list[CardRequest] = []
    for pod in pods:
        if pod.every_node:
            continue
        try:
            request = card_request(pod, models, dialect)
            if not pod.node_name:
                waiting.append(request)
                continue
            came = times.get(pod.source, PodTimes()).arrives_s
            cost = prices.cost(request, max(0.0, now - (now if came is None else came)))
            told.append(
                Told(pod.full_name, request, pod.node_name, cards_of(pod), why_fixed(pod), cost, groups.of(pod))
            )
        except InputError as error:
            raise error.within(source=pod.source) from error
    return placed(told, nodes, groups.masks)._replace(waiting=tuple(waiting))


def placed(told: Sequence[Told], nodes: Sequence[CardNode], groups: Sequence[Bools] = ()) -> Cluster:
    """The pods with their cards; those whose cards are not told take what the others leave. Raises `InputError`."""
    fleet = CardFleet(nodes)
    spots: dict[int, Spot] = {}
    guessed: list[str] = []
    for known in (True, False):
        for i, pod in enumerate(told):
            if (pod.cards is not None or not pod.request.cards) is known:
                spots[i] = _take(fleet, pod)
                if not known:
                    guessed.append(pod.name)
    names: set[str] = set()
    for pod in told:
        if pod.name in names:
            raise InputError("two pods of one name", value=pod.name)
        names.add(pod.name)
    pods = tuple(
        RunningPod(name=pod.name, request=pod.request, spot=spots[i], fixed=pod.fixed, cost=pod.cost, group=pod.group)
        for i, pod in enumerate(told)
    )
    notes: tuple[Note, ...] = ()
    if guessed:
        text = f"nothing tells which cards a pod has; the likely ones are taken (annotate it with {CARDS[0]})"
        notes = (Note(name="cards-not-told", message=text, place=f"pod {guessed[0]}", count=len(guessed)),)
    everywhere = np.ones(len(nodes), np.bool_)
    return Cluster(pods, tuple(groups) or (everywhere,), notes=notes)


def cards_of(pod: Pod) -> tuple[int, ...] | None:
    """The cards that an annotation names; None where none does. Raises `InputError`."""
    for name in CARDS:
        text = pod.annotations.get(name, "").strip()
        if text:
            return parse_cards(text, f"metadata.annotations[{name}]")
    return None


def parse_cards(text: str, place: str) -> tuple[int, ...]:
    """`0,1`, `0-1`, `0|1` or `card0,card1`, lowest first. Raises `InputError`."""
    cards = set()
    for part in re.split(r"[,|-]", text):
        found = _CARD.fullmatch(part.strip())
        if found is None:
            raise InputError("not cards", place=place, value=text, expected="numbers of cards, like 0,1")
        cards.add(int(found.group(1)))
    return tuple(sorted(cards))


def why_fixed(pod: Pod) -> str:
    """Why a pod must not be moved; empty where it may be."""
    says = {name: pod.annotations.get(name, "").strip().lower() for name in (MOVABLE, SAFE_TO_EVICT)}
    for name, value in says.items():
        if value == "false":
            return f"annotated {name}: false"
    if pod.owner.startswith("DaemonSet/"):
        return "of a DaemonSet"
    if pod.owner.startswith("Node/") or any(pod.annotations.get(name, "api") != "api" for name in _STATIC):
        return "a static pod"
    if not pod.owner and "true" not in says.values():
        return "no controller would make it again"
    return ""


def _take(fleet: CardFleet, pod: Told) -> Spot:
    node = fleet.position.get(pod.node)
    if node is None:
        raise InputError("runs on a node that is not there", place=f"pod {pod.name}", value=pod.node)
    cards = pod.cards
    if cards is None or not pod.request.cards:
        cards = _likely(fleet, node, pod.request)
    if len(cards) != pod.request.cards:
        expected = f"{pod.request.cards}, as many as it asks for"
        raise InputError("another number of cards", place=f"pod {pod.name}", value=list(cards), expected=expected)
    spot = Spot(node, cards)
    put(fleet, pod.name, pod.request, spot)
    return spot


def _likely(fleet: CardFleet, node: int, request: CardRequest) -> tuple[int, ...]:
    left = fleet.left[node]
    if request.is_shared and not left.size:
        return (0,)
    found = likely_cards(left, request)
    if len(found) < request.cards:
        name, asked = fleet.nodes[node].name, request.cards
        raise InputError(
            "has more cards than are free there", source=f"node {name}", value=asked, expected=f"at most {len(found)}"
        )
    return found

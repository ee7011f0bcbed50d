"""Advice to repack as tables and as JSON. Card numbers and costs are as a person gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.fleet.cards.model import CardNode, Spot
from bayplan.fleet.cards.repack.model import COST_UNIT, Advice
from bayplan.hub.room import ZoneAdvice
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Machine
from bayplan.report.canvas import paint
from bayplan.report.json_text import json_text
from bayplan.report.plain import plain
from bayplan.report.table import texts
from bayplan.report.words import plural
from bayplan.resources.decision import Grant


def json(advice: Advice, nodes: Sequence[CardNode]) -> str:
    """The advice as JSON."""
    moves = [
        {
            "pod": move.pod,
            "from": _place(move.source, nodes),
            "to": _place(move.target, nodes),
            "cost": move.cost / COST_UNIT,
            "gain_cards": _rounded(move.gain),
            "usable_cards": _rounded(move.usable),
        }
        for move in advice.moves
    ]
    return json_text(
        {
            "moves": moves,
            "before_cards": _rounded(advice.before),
            "after_cards": _rounded(advice.after),
            "cost": advice.cost / COST_UNIT,
            "complete": advice.complete,
            "reason": advice.reason,
            "room": None if advice.room is None else _place(advice.room, nodes),
        }
    )


def draw(advice: Advice, nodes: Sequence[CardNode], width: int, *, color: bool, unit: str) -> str:
    """A table of the moves in their order, what they come to, and why there are no more."""
    text = ""
    if advice.moves:
        rows = [
            [
                str(number),
                plain(move.pod),
                _where(move.source, nodes),
                _where(move.target, nodes),
                f"{move.cost / COST_UNIT:g}",
                f"{_rounded(move.gain):+.2f}",
                f"{_rounded(move.usable):.2f}",
            ]
            for number, move in enumerate(advice.moves, 1)
        ]
        heads = ["", "pod", "from", "to", "cost", "gain", f"{unit} cards"]
        text = paint(texts(heads, rows, width), color=color) + "\n"
    count = plural(len(advice.moves), "move")
    change = f"{_rounded(advice.before):.2f} to {_rounded(advice.after):.2f} {unit} cards"
    text += f"{count}, cost {advice.cost / COST_UNIT:g}: {change}; {advice.reason}\n"
    if advice.room is not None:
        text += f"Then the pod has room on {_where(advice.room, nodes)}.\n"
    return text


def zones_json(advice: ZoneAdvice, names: Mapping[str, str]) -> str:
    """The advice for one machine as JSON."""
    refusal = advice.decision.refusal
    restarts = [
        {
            "pod": restart.pod,
            "cost": restart.cost / COST_UNIT,
            "containers": [
                {"container": was.container, "from": _held(was), "to": _held(now)}
                for was, now in zip(restart.before, restart.after, strict=True)
            ],
        }
        for restart in advice.restarts
    ]
    return json_text(
        {
            "found": advice.found,
            "evict": restarts,
            "admit_in_order": [names[uid] for uid in advice.order],
            "cost": advice.cost / COST_UNIT,
            "complete": advice.complete,
            "pod": [{"container": grant.container, "has": _held(grant)} for grant in advice.decision.grants],
            "refusal": None if refusal is None else {"reason": refusal.reason, "message": refusal.message},
        }
    )


def draw_zones(
    advice: ZoneAdvice, names: Mapping[str, str], machine: Machine, moves: int, width: int, *, color: bool
) -> str:
    """What to evict, in which order to admit, and where each container is then."""
    refusal = advice.decision.refusal
    if refusal is not None:
        why = "no" if advice.complete else "none of those tried:"
        limit = plural(moves, "restart")
        return f"{refusal.reason}: {plain(refusal.message, 400)}\n{why} {limit} would have it admitted\n"
    rows = [
        [
            plain(restart.pod),
            plain(was.container),
            _zones(was, machine),
            _zones(now, machine),
            f"{restart.cost / COST_UNIT:g}",
        ]
        for restart in advice.restarts
        for was, now in zip(restart.before, restart.after, strict=True)
    ]
    rows += [["(new)", plain(each.container), "", _zones(each, machine), ""] for each in advice.decision.grants]
    text = paint(texts(["pod", "container", "now", "then", "cost"], rows, width), color=color) + "\n"
    if not advice.restarts:
        return text + "The pod is admitted without any restart.\n"
    evicted = ", ".join(plain(restart.pod) for restart in advice.restarts)
    order = ", ".join(plain(names[uid]) for uid in advice.order)
    return text + f"Evict {evicted}; then create, in this order: {order}. Cost {advice.cost / COST_UNIT:g}.\n"


def _held(grant: Grant) -> dict[str, Any]:
    memory = NodeSet()
    for block in grant.memory:
        memory |= block.nodes
    return {
        "exclusive_cpus": str(grant.exclusive),
        "memory_nodes": str(memory),
        "devices": {device.resource: list(device.ids) for device in grant.devices},
        "affinity": None if grant.affinity is None else str(grant.affinity),
        "aligned": grant.preferred,
    }


def _zones(grant: Grant, machine: Machine) -> str:
    """`node 0: CPUs 2-5`."""
    if not grant.exclusive:
        return "shared CPUs" + ("" if grant.affinity is None else f", node {grant.affinity}")
    nodes = [str(node.id) for node in machine.nodes if node.cpus & grant.exclusive]
    cpus: CpuSet = grant.exclusive
    return f"node {','.join(nodes)}: CPUs {cpus}".replace(",", ", ")


def _place(spot: Spot, nodes: Sequence[CardNode]) -> dict[str, Any]:
    return {"node": nodes[spot.node].name, "cards": list(spot.cards)}


def _where(spot: Spot, nodes: Sequence[CardNode]) -> str:
    cards = f" card {', '.join(map(str, spot.cards))}" if spot.cards else ""
    return plain(nodes[spot.node].name) + cards


def _rounded(cards: float) -> float:
    """Without the last bits, and without a minus before zero."""
    return round(cards, 6) + 0.0

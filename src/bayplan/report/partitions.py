"""Cards that are cut into parts, as tables and as plain values for JSON.

A card is drawn as its memory slices: a letter for each instance, a dot for what is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from bayplan.fleet.cards.partitions.fleet import Instance, PartitionFleet, Placement
from bayplan.fleet.cards.partitions.layout import EMPTY, Layout
from bayplan.fleet.cards.partitions.worth import Worth
from bayplan.report.canvas import paint
from bayplan.report.plain import plain
from bayplan.report.table import texts
from bayplan.resources.decision import Refusal

Answers = Sequence[tuple[str, Placement | Refusal]]


def known(layouts: Sequence[Layout]) -> list[dict[str, Any]]:
    """The layouts, one mapping each."""
    return [{"name": each.name, "title": each.title, "profiles": [p.name for p in each.profiles]} for each in layouts]


def draw_known(layouts: Sequence[Layout], width: int, *, color: bool) -> str:
    """A table of layouts."""
    rows = [[each.name, each.title, ", ".join(p.name for p in each.profiles)] for each in layouts]
    return _table(["card", "", "profiles"], rows, width, color)


def profiles(layout: Layout) -> dict[str, Any]:
    """A layout with its profiles, and how many instances of each an empty card holds."""
    worth = Worth(layout)
    return {
        "name": layout.name,
        "title": layout.title,
        "compute": layout.compute,
        "memory": layout.memory,
        "uniform": layout.uniform,
        "resource": layout.resource,
        "profiles": [
            {
                "name": each.name,
                "compute": each.compute,
                "memory": each.memory,
                "starts": list(each.starts),
                "most": worth.most(EMPTY, i),
                "resource": each.resource,
            }
            for i, each in enumerate(layout.profiles)
        ],
    }


def draw_profiles(layout: Layout, width: int, *, color: bool) -> str:
    """A table of a layout's profiles."""
    told = profiles(layout)
    rows = [
        [
            p["name"],
            str(p["compute"]),
            str(p["memory"]),
            ", ".join(map(str, p["starts"])),
            str(p["most"]),
            p["resource"],
        ]
        for p in told["profiles"]
    ]
    kind = "; all instances of a card are of one profile" if layout.uniform else ""
    title = f"{layout.title or layout.name}: {layout.compute} compute slices, {layout.memory} memory slices{kind}\n\n"
    heads = ["profile", "compute", "memory", "may begin at", "most", "resource"]
    return plain(title.rstrip(), 500) + "\n\n" + _table(heads, rows, width, color)


def placed(fleet: PartitionFleet, answers: Answers) -> dict[str, Any]:
    """Where everything went, and what is left: free slices and the largest profile that fits, apart."""
    nodes = []
    for node, site in enumerate(fleet.sites):
        cards = [
            {"card": card, "instances": _instances(fleet, node, card), **_room(fleet, node, card)}
            for card in range(site.cards)
        ]
        nodes.append({"node": site.name, "layout": site.layout.name, "cards": cards, **_room(fleet, node)})
    placements = [
        {"pod": name, "refused": answer.message, "asked": answer.asked, "free": answer.free}
        if isinstance(answer, Refusal)
        else {"pod": name, "node": fleet.sites[answer.node].name, "instances": [_told(i) for i in answer.instances]}
        for name, answer in answers
    ]
    return {"placements": placements, "nodes": nodes, **_whole(fleet)}


def draw_placed(fleet: PartitionFleet, answers: Answers, width: int, *, color: bool) -> str:
    """Two tables: who went where, and the cards."""
    rows = []
    for name, answer in answers:
        if isinstance(answer, Refusal):
            rows.append([plain(name), f"refused: {answer.message} (asked {answer.asked}, free {answer.free})", "", ""])
            continue
        where = fleet.sites[answer.node].name
        rows += [[plain(name), where, str(each.card), f"{each.profile}:{each.start}"] for each in answer.instances]
    text = _table(["pod", "node", "card", "profile:position"], rows, width, color) + "\n"
    rows = []
    for node, site in enumerate(fleet.sites):
        for card in range(site.cards):
            room = fleet.room(node, card)
            own = [each for each in fleet.instances(node) if each.card == card]
            rows.append(
                [site.name, str(card), _drawn(site.layout, own), *_left(room.compute, room.memory, room.largest)]
            )
    whole = _whole(fleet)
    rows.append(["all", "", "", *_left(whole["free_compute"], whole["free_memory"], whole["largest_fit"])])
    return text + _table(["node", "card", "memory", "free compute", "free memory", "largest fit"], rows, width, color)


def _left(compute: int, memory: int, largest: str) -> list[str]:
    return [str(compute), str(memory), largest or "none"]


def _drawn(layout: Layout, instances: Sequence[Instance]) -> str:
    slices = ["."] * layout.memory
    for number, each in enumerate(sorted(instances)):
        size = layout.profiles[layout.by_name[each.profile]].memory
        slices[each.start : each.start + size] = [ascii_uppercase[number % 26]] * size
    return "".join(slices)


def _instances(fleet: PartitionFleet, node: int, card: int) -> list[dict[str, Any]]:
    return [_told(each) for each in fleet.instances(node) if each.card == card]


def _told(each: Instance) -> dict[str, Any]:
    return {"card": each.card, "start": each.start, "profile": each.profile}


def _room(fleet: PartitionFleet, node: int, card: int | None = None) -> dict[str, Any]:
    room = fleet.room(node, card)
    return {"free_compute": room.compute, "free_memory": room.memory, "largest_fit": room.largest or None}


def _whole(fleet: PartitionFleet) -> dict[str, Any]:
    rooms = [(fleet.room(node), site.layout) for node, site in enumerate(fleet.sites)]
    some = [
        (layout.profiles[layout.by_name[room.largest]].size, room.largest) for room, layout in rooms if room.largest
    ]
    return {
        "free_compute": sum(room.compute for room, _ in rooms),
        "free_memory": sum(room.memory for room, _ in rooms),
        "largest_fit": max(some)[1] if some else None,
    }


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, color: bool) -> str:
    return paint(texts(heads, rows, width), color=color)

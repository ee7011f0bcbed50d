"""`bayplan partitions`: how cards can be cut, and where instances would go."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bayplan.cli import OK, REFUSED
from bayplan.cli.terminal import Look, write_document
from bayplan.errors import InputError

if TYPE_CHECKING:
    from bayplan.fleet.cards.partitions.fleet import PartitionFleet
    from bayplan.fleet.cards.partitions.layout import Layout

MOST = 10_000
_COUNTED = re.compile(r"(?:(\d{1,5})x)?(.+?)(?:=(\d{1,5}))?", re.ASCII)


class Inputs(NamedTuple):
    """What is to be placed, as it was typed. `mix` is like `1g.10gb=3,3g.40gb=1`."""

    card: str
    wanted: Sequence[str]
    pods: Sequence[str]
    nodes: int
    cards: int
    only: str
    mix: str


class Asked(NamedTuple):
    """Who asks, and for how much of each resource."""

    name: str
    amounts: dict[str, int]


def show(card: str | None, output: str, look: Look) -> int:
    """List the cards that are known, or the profiles of one."""
    from bayplan.files.card_layouts import layout_names, open_layout
    from bayplan.report import partitions

    if card is None:
        layouts = [open_layout(name) for name in layout_names()]
        _write(output, partitions.known(layouts), lambda: partitions.draw_known(layouts, look.width, color=look.color))
        return OK
    layout = open_layout(card)
    _write(output, partitions.profiles(layout), lambda: partitions.draw_profiles(layout, look.width, color=look.color))
    return OK


def place(inputs: Inputs, output: str, look: Look) -> int:
    """Place what is asked for, one after the other, on cards that are empty at first."""
    from bayplan.files.card_layouts import open_layout
    from bayplan.fleet.cards.partitions.fleet import PartitionFleet, Site
    from bayplan.report import partitions
    from bayplan.resources.decision import Refusal

    layout = open_layout(inputs.card)
    sites = [Site(name=f"node-{i}", layout=layout, cards=inputs.cards, only=inputs.only) for i in range(inputs.nodes)]
    fleet = PartitionFleet(sites, {layout.name: _mix(inputs.mix)} if inputs.mix else None)
    answers: list[tuple[str, Any]] = []
    for asked in _asked(inputs, fleet):
        answer = fleet.place(asked.amounts)
        if not isinstance(answer, Refusal):
            fleet.take(answer)
        answers.append((asked.name, answer))
    made = partitions.placed(fleet, answers)
    _write(output, made, lambda: partitions.draw_placed(fleet, answers, look.width, color=look.color))
    return REFUSED if any(isinstance(answer, Refusal) for _, answer in answers) else OK


def _asked(inputs: Inputs, fleet: PartitionFleet) -> Iterator[Asked]:
    layout = fleet.sites[0].layout
    for text in inputs.wanted:
        name, count, together = _counted(text)
        resource = _resource(layout, name, inputs.only)
        # 3x is three pods with one each, =3 is one pod with three.
        for _ in range(count):
            yield Asked(name, {resource: together})
    if inputs.pods:
        from bayplan.files.documents import open_documents
        from bayplan.fleet.pod_needs import pod_needs
        from bayplan.workload import manifests

        offered = fleet.sites[0].offered
        for pod in manifests.read(open_documents(inputs.pods)).pods:
            amounts = {name: count for name, count in pod_needs(pod).amounts.items() if name in offered}
            if amounts:
                yield Asked(pod.full_name, amounts)
            else:
                print(f"note: {pod.full_name} asks for no partition of these cards", file=sys.stderr)


def _resource(layout: Layout, name: str, only: str) -> str:
    resources = {profile.resource for profile in layout.profiles} | {layout.resource}
    if name in resources:
        return name
    if name not in layout.by_name:
        raise InputError("no such profile", source=layout.name, value=name, expected=" or ".join(layout.by_name))
    if only:
        if name != only:
            raise InputError("all cards are cut into another profile", source="--only", value=only, expected=name)
        return layout.resource
    return layout.profiles[layout.by_name[name]].resource


def _counted(text: str) -> tuple[str, int, int]:
    found = _COUNTED.fullmatch(text)
    if found is None:
        raise InputError("not a profile", value=text, expected="like 1g.10gb, 3x1g.10gb or 1g.10gb=2")
    count, together = int(found.group(1) or 1), int(found.group(3) or 1)
    if not 1 <= count <= MOST or not 1 <= together <= MOST:
        raise InputError("out of range", value=text, expected=f"1 to {MOST}")
    return found.group(2), count, together


def _mix(text: str) -> dict[str, int]:
    mix: Counter[str] = Counter()
    for part in text.split(","):
        name, _, count = part.partition("=")
        if not (count.isascii() and count.isdigit() and len(count) < 10) or name in mix:
            raise InputError("not a share", source="--mix", value=part, expected="like 1g.10gb=3, each profile once")
        mix[name] = int(count)
    return dict(mix)


def _write(output: str, value: Any, draw: Any) -> None:
    if output == "json":
        from bayplan.report.json_text import json_text

        write_document(json_text(value))
    else:
        sys.stdout.write(draw())

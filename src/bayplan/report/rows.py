"""A plan as the rows of a table and the sentences that sum it up; text and HTML show the same ones.

Values are still foreign text here: whoever shows them makes them safe.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.fleet.plan import Placement, Plan
from bayplan.report.seating import passing_containers
from bayplan.report.words import devices_of, hugepages_of, plural
from bayplan.resources.decision import Notice, Refusal


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One container. `first` and `last` are of its pod; a refused pod's rows all carry the refusal."""

    pod: str
    container: str
    qos: str
    node: str = ""
    exclusive: str = ""
    shared: bool = False
    memory_nodes: str = ""
    hugepages: str = ""
    devices: str = ""
    passing: bool = False
    first: bool = False
    last: bool = False
    refusal: Refusal | None = None


def placement_rows(placement: Placement) -> list[Row]:
    """The rows of one pod, in the order of its grants, or of its requests where it was refused."""
    pod = placement.pod
    passing = passing_containers(pod)
    decision = placement.decision
    if placement.node is None or decision is None:
        refusal = placement.refusal or (decision.refusal if decision else None)
        refusal = refusal or Refusal(reason="Refused", message="no reason was given", rule="")
        names = [request.name for request in pod.all_containers] or [""]
        return [
            Row(pod=pod.full_name, container=name, qos=pod.qos, passing=name in passing, first=i == 0,
                last=i == len(names) - 1, refusal=refusal)
            for i, name in enumerate(names)
        ]  # fmt: skip
    last = len(decision.grants) - 1
    rows = [
        Row(
            pod=pod.full_name,
            container=grant.container,
            qos=pod.qos,
            node=placement.node,
            exclusive=str(grant.exclusive),
            shared=bool(grant.shared) or not grant.exclusive,
            memory_nodes=str(grant.memory_nodes),
            hugepages=hugepages_of(grant),
            devices=devices_of(grant),
            passing=grant.container in passing,
            first=i == 0,
            last=i == last,
        )
        for i, grant in enumerate(decision.grants)
    ]
    return rows or [Row(pod=pod.full_name, container="", qos=pod.qos, node=placement.node, first=True, last=True)]


def refusals_by_kind(refused: Sequence[Placement]) -> list[tuple[Refusal, list[Placement]]]:
    """Refused pods by reason, rule and resource, the most frequent first; the refusal is the first of its kind."""
    kinds: dict[tuple[str, str, str], tuple[Refusal, list[Placement]]] = {}
    for placement in refused:
        refusal = placement_rows(placement)[0].refusal
        assert refusal is not None
        kind = (refusal.reason, refusal.rule, refusal.resource)
        kinds.setdefault(kind, (refusal, []))[1].append(placement)
    return sorted(kinds.values(), key=lambda kind: -len(kind[1]))


def warnings_by_text(plan: Plan) -> dict[tuple[str, str], list[str]]:
    """Name and message of each warning -> the nodes and pods it holds for, none where it is about the whole plan."""
    found: list[tuple[Notice, list[str]]] = [(notice, []) for notice in plan.warnings]
    found += [(notice, [node.name]) for node in plan.nodes for notice in node.warnings]
    found += [(notice, [p.pod.full_name]) for p in plan.placements if p.decision for notice in p.decision.warnings]
    places: dict[tuple[str, str], list[str]] = {}
    for notice, where in found:
        places.setdefault((notice.name, notice.message), []).extend(where)
    return places


def summary(plan: Plan) -> str:
    """`18 of 20 containers placed on 3 nodes, 2 pods refused`."""
    total = sum(len(p.pod.all_containers) for p in plan.placements)
    placed = sum(len(p.pod.all_containers) for p in plan.placements if p.node is not None)
    pods = plural(len(plan.placements), "pod")
    where = plural(len(plan.nodes), "node")
    said = f"{placed:,} of {plural(total, 'container')} placed ({pods}, {where})"
    return f"{said}, {total - placed:,} refused" if plan.refused else f"{said}, none refused"

"""Why a pod went where it went, or nowhere: a decision's trace in words.

It tells only what the plan holds; it decides nothing again. What was written by others is made safe to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from bayplan.errors import InputError
from bayplan.fleet.plan import Placement, Plan
from bayplan.report.plain import MESSAGE_LIMIT, plain
from bayplan.report.rows import Row, placement_rows
from bayplan.report.words import amount, plural, refusal_numbers, spaced
from bayplan.resources.decision import Choice, Refusal

_OPTIONS_SHOWN = 12
_NODES_SHOWN = 20
_NAMES_OFFERED = 5
# Names are compared letter by letter, which takes long for very many or very long ones.
_NAMES_COMPARED = 20_000


def explain(plan: Plan, name: str) -> str:
    """The story of a pod, or of one of its containers.

    `name` is `pod`, `namespace/pod`, `pod/container` or `namespace/pod/container`. Raises `InputError` with the
    nearest names where none is so called, and with all of them where several are.
    """
    placement, container = _found(plan, name)
    rows = [row for row in placement_rows(placement) if not container or row.container == container]
    lines = [_headline(placement, container)]
    lines += [f"  {_said(row)}" for row in rows if row.refusal is None]
    refusal = rows[0].refusal if rows else None
    if refusal is not None:
        lines += ["", "Why not:", *_refusal(refusal, "  ")]
    lines += _steps(placement, container)
    lines += _elsewhere(placement)
    if placement.decision is not None and placement.decision.warnings:
        lines += ["", "Warnings:"]
        lines += [f"  {plain(w.name)}: {plain(w.message, MESSAGE_LIMIT)}" for w in placement.decision.warnings]
    return "\n".join(lines) + "\n"


def _found(plan: Plan, name: str) -> tuple[Placement, str]:
    matches = [(p, c) for p in plan.placements for c in [_match(p, name)] if c is not None]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        near = [plain(each, 120) for each in _nearest(plan, name)]
        offered = f"one of {', '.join(near)}" if near else "the name of a pod in the plan; it holds none"
        raise InputError("no such pod or container in the plan", value=name, expected=offered)
    # Copies of one pod may carry one name; the first of them stands for all only if they are told apart nowhere.
    full = list(dict.fromkeys("/".join(part for part in (p.pod.full_name, c) if part) for p, c in matches))
    if len(full) == 1:
        return matches[0]
    shown = ", ".join(plain(each, 120) for each in full[:_NAMES_OFFERED])
    more = ", ..." if len(full) > _NAMES_OFFERED else ""
    raise InputError("the name fits several", value=name, expected=f"one of {shown}{more}")


def _match(placement: Placement, name: str) -> str | None:
    """The container that the name means ("" for the pod as a whole); None: neither."""
    pod = placement.pod
    if name in (pod.name, pod.full_name):
        return ""
    for head in (pod.name, pod.full_name):
        rest = name.removeprefix(f"{head}/")
        if rest != name and any(request.name == rest for request in pod.all_containers):
            return rest
    return None


def _nearest(plan: Plan, name: str) -> list[str]:
    """Names that look most like the one asked for; the first ones where none does."""
    asked = name[:512]
    by_form: dict[str, str] = {}
    for placement in plan.placements[:_NAMES_COMPARED]:
        pod = placement.pod
        for form in (pod.name, pod.full_name):
            by_form.setdefault(form[:512], pod.full_name)
        for request in pod.all_containers:
            whole = f"{pod.full_name}/{request.name}"
            by_form.setdefault(f"{pod.name}/{request.name}"[:512], whole)
    near = get_close_matches(asked, by_form, n=_NAMES_OFFERED, cutoff=0.5)
    found = dict.fromkeys(by_form[form] for form in near)
    return list(found or dict.fromkeys(p.pod.full_name for p in plan.placements[:_NAMES_OFFERED]))


def _headline(placement: Placement, container: str) -> str:
    pod = placement.pod
    what = f"{plain(pod.full_name)}/{plain(container)}" if container else plain(pod.full_name)
    asked = _asked(placement, container)
    where = "is refused" if placement.node is None else f"runs on {plain(placement.node)}"
    made = f", made by {plain(pod.owner)}" if pod.owner else ""
    return f"{what} ({pod.qos}{made}) {where}. It asks {asked}."


def _asked(placement: Placement, container: str) -> str:
    """What the containers request, added up; what is nothing is left out."""
    sums: dict[str, int] = {}
    for request in placement.pod.all_containers:
        if container and request.name != container:
            continue
        wants = {"cpu": request.cpu_milli, **request.memory_types, **request.devices}
        for resource, count in wants.items():
            sums[resource] = sums.get(resource, 0) + count
    said = [_wanted(resource, count) for resource, count in sums.items() if count]
    count = 1 if container else len(placement.pod.all_containers)
    return f"{', '.join(said) or 'nothing in particular'} for {plural(count, 'container')}"


def _wanted(resource: str, count: int) -> str:
    if resource == "cpu":
        return amount(resource, count)
    if resource == "memory":
        return f"{amount(resource, count)} of memory"
    return f"{amount(resource, count)} of {plain(resource)}"


def _said(row: Row) -> str:
    """What one container holds, in a sentence."""
    name = f"{plain(row.container)}{' (init, gives it back before the application starts)' if row.passing else ''}"
    parts = [f"the CPUs {spaced(row.exclusive)} for itself"] if row.exclusive else []
    parts += ["the shared CPUs"] if row.shared else []
    many = "nodes" if "," in row.memory_nodes or "-" in row.memory_nodes else "node"
    parts += [f"memory from {many} {spaced(row.memory_nodes)}"] if row.memory_nodes else []
    parts += [row.hugepages] if row.hugepages else []
    parts += [plain(row.devices, MESSAGE_LIMIT)] if row.devices else []
    return f"{name} has {', '.join(parts) or 'nothing of its own'}"


def _refusal(refusal: Refusal, indent: str) -> list[str]:
    lines = [f"{indent}{plain(refusal.reason)}: {plain(refusal.message, MESSAGE_LIMIT)}"]
    if refusal.container:
        lines.append(f"{indent}for container {plain(refusal.container)}")
    if refusal.rule:
        lines.append(f"{indent}by the rule {plain(refusal.rule)}")
    numbers = refusal_numbers(refusal)
    lines += [f"{indent}{plain(numbers, 400)}"] if numbers else []
    lines += [f"{indent}To make it fit: {plain(remedy, MESSAGE_LIMIT)}" for remedy in refusal.remedies]
    return lines


def _steps(placement: Placement, container: str) -> list[str]:
    decision = placement.decision
    steps: Sequence[Choice] = decision.trace if decision is not None else ()
    if container:
        # Steps about the pod as a whole concern each of its containers.
        others = {request.name for request in placement.pod.all_containers} - {container}
        steps = [step for step in steps if step.subject not in others]
    if not steps:
        return []
    lines = ["", "Step by step:"]
    for number, step in enumerate(steps, 1):
        lines.append(f"  {number}. {plain(step.subject)}: {plain(step.question, MESSAGE_LIMIT)}")
        if step.options:
            shown = "; ".join(plain(option) for option in step.options[:_OPTIONS_SHOWN])
            more = f"; and {len(step.options) - _OPTIONS_SHOWN:,} more" if len(step.options) > _OPTIONS_SHOWN else ""
            lines.append(f"     open were {shown}{more}")
        lines.append(f"     taken: {plain(step.taken, MESSAGE_LIMIT)}, by {plain(step.rule)}")
    return lines


def _elsewhere(placement: Placement) -> list[str]:
    """Every other node's reason; of a long list the first, and the counts of all."""
    others = [each for each in placement.elsewhere if placement.node is None or each.node != placement.node]
    if placement.node is None and len(others) == 1 and others[0].refusal == placement.refusal:
        return ["", f"The only node was {plain(others[0].node)}."]
    lines: list[str] = []
    if others:
        lines += ["", "Why not elsewhere:"]
    for each in others[:_NODES_SHOWN]:
        lines.append(f"  {plain(each.node)}")
        lines += _refusal(each.refusal, "    ")
    total = sum(placement.refused_nodes.values())
    if total > min(len(others), _NODES_SHOWN):
        counts = ", ".join(f"{plain(r)} on {plural(n, 'node')}" for r, n in placement.refused_nodes.items())
        lines += ["", f"All nodes together: {counts}."]
    return lines

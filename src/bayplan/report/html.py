"""A plan as one HTML page that needs nothing else: no script, no font, no picture is fetched.

Summary, what was refused and what would help, who got what, a drawing of each node, and every decision's trace behind
a fold. Follows the reader's light or dark setting. Everything foreign passes `safe`, which takes out control and
direction characters and escapes markup. A Content-Security-Policy forbids what could run all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.fleet.plan import Placement, Plan, PlannedNode
from bayplan.report.html_style import STYLE
from bayplan.report.plain import MESSAGE_LIMIT
from bayplan.report.rows import Row, placement_rows, refusals_by_kind, summary, warnings_by_text
from bayplan.report.seating import by_node
from bayplan.report.svg import draw_node, drawn_nodes
from bayplan.report.svg_marks import safe
from bayplan.report.words import plural, refusal_numbers, spaced, used_of
from bayplan.resources.decision import Choice, Refusal

# Above this many pods the page lists the refused ones and counts the rest; a browser is slow beyond it.
MOST_ROWS = 5000
MOST_TRACES = 500
_LISTED_PODS = 50
_OPTIONS_SHOWN = 50


def page(plan: Plan, *, title: str = "Bayplan") -> str:
    """The whole page."""
    sections = [
        _summary(plan),
        _warnings(plan),
        _refusals(plan.refused),
        _drawings(plan),
        _placements(plan),
        _nodes(plan),
        _traces(plan),
    ]
    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
    )
    body = "\n".join(section for section in sections if section)
    return f"{head}<body>\n<main>\n<h1>{safe(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"


def _summary(plan: Plan) -> str:
    pods = len(plan.placements)
    placed = pods - len(plan.refused)
    exclusive = sum(len(g.exclusive) for p in plan.placements if p.decision for g in p.decision.grants)
    figures = [
        (f"{placed:,} / {pods:,}", "pods placed", "good" if placed == pods else ""),
        (f"{len(plan.refused):,}", "pods refused", "bad" if plan.refused else "good"),
        (f"{len(plan.nodes):,}", "node" if len(plan.nodes) == 1 else "nodes", ""),
        (f"{exclusive:,}", "exclusive CPUs", ""),
    ]
    cards = "".join(f'<div class="card {look}"><b>{value}</b> {name}</div>' for value, name, look in figures)
    return f'<p class="lead">{safe(summary(plan))}</p>\n<div class="cards">{cards}</div>'


def _warnings(plan: Plan) -> str:
    """Each warning once, with how often and where first."""
    places = warnings_by_text(plan)
    if not places:
        return ""
    items = []
    for (name, message), where in places.items():
        at = f' <span class="faint">({_listed(where)})</span>' if where else ""
        items.append(f"<li><b>{safe(name)}</b>: {safe(message, MESSAGE_LIMIT)}{at}</li>")
    return f'<section class="note" aria-label="Warnings"><h2>Warnings</h2><ul>{"".join(items)}</ul></section>'


def _refusals(refused: Sequence[Placement]) -> str:
    if not refused:
        return ""
    made = [f'<section aria-label="Refused"><h2>Refused: {plural(len(refused), "pod")}</h2>']
    for refusal, pods in refusals_by_kind(refused):
        made.append(f'<article class="refusal"><h3>{safe(refusal.reason)}</h3>{_refusal(refusal)}')
        made.append(f'<p class="faint">{plural(len(pods), "pod")}: {_listed([p.pod.full_name for p in pods])}</p>')
        counts = pods[0].refused_nodes
        if sum(counts.values()) > 1:
            said = ", ".join(f"{safe(reason)} on {plural(n, 'node')}" for reason, n in counts.items())
            made.append(f'<p class="faint">For the first of them: {said}</p>')
        made.append("</article>")
    return "".join([*made, "</section>"])


def _refusal(refusal: Refusal) -> str:
    """Message, numbers and remedies."""
    numbers = refusal_numbers(refusal)
    facts = [safe(refusal.message, MESSAGE_LIMIT), safe(numbers, 400) if numbers else ""]
    facts.append(f'<span class="faint">rule {safe(refusal.rule)}</span>' if refusal.rule else "")
    remedies = "".join(f"<li>{safe(remedy, MESSAGE_LIMIT)}</li>" for remedy in refusal.remedies)
    fit = f'<p class="fit">What would make it fit:</p><ul>{remedies}</ul>' if remedies else ""
    return f"<p>{'<br>'.join(fact for fact in facts if fact)}</p>{fit}"


def _placements(plan: Plan) -> str:
    """Every container in a table; in a very long plan only the first ones."""
    shown = plan.placements[:MOST_ROWS]
    heads = (
        "Pod",
        "Container",
        "QoS",
        "Node",
        "Exclusive CPUs",
        "Shared CPUs",
        "Memory nodes",
        "Huge pages",
        "Devices",
    )
    rows = [_row(row) for placement in shown for row in placement_rows(placement)]
    left = len(plan.placements) - len(shown)
    more = f'<p class="faint">{plural(left, "more pod", "more pods")} not listed.</p>' if left else ""
    return f"<section><h2>Who got what</h2>{_table('Every container and what it holds', heads, rows)}{more}</section>"


def _row(row: Row) -> str:
    look = "refused" if row.refusal is not None else "first" if row.first else ""
    init = ' <span class="faint">(init)</span>' if row.passing else ""
    where = f"refused: {safe(row.refusal.reason)}" if row.refusal is not None else safe(row.node)
    cells = [
        f"{safe(row.container)}{init}",
        row.qos,
        where,
        spaced(row.exclusive),
        "yes" if row.shared and row.refusal is None else "",
        spaced(row.memory_nodes),
        safe(row.hugepages, MESSAGE_LIMIT),
        safe(row.devices, MESSAGE_LIMIT),
    ]
    filled = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr class="{look}"><th scope="row">{safe(row.pod)}</th>{filled}</tr>'


def _drawings(plan: Plan) -> str:
    placed = by_node(plan)
    shown = drawn_nodes(plan)
    made = []
    for index, node in enumerate(shown):
        picture = draw_node(node, placed.get(node.name, []), prefix=f"n{index}-")
        made.append(f'<figure class="node">{picture}</figure>')
    left = len(plan.nodes) - len(shown)
    more = (
        f'<p class="faint">{plural(left, "more node", "more nodes")} not drawn; the table has them.</p>' if left else ""
    )
    return f"<section><h2>Who sits where</h2>{''.join(made)}{more}</section>"


def _nodes(plan: Plan) -> str:
    """Used and allocatable of each node."""
    resources = list(dict.fromkeys(name for node in plan.nodes for name in node.allocatable))
    placed = by_node(plan)
    heads = ("Node", "Machine", "Policy", "Pods", *resources)
    rows = []
    for node in plan.nodes[:MOST_ROWS]:
        cells = [safe(node.machine.name), safe(node.policy), f"{len(placed.get(node.name, [])):,}"]
        cells += [_meter(node, resource) for resource in resources]
        filled = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{safe(node.name)}</th>{filled}</tr>')
    return f"<section><h2>Nodes</h2>{_table('Used and allocatable of each node', heads, rows)}</section>"


def _meter(node: PlannedNode, resource: str) -> str:
    if resource not in node.allocatable:
        return ""
    used, of = node.used.get(resource, 0), node.allocatable[resource]
    share = min(max(used / of, 0.0), 1.0) * 100 if of > 0 else 0.0
    text = used_of(node, resource)
    return f'<span class="bar"><i style="width:{share:.0f}%"></i></span> {safe(text)}'


def _traces(plan: Plan) -> str:
    made = [_trace(placement) for placement in plan.placements[:MOST_TRACES]]
    left = len(plan.placements) - len(made)
    more = f'<p class="faint">For {left:,} more, ask <code>bayplan explain</code>.</p>' if left > 0 else ""
    folds = "".join(fold for fold in made if fold)
    return f"<section><h2>Why</h2>{folds}{more}</section>" if folds else ""


def _trace(placement: Placement) -> str:
    """The steps of one decision, and the other nodes' reasons, behind a fold."""
    decision = placement.decision
    steps = "".join(f"<li>{_step(choice)}</li>" for choice in (decision.trace if decision else ()))
    others = "".join(
        f"<dt>{safe(other.node)}</dt><dd><b>{safe(other.refusal.reason)}</b>{_refusal(other.refusal)}</dd>"
        for other in placement.elsewhere[:_LISTED_PODS]
        if other.node != placement.node
    )
    where = "refused" if placement.node is None else safe(placement.node)
    inside = (f"<ol>{steps}</ol>" if steps else "") + (f"<h3>Why not elsewhere</h3><dl>{others}</dl>" if others else "")
    if not inside:
        return ""
    return f"<details><summary>{safe(placement.pod.full_name)}: {where}</summary>{inside}</details>"


def _step(choice: Choice) -> str:
    shown = [safe(option) for option in choice.options[:_OPTIONS_SHOWN]]
    more = f", and {len(choice.options) - len(shown):,} more" if len(shown) < len(choice.options) else ""
    options = f'<br><span class="faint">open: {", ".join(shown)}{more}</span>' if shown else ""
    taken = f"<br>taken: <b>{safe(choice.taken, MESSAGE_LIMIT)}</b>, by {safe(choice.rule)}"
    return f"{safe(choice.subject)}: {safe(choice.question, MESSAGE_LIMIT)}{options}{taken}"


def _table(caption: str, heads: Iterable[str], rows: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{safe(name)}</th>' for name in heads)
    body = "\n".join(rows)
    return (
        f'<div class="wide"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(safe(name) for name in names[:_LISTED_PODS])
    return shown + (f" and {len(names) - _LISTED_PODS:,} more" if len(names) > _LISTED_PODS else "")

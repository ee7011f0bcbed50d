"""Why a node is refused, with numbers: values, targets, when they were measured and how old that is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.fleet.telemetry.model import Condition, Rule
from bayplan.fleet.telemetry.nano import format_nano
from bayplan.fleet.telemetry.readings import Table
from bayplan.fleet.telemetry.spans import format_moment, format_span
from bayplan.fleet.telemetry.violations import Watched, missing_text
from bayplan.fleet.telemetry.watch import compared, reduction_of

ORIGINAL = "Node violates"
"""What TAS says of every node that it refuses."""
_SHOWN_PARTS = 4


class RuleState(msgspec.Struct, frozen=True, kw_only=True):
    """One rule at one node. `state` is true, false or unknown; `value` empty and `age_s` None: there is no value.

    `waits_since`: since when the value has been on the other side, not long enough yet for the rule to follow.
    """

    strategy: str
    rule: str
    state: str
    value: str = ""
    age_s: float | None = None
    waits_since: float | None = None
    text: str = ""


def rule_state(strategy: str, watched: Watched, node: str, now: float) -> RuleState:
    """How a rule stands at a node, to be told at a moment."""
    rule, watch = watched
    table = watch.table
    at = table.ats.get(node)
    if at is None:
        return RuleState(strategy=strategy, rule=rule.text, state="unknown", text=missing_text(rule))
    state = "unknown" if node in watch.stale else "true" if node in watch.holds else "false"
    return RuleState(
        strategy=strategy,
        rule=rule.text,
        state=state,
        value=value_text(rule.condition, table, node),
        age_s=max(now - at, 0.0),
        waits_since=watch.since(node),
        text=detail(rule, table, node, stale=node in watch.stale, now=now),
    )


def detail(rule: Rule, table: Table, node: str, *, stale: bool, now: float | None = None) -> str:
    """`node_load GreaterThan 80: 95.5, 3s old`; without `now`, when it was measured instead."""
    at = table.ats.get(node)
    if at is None:
        return missing_text(rule)
    value = value_text(rule.condition, table, node)
    when = f"measured {format_moment(at)}" if now is None else f"{format_span(now - at)} old"
    if not stale:
        return f"{rule.text}: {value}, {when}"
    limit = format_span(rule.condition.max_age_s or 0)
    return f"{rule.condition.metric} {value} is too old: {when}, at most {limit} allowed"


def why(rules: Sequence[Watched], node: str, *, all_of: bool, now: float | None = None) -> str:
    """The rules because of which a node violates, or may: the first one, or with allOf all of them."""
    true = [watched for watched in rules if node in watched.watch.holds]
    if all_of and len(true) == len(rules):
        told = true
    elif true and not all_of:
        told = true[:1]
    else:
        told = [w for w in rules if w not in true and w.rule.on_stale != "ignore" and _is_unknown(w, node)][:1]
    return " and ".join(detail(rule, watch.table, node, stale=node in watch.stale, now=now) for rule, watch in told)


def value_text(condition: Condition, table: Table, node: str) -> str:
    """`95.5`, or for a metric with parts those that decide: `95.5 (card 3)`."""
    parts = table.parts.get(node)
    if not parts:
        return format_nano(table.values()[node])
    label = condition.metric.part
    reduction = reduction_of(condition)
    if reduction in ("max", "min"):
        value = table.values(reduction)[node]
        named = [part for part, each in parts.items() if each == value]
        return f"{format_nano(value)} ({label} {', '.join(named[:_SHOWN_PARTS])})"
    met = compared(parts, condition.operator, condition.target)
    shown = [part for part in parts if part in met] or list(parts)
    values = ", ".join(f"{format_nano(parts[part])} ({label} {part})" for part in shown[:_SHOWN_PARTS])
    return f"{values}{', ...' if len(shown) > _SHOWN_PARTS else ''}"


def _is_unknown(watched: Watched, node: str) -> bool:
    return node in watched.watch.stale or node not in watched.watch.table.ats

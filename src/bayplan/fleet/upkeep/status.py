"""What a policy's status says: whether it can be used, whether its metrics are fresh, how many nodes violate it.

Written only where it says something else than what is there. So it tells no ages that grow: of a value that is too old
it tells when it was measured. A TASPolicy has room for two texts (`compliance`, `message`), a TelemetryPolicy for
conditions. Facts: the schema of TASPolicy; meta/v1 Condition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from bayplan.fleet.telemetry import tas
from bayplan.fleet.telemetry.model import MetricKey, Policy
from bayplan.fleet.telemetry.spans import format_moment, format_span
from bayplan.fleet.telemetry.told import MetricAge

_SHOWN = 5
_LONGEST_MESSAGE = 1024
Truth = Literal["True", "False", "Unknown"]


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is so or not, why (CamelCase), and in words."""

    type: str
    status: Truth
    reason: str
    message: str


class PolicyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told of a policy. `violating`: how many nodes violate deschedule; None: it has no such rules."""

    accepted: Condition
    fresh: Condition
    compliant: Condition
    violating: int | None
    generation: int | None


class MetricState(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a policy: how fresh it is, and how old it may be (None: any age will do)."""

    age: MetricAge
    max_age_s: float | None


def status_of(
    policy: Policy,
    metrics: Sequence[MetricState],
    violating: Collection[str] | None,
    conflicts: Mapping[str, str],
    now: float,
) -> PolicyStatus:
    """What is to be told of a policy. `conflicts`: nodes whose labels its rules cannot agree on, and why."""
    fresh = _fresh(metrics, now)
    return PolicyStatus(
        accepted=_accepted(policy, conflicts),
        fresh=fresh,
        compliant=_compliant(violating, fresh),
        violating=None if violating is None else len(violating),
        generation=policy.generation,
    )


def status_patch(policy: Policy, status: PolicyStatus, present: Any, now: float) -> dict[str, Any] | None:
    """The merge patch of `status` that makes the present one say this; None: it does."""
    there = present if isinstance(present, dict) else {}
    wanted = _of_tas(status) if policy.kind == tas.KIND else _own(status, there, now)
    patch = {name: value for name, value in wanted.items() if there.get(name) != value}
    return patch or None


def metrics_of(policy: Policy, ages: Mapping[MetricKey, MetricAge]) -> tuple[MetricState, ...]:
    """The metrics of a policy with the least age that any of its rules accepts."""
    limits: dict[MetricKey, float | None] = {}
    strategies = (policy.dontschedule, policy.deschedule, policy.labeling)
    uses = [(r.condition.metric, r.condition.max_age_s) for each in strategies if each for r in each.rules]
    uses += [(score.metric, score.max_age_s) for score in policy.scheduleonmetric or ()]
    for metric, limit in uses:
        known = limits.get(metric)
        limits[metric] = limit if known is None else known if limit is None else min(known, limit)
    return tuple(MetricState(age=ages[m], max_age_s=limits[m]) for m in sorted(limits) if m in ages)


def _accepted(policy: Policy, conflicts: Mapping[str, str]) -> Condition:
    if policy.problems:
        message = "; ".join(
            f"{problem.strategy}: {problem.why}" if problem.strategy else problem.why for problem in policy.problems
        )
        return _condition("Accepted", "False", "Invalid", message)
    notices = [note.message for note in policy.notices]
    if conflicts:
        node, why = min(conflicts.items())
        notices.append(f"{_nodes(len(conflicts))} get no label of this policy, {node} among them: {why}")
    return _condition("Accepted", "True", "Valid", "; ".join(notices) or "all of its rules are in use")


def _fresh(metrics: Sequence[MetricState], now: float) -> Condition:
    problems = [problem for metric in metrics if (problem := _staleness(metric, now))]
    waiting = [metric for metric in metrics if metric.age.polled_s is None and not metric.age.failing]
    if problems:
        return _condition("MetricsFresh", "False", "Stale", "; ".join(problems))
    if waiting:
        names = _list([str(metric.age.metric) for metric in waiting])
        return _condition("MetricsFresh", "Unknown", "NotPolled", f"not measured yet: {names}")
    told = [f"{metric.age.metric} of {_nodes(metric.age.nodes)}{_at_most(metric)}" for metric in metrics]
    return _condition("MetricsFresh", "True", "Fresh", _list(told) or "it has no rules")


def _staleness(metric: MetricState, now: float) -> str:
    age, limit = metric.age, metric.max_age_s
    if age.failing:
        since = f", values are of {_moment(now, age.newest_s)} at the latest" if age.newest_s is not None else ""
        return f"{age.metric} cannot be fetched: {age.failing}{since}"
    if age.polled_s is None:
        return ""
    if age.newest_s is None:
        return f"{age.metric} has no value of any node"
    if limit is not None and age.newest_s > limit:
        return f"{age.metric} is older than {format_span(limit)}, last measured at {_moment(now, age.newest_s)}"
    if limit is not None and age.oldest_s is not None and age.oldest_s > limit:
        return (
            f"{age.metric} of some nodes is older than {format_span(limit)}, "
            f"the oldest measured at {_moment(now, age.oldest_s)}"
        )
    return ""


def _moment(now: float, age_s: float) -> str:
    """When it was: the same text whenever it is told, so without what is lost by adding and taking away."""
    return format_moment(round(now - age_s, 3))


def _at_most(metric: MetricState) -> str:
    return "" if metric.max_age_s is None else f" at most {format_span(metric.max_age_s)} old"


def _compliant(violating: Collection[str] | None, fresh: Condition) -> Condition:
    if violating is None:
        return _condition("Compliant", "True", "NoDescheduleRules", "it has no deschedule rules")
    if not violating and fresh.status != "True":
        return _condition("Compliant", "Unknown", "MetricsNotFresh", "no node is known to violate its deschedule rules")
    if not violating:
        return _condition("Compliant", "True", "NoViolations", "no node violates its deschedule rules")
    names = _list(sorted(violating))
    verb = "violates" if len(violating) == 1 else "violate"
    return _condition(
        "Compliant", "False", "Violated", f"{_nodes(len(violating))} {verb} its deschedule rules: {names}"
    )


def _of_tas(status: PolicyStatus) -> dict[str, Any]:
    told = (status.accepted, status.fresh, status.compliant)
    word = "Compliant"
    if status.accepted.status == "False":
        word = "Invalid"
    elif status.fresh.status != "True":
        word = "Unknown"
    elif status.compliant.status == "False":
        word = "Violating"
    message = ". ".join(f"{each.type} {each.status}: {each.message}" for each in told)
    return {"compliance": word, "message": _short(message)}


def _own(status: PolicyStatus, present: Mapping[str, Any], now: float) -> dict[str, Any]:
    known = present.get("conditions")
    before = {
        each["type"]: each
        for each in (known if isinstance(known, list) else ())
        if isinstance(each, dict) and "type" in each
    }
    conditions = []
    for each in (status.accepted, status.fresh, status.compliant):
        old = before.get(each.type, {})
        since = old.get("lastTransitionTime") if old.get("status") == each.status else None
        conditions.append(
            {
                "type": each.type,
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "lastTransitionTime": since or format_moment(now),
            }
            | ({"observedGeneration": status.generation} if status.generation is not None else {})
        )
    # A merge patch replaces lists whole: conditions of others stay where they were, before ours.
    ours = {each["type"] for each in conditions}
    conditions = [each for name, each in before.items() if name not in ours] + conditions
    return {
        "conditions": conditions,
        "violatingNodes": status.violating,
        "observedGeneration": status.generation,
    }


def _condition(kind: str, status: Truth, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=_short(message))


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 3]}..."


def _list(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"

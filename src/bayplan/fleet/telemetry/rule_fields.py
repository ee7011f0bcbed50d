"""What the rules of both kinds of policy have in common: bounds, targets, labels."""

from __future__ import annotations

import re
from typing import Any

from bayplan.errors import InputError
from bayplan.fleet.telemetry.model import FALLING, RISING, Operator
from bayplan.fleet.telemetry.nano import Nano, parse_nano
from bayplan.workload.fields import Fields, shown
from bayplan.workload.names import check_label_value, check_qualified

LABEL_PREFIX = "telemetry.aware.scheduling."
VIOLATING = "violating"
"""The value of the label, named as the policy, of nodes that violate its deschedule rules."""
MOST_RULES = 128
MOST_LABELS = 64
LONGEST_METRIC = 256
_METRIC_NAME = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
_LONGEST_LABEL_KEY = 63


def rule_entries(strategy: Fields) -> list[Fields]:
    """`rules` of a strategy, not too many."""
    rules = strategy.entries("rules")
    if len(rules) > MOST_RULES:
        raise strategy.error("rules", "too many", value=len(rules), expected=f"at most {MOST_RULES}")
    return rules


def metric_name(rule: Fields, pattern: re.Pattern[str] = _METRIC_NAME) -> str:
    """`metricname`, which must be there."""
    name = rule.required_text("metricname")
    if len(name) > LONGEST_METRIC or pattern.fullmatch(name) is None:
        raise rule.error(
            "metricname",
            "not the name of a metric",
            value=shown(name),
            expected=f"at most {LONGEST_METRIC} letters, digits, _ or -",
        )
    return name


def operator_of(rule: Fields, known: tuple[Operator, ...]) -> Operator:
    """`operator`, one of those that are known."""
    given = rule.required_text("operator")
    for operator in known:
        if given == operator:
            return operator
    raise rule.error("operator", "unknown operator", value=shown(given), expected=", ".join(known))


def quantity_of(rule: Fields, name: str) -> Nano | None:
    """A quantity, or None where there is none."""
    value: Any = rule.value.get(name)
    if value is None:
        return None
    try:
        return parse_nano(value)
    except InputError as error:
        raise error.within(place=rule.at(name)) from error


def check_release(rule: Fields, operator: Operator, target: Nano, release: Nano | None) -> None:
    """A second target must be one that is met whenever the first is."""
    if release is None:
        return
    if operator not in RISING + FALLING:
        raise rule.error("release", f"a second target for {operator}", expected="none")
    if (operator in RISING and release > target) or (operator in FALLING and release < target):
        side = "at most" if operator in RISING else "at least"
        raise rule.error("release", "on the wrong side of the target", expected=f"{side} the target")


def labels_of(rule: Fields, policy: str) -> tuple[tuple[str, str], ...]:
    """`labels` of a labeling rule as keys and values, the keys without the policy's prefix."""
    texts = rule.texts("labels")
    if len(texts) > MOST_LABELS:
        raise rule.error("labels", "too many", value=len(texts), expected=f"at most {MOST_LABELS}")
    labels: dict[str, str] = {}
    for number, text in enumerate(texts):
        place = f"{rule.at('labels')}[{number}]"
        key, equals, value = text.partition("=")
        if not equals or "=" in value or not key:
            raise InputError("not a label", place=place, value=shown(text), expected="key=value")
        check_qualified(f"{LABEL_PREFIX}{policy}/{key}", place)
        check_label_value(value, place)
        if labels.get(key, value) != value:
            raise InputError("label with two values in one rule", place=place, value=shown(text), expected="one")
        labels[key] = value
    return tuple(labels.items())


def check_deschedule_key(policy: str) -> None:
    """The policy's name is the key of a label."""
    if len(policy) > _LONGEST_LABEL_KEY:
        raise InputError(
            "name too long for the label of violating nodes",
            place="metadata.name",
            value=shown(policy),
            expected=f"at most {_LONGEST_LABEL_KEY} characters for a policy with deschedule",
        )

"""Which nodes violate a strategy, and for which that hangs on a value that is not known.

Rules are true, false or not known (Kleene's logic): with anyOf one true rule is enough, with allOf one false rule is
enough against it, whatever the others are. A rule without a fresh value is what its `onStale` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Literal, NamedTuple

import msgspec

from bayplan.fleet.telemetry.model import Rule, Strategy
from bayplan.fleet.telemetry.spans import format_span
from bayplan.fleet.telemetry.watch import Watch

Elsewhere = Literal["", "violating", "undecided"]


class Watched(NamedTuple):
    """A rule and the watch of its condition."""

    rule: Rule
    watch: Watch


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Node -> why, in words that nodes share. `elsewhere`: what the nodes are that are not among `judged`."""

    violating: Mapping[str, str]
    undecided: Mapping[str, str]
    judged: Set[str]
    elsewhere: Elsewhere = ""
    elsewhere_why: str = ""


NOTHING = Outcome(violating={}, undecided={}, judged=frozenset())


def missing_text(rule: Rule) -> str:
    """What to say of a node without a value."""
    return f"{rule.condition.metric} has no value"


def stale_text(rule: Rule) -> str:
    """What to say of a node whose value is too old."""
    return f"{rule.condition.metric} is older than {format_span(rule.condition.max_age_s or 0)}"


def judge(strategy: Strategy, watches: Sequence[Watch], selected: frozenset[str] | None) -> Outcome:
    """The outcome of a strategy. `selected`: the nodes that it is for; None: all that have a value."""
    rules = [Watched(rule, watch) for rule, watch in zip(strategy.rules, watches, strict=True)]
    if not rules:
        return NOTHING
    judged = _measured(watches) if selected is None else selected
    elsewhere, why = _elsewhere(strategy)
    decide = _all_of if strategy.all_of else _any_of
    violating, undecided = decide(rules, judged)
    if selected is not None:
        violating = {name: text for name, text in violating.items() if name in selected}
        undecided = {name: text for name, text in undecided.items() if name in selected}
    return Outcome(violating=violating, undecided=undecided, judged=judged, elsewhere=elsewhere, elsewhere_why=why)


def _measured(watches: Sequence[Watch]) -> frozenset[str]:
    found = watches[0].table.names
    for watch in watches[1:]:
        if watch.table.names is not found and not watch.table.names <= found:
            found |= watch.table.names
    return found


def _elsewhere(strategy: Strategy) -> tuple[Elsewhere, str]:
    """What nodes without any value are."""
    enough = all if strategy.all_of else any
    for kinds, result in ((("violate",), "violating"), (("violate", "reject", "keep"), "undecided")):
        if enough(rule.on_stale in kinds for rule in strategy.rules):
            return result, missing_text(next(rule for rule in strategy.rules if rule.on_stale in kinds))  # type: ignore[return-value]
    return "", ""


def _missing(watch: Watch, judged: Set[str]) -> Set[str]:
    return frozenset() if judged is watch.table.names else judged - watch.table.names


def _any_of(rules: Sequence[Watched], judged: Set[str]) -> tuple[dict[str, str], dict[str, str]]:
    # The first rule has the last word: its text is told.
    unknown: dict[str, str] = {}
    violating: dict[str, str] = {}
    for rule, watch in reversed(rules):
        if rule.on_stale != "ignore":
            into = violating if rule.on_stale == "violate" else unknown
            into.update(_unknown_texts(rule, watch, judged))
    for rule, watch in reversed(rules):
        violating.update(dict.fromkeys(watch.holds, rule.text))
    return violating, {name: text for name, text in unknown.items() if name not in violating}


def _all_of(rules: Sequence[Watched], judged: Set[str]) -> tuple[dict[str, str], dict[str, str]]:
    sure: Set[str] | None = None
    possible: Set[str] | None = None
    unknown: dict[str, str] = {}
    for rule, watch in reversed(rules):
        texts = {} if rule.on_stale == "ignore" else _unknown_texts(rule, watch, judged)
        unknown.update(texts)
        true = watch.holds | texts.keys() if rule.on_stale == "violate" else watch.holds
        sure = true if sure is None else sure & true
        possible = watch.holds | texts.keys() if possible is None else possible & (watch.holds | texts.keys())
    assert sure is not None
    assert possible is not None
    together = " and ".join(rule.text for rule, _ in rules)
    violating = dict.fromkeys(sure, together)
    violating.update((name, text) for name, text in unknown.items() if name in sure)
    return violating, {name: text for name, text in unknown.items() if name in possible and name not in sure}


def _unknown_texts(rule: Rule, watch: Watch, judged: Set[str]) -> dict[str, str]:
    texts = dict.fromkeys(_missing(watch, judged), missing_text(rule))
    if watch.stale:
        texts.update(dict.fromkeys(watch.stale, stale_text(rule)))
    return texts

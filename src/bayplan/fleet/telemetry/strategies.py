"""`spec.strategies` of both kinds of policy: one that cannot be used leaves the others alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.telemetry.model import (
    DESCHEDULE,
    DONTSCHEDULE,
    LABELING,
    SCHEDULEONMETRIC,
    STRATEGIES,
    Policy,
    Problem,
    Score,
    Strategy,
)
from bayplan.fleet.telemetry.rule_fields import check_deschedule_key
from bayplan.workload.fields import Fields
from bayplan.workload.notes import Notes, nearest, printable

_FIELDS = frozenset({"policyName", "logicalOperator", "rules"})
ReadRules = Callable[[str, Fields], Strategy]
ReadScores = Callable[[Fields], tuple[Score, ...]]


def read_strategies(
    strategies: Fields, policy: Policy, notes: Notes, read_rules: ReadRules, read_scores: ReadScores
) -> Policy:
    """The policy with its strategies. `read_rules` gets the name of the strategy too."""
    problems: list[Problem] = []
    ruled: dict[str, Strategy] = {}
    scores: tuple[Score, ...] | None = None
    for name in strategies.value:
        if name not in STRATEGIES:
            notes.add("unknown-strategy", f"unknown strategy {printable(name)} is ignored{nearest(name, STRATEGIES)}")
            continue
        try:
            strategy = strategies.mapping(name)
            notes.unknown_fields(strategy.value, _FIELDS, f"strategy {name}")
            if name == SCHEDULEONMETRIC:
                scores = read_scores(strategy)
                continue
            if name == DESCHEDULE:
                check_deschedule_key(policy.name)
            ruled[name] = read_rules(name, strategy)
        except InputError as error:
            problems.append(Problem(strategy=name, why=str(error)))
    return msgspec.structs.replace(
        policy,
        dontschedule=ruled.get(DONTSCHEDULE),
        deschedule=ruled.get(DESCHEDULE),
        labeling=ruled.get(LABELING),
        scheduleonmetric=scores,
        problems=tuple(problems),
        notices=notes.all(),
    )

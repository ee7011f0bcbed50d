"""Labels of nodes: those that the rules of labeling give, and the mark of nodes that violate deschedule.

Keys of labeling are `telemetry.aware.scheduling.<policy>/<key>`; the mark is the policy's name, value `violating`. Both
carry no namespace, so policies of one name in two namespaces share them: a node gets the labels of either, and where
the same key has two values, that of the first policy by namespace.

Of several rules that give one key, all true at a node, the one with the greatest value wins (operators that want more),
the least (those that want less), else and between equals the earliest; it gives the label that it won and no other.
Operators that differ cannot be compared: that policy then gives no label at that node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from bayplan.fleet.telemetry.model import FALLING, RISING, PolicyKey, Rule, Strategy
from bayplan.fleet.telemetry.nano import Nano
from bayplan.fleet.telemetry.readings import EMPTY
from bayplan.fleet.telemetry.rule_fields import LABEL_PREFIX, VIOLATING
from bayplan.fleet.telemetry.violations import Outcome, Watched
from bayplan.fleet.telemetry.watch import Watch, reduction_of

Labels = Mapping[str, str]
_NO_KEYS: frozenset[str] = frozenset()


class PolicyLabels(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy wants of nodes. `kept`: keys that are to be left as they are, because nobody knows.

    `elsewhere_*` is for nodes that are not among `judged`; `kept_prefix` for a policy that cannot be read. `conflicts`:
    nodes at which rules could not be compared, and why.
    """

    policy: PolicyKey
    wanted: Mapping[str, Labels] = {}
    kept: Mapping[str, frozenset[str]] = {}
    judged: Set[str] = frozenset()
    elsewhere_wanted: Labels = {}
    elsewhere_kept: frozenset[str] = frozenset()
    kept_prefix: str = ""
    conflicts: Mapping[str, str] = {}


class NodeLabels(msgspec.Struct, frozen=True, kw_only=True):
    """What one node's labels should be: `wanted` there, `kept` left alone, `kept_prefixes` left alone too."""

    wanted: Labels
    kept: frozenset[str] = frozenset()
    kept_prefixes: tuple[str, ...] = ()


class LabelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all policies want of nodes. `marks`: the keys of deschedule's marks that policies have now."""

    labeling: tuple[PolicyLabels, ...] = ()
    marking: tuple[PolicyLabels, ...] = ()
    marks: frozenset[str] = frozenset()

    def for_node(self, name: str) -> NodeLabels:
        """What one node should have."""
        wanted: dict[str, str] = {}
        kept: set[str] = set()
        prefixes: list[str] = []
        for each in (*self.labeling, *self.marking):
            known = name in each.judged or name in each.wanted or name in each.kept
            for key, value in (each.wanted.get(name, {}) if known else each.elsewhere_wanted).items():
                wanted.setdefault(key, value)
            kept |= each.kept.get(name, _NO_KEYS) if known else each.elsewhere_kept
            if each.kept_prefix:
                prefixes.append(each.kept_prefix)
        return NodeLabels(wanted=wanted, kept=frozenset(kept - wanted.keys()), kept_prefixes=tuple(prefixes))

    def changes(self, name: str, labels: Labels) -> dict[str, str | None]:
        """What to write to a node that has these labels: key -> value, or None where it is to go. Empty: nothing.

        All labels under TAS's prefix are the policies'; of marks only `violating`, and an empty one, are taken away.
        """
        plan = self.for_node(name)
        changes: dict[str, str | None] = {key: value for key, value in plan.wanted.items() if labels.get(key) != value}
        for key, value in labels.items():
            owned = key.startswith(LABEL_PREFIX) or (key in self.marks and value in (VIOLATING, ""))
            if owned and key not in plan.wanted and key not in plan.kept and not key.startswith(plan.kept_prefixes):
                changes[key] = None
        return changes

    @property
    def conflicts(self) -> dict[PolicyKey, Mapping[str, str]]:
        """Policy -> nodes at which its rules could not be compared, and why."""
        return {each.policy: each.conflicts for each in self.labeling if each.conflicts}


def as_of_now(watched: Iterable[Watched]) -> tuple[Watched, ...]:
    """The rules as they bear on labels: before the first poll nothing is known, and no label is taken away."""
    return tuple(
        Watched(msgspec.structs.replace(rule, on_stale="keep"), watch)
        if rule.on_stale == "ignore" and watch.table is EMPTY
        else Watched(rule, watch)
        for rule, watch in watched
    )


def mark(policy: PolicyKey, outcome: Outcome) -> PolicyLabels:
    """The marks of the nodes that violate a policy's deschedule."""
    key, wanted = frozenset((policy.name,)), {policy.name: VIOLATING}
    return PolicyLabels(
        policy=policy,
        wanted=dict.fromkeys(outcome.violating, wanted),
        kept=dict.fromkeys(outcome.undecided, key),
        judged=outcome.judged,
        elsewhere_wanted=wanted if outcome.elsewhere == "violating" else {},
        elsewhere_kept=key if outcome.elsewhere == "undecided" else _NO_KEYS,
    )


def label(
    policy: PolicyKey, strategy: Strategy, watched: Sequence[Watched], judged: frozenset[str], nodes: Set[str]
) -> PolicyLabels:
    """The labels of one policy. `judged` are the nodes that it is for, `nodes` those about which it is not silent."""
    true: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for index, (rule, watch) in enumerate(watched):
        _note(true, watch.holds & judged, index)
        if rule.on_stale != "ignore":
            without = (judged - watch.table.names) | (watch.stale & judged)
            _note(true if rule.on_stale == "violate" else unknown, without, index)
    giver = _Giver(policy.name, strategy, watched)
    wanted: dict[str, Labels] = {}
    kept: dict[str, frozenset[str]] = {}
    conflicts: dict[str, str] = {}
    for name in true.keys() | unknown.keys():
        found = giver.give(name, true.get(name, 0), unknown.get(name, 0))
        if isinstance(found, str):
            conflicts[name] = found
            continue
        if found[0]:
            wanted[name] = found[0]
        if found[1]:
            kept[name] = found[1]
    violate = sum(1 << index for index, (rule, _) in enumerate(watched) if rule.on_stale == "violate")
    keep = sum(1 << index for index, (rule, _) in enumerate(watched) if rule.on_stale == "keep")
    elsewhere = giver.give("", violate, keep)
    return PolicyLabels(
        policy=policy,
        wanted=wanted,
        kept=kept,
        judged=nodes,
        elsewhere_wanted={} if isinstance(elsewhere, str) else elsewhere[0],
        elsewhere_kept=_NO_KEYS if isinstance(elsewhere, str) else elsewhere[1],
        conflicts=conflicts,
    )


class _Giver:
    """Labels by which rules are true and which are not known, as sets of bits; nodes with the same share them."""

    def __init__(self, policy: str, strategy: Strategy, watched: Sequence[Watched]) -> None:
        self._prefix = f"{LABEL_PREFIX}{policy}/"
        self._all_of = strategy.all_of
        self._watched = watched
        self._rules_of: dict[str, list[int]] = {}
        for index, (rule, _) in enumerate(watched):
            for key, _value in rule.labels:
                self._rules_of.setdefault(key, []).append(index)
        self._shared: dict[tuple[int, int], tuple[Labels, frozenset[str]]] = {}

    def give(self, name: str, true: int, unknown: int) -> tuple[Labels, frozenset[str]] | str:
        """Labels and the keys to be left alone; or why there are none."""
        found = self._shared.get((true, unknown))
        if found is not None:
            return found
        if self._all_of:
            every = (1 << len(self._watched)) - 1
            if true | unknown != every:
                return self._share(true, unknown, {}, _NO_KEYS)
            if true != every:
                return self._share(true, unknown, {}, frozenset(self._prefix + key for key in self._rules_of))
        wanted: dict[str, str] = {}
        contested = False
        for key, indexes in self._rules_of.items():
            giving = [index for index in indexes if true >> index & 1]
            contested = contested or len(giving) > 1
            if not giving:
                continue
            if len({self._watched[index].rule.condition.operator for index in giving}) > 1:
                rules = ", ".join(self._watched[index].rule.text for index in giving)
                return f"label {key} is given by rules that cannot be compared: {rules}"
            winner = min(giving, key=lambda index: (self._worth(index, name), index))
            wanted[self._prefix + key] = dict(self._watched[winner].rule.labels)[key]
        kept = frozenset(
            self._prefix + key
            for key, indexes in self._rules_of.items()
            if self._prefix + key not in wanted and any(unknown >> index & 1 for index in indexes)
        )
        return (wanted, kept) if contested else self._share(true, unknown, wanted, kept)

    def _share(self, true: int, unknown: int, wanted: Labels, kept: frozenset[str]) -> tuple[Labels, frozenset[str]]:
        self._shared[true, unknown] = (wanted, kept)
        return wanted, kept

    def _worth(self, index: int, name: str) -> tuple[int, Nano]:
        """Less wins. A rule that counts as true without a value comes after those that have one."""
        rule, watch = self._watched[index]
        value = _value(rule, watch, name)
        if value is None:
            return 1, 0
        operator = rule.condition.operator
        return 0, 0 - value if operator in RISING else value if operator in FALLING else 0


def _value(rule: Rule, watch: Watch, name: str) -> Nano | None:
    reduction = reduction_of(rule.condition)
    if name in watch.stale or name not in watch.table.names:
        return None
    return watch.table.values(reduction)[name] if reduction is not None else 0


def _note(into: dict[str, int], names: Iterable[str], index: int) -> None:
    bit = 1 << index
    for name in names:
        into[name] = into.get(name, 0) | bit

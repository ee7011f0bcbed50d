"""Policies and their rules, in one form for both kinds of object.

`TASPolicy` is telemetry.intel.com/v1alpha1, `TelemetryPolicy` is bayplan.dev/v1alpha1. Names of strategies and
operators are TAS's. Numbers are billionths (`nano`), times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple

import msgspec

from bayplan.fleet.telemetry.nano import Nano, parse_nano, to_nano
from bayplan.workload.model import Selector
from bayplan.workload.notes import Note

POD_LABEL = "telemetry-policy"
"""The label of pods that names their policy."""
DONTSCHEDULE, SCHEDULEONMETRIC, DESCHEDULE, LABELING = "dontschedule", "scheduleonmetric", "deschedule", "labeling"
STRATEGIES = (DONTSCHEDULE, SCHEDULEONMETRIC, DESCHEDULE, LABELING)

Operator = Literal["Equals", "NotEquals", "LessThan", "GreaterThan", "LessThanOrEqual", "GreaterThanOrEqual"]
OnStale = Literal["ignore", "violate", "reject", "keep"]
"""What a rule is whose value is missing or too old. ignore: false. violate: true. reject: neither, and a node for which
that matters is refused. keep (labeling): neither, and labels that hang on it are left as they are."""
Aggregate = Literal["", "any", "all", "max", "min"]
Spread = Literal["value", "rank", "places"]
"""How the scores 0 to 10 are spread: evenly over the values, evenly over the ranks, or 10, 9, 8, ... by rank (evenly
too where there are more than eleven nodes)."""
RISING = ("GreaterThan", "GreaterThanOrEqual")
FALLING = ("LessThan", "LessThanOrEqual")


class PolicyKey(NamedTuple):
    """What identifies a policy."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class MetricKey(msgspec.Struct, frozen=True, order=True):
    """What a source has to fetch. Either `name`, a metric of nodes, or `promql`, an expression with a series per node.

    `part` is the label that tells the parts of a node (zones, cards) apart; empty: one value per node.
    """

    name: str = ""
    promql: str = ""
    part: str = ""

    def __str__(self) -> str:
        return self.name or self.promql


class Sample(msgspec.Struct, frozen=True, gc=False):
    """One measured value: `nano` billionths, at `at` (seconds since 1970), over `window_s` where that is known."""

    nano: Nano
    at: float
    window_s: float | None = None

    @classmethod
    def of(cls, value: Fraction | Decimal | int, at: float, window_s: float | None = None) -> Sample:
        """A sample of an exact number. Raises `InputError`."""
        return cls(to_nano(value), at, window_s)

    @classmethod
    def read(cls, value: object, at: float, window_s: float | None = None) -> Sample:
        """A sample of a quantity as a source writes it. Raises `InputError`."""
        return cls(parse_nano(value), at, window_s)


NodeSamples = Mapping[str, Sample] | Mapping[str, Mapping[str, Sample]]
"""Node -> its sample, or for a metric with parts: node -> part -> sample."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """When a rule holds for a node. Equal conditions of different policies are looked at once.

    It begins to hold when `operator` has held against `target` for `for_s`, and ends when it has not held against
    `release` (None: the target) for `release_for_s`. A value older than `max_age_s` (None: any age will do) says
    nothing. `aggregate` tells how the parts of a node are taken together.
    """

    metric: MetricKey
    operator: Operator
    target: Nano
    release: Nano | None = None
    for_s: float = 0.0
    release_for_s: float = 0.0
    max_age_s: float | None = None
    aggregate: Aggregate = ""

    @property
    def remembers(self) -> bool:
        """Whether what held before matters."""
        return self.release is not None or self.for_s > 0 or self.release_for_s > 0


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of dontschedule, deschedule or labeling. `text` is how it is called: `node_load GreaterThan 80`."""

    condition: Condition
    text: str
    on_stale: OnStale
    labels: tuple[tuple[str, str], ...] = ()


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """Rules and whether all of them have to hold."""

    rules: tuple[Rule, ...]
    all_of: bool = False


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of scheduleonmetric. `best` and `worst` are values (None: of the nodes that are measured).

    Rising operators: more is better; falling: less; Equals: nearer to the target; NotEquals: farther from it.
    """

    metric: MetricKey
    operator: Operator
    target: Nano = 0
    weight: int = 1
    spread: Spread = "value"
    best: Nano | None = None
    worst: Nano | None = None
    max_age_s: float | None = None
    aggregate: Aggregate = ""
    text: str = ""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a strategy (empty: the whole policy) cannot be used."""

    strategy: str
    why: str


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy. A strategy that cannot be used is among `problems` and is None here; the others stand.

    `pod_selector` None: only pods whose label `telemetry-policy` names it. `namespaces` are those of the pods, its own
    alone where it says nothing; `*` is all. `node_selector` None or
    empty: all nodes.
    """

    kind: str
    namespace: str
    name: str
    dontschedule: Strategy | None = None
    scheduleonmetric: tuple[Score, ...] | None = None
    deschedule: Strategy | None = None
    labeling: Strategy | None = None
    pod_selector: tuple[Selector, ...] | None = None
    node_selector: tuple[Selector, ...] | None = None
    namespaces: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    notices: tuple[Note, ...] = ()
    generation: int | None = None

    @property
    def key(self) -> PolicyKey:
        """Namespace and name."""
        return PolicyKey(self.namespace, self.name)

    def problem(self, strategy: str) -> str:
        """Why a strategy cannot be used; empty: nothing is wrong with it."""
        return next((p.why for p in self.problems if p.strategy in ("", strategy)), "")


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How policies are read and obeyed.

    `max_age_s` is for rules that say nothing of their own, so for every TASPolicy; None: a value never grows old.
    `tas_on_stale` is what a dontschedule rule of a TASPolicy is worth without a fresh value; `ignore` is as TAS.
    `missing_policy`: whether pods whose policy does not exist or cannot be used may go anywhere (`allow`) or nowhere.
    `original_scores`: rank scores of every TASPolicy are meant to be 10, 9, 8, ... below zero (`ten_minus_rank`).
    `original_messages`: refused nodes get TAS's constant text. `detailed_reasons`: up to so many refused nodes are told
    with their values each; beyond, nodes share the text of their rule, as the scheduler writes every distinct one into
    the condition of the pod. `reaching`: namespaces whose policies may be for pods of other namespaces (`*`: all).
    """

    max_age_s: float | None = 300.0
    tas_on_stale: Literal["ignore", "reject"] = "reject"
    missing_policy: Literal["deny", "allow"] = "deny"
    original_scores: bool = False
    original_messages: bool = False
    detailed_reasons: int = 20
    reaching: frozenset[str] = frozenset({"bayplan-system", "kube-system"})

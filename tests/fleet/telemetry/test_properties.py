"""The engine against an evaluation of every rule from nothing, tick by tick, for random histories."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.fleet.selectors import meets
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import Condition, MetricKey, Policy, Rule, Sample, Score, Strategy
from bayplan.fleet.telemetry.verdict import Flip
from bayplan.workload.model import Selector

NODES = ("a", "b", "c", "unknown")
PLAIN, PARTED = MetricKey(name="plain"), MetricKey(name="parted", part="card")
TICK = 0.5
Truth = Literal["true", "false", "unknown"]
Values = dict[str, dict[str, int]]  # node -> part -> value
COMPARE = {
    "Equals": lambda a, b: a == b,
    "NotEquals": lambda a, b: a != b,
    "LessThan": lambda a, b: a < b,
    "GreaterThan": lambda a, b: a > b,
    "LessThanOrEqual": lambda a, b: a <= b,
    "GreaterThanOrEqual": lambda a, b: a >= b,
}
ONCE = {"": any, "any": any, "all": all}


def met(condition: Condition, values: dict[str, int], target: Any) -> bool:
    compare = COMPARE[condition.operator]
    if condition.aggregate in ("max", "min"):
        return compare(max(values.values()) if condition.aggregate == "max" else min(values.values()), target)
    return ONCE[condition.aggregate](compare(value, target) for value in values.values())


class Naive:
    """Keeps everything per node, and looks at all of it every half second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.policies: dict[str, Policy] = {}
        self.nodes: dict[str, dict[str, str]] = {}
        self.values: dict[MetricKey, Values] = {}
        self.ats: dict[MetricKey, dict[str, float]] = {}
        self.claims: dict[MetricKey, dict[str, tuple[float, float]]] = {}
        self.memory: dict[tuple[Condition, str], dict[str, Any]] = {}

    def conditions(self) -> set[Condition]:
        strategies = (s for p in self.policies.values() for s in (p.dontschedule, p.deschedule, p.labeling) if s)
        return {rule.condition for strategy in strategies for rule in strategy.rules}

    def metrics(self) -> set[MetricKey]:
        scores = (score.metric for policy in self.policies.values() for score in policy.scheduleonmetric or ())
        return {condition.metric for condition in self.conditions()} | set(scores)

    def wait(self, until: float) -> None:
        while self.now < until:
            self.now += TICK
            self.settle()

    def settle(self) -> None:
        for condition in self.conditions():
            for node in NODES:
                self.step(condition, node)
        self.memory = {key: value for key, value in self.memory.items() if key[0] in self.conditions()}
        for kept in (self.values, self.ats, self.claims):
            for metric in set(kept) - self.metrics():
                del kept[metric]  # type: ignore[attr-defined]

    def age_ok(self, metric: MetricKey, node: str, max_age_s: float | None) -> bool:
        at = self.ats.get(metric, {}).get(node)
        return at is not None and (max_age_s is None or self.now < math.ceil(at + max_age_s))

    def step(self, condition: Condition, node: str) -> None:
        if not self.age_ok(condition.metric, node, condition.max_age_s):
            self.memory.pop((condition, node), None)
            return
        seen = self.memory.setdefault((condition, node), {"holds": False, "since": None})
        values, at = self.values[condition.metric][node], self.ats[condition.metric][node]
        target = condition.target
        if seen["holds"] and condition.release is not None:
            target = condition.release
        if met(condition, values, target) == seen["holds"]:
            seen["since"] = None
            return
        seen["since"] = at if seen["since"] is None else seen["since"]
        lasts = condition.release_for_s if seen["holds"] else condition.for_s
        if lasts == 0 or self.now >= math.ceil(seen["since"] + lasts):
            seen.update(holds=not seen["holds"], since=None)

    def poll(self, metric: MetricKey, given: dict[str, dict[str, tuple[int, float]]]) -> None:
        if metric not in self.metrics():
            return
        before = self.claims.get(metric, {})
        self.values[metric], self.ats[metric], self.claims[metric] = {}, {}, {}
        for node, parts in given.items():
            at = claimed = min(at for _, at in parts.values())
            if claimed > self.now:
                at = before[node][1] if before.get(node, (None, 0))[0] == claimed else self.now
                self.claims[metric][node] = (claimed, at)
            self.values[metric][node] = {part: value for part, (value, _) in parts.items()}
            self.ats[metric][node] = at
        self.settle()

    def truth(self, rule: Rule, node: str) -> Truth:
        seen = self.memory.get((rule.condition, node))
        if seen is None:
            return "unknown"
        return "true" if seen["holds"] else "false"

    def selected(self, policy: Policy, node: str) -> bool:
        if not policy.node_selector:
            return True
        labels = self.nodes.get(node)
        return labels is not None and all(meets(each, labels.get(each.key)) for each in policy.node_selector)

    def decided(self, strategy: Strategy, node: str, known: bool = True) -> Truth:
        """Kleene's logic."""
        if not strategy.rules:
            return "false"
        stands_for: dict[str, Truth] = {"ignore": "false", "violate": "true", "reject": "unknown", "keep": "unknown"}
        found: list[Truth] = [self.truth(rule, node) if known else "unknown" for rule in strategy.rules]
        truths = [stands_for[r.on_stale] if t == "unknown" else t for r, t in zip(strategy.rules, found, strict=True)]
        wins: Truth = "false" if strategy.all_of else "true"
        if wins in truths:
            return wins
        return "unknown" if "unknown" in truths else "true" if strategy.all_of else "false"

    def refuses(self, policy: Policy, node: str) -> bool:
        if policy.dontschedule is None:
            return False
        # Whether a node that is not known is selected cannot be told: nothing is known of it.
        known = not policy.node_selector or node in self.nodes
        if known and not self.selected(policy, node):
            return False
        return self.decided(policy.dontschedule, node, known) != "false"

    def scores(self, policy: Policy, node: str) -> int:
        scores = policy.scheduleonmetric or ()
        total = sum(score.weight for score in scores) or 1
        millionths = sum(score.weight * self.millionths(policy, score, node) for score in scores) // total
        return (millionths + 500_000) // 1_000_000

    def millionths(self, policy: Policy, score: Score, node: str) -> int:
        goods: dict[str, Fraction] = {}
        for name in NODES:
            if self.selected(policy, name) and self.age_ok(score.metric, name, score.max_age_s):
                values = self.values[score.metric][name].values()
                goods[name] = self.good(score, Fraction(min(values) if score.aggregate == "min" else max(values)))
        if node not in goods:
            return 0
        if score.spread != "value":
            better = sum(good > goods[node] for good in goods.values())
            steps = max(len(goods) - 1, 10 if score.spread == "places" else 1)
            return 10_000_000 - better * 10_000_000 // steps
        best = max(goods.values()) if score.best is None else self.good(score, Fraction(score.best))
        worst = min(goods.values()) if score.worst is None else self.good(score, Fraction(score.worst))
        if best <= worst:
            return 10_000_000 if goods[node] >= best else 0
        return math.floor(max(Fraction(0), min(Fraction(1), (goods[node] - worst) / (best - worst))) * 10_000_000)

    @staticmethod
    def good(score: Score, value: Fraction) -> Fraction:
        if score.operator.startswith("GreaterThan"):
            return value
        if score.operator.startswith("LessThan"):
            return -value
        apart = abs(value - score.target)
        return -apart if score.operator == "Equals" else apart


SPANS = st.sampled_from([0.0, 0.0, 1.0, 2.5, 4.0])
AGES = st.sampled_from([None, 2.0, 5.5, 20.0])
RISING, FALLING = ("GreaterThan", "GreaterThanOrEqual"), ("LessThan", "LessThanOrEqual")


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    metric = draw(st.sampled_from([PLAIN, PARTED]))
    operator = draw(st.sampled_from(sorted(COMPARE)))
    target = draw(st.integers(0, 4))
    slack = draw(st.integers(0, 2))
    release = target - slack if operator in RISING else target + slack
    return Condition(
        metric=metric,
        operator=operator,  # type: ignore[arg-type]
        target=target,
        release=draw(st.sampled_from([None, release])) if operator in RISING + FALLING else None,
        for_s=draw(SPANS),
        release_for_s=draw(SPANS),
        max_age_s=draw(AGES),
        aggregate=draw(st.sampled_from(["any", "all", "max", "min"])) if metric.part else "",  # type: ignore[arg-type]
    )


def strategies(stale: list[str]) -> st.SearchStrategy[Strategy | None]:
    rules = st.builds(Rule, condition=conditions(), text=st.just("rule"), on_stale=st.sampled_from(stale))
    return st.none() | st.builds(Strategy, rules=st.lists(rules, max_size=3).map(tuple), all_of=st.booleans())


@st.composite
def scores(draw: st.DrawFn) -> Score:
    metric = draw(st.sampled_from([PLAIN, PARTED]))
    operator = draw(st.sampled_from(sorted(COMPARE)))
    spread = draw(st.sampled_from(["value", "value", "rank", "places"]))
    bounds = spread == "value" and operator in RISING + FALLING
    return Score(
        metric=metric,
        operator=operator,  # type: ignore[arg-type]
        target=draw(st.integers(0, 4)),
        weight=draw(st.integers(1, 3)),
        spread=spread,  # type: ignore[arg-type]
        best=draw(st.none() | st.integers(0, 4)) if bounds else None,
        worst=draw(st.none() | st.integers(0, 4)) if bounds else None,
        max_age_s=draw(AGES),
        aggregate=draw(st.sampled_from(["max", "min"])) if metric.part else "",  # type: ignore[arg-type]
    )


POLICIES = st.builds(
    Policy,
    kind=st.just("TelemetryPolicy"),
    namespace=st.just("default"),
    name=st.sampled_from(["p", "q"]),
    dontschedule=strategies(["ignore", "violate", "reject"]),
    deschedule=strategies(["ignore", "violate", "keep"]),
    scheduleonmetric=st.none() | st.lists(scores(), max_size=2).map(tuple),
    node_selector=st.sampled_from([None, None, (), (Selector(key="zone", operator="In", values=("x",)),)]),
)
MEASURED = st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.0, 0.5, 3.0, -2.0, 30.0]))
STEPS = st.one_of(
    st.tuples(st.just("policy"), POLICIES),
    st.tuples(st.just("remove"), st.sampled_from(["p", "q"])),
    st.tuples(st.just("wait"), st.integers(1, 12)),
    st.tuples(st.just("plain"), st.dictionaries(st.sampled_from(NODES[:3]), MEASURED)),
    st.tuples(
        st.just("parted"),
        st.dictionaries(
            st.sampled_from(NODES[:3]), st.dictionaries(st.sampled_from(["0", "1"]), MEASURED, min_size=1)
        ),
    ),
    st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from([{}, {"zone": "x"}, {"zone": "y"}])),
    st.tuples(st.just("gone"), st.sampled_from(NODES)),
)


def take(engine: TelemetryEngine, naive: Naive, step: tuple[Any, ...]) -> tuple[Flip, ...]:
    match step:
        case "policy", policy:
            naive.policies[policy.name] = policy
            naive.settle()
            return engine.set_policy(policy, naive.now)
        case "remove", name:
            naive.policies.pop(name, None)
            naive.settle()
            return engine.remove_policy("default", name, naive.now)
        case "wait", halves:
            naive.wait(naive.now + halves * TICK)
            return engine.advance(naive.now)
        case "plain", values:
            measured = {node: (value, naive.now - age) for node, (value, age) in values.items()}
            naive.poll(PLAIN, {node: {"": each} for node, each in measured.items()})
            return engine.update(PLAIN, {node: Sample(*each) for node, each in measured.items()}, naive.now)
        case "parted", values:
            parted = {
                node: {part: (value, naive.now - age) for part, (value, age) in parts.items()}
                for node, parts in values.items()
            }
            naive.poll(PARTED, parted)
            samples = {node: {part: Sample(*each) for part, each in parts.items()} for node, parts in parted.items()}
            return engine.update(PARTED, samples, naive.now)
        case "node", name, labels:
            naive.nodes[name] = labels
            engine.set_node(name, labels)
        case "gone", name:
            naive.nodes.pop(name, None)
            engine.remove_node(name)
    return engine.advance(naive.now)


@settings(max_examples=300)
@given(POLICIES, st.lists(STEPS, min_size=1, max_size=14))
def test_verdicts_are_those_of_an_evaluation_from_nothing(first: Policy, history: list[tuple[Any, ...]]) -> None:
    engine, naive = TelemetryEngine(), Naive()
    told: dict[tuple[str, str], bool] = {(name, node): True for name in ("p", "q") for node in NODES}
    for step in [("policy", first), *history]:
        before = {name: engine.verdict("default", name, naive.now).judged for name in ("p", "q")}
        for flip in take(engine, naive, step):
            name = flip.policy.name
            judged = before[name] | engine.verdict("default", name, naive.now).judged
            told.update({(name, node): flip.others == "refused" for node in NODES if flip.others and node not in judged})
            told.update({(name, node): False for node in flip.allowed} | {(name, node): True for node in flip.refused})
        for name in ("p", "q"):
            policy = naive.policies.get(name)
            verdict = engine.verdict("default", name, naive.now)
            for node in NODES:
                refused = verdict.reason(node) is not None
                assert refused == (True if policy is None else naive.refuses(policy, node)), (step, name, node)
                assert refused == told[name, node], ("flips", step, name, node)
                if policy is not None:
                    assert verdict.score(node) == naive.scores(policy, node), (step, name, node)
        for key, violators in engine.deschedule(naive.now).items():
            policy = naive.policies[key.name]
            assert policy.deschedule is not None
            for node in NODES[:3]:
                wanted = naive.selected(policy, node) and naive.decided(policy.deschedule, node) == "true"
                measured = any(node in naive.values.get(r.condition.metric, {}) for r in policy.deschedule.rules)
                if measured and all(r.condition.metric in naive.values for r in policy.deschedule.rules):
                    assert (node in violators) == wanted, (step, key, node)


@settings(max_examples=150)
@given(POLICIES, st.lists(STEPS, min_size=1, max_size=10))
def test_nothing_changes_before_it_is_said_to_change(first: Policy, history: list[tuple[Any, ...]]) -> None:
    """Looked at whenever it says so and never else, the engine ends up where one that is looked at all the time does."""
    lazy, eager, naive, shadow = TelemetryEngine(), TelemetryEngine(), Naive(), Naive()
    for step in [("policy", first), *history]:
        before = eager.verdict("default", "p", naive.now)
        if step[0] == "wait":
            until = naive.now + step[1] * TICK
            while naive.now < until:
                due = lazy.next_change_at
                naive.now = shadow.now = min(naive.now + TICK, until)
                flips = eager.advance(naive.now)
                assert not flips or due <= naive.now
                if due <= naive.now:
                    lazy.advance(naive.now)
                    assert lazy.next_change_at > naive.now
                elif not flips:
                    after = eager.verdict("default", "p", naive.now)
                    assert after.refused == before.refused or lazy.next_change_at > naive.now
        else:
            take(lazy, naive, step)
            take(eager, shadow, step)
        one, other = lazy.verdict("default", "p", naive.now), eager.verdict("default", "p", naive.now)
        assert (one.refused, one.elsewhere, one.scores) == (other.refused, other.elsewhere, other.scores)

"""How checks are put together: one reason a node, weighted scores, preemption, explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.scheduling import Objections, Promise, Question, Scheduling
from bayplan.fleet.scheduling.events import Assumed, Event, NodeGone, Unassumed
from bayplan.protocols.extender import Victims
from bayplan.protocols.kubernetes import ObjectMeta, PodObject

NAMES = ("a", "b", "c", "d")


class Said:
    """A check that says what it is told to, and remembers what it was asked."""

    def __init__(
        self,
        name: str,
        *,
        failed: Mapping[str, str] | None = None,
        unresolvable: Mapping[str, str] | None = None,
        scores: Mapping[str, int] | None = None,
        held_up: Mapping[str, set[str]] | None = None,
        concerned: bool = True,
    ) -> None:
        self.name = name
        self._failed = failed or {}
        self._unresolvable = unresolvable or {}
        self._scores = scores
        self._held_up = held_up or {}
        self._concerned = concerned
        self.asked: list[tuple[str, ...]] = []
        self.promised: list[str] = []
        self.told: list[tuple[Event, float]] = []

    def apply(self, event: Event, now: float) -> None:
        self.told.append((event, now))

    def wants(self, pod: PodObject) -> bool:
        return self._concerned

    def concerns(self, question: Question) -> bool:
        return self._concerned

    def objections(self, question: Question, now: float) -> Objections:
        self.asked.append(tuple(question.names))
        return Objections(
            failed={name: why for name, why in self._failed.items() if name in question.names},
            unresolvable={name: why for name, why in self._unresolvable.items() if name in question.names},
        )

    def scores(self, question: Question, now: float) -> Sequence[int] | None:
        return None if self._scores is None else [self._scores[name] for name in question.names]

    def without(self, question: Question, node: str, uids: Sequence[str], now: float) -> str:
        left = self._held_up.get(node, set()) - set(uids)
        return f"held up by {sorted(left)}" if left else ""

    def promise(self, pod: PodObject, node: str, now: float) -> Promise:
        if node in self._failed:
            return Promise(refused=self._failed[node])
        self.promised.append(node)
        return Promise(annotations={self.name: node})

    def explain(self, question: Question, node: str, now: float) -> Sequence[str]:
        return [f"{self.name} of {node} at {now}"]


@pytest.fixture
def question() -> Question:
    return Question(pod=PodObject(metadata=ObjectMeta(name="web")), pod_json=msgspec.Raw(b"{}"), names=NAMES)


def test_a_node_is_refused_by_the_first_check_that_objects_and_the_later_ones_are_not_asked_about_it(
    question: Question,
) -> None:
    first = Said("first", failed={"a": "hot"}, unresolvable={"c": "no cards"})
    second = Said("second", failed={"a": "full", "b": "full"})

    decision = Scheduling([(first, 1), (second, 1)]).filter(question, now=5)

    assert decision.failed == {"a": "hot", "b": "full"}
    assert decision.unresolvable == {"c": "no cards"}
    assert decision.refused_by == {"first": 2, "second": 1}
    assert second.asked == [("b", "d")]


def test_a_check_that_is_not_concerned_has_no_say(question: Question) -> None:
    aside = Said("aside", failed={"a": "no"}, scores=dict.fromkeys(NAMES, 10), held_up={"a": {"u"}}, concerned=False)
    scheduling = Scheduling([(aside, 1)])

    assert scheduling.filter(question, 0).failed == {}
    assert scheduling.prioritize(question, 0) == ()
    assert set(scheduling.preempt(question, {"a": Victims(uids=())}, 0)) == {"a"}
    assert scheduling.explain(question, 0)[0].numbers == {}


def test_scores_are_the_weighted_mean_of_the_checks_that_have_some(question: Question) -> None:
    cool = Said("cool", scores={"a": 10, "b": 0, "c": 5, "d": 4})
    packed = Said("packed", scores={"a": 0, "b": 10, "c": 5, "d": 1})
    silent = Said("silent")

    assert Scheduling([(cool, 1), (silent, 7)]).prioritize(question, 0) == [10, 0, 5, 4]
    assert Scheduling([(cool, 3), (packed, 1)]).prioritize(question, 0) == [8, 3, 5, 3]
    assert Scheduling([(cool, 1), (packed, 0)]).prioritize(question, 0) == [10, 0, 5, 4]


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.lists(st.integers(0, 10), min_size=4, max_size=4)), min_size=1, max_size=4
    )
)
def test_scores_stay_within_the_protocol_s_bounds(given_scores: list[tuple[int, list[int]]]) -> None:
    pod = PodObject(metadata=ObjectMeta(name="web"))
    question = Question(pod=pod, pod_json=msgspec.Raw(b"{}"), names=NAMES)
    checks = [
        (Said(str(i), scores=dict(zip(NAMES, scores, strict=True))), weight)
        for i, (weight, scores) in enumerate(given_scores)
    ]

    assert all(0 <= score <= 10 for score in Scheduling(checks).prioritize(question, 0))


def test_a_preemption_keeps_the_nodes_where_the_pod_could_be_afterwards(question: Question) -> None:
    cards = Said("cards", held_up={"a": {"u1", "u2"}, "b": {"u3"}, "c": {"u4"}})
    victims = {
        "a": Victims(uids=("u1",)),
        "b": Victims(uids=("u3",), budget_violations=1),
        "c": Victims(uids=()),
        "d": Victims(uids=()),
    }

    left = Scheduling([(cards, 1)]).preempt(question, victims, 0)

    assert left == {"b": victims["b"], "d": victims["d"]}


def test_an_explanation_has_the_reason_the_score_and_each_check_s_numbers(question: Question) -> None:
    cool = Said("cool", failed={"b": "hot"}, scores={"a": 10, "b": 0, "c": 5, "d": 4})
    packed = Said("packed", scores={"a": 0, "b": 10, "c": 5, "d": 1})

    a, b, *_ = Scheduling([(cool, 1), (packed, 1)]).explain(question, 7)

    assert (a.node, a.refused_by, a.reason, a.score) == ("a", "", "", 5)
    assert a.scores == {"cool": 10, "packed": 0}
    assert a.numbers == {"cool": ["cool of a at 7"], "packed": ["packed of a at 7"]}
    assert (b.refused_by, b.reason) == ("cool", "hot")


def test_every_check_is_told_of_every_event_and_a_pod_matters_if_it_does_to_any(question: Question) -> None:
    checks = [Said("cool"), Said("packed", concerned=False)]
    scheduling = Scheduling([(check, 1) for check in checks])

    scheduling.apply(NodeGone(name="a"), 3)

    assert [check.told for check in checks] == [[(NodeGone(name="a"), 3)]] * 2
    assert scheduling.wants(question.pod)
    assert not Scheduling([(checks[1], 1)]).wants(question.pod)


def test_a_place_is_promised_by_all_checks_with_the_annotations_of_each(question: Question) -> None:
    scheduling = Scheduling([(Said("cool"), 1), (Said("packed"), 1)])

    assert scheduling.promise(question.pod, "a", 1) == Promise(annotations={"cool": "a", "packed": "a"})


def test_a_promise_that_one_check_refuses_is_taken_back_from_those_before_it() -> None:
    pod = PodObject(metadata=ObjectMeta(name="web", uid="u"))
    first, second, third = Said("first"), Said("second", failed={"a": "full"}), Said("third")
    scheduling = Scheduling([(first, 1), (second, 1), (third, 1)])

    assert scheduling.promise(pod, "a", 1) == Promise(refused="full")
    assert first.told == [(Unassumed(uid="u"), 1)]
    assert second.told == third.told == []
    assert third.promised == []


def test_an_assumed_pod_in_a_recording_is_promised_its_place_again(question: Question) -> None:
    check = Said("cool")

    Scheduling([(check, 1)]).apply(Assumed(pod=question.pod, node="a"), 1)

    assert check.promised == ["a"]
    assert check.told == []

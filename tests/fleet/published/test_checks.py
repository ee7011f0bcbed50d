"""Whether a published node's policy would admit a pod: layouts of agents, and pods that come, end and are decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from bayplan.fleet.published.checks import ZoneChecks
from bayplan.fleet.published.explain import explain
from bayplan.fleet.published.layout import HEARTBEAT_ANNOTATION, LAYOUT_ANNOTATION, Offers
from bayplan.protocols.kubernetes import PodObject, read_node
from bayplan.workload.model import Pod

Make = Callable[..., Any]
Asked = Callable[[PodObject], Pod]
FREE: tuple[dict[str, str], dict[str, str]] = ({}, {})


def test_an_empty_node_takes_what_fits_into_a_zone_and_never_what_does_not(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    assert checks.set_layout("n", make_layout()) == ""
    assert checks.check(asked(make_pod("four", 8, 4)), ["n"], now) == FREE
    five = checks.check(asked(make_pod("five", 8, 5)), ["n"], now)
    assert five.failed == {}
    assert five.unresolvable == {
        "n": "zones: single-numa-node: 5 nvidia.com/gpu asked, most in one zone of an empty node: 4; "
        "impossible on this kind of node"
    }


def test_a_pod_that_is_bound_and_not_yet_published_counts_once_and_once_only(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    three = make_pod("three", 4, 3, node="n", phase="Pending")
    checks.set_layout("n", make_layout())
    checks.set_pod(three)
    two = asked(make_pod("two", 4, 2))
    full = asked(make_pod("full", 4, 4))
    assert checks.check(two, ["n"], now) == FREE
    assert checks.assume(full, "n", now, 30) is None
    refused = checks.check(two, ["n"], now).failed
    assert refused == {"n": "zones: single-numa-node: 2 nvidia.com/gpu asked, most free in one zone: 1"}
    checks.set_layout("n", make_layout(pods=[three], generation=2))
    assert checks.check(two, ["n"], now).failed == refused
    assert explain(checks, two, "n", now).uncounted == ("ml/full",)


def test_two_pods_decided_in_short_order_cannot_take_the_same_zone(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    checks.set_layout("n", make_layout())
    answers = [checks.assume(asked(make_pod(f"p{i}", 4, 3)), "n", now, 30) for i in range(3)]
    assert [answer is None for answer in answers] == [True, True, False]
    assert answers[2] is not None
    assert "3 nvidia.com/gpu asked, most free in one zone: 1" in answers[2].message


def test_what_was_assumed_and_never_bound_is_free_again(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    checks.set_layout("n", make_layout())
    for i in range(2):
        checks.assume(asked(make_pod(f"p{i}", 4, 4)), "n", now, 30)
    more = asked(make_pod("more", 1, 1))
    assert checks.check(more, ["n"], now).failed
    assert checks.expire(now + 29) == []
    assert checks.expire(now + 30) == ["uid-p0", "uid-p1"]
    assert checks.check(more, ["n"], now + 30) == FREE


def test_a_pod_is_not_held_against_itself_when_it_is_asked_about_again(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    checks.set_layout("n", make_layout())
    checks.assume(asked(make_pod("a", 4, 4)), "n", now, 30)
    b = asked(make_pod("b", 4, 4))
    assert checks.assume(b, "n", now, 30) is None
    assert checks.check(b, ["n"], now) == FREE
    assert checks.assume(b, "n", now + 1, 30) is None
    checks.set_pod(make_pod("b", 4, 4, node="n"))
    assert checks.expire(now + 100) == ["uid-a"]


def test_what_pods_that_ended_held_is_free_before_the_node_says_so(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    running = [make_pod(f"p{i}", 4, 4, node="n") for i in range(2)]
    checks.set_layout("n", make_layout(pods=running))
    for pod in running:
        checks.set_pod(pod)
    more = asked(make_pod("more", 4, 4))
    assert checks.check(more, ["n"], now).failed
    checks.set_pod(make_pod("p0", 4, 4, node="n", phase="Succeeded"))
    assert checks.check(more, ["n"], now) == FREE
    checks.assume(more, "n", now, 30)
    checks.remove_pod("uid-p1")
    assert checks.check(asked(make_pod("last", 4, 4)), ["n"], now) == FREE


def test_a_pod_that_this_side_has_not_seen_yet_keeps_what_its_node_says_it_holds(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    checks.set_layout("n", make_layout(pods=[make_pod("a", 4, 4, node="n"), make_pod("b", 4, 4, node="n")]))
    assert checks.check(asked(make_pod("c", 1, 1)), ["n"], now).failed


@pytest.mark.parametrize("doubt", ["skip", "refuse"])
def test_nodes_that_do_not_tell_are_treated_as_configured(
    make_checks: Make, make_pod: Make, asked: Asked, now: float, doubt: str
) -> None:
    checks = make_checks(missing=doubt)
    failed = checks.check(asked(make_pod("p")), ["unknown"], now).failed
    assert failed == ({} if doubt == "skip" else {"unknown": "zones: the node does not tell its zones"})


@pytest.mark.parametrize("doubt", ["skip", "refuse"])
def test_old_documents_are_treated_as_configured_and_a_heartbeat_makes_them_new(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float, doubt: str
) -> None:
    checks = make_checks(stale=doubt, stale_after_s=60)
    checks.set_layout("n", make_layout())
    pod = asked(make_pod("five", 8, 5))
    assert checks.check(pod, ["n"], now + 60).unresolvable
    old = checks.check(pod, ["n"], now + 61)
    expected = {} if doubt == "skip" else {"n": "zones: what the node told is 61 s old (more than 60 s)"}
    assert old == (expected, {})
    checks.heartbeat("n", "layout", now + 50)
    assert checks.check(pod, ["n"], now + 61).unresolvable


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (lambda d: d["spec"].pop("machine"), "machine"),
        (lambda d: d["spec"].update(polciy="x"), "polciy"),
        (lambda d: d["metadata"].update(name="other"), "metadata.name"),
        (lambda d: d["status"]["pods"][0]["grants"].clear(), "grants"),
        (lambda d: d["status"]["pods"].append(d["status"]["pods"][0]), "pods"),
        (lambda d: d["status"].update(heartbeat="yesterday"), "heartbeat"),
        (lambda d: d.update(kind="Layout"), "kind"),
        (lambda d: d["spec"]["kubeletConfiguration"].update(topologyManagerPolicy="x"), "topologyManagerPolicy"),
        (lambda d: d["spec"]["kubeletConfiguration"].update(reservedSystemCPUs="9999"), "would not start"),
        (lambda d: d["status"].update(power={"wattsHeadroom": "much"}), "wattsHeadroom"),
    ],
)
def test_a_document_that_cannot_be_used_says_where_and_the_node_counts_as_one_without(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float, damage: Make, place: str
) -> None:
    checks = make_checks(missing="refuse")
    document = msgspec.json.decode(make_layout(pods=[make_pod("p", 4, 1, node="n")]))
    damage(document)
    problem = checks.set_layout("n", msgspec.json.encode(document))
    assert place in problem
    assert checks.problems() == {"n": problem}
    assert checks.check(asked(make_pod("q")), ["n"], now).failed == {"n": f"zones: {problem}"}


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"[" * 100_000, b'{"spec":' * 2000, b"\xff", b'{"kind": 7}'])
def test_bytes_that_are_no_document_are_told_as_such(make_checks: Make, text: bytes) -> None:
    checks = make_checks()
    assert checks.set_layout("n", text).startswith("NodeLayout of n: ")
    assert checks.set_topology("n", text)


def test_grants_that_contradict_each_other_are_no_state(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks(missing="refuse")
    document = msgspec.json.decode(make_layout(pods=[make_pod("p", 4, 1, node="n"), make_pod("q", 4, 1, node="n")]))
    first, second = document["status"]["pods"]
    second["grants"] = first["grants"]
    document["spec"]["mode"] = "safe"
    assert checks.set_layout("n", msgspec.json.encode(document)) == ""
    assert "contradicts the machine" in checks.check(asked(make_pod("r")), ["n"], now).failed["n"]


def test_a_layout_in_an_annotation_of_the_node_is_as_good(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    pod = asked(make_pod("five", 8, 5))

    def node(annotations: dict[str, str]) -> Any:
        return read_node(msgspec.json.encode({"metadata": {"name": "n", "annotations": annotations}}))

    layout = make_layout(heartbeat=None).decode()
    assert checks.set_node(node({LAYOUT_ANNOTATION: layout})) == ""
    assert checks.check(pod, ["n"], now) == FREE, "without a heartbeat it is taken for old, and skipped"
    assert checks.set_node(node({LAYOUT_ANNOTATION: layout, HEARTBEAT_ANNOTATION: str(now)})) == ""
    assert checks.check(pod, ["n"], now).unresolvable
    assert "heartbeat" in checks.set_node(node({LAYOUT_ANNOTATION: layout, HEARTBEAT_ANNOTATION: "soon"}))
    checks.set_node(node({}))
    assert checks.check(pod, ["n"], now) == FREE


def test_a_pod_from_a_file_on_the_node_is_not_counted_twice_for_its_picture_in_the_api(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    real = make_pod("static", 4, 4, node="n")
    picture = msgspec.structs.replace(
        real,
        metadata=msgspec.structs.replace(
            real.metadata, uid="of-the-api", annotations={"kubernetes.io/config.mirror": "uid-static"}
        ),
    )
    checks.set_layout("n", make_layout(pods=[real]))
    checks.set_pod(picture)
    assert checks.check(asked(make_pod("other", 4, 4)), ["n"], now) == FREE


def test_a_thousand_equal_nodes_are_asked_once(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks: ZoneChecks = make_checks()
    running = make_pod("running", 4, 1)
    layout = make_layout("NAME", pods=[running])
    names = [f"n{i}" for i in range(1000)]
    for name in names:
        assert (
            checks.set_layout(name, layout.replace(b"NAME", name.encode()).replace(b"uid-running", name.encode())) == ""
        )
    checks.check(asked(make_pod("a", 8, 4)), names, now)
    asked_first = checks.states.asked
    assert asked_first <= 2
    labels = {"apps.kubernetes.io/pod-index": "1"}
    answer = checks.check(asked(make_pod("b", 8, 4, labels=labels)), names, now)
    assert answer == FREE
    assert checks.states.asked == asked_first
    checks.assume(asked(make_pod("b", 8, 4)), "n7", now, 30)
    refused = checks.check(asked(make_pod("c", 8, 4)), names, now).failed
    assert list(refused) == ["n7"]
    # Counting the pod, the node that changed, and an empty one, which tells whether it is ever possible.
    assert checks.states.asked <= asked_first + 3


def test_nodes_whose_zones_are_in_use_already_score_higher_for_small_pods(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    checks.set_layout("whole", make_layout("whole"))
    broken = [make_pod("a", 4, 1), make_pod("b", 4, 1)]
    checks.set_layout("broken", make_layout("broken", pods=broken))
    scores = checks.scores(asked(make_pod("one", 1, 1)), ["whole", "broken", "silent"], now)
    assert 10 >= scores["broken"] > scores["whole"] > scores["silent"] == 0


def test_preemption_is_told_whether_it_would_help(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    running = [make_pod("a", 4, 4, node="n"), make_pod("b", 4, 2, node="n"), make_pod("c", 4, 2, node="n")]
    checks.set_layout("n", make_layout(pods=running))
    four = asked(make_pod("four", 4, 4))
    assert not checks.without(four, "n", ["uid-b"], now)
    assert checks.without(four, "n", ["uid-a"], now)
    assert checks.without(four, "n", ["uid-b", "uid-c"], now)
    assert checks.check(four, ["n"], now).failed, "only asked, not done"


def test_classes_profiles_and_watts_are_judged_where_they_are_published(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    offers = Offers(classes={"l3": {"gold": 2, "bronze": None}}, profiles={"performance": 8}, watts_headroom=100.0)
    checks.set_layout("n", make_layout(offers=offers))
    checks.set_layout("silent", make_layout("silent"))

    def failed(pod: PodObject) -> dict[str, str]:
        found: dict[str, str] = checks.check(asked(pod), ["n", "silent"], now).failed
        return found

    gold = {"class.bayplan.dev/l3": "gold"}
    assert failed(make_pod("two", [1, 1], annotations=gold)) == {}
    assert failed(make_pod("three", [1, 1, 1], annotations=gold)) == {"n": "class l3/gold: 3 users asked, 2 free"}
    runtime = {"rdt.resources.beta.kubernetes.io/container.c0": "silver"}
    assert failed(make_pod("silver", [1, 1], annotations=runtime)) == {"n": "class l3/silver: not offered"}
    assert failed(make_pod("bronze", [1, 1, 1], annotations={"class.bayplan.dev/l3": "bronze"})) == {}
    power = {"bayplan.dev/power-profile": "performance"}
    assert failed(make_pod("eight", 8, annotations=power)) == {}
    assert failed(make_pod("nine", 9, annotations=power)) == {"n": "power profile performance: 9 CPUs asked, 8 free"}
    assert failed(make_pod("watts", annotations={"bayplan.dev/watts": "150"})) == {
        "n": "power: 150 W asked, 100 W below the node's budget"
    }
    assert "watts" in failed(make_pod("odd", annotations={"bayplan.dev/watts": "lots"}))["n"]


def test_classes_that_pods_decided_since_will_use_are_no_longer_free(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    checks.set_layout("n", make_layout(offers=Offers(classes={"l3": {"gold": 1}}, watts_headroom=100.0)))
    notes = {"class.bayplan.dev/l3": "gold", "bayplan.dev/watts": "80"}
    assert checks.assume(asked(make_pod("a", annotations=notes)), "n", now, 30) is None
    refused = checks.check(asked(make_pod("b", annotations=notes)), ["n"], now).failed
    assert refused == {"n": "class l3/gold: 1 users asked, 0 free"}
    watts = asked(make_pod("c", annotations={"bayplan.dev/watts": "30"}))
    assert checks.check(watts, ["n"], now).failed == {"n": "power: 30 W asked, 20 W below the node's budget"}


def test_a_node_that_goes_takes_its_pods_along(
    make_checks: Make, make_layout: Make, make_pod: Make, asked: Asked, now: float
) -> None:
    checks = make_checks()
    checks.set_layout("n", make_layout())
    checks.set_pod(make_pod("a", 4, 4, node="n"))
    checks.assume(asked(make_pod("b", 4, 4)), "n", now, 30)
    checks.remove_node("n")
    assert checks.books("n") is None
    assert checks.expire(now + 60) == []
    checks.set_layout("n", make_layout())
    assert checks.check(asked(make_pod("c", 4, 4)), ["n"], now) == FREE

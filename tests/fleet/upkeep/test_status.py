"""The status of policies: in words, and written only where it says something new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.fleet.telemetry.model import TelemetrySettings

MakeCluster = Callable[..., Any]
HOT = {"rules": [{"metricname": "heat", "operator": "GreaterThan", "target": 80}]}


def status(cluster: Any, kind: str = "TelemetryPolicy", name: str = "hot") -> Any:
    return cluster.policies[kind, "default", name].get("status")


def conditions(cluster: Any) -> dict[str, tuple[str, str, str]]:
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in status(cluster)["conditions"]}


def test_conditions_of_a_policy(cluster: Any) -> None:
    cluster.policy("hot", kind="TelemetryPolicy", deschedule=HOT)
    cluster.write_statuses()
    assert conditions(cluster) == {
        "Accepted": ("True", "Valid", "all of its rules are in use"),
        "MetricsFresh": ("Unknown", "NotPolled", "not measured yet: heat"),
        "Compliant": ("Unknown", "MetricsNotFresh", "no node is known to violate its deschedule rules"),
    }
    cluster.now += 10
    cluster.measure("heat", {"a": 95, "b": 81, "c": 0})
    cluster.write_statuses()
    assert conditions(cluster)["MetricsFresh"] == ("True", "Fresh", "heat of 3 nodes at most 5m old")
    assert conditions(cluster)["Compliant"] == (
        "False",
        "Violated",
        "2 nodes violate its deschedule rules: a, b",
    )
    assert status(cluster)["violatingNodes"] == 2
    assert status(cluster)["observedGeneration"] == 1
    since = {each["type"]: each["lastTransitionTime"] for each in status(cluster)["conditions"]}
    assert since == {
        "Accepted": "1970-01-01T00:16:40Z",
        "MetricsFresh": "1970-01-01T00:16:50Z",
        "Compliant": "1970-01-01T00:16:50Z",
    }


def test_a_frozen_metric_is_told_with_when_it_was_measured_and_only_once(cluster: Any) -> None:
    cluster.policy("hot", kind="TelemetryPolicy", deschedule=HOT)
    cluster.measure("heat", {"a": 0})
    cluster.write_statuses()
    writes = 0
    for _ in range(100):
        cluster.now += 12.3
        cluster.measure("heat", {"a": 0}, at=1_000.0)
        writes += len(cluster.write_statuses())
    assert writes == 1
    assert conditions(cluster)["MetricsFresh"] == (
        "False",
        "Stale",
        "heat is older than 5m, last measured at 1970-01-01T00:16:40Z",
    )


def test_a_source_that_does_not_answer_is_told(cluster: Any) -> None:
    cluster.policy("hot", kind="TelemetryPolicy", deschedule=HOT)
    cluster.fail("heat", "connection refused")
    cluster.write_statuses()
    assert conditions(cluster)["MetricsFresh"] == ("False", "Stale", "heat cannot be fetched: connection refused")


def test_what_is_wrong_is_told_with_field_and_value(cluster: Any) -> None:
    cluster.policy("hot", kind="TelemetryPolicy", deschedule={"rules": [{"metricname": "heat", "operator": "Above"}]})
    cluster.write_statuses()
    truth, reason, message = conditions(cluster)["Accepted"]
    assert (truth, reason) == ("False", "Invalid")
    assert "spec.strategies.deschedule.rules[0].operator: unknown operator: 'Above'" in message


def test_a_taspolicy_has_its_two_texts(cluster: Any) -> None:
    cluster.policy("hot", deschedule=HOT)
    words = []
    for degrees in (None, 0, 95):
        if degrees is not None:
            cluster.measure("heat", {"a": degrees})
        cluster.write_statuses()
        words.append(status(cluster, "TASPolicy")["compliance"])
        cluster.now += 10
    assert words == ["Unknown", "Compliant", "Violating"]
    assert set(status(cluster, "TASPolicy")) == {"compliance", "message"}
    assert "Compliant False: 1 node violates its deschedule rules: a" in status(cluster, "TASPolicy")["message"]
    cluster.policy("hot", deschedule={"rules": [{}]})
    cluster.write_statuses()
    assert status(cluster, "TASPolicy")["compliance"] == "Invalid"


def test_a_status_that_flaps_is_written_only_so_often(cluster: Any) -> None:
    cluster.policy("hot", kind="TelemetryPolicy", deschedule=HOT)
    writes = 0
    for second in range(60):
        cluster.measure("heat", {"a": 95 if second % 2 else 0})
        writes += len(cluster.write_statuses())
        cluster.now += 1
    assert writes <= 6


def test_conditions_of_others_stay(cluster: Any) -> None:
    cluster.policy("hot", kind="TelemetryPolicy", deschedule=HOT)
    other = {"type": "Reviewed", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "x"}
    cluster.policies["TelemetryPolicy", "default", "hot"]["status"] = {"conditions": [other]}
    cluster.restart()
    cluster.write_statuses()
    assert status(cluster)["conditions"][0] == other
    cluster.now += 100
    cluster.restart()
    assert cluster.write_statuses() == []


def test_a_status_that_is_no_status_is_written_over(cluster: Any) -> None:
    cluster.policy("hot", kind="TelemetryPolicy", deschedule=HOT)
    for odd in ("text", {"conditions": "none"}, {"conditions": [1, {}]}):
        cluster.policies["TelemetryPolicy", "default", "hot"]["status"] = odd
        cluster.restart()
        (patch,) = cluster.upkeep.status_patches(cluster.now)
        assert [each["type"] for each in patch.status["conditions"]] == ["Accepted", "MetricsFresh", "Compliant"]


def test_flips_are_told_once_with_the_nodes(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(TelemetrySettings(tas_on_stale="ignore"))
    cluster.policy("hot", dontschedule=HOT)
    assert [each.note for each in cluster.told()] == [
        "all nodes without a value may be used by pods of this policy again"
    ]
    cluster.measure("heat", {"a": 95, "b": 95})
    cluster.measure("heat", {"a": 95, "b": 0})
    told = [(each.name, each.reason, each.note) for each in cluster.told()]
    assert told == [
        ("hot", "NodesRefused", "a, b may not be used by pods of this policy any more"),
        ("hot", "NodesAllowed", "b may be used by pods of this policy again"),
    ]
    assert cluster.told() == []


def test_whoever_takes_over_does_not_tell_of_old_flips(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.policy("hot", dontschedule=HOT)
    cluster.measure("heat", {"a": 95})
    cluster.upkeep.begin()
    assert cluster.told() == []


def test_a_pod_without_its_policy_is_told_once_in_its_life(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.pod("p", policy="gone")
    (told,) = cluster.told()
    assert (told.kind, told.name, told.uid, told.reason, told.is_warning) == (
        "Pod",
        "p",
        "pod-p",
        "PolicyMissing",
        True,
    )
    assert told.note == (
        "label telemetry-policy names policy gone, and there is none of that name in default: "
        "no node is allowed until there is"
    )
    assert cluster.told() == []
    cluster.remove_pod("p")
    cluster.told()
    cluster.pod("p", policy="gone")
    assert len(cluster.told()) == 1
    allowing = make_cluster(TelemetrySettings(missing_policy="allow"))
    allowing.pod("p", policy="gone")
    assert allowing.told()[0].note.endswith("so all nodes are allowed")


def test_a_pod_whose_policy_is_there_is_not_told_of(cluster: Any) -> None:
    cluster.policy("hot", dontschedule=HOT)
    cluster.pod("p", policy="hot")
    assert [each for each in cluster.told() if each.kind == "Pod"] == []

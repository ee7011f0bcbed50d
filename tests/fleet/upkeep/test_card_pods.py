"""Labels of pods on cards that are given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.upkeep.upkeep import Upkeep, UpkeepSettings

LABEL = "gpu.aware.scheduling/deschedule-pod"


def patches(cluster: Any) -> list[tuple[str, str | None]]:
    return [(patch.uid, patch.labels[LABEL]) for patch in cluster.upkeep.pod_patches()]


def test_pods_are_labelled_and_unlabelled(cluster: Any, cards: Any) -> None:
    for name in ("p", "q"):
        cluster.pod(name, "a")
    cards.pods = {"pod-p": "card0 of node a is given up"}
    assert patches(cluster) == [("pod-p", "gpu")]
    cluster.pod("p", "a", labels={LABEL: "gpu"})
    assert patches(cluster) == []
    cards.pods = {}
    assert patches(cluster) == [("pod-p", None)]
    cluster.pod("p", "a")
    assert patches(cluster) == []


def test_labels_that_are_not_wanted_go_after_a_restart_too_and_those_of_others_stay(cluster: Any) -> None:
    cluster.pod("p", "a", labels={LABEL: "gpu"})
    cluster.pod("q", "a", labels={LABEL: "by hand"})
    cluster.restart()
    assert patches(cluster) == [("pod-p", None)]


def test_a_pod_that_is_gone_and_one_of_its_name_that_came_later_are_told_apart(cluster: Any, cards: Any) -> None:
    cluster.pod("p", "a")
    cards.pods = {"pod-of-before": "card0"}
    assert patches(cluster) == []


def test_where_cards_are_not_looked_at_no_label_is_taken_away(make_cluster: Callable[..., Any]) -> None:
    cluster = make_cluster()
    cluster.pod("p", "a", labels={LABEL: "gpu"})
    upkeep = Upkeep(TelemetryEngine(), UpkeepSettings())
    assert upkeep.pod_patches() == []

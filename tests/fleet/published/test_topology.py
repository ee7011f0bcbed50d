"""NodeResourceTopology: numbers by zone become a node whose kubelet's rules can be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.fleet.published.fingerprint import fingerprint
from bayplan.fleet.published.node_topology import topology_from
from bayplan.fleet.published.rebuilt import rebuild
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.zone_room import free_by_node
from bayplan.policies.policy import NodeSetup
from bayplan.protocols.kubernetes import PodObject
from bayplan.workload.fields import Fields
from bayplan.workload.model import Pod

Make = Callable[..., Any]
Asked = Callable[[PodObject], Pod]
GPU = "nvidia.com/gpu"
FREE: tuple[dict[str, str], dict[str, str]] = ({}, {})
TWO = [{"cpu": (48, 46, 40), "memory": ("256Gi", "250Gi", "200Gi"), GPU: (4, 4, 3)}] * 2
BY_EXPORTER = {"managedFields": [{"manager": "nfd-topology-updater", "time": "2027-01-15T08:00:00Z"}]}
UPDATED = 1_800_000_000.0


@pytest.mark.parametrize(
    ("policy", "gpus", "answer"),
    [
        ("single-numa-node", 3, ""),
        ("single-numa-node", 4, "most free in one zone: 3"),
        ("single-numa-node", 5, "most in one zone of an empty node: 4; impossible on this kind of node"),
        ("restricted", 4, "restricted: 4 nvidia.com/gpu asked, most free in one zone: 3"),
        (
            "restricted",
            6,
            "not to be had in the same zones: 4 cpu and 1 GiB of memory in 1 zone, 6 nvidia.com/gpu in 2",
        ),
        ("best-effort", 6, ""),
        ("none", 6, ""),
    ],
)
def test_each_policy_answers_as_its_kubelet_would(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked, policy: str, gpus: int, answer: str
) -> None:
    checks = make_checks()
    assert checks.set_topology("n", make_topology("n", TWO, policy=policy)) == ""
    checked = checks.check(asked(make_pod("p", 4, gpus)), ["n"], 0.0)
    reasons = {**checked.failed, **checked.unresolvable}
    assert (reasons != {}) == (answer != "")
    assert answer in reasons.get("n", "")


def test_restricted_takes_two_zones_where_everything_needs_two(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked
) -> None:
    checks = make_checks()
    checks.set_topology("n", make_topology("n", [{"cpu": (48, 46, 40), GPU: (4, 4, 3)}] * 2, policy="restricted"))
    assert checks.check(asked(make_pod("six", 60, 6)), ["n"], 0.0) == FREE
    eight = checks.check(asked(make_pod("eight", 60, 8)), ["n"], 0.0)
    assert "8 nvidia.com/gpu asked, most free in 2 zones together: 6" in eight.failed["n"]


def test_scope_pod_wants_one_zone_for_all_containers_and_scope_container_one_for_each(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked
) -> None:
    pod = asked(make_pod("p", [30, 30], memory="1Gi"))
    by_scope = {}
    for scope in ("container", "pod"):
        checks = make_checks()
        checks.set_topology("n", make_topology("n", TWO, scope=scope))
        by_scope[scope] = checks.check(pod, ["n"], 0.0)
    assert by_scope["container"] == FREE
    assert "60 cpu asked" in by_scope["pod"].unresolvable["n"]


def test_cpus_and_gpus_that_are_free_in_different_zones_are_told_together(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked
) -> None:
    zones = [{"cpu": (48, 46, 2), GPU: (4, 4, 4)}, {"cpu": (48, 46, 46), GPU: (4, 4, 0)}]
    checks = make_checks()
    checks.set_topology("n", make_topology("n", zones))
    checked = checks.check(asked(make_pod("p", 8, 2)), ["n"], 0.0)
    assert checked.failed == {"n": "zones: single-numa-node: no one zone has all of 8 cpu and 2 nvidia.com/gpu"}


def test_the_deprecated_names_of_policies_are_understood(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked
) -> None:
    checks = make_checks()
    value = msgspec.json.decode(make_topology("n", TWO))
    del value["attributes"]
    value["topologyPolicies"] = ["SingleNUMANodePodLevel"]
    assert checks.set_topology("n", msgspec.json.encode(value)) == ""
    assert checks.check(asked(make_pod("p", [30, 30])), ["n"], 0.0).unresolvable


@pytest.mark.parametrize("kept", [True, False])
def test_numbers_that_were_written_by_hand_are_not_trusted(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked, kept: bool
) -> None:
    managers = [{"manager": "kubectl-client-side-apply"}, *(BY_EXPORTER["managedFields"] if kept else [])]
    data = make_topology("n", TWO, metadata={"managedFields": managers})
    refusing, skipping = make_checks(), make_checks(unowned="skip")
    refusing.set_topology("n", data)
    skipping.set_topology("n", data)
    pod = asked(make_pod("p"))
    refused = refusing.check(pod, ["n"], 0.0).failed
    assert skipping.check(pod, ["n"], 0.0) == FREE
    assert list(refused) == ([] if kept else ["n"])
    assert kept or "nobody keeps up this NodeResourceTopology" in refused["n"]


@pytest.mark.parametrize("ended", [False, True])
def test_a_fingerprint_tells_which_pods_the_numbers_count(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked, ended: bool
) -> None:
    """One zone of four GPUs, three pods of one each: those that are counted are taken off already."""
    pods = [make_pod(f"p{i}", 4, 1, node="n", phase="Pending") for i in range(3)]
    old = make_pod("old", 4, 1, node="n")
    for counted in range(4):
        names = [("ml", pod.metadata.name) for pod in pods[:counted]] + ([("ml", "old")] if ended else [])
        zone = {"cpu": (48, 46, 46 - 4 * counted), GPU: (4, 4, 4 - counted)}
        checks = make_checks()
        signature = {"nodeTopologyPodsFingerprint": fingerprint(names)}
        checks.set_topology("n", make_topology("n", [zone], attributes=signature))
        checks.set_pod(old)
        for pod in pods:
            checks.set_pod(pod)
        checks.set_pod(make_pod("old", 4, 1, node="n", phase="Succeeded"))
        assert checks.check(asked(make_pod("last", 4, 1)), ["n"], 0.0) == FREE, counted
        refused = checks.check(asked(make_pod("more", 4, 2)), ["n"], 0.0).failed
        assert "most free in one zone: 1" in refused["n"], counted


def test_pods_that_the_numbers_cannot_count_yet_are_added(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked
) -> None:
    one = [{"cpu": (48, 46, 46), GPU: (4, 4, 4)}]
    before, after = "2027-01-15T07:59:00Z", "2027-01-15T08:00:01Z"
    answers = {}
    for start, phase in ((before, "Running"), (after, "Running"), (None, "Pending")):
        checks = make_checks()
        checks.set_topology("n", make_topology("n", one, metadata=BY_EXPORTER))
        checks.set_pod(make_pod("p", 4, 1, node="n", phase=phase, start=start))
        answers[start] = checks.check(asked(make_pod("q", 4, 4)), ["n"], UPDATED).failed == {}
    assert answers == {before: True, after: False, None: False}


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (lambda v: v.update(zones=[]), "zones"),
        (lambda v: v["zones"][0].pop("name"), "zones[0].name"),
        (lambda v: v["zones"][1].update(name="node-0"), "two of one name"),
        (lambda v: v["zones"][0]["resources"][0].update(available="-1"), "available"),
        (lambda v: v["zones"][0]["resources"][0].update(capacity="9" * 30), "capacity"),
        (lambda v: v["zones"][0]["resources"].append(v["zones"][0]["resources"][0]), "given twice"),
        (lambda v: v["zones"][0]["resources"][0].update(capacity="70000", allocatable="70000"), "CPUs"),
        (lambda v: v["zones"][0]["resources"][2].update(capacity="70000"), "devices"),
        (lambda v: v["attributes"][0].update(value="strict"), "topologyManagerPolicy"),
        (lambda v: v.update(apiVersion="v1"), "apiVersion"),
        (lambda v: v.update(topologyPolicies=["Other"]), "topologyPolicies"),
    ],
)
def test_numbers_that_no_node_has_say_where(make_checks: Make, make_topology: Make, damage: Make, place: str) -> None:
    value = msgspec.json.decode(make_topology("n", [dict(zone) for zone in TWO]))
    damage(value)
    assert place in make_checks().set_topology("n", msgspec.json.encode(value))


_COUNTS = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({"cpu": _COUNTS, GPU: _COUNTS, "memory": _COUNTS}), min_size=1, max_size=4))
def test_a_rebuilt_node_has_free_what_the_numbers_say_is_available(
    zones: list[dict[str, tuple[int, int, int]]],
) -> None:
    def resources(zone: dict[str, tuple[int, int, int]]) -> list[dict[str, Any]]:
        parts = ("capacity", "allocatable", "available")
        return [{"name": name, **dict(zip(parts, amounts, strict=True))} for name, amounts in zone.items()]

    topology = topology_from(
        Fields(
            {
                "apiVersion": "topology.node.k8s.io/v1alpha2",
                "kind": "NodeResourceTopology",
                "metadata": {"name": "n"},
                "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
                "zones": [
                    {"name": f"node-{i}", "type": "Node", "resources": resources(zone)} for i, zone in enumerate(zones)
                ],
            }
        )
    )
    machine, management, held = rebuild(topology)
    policy = KubeletPolicy(
        machine, NodeSetup(configuration=management.configuration, devices=management.devices, exact=False)
    )
    memo = policy.restore({held.pod.uid: held.pod}, {held.pod.uid: held.grants}).memo
    room = free_by_node(policy.kubelet, memo.state)
    for name in ("cpu", GPU, "memory"):
        expected = {i: min(zone[name]) for i, zone in enumerate(zones)}
        assert {i: room.get(name, {}).get(i, 0) for i in expected} == expected


_ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["1e3", "-1", "9Ei", "0", "5m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inside for place in _places(one, (*path, key)))]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_numbers_with_anything_in_any_place_are_used_or_refused_in_words(
    make_checks: Make, make_topology: Make, make_pod: Make, asked: Asked, data: st.DataObject
) -> None:
    zones = [
        {"cpu": (8, 7, 6), "memory": ("8Gi", "7Gi", "6Gi"), "hugepages-2Mi": ("4Mi", "4Mi", "2Mi"), GPU: (2, 2, 1)}
    ]
    value = msgspec.json.decode(make_topology("n", zones * 2, metadata=BY_EXPORTER))
    place = data.draw(st.sampled_from([place for place in _places(value) if place]))
    target = value
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = data.draw(_ANY)
    checks = make_checks(missing="refuse")
    problem = checks.set_topology("n", value)
    assert problem.isprintable()
    refused = checks.check(asked(make_pod("p", 20)), ["n"], 0.0)
    assert {**refused.failed, **refused.unresolvable}.keys() == {"n"}

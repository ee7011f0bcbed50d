"""Where a real kubelet misbehaves, exact mode says so by name; safe mode does not do such a thing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.hub.hub import Hub
from bayplan.policies.kubelet.notices import defects, walking
from bayplan.policies.kubelet.policy import KubeletPolicy
from bayplan.policies.kubelet.settings import (
    ALIGN_L3,
    ALIGN_SOCKET,
    DISTRIBUTE_NODES,
    FULL_CORES,
    SPREAD_CORES,
    STRICT_RESERVATION,
    StartError,
)
from bayplan.resources.decision import Decision

OPTIONS = (FULL_CORES, DISTRIBUTE_NODES, ALIGN_SOCKET, SPREAD_CORES, STRICT_RESERVATION, ALIGN_L3)
Build = Any
"""The class of that name in conftest.py."""


def warned(decision: Decision) -> list[str]:
    return [notice.name for notice in decision.warnings]


def test_a_socket_smaller_than_a_core_should_be_takes_a_reserved_cpu(build: Build) -> None:
    machine = build.machine([2, 1, 1])
    decision = build.hub(machine, exact=True).admit(build.guaranteed("a", 2))
    assert warned(decision) == ["kubelet-reserved-grant"]
    assert "reserved CPUs 0 to default/a, container main" in decision.warnings[0].message
    assert decision.admitted
    assert str(decision.grants[0].exclusive) == "0-1"
    safe = build.hub(machine).admit(build.guaranteed("a", 2))
    assert warned(safe) == []
    assert str(safe.grants[0].exclusive) == "2-3"


def test_a_hybrid_core_is_handed_out_twice(build: Build) -> None:
    machine = build.machine([1, 1, 2, 1, 2])
    hub = build.hub(machine, exact=True)
    first, second, third = (hub.admit(build.guaranteed(name, n)) for name, n in (("a", 1), ("b", 2), ("c", 2)))
    assert warned(first) == warned(second) == []
    assert str(second.grants[0].exclusive) == "2,4"
    assert str(third.grants[0].exclusive) == "2-3"
    assert warned(third) == ["kubelet-double-grant"]
    assert "CPUs 2 to default/c, container main, exclusive as they are to default/b/main" in third.warnings[0].message
    safe = build.hub(machine)
    taken = [safe.admit(build.guaranteed(name, n)) for name, n in (("a", 1), ("b", 2), ("c", 2))]
    assert [str(d.grants[0].exclusive) for d in taken] == ["1", "2,4", "5-6"]
    safe.check()


def test_a_core_is_handed_out_twice_within_a_pod(build: Build) -> None:
    containers = [build.container(name, cpus=n) for name, n in (("a", 1), ("b", 2), ("c", 2))]
    machine = build.machine([1, 1, 2, 1, 2])
    decision = build.hub(machine, exact=True).admit(build.pod("p", *containers))
    assert warned(decision) == ["kubelet-double-grant"]
    assert "CPUs 2 to default/p, container c, exclusive as they are to default/p/b" in decision.warnings[0].message
    assert build.hub(machine).admit(build.pod("p", *containers)).warnings == ()


def test_the_kubelet_hangs_and_later_pods_are_refused(build: Build) -> None:
    machine = build.machine(*[[2, 2, 2]] * 4)
    node = {"options": [FULL_CORES, DISTRIBUTE_NODES], "reserved": "0,6,12,18"}
    hub = build.hub(machine, exact=True, **node)
    assert hub.admit(build.burstable("before")).admitted
    for name, pod in (("a", build.guaranteed("a", 14)), ("b", build.burstable("b")), ("c", build.guaranteed("c", 2))):
        decision = hub.admit(pod)
        assert warned(decision) == ["kubelet-hangs"], name
        assert decision.refusal is not None
        assert decision.refusal.reason == "KubeletHangs"
        assert decision.refusal.rule == "kubelet/kubelet-hangs"
        assert "nothing more is admitted" in decision.warnings[0].message
        assert hub.advise(pod, decision.refusal).remedies == (
            "cpuManagerPolicyOptions without distribute-cpus-across-numa",
            "cpuManagerPolicyOptions without full-pcpus-only, so that leftovers need not be whole cores",
            "then restart the kubelet",
        )
    assert list(hub.ledger.pods) == ["before"]
    safe = build.hub(machine, **node).admit(build.guaranteed("a", 14))
    assert len(safe.grants[0].exclusive) == 14


def test_the_kubelet_leaves_containers_without_any_cpu(build: Build) -> None:
    hub = build.hub(build.machine([2, 2]), exact=True, options=[STRICT_RESERVATION], limited=False)
    hub.admit(build.burstable("a"))
    decision = hub.admit(build.guaranteed("b", 3))
    assert warned(decision) == ["kubelet-empty-pool"]
    assert "default/a, container main" in decision.warnings[0].message


def test_other_than_the_asked_number_of_cpus_is_named(build: Build) -> None:
    hub = build.hub(build.machine([2, 2]), exact=True)
    policy: KubeletPolicy = hub.policy
    pod = build.guaranteed("a", 2)
    before = policy.kubelet.start()
    after = before.copy()
    after.assigned = {"a": {"main": 0b1000}}
    (notice,) = defects(policy.kubelet, before, after, pod)
    assert notice.name == "kubelet-wrong-size"
    assert "1 exclusive CPUs to default/a, container main, which asks for 2" in notice.message


def test_a_walk_over_many_nodes_is_named(build: Build) -> None:
    policy: KubeletPolicy = build.hub(build.machine([1], [1]), topology="restricted").policy
    assert walking(policy.kubelet, 10) == ()
    assert [notice.name for notice in walking(policy.kubelet, 11)] == ["kubelet-walks-all-masks"]
    without: KubeletPolicy = build.hub(build.machine([1], [1])).policy
    assert walking(without.kubelet, 64) == ()


def some_node(build: Build, rng: random.Random, *, exact: bool) -> Hub:
    """An uneven machine under any options that go together."""
    machine = build.uneven(rng)
    online = list(machine.online)
    for _ in range(200):
        reserved = sorted(rng.sample(online, rng.randint(1, max(1, len(online) // 3))))
        try:
            hub: Hub = build.hub(
                machine,
                exact=exact,
                options=[name for name in OPTIONS if rng.random() < 0.35],
                topology=rng.choice(["none", "best-effort", "restricted", "single-numa-node"]),
                scope=rng.choice(["container", "pod"]),
                reserved=",".join(map(str, reserved)),
                memory=rng.random() < 0.4,
                nics=[rng.choice([None, *range(len(machine.nodes))]) for _ in range(rng.randint(0, 4))],
                limited=False,
            )
        except StartError:
            continue
        return hub
    raise AssertionError("no configuration starts")


def some_arrivals(hub: Hub, build: Build, rng: random.Random, number: int) -> None:
    """Pods come and go; what is admitted is right."""
    most = max(1, len(hub.machine.online) // 2)
    for i in range(number):
        if hub.ledger.pods and rng.random() < 0.35:
            hub.release(rng.choice(list(hub.ledger.pods)))
            continue
        sizes = [rng.randint(1, most) for _ in range(rng.choice([1, 1, 2]))]
        containers = [
            build.container(f"c{k}", cpus=n, nics=rng.choice([0, 0, 1]), init=k == 0 and len(sizes) > 1)
            for k, n in enumerate(sizes)
        ]
        pod = build.pod(f"p{i}", *containers) if rng.random() < 0.9 else build.burstable(f"p{i}")
        decision = hub.admit(pod)
        assert decision.warnings == ()
        if decision.admitted:
            assert [len(g.exclusive) for g in decision.grants] == (sizes if pod.qos == "Guaranteed" else [0])
            assert all(hub.policy.reserved.isdisjoint(g.exclusive) for g in decision.grants)
        else:
            assert decision.refusal is not None
            assert decision.refusal.reason not in ("ResourceConflict", "KubeletHangs", "KubeletPanic")
        hub.check()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_safe_mode_never_does_such_a_thing_on_uneven_machines(seed: int, build: Build) -> None:
    rng = random.Random(seed)
    some_arrivals(some_node(build, rng, exact=False), build, rng, 14)


@pytest.mark.long
@given(seed=st.integers(0, 2**32))
@settings(max_examples=5000, deadline=None)
def test_safe_mode_never_does_such_a_thing_however_long_it_is_tried(seed: int, build: Build) -> None:
    rng = random.Random(seed)
    some_arrivals(some_node(build, rng, exact=False), build, rng, 30)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_exact_mode_warns_whenever_a_cpu_is_given_that_is_not_free(seed: int, build: Build) -> None:
    rng = random.Random(seed)
    hub = some_node(build, rng, exact=True)
    held = hub.policy.reserved
    for i in range(5):
        decision = hub.admit(build.guaranteed(f"p{i}", rng.randint(1, max(1, len(hub.machine.online) // 2))))
        if not decision.admitted:
            continue
        own = decision.grants[0].exclusive
        told = {"kubelet-double-grant", "kubelet-reserved-grant"} & {*warned(decision)}
        assert bool(told) == (not own.isdisjoint(held))
        held |= own

"""Long random histories on one machine: whatever happens, the ledger stays true.

A history is drawn from a seed: a machine, a kubelet configuration that starts, and a row of pods that come, start
containers, change size, go, and of node agents that restart. After every step the invariants of `true_ledger` hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.files import open_tree
from bayplan.files.presets import load_preset
from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import HugepagePool, Machine, MemoryNode
from bayplan.machine.sysfs import read
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.allocatable import node_allocatable
from bayplan.policies.kubelet.configuration import KubeletConfiguration, ReservedMemory
from bayplan.policies.kubelet.settings import (
    ALIGN_L3,
    ALIGN_SOCKET,
    DISTRIBUTE_NODES,
    FULL_CORES,
    SPREAD_CORES,
    STRICT_RESERVATION,
    StartError,
)
from bayplan.policies.kubelet.setup import offered_devices
from bayplan.policies.kubelet.state import State
from bayplan.policies.policy import NodeSetup
from bayplan.resources.cpu import CpuResource
from bayplan.resources.decision import Decision, Grant
from bayplan.resources.devices import DeviceResource, DeviceUnit
from bayplan.resources.memory import MemoryResource
from bayplan.workload.model import Pod, PodResources, Request

MIB = 2**20
EVICTION = 100 * MIB
PRESETS = ["epyc-9654-nps4", "gb200-tray", "core-i9-14900k", "power9-ac922", "gh200", "dgx-h100", "xeon-max-9480-flat"]
REAL = ["16amd64-8n2c", "20em64t-hybrid-1p6c2t+2ca4co1t", "256ppc-8n8s4t", "256ia64-64n2s2c", "fakeheterocpunuma"]
ODD = ["8em64t-2s2ca2c-buggynuma", "nvidiagpunumanodes", "offline-cpu0-node0"]
CAPTURES = [
    *(f"sysfs/{name}.tar.bz2" for name in REAL + ODD),
    *(f"sysfs-made/{name}.tgz" for name in ("t1", "t3", "t4")),
]
CPU_OPTIONS = [FULL_CORES, DISTRIBUTE_NODES, ALIGN_SOCKET, SPREAD_CORES, STRICT_RESERVATION, ALIGN_L3]
Fresh = Callable[[], Hub]
GATES = {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True}


@pytest.mark.parametrize("preset", PRESETS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_the_ledger_stays_true_on_presets(preset: str, seed: int) -> None:
    live(load_preset(preset), random.Random(seed), steps=50)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=3, deadline=None)
def test_the_ledger_stays_true_on_64_nodes(seed: int) -> None:
    live(load_preset("superdome-flex-32s"), random.Random(seed), steps=25)


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_ledger_stays_true_on_captures(capture: str, shared_data: Path) -> None:
    machine = read(open_tree(shared_data / capture), source=capture)
    for seed in range(4):
        live(machine, random.Random(f"{capture} {seed}"), steps=30)


@pytest.mark.long
@pytest.mark.parametrize("preset", PRESETS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_the_ledger_stays_true_for_long(preset: str, seed: int) -> None:
    live(load_preset(preset), random.Random(seed), steps=120)


def live(machine: Machine, rng: random.Random, steps: int) -> None:
    """One history."""
    fresh = some_node(with_hugepages(machine, rng), rng)
    hub = fresh()
    for number in range(steps):
        hub = step(hub, fresh, rng, number)
        true_ledger(hub)
    for uid in list(hub.ledger.pods):
        hub.release(uid)
        true_ledger(hub)
    assert picture(hub) == picture(fresh())


def step(hub: Hub, fresh: Fresh, rng: random.Random, number: int) -> Hub:
    present = list(hub.ledger.pods)
    kind = rng.choices(["admit", "release", "resize", "start", "restore"], [48, 25, 9, 13, 5])[0]
    if kind == "admit" or not present:
        admit(hub, some_pod(hub, rng, f"pod-{number}"), rng)
        return hub
    uid = rng.choice(present)
    if kind == "release":
        hub.release(uid)
        assert uid not in hub.ledger.pods
    elif kind == "resize":
        resize(hub, resized(hub.ledger.pods[uid], rng))
    elif kind == "start":
        hub.started(uid, rng.choice(hub.ledger.pods[uid].all_containers).name)
    else:
        return restored(hub, fresh(), rng, number)
    return hub


def admit(hub: Hub, pod: Pod, rng: random.Random) -> None:
    before, free = picture(hub), hub.free()
    decision = hub.admit(pod)
    if not decision.admitted:
        assert decision.refusal is not None
        assert decision.refusal.reason != "ResourceConflict", "the policy proposed what cannot be"
        assert picture(hub) == before, "a refusal changed something"
        return
    right_grants(hub, pod, decision)
    right_effects(hub, decision)
    true_ledger(hub)
    if rng.random() < 0.3:
        after = picture(hub)
        for container in rng.sample(pod.all_containers, rng.randint(0, len(pod.all_containers))):
            hub.started(pod.uid, container.name)
        hub.release(pod.uid)
        assert picture(hub) == before, "not all came back"
        assert hub.free() == free
        assert hub.admit(pod) == decision, "the same question has the same answer"
        assert picture(hub) == after


def resize(hub: Hub, pod: Pod) -> None:
    before = picture(hub)
    decision = hub.resize(pod)
    if decision.admitted:
        assert hub.ledger.pods[pod.uid] == pod
        right_effects(hub, decision)
    else:
        assert picture(hub) == before, "a refusal changed something"


def restored(hub: Hub, other: Hub, rng: random.Random, number: int) -> Hub:
    """The other hub, empty yet, with what the first one had, once both were asked the same things."""
    other.restore(hub.ledger.entries())
    assert picture(other) == picture(hub)
    probe = some_pod(hub, rng, f"probe-{number}")
    entries = hub.ledger.entries()
    for _ in range(2):
        assert other.admit(probe) == hub.admit(probe)
        assert picture(other) == picture(hub)
        gone = rng.choice([entry.pod.uid for entry in entries])
        if gone in hub.ledger.pods:
            hub.release(gone)
            other.release(gone)
            assert picture(other) == picture(hub)
    return other if rng.random() < 0.5 else hub


def true_ledger(hub: Hub) -> None:
    """What must hold at any time."""
    hub.check()
    memo = hub.ledger.contents.memo
    state: State = memo.state
    exclusive: dict[str, int] = {}
    for uid in hub.ledger.pods:
        grants = hub.ledger.grants(uid)
        assert [g.container for g in grants] == [c.name for c in hub.ledger.pods[uid].all_containers]
        assert apart_within_pod(grants)
        for other, cpus in exclusive.items():
            assert not any(g.exclusive.mask & cpus for g in grants), f"{uid} and {other} share exclusive CPUs"
        exclusive[uid] = reduce(or_, (g.exclusive.mask for g in grants), 0)
        assert {g.container: g.exclusive.mask for g in grants if g.exclusive} == state.assigned.get(uid, {})
    held = reduce(or_, exclusive.values(), 0)
    reserved = hub.policy.reserved.mask
    (pool,) = hub.ledger.pools.values()
    assert not pool.mask & held
    assert not reserved & held
    assert pool.mask | held | reserved == hub.machine.online.mask
    assert hub.free()["cpu"] == 1000 * (len(hub.machine.online) - held.bit_count())
    for kind, amounts in state.reserved.items():
        blocks = [b for uid in hub.ledger.pods for g in hub.ledger.grants(uid) for b in g.memory if b.type == kind]
        assert sum(amounts) == sum(b.bytes for b in blocks), kind
        assert all(amount >= 0 for amount in amounts)


def right_grants(hub: Hub, pod: Pod, decision: Decision) -> None:
    """As many CPUs, devices and bytes as were asked."""
    kubelet = hub.policy.kubelet  # type: ignore[attr-defined]
    assert decision.grants == hub.ledger.grants(pod.uid)
    pinned = pod.qos == "Guaranteed" and pod.resources is None
    for container, grant in zip(pod.all_containers, decision.grants, strict=True):
        whole = pinned and kubelet.cpu_manager.active and container.cpu_milli % 1000 == 0
        assert len(grant.exclusive) == (container.cpu_milli // 1000 if whole else 0)
        assert bool(grant.exclusive) != bool(grant.pool)
        asked = {name: n for name, n in container.devices.items() if name in kubelet.device_manager.devices}
        assert {d.resource: len(set(d.ids)) for d in grant.devices} == asked
        held = {b.type: b.bytes for b in grant.memory}
        if not (pinned and kubelet.memory_manager.active):
            assert not held
        elif grant.ends:  # later containers of the pod go on with what init containers had
            assert all(0 <= size <= container.memory_types[kind] for kind, size in held.items())
        else:
            assert held == container.memory_types
    if pinned and kubelet.memory_manager.active:
        for kind in {k for c in pod.all_containers for k in c.memory_types}:
            there = sum(b.bytes for g in decision.grants for b in g.memory if b.type == kind)
            assert there >= pod.peak([c.memory_types.get(kind, 0) for c in pod.all_containers])


def right_effects(hub: Hub, decision: Decision) -> None:
    effects = hub.effects(decision)
    named = [e.container for e in effects if e.pod == decision.pod]
    assert named == [g.container for g in decision.grants]
    for effect in effects:
        assert effect.cpus, f"{effect.pod}/{effect.container} would have no CPU at all"
        assert effect.cpus <= hub.machine.online


def apart_within_pod(grants: tuple[Grant, ...]) -> bool:
    """Containers of a pod that run at the same time have no exclusive CPU in common."""
    together = 0
    for grant in grants:
        if grant.exclusive.mask & together:
            return False
        if not grant.ends:
            together |= grant.exclusive.mask
    return True


def picture(hub: Hub) -> dict[str, Any]:
    """All of a ledger, the policy's memory included, but for what a kubelet forgets when it restarts.

    That is what init containers of the last pod had left over, and which containers it has seen start.
    """
    contents = hub.ledger.contents
    passing = ("reusable_cpus", "reusable_memory", "reusable_devices", "started")
    state = contents.memo.state
    return {
        "pods": contents.pods,
        "grants": {uid: hub.ledger.grants(uid) for uid in contents.pods},
        "pools": contents.pools,
        "free": hub.free(),
        "used": contents.memo.used,
        "state": {name: getattr(state, name) for name in State.__slots__ if name not in passing},
        "cpus": contents.holdings["cpu"].union,
        "memory": contents.holdings["memory"],
        "devices": {key: [g.container for g in held] for key, held in contents.holdings["devices"].items()},
    }


# What histories are made of.


def some_node(machine: Machine, rng: random.Random) -> Fresh:
    """A way to make hubs, all alike, with the first random configuration with which the kubelet starts."""
    devices = some_devices(machine, rng)
    for _ in range(500):
        configuration = some_configuration(machine, rng)
        allocatable = node_allocatable(machine, configuration) if rng.random() < 0.7 else {}
        setup = NodeSetup(configuration=configuration, devices=devices, allocatable=allocatable)
        try:
            KubeletPolicy(machine, setup)
        except StartError:
            continue
        return partial(new_hub, machine, setup)
    raise AssertionError("no configuration starts")


def new_hub(machine: Machine, setup: NodeSetup) -> Hub:
    return Hub(machine, KubeletPolicy(machine, setup), [CpuResource(), MemoryResource(), DeviceResource()])


def some_configuration(machine: Machine, rng: random.Random) -> KubeletConfiguration:
    static = rng.random() < 0.85
    cpu_options = {name: "true" for name in CPU_OPTIONS if static and rng.random() < 0.25}
    topology_options = {"prefer-closest-numa-nodes": "true"} if rng.random() < 0.3 else {}
    reserved_memory = some_memory_reservation(machine, rng)
    total = sum(r.limits.get("memory", 0) for r in reserved_memory)
    cpus = list(machine.online)
    by_set = rng.random() < 0.5
    count = rng.randint(1, max(1, min(len(cpus) // 4, 8)))
    return KubeletConfiguration(
        cpu_manager_policy="static" if static else "none",
        cpu_manager_policy_options=cpu_options,
        topology_manager_policy=rng.choice(["none", "best-effort", "restricted", "single-numa-node"]),
        topology_manager_scope=rng.choice(["container", "pod"]),
        topology_manager_policy_options=topology_options,
        memory_manager_policy="Static" if rng.random() < 0.7 else "None",
        reserved_memory=reserved_memory,
        reserved_system_cpus=CpuSet(rng.sample(cpus, count)) if by_set else None,
        kube_reserved={} if by_set else {"cpu": rng.choice([count * 1000, count * 1000 - 500])},
        system_reserved={"memory": total - EVICTION} if total > EVICTION else {},
        feature_gates=GATES,
    )


def some_memory_reservation(machine: Machine, rng: random.Random) -> tuple[ReservedMemory, ...]:
    nodes = [n for n in machine.nodes if n.memory_bytes > 2 * EVICTION]
    if not nodes:
        return ()
    chosen = rng.sample(nodes, rng.randint(1, min(3, len(nodes))))
    return tuple(
        ReservedMemory(node=n.id, limits={"memory": rng.randint(EVICTION, max(EVICTION, n.memory_bytes // 8))})
        for n in chosen
    )


def with_hugepages(machine: Machine, rng: random.Random) -> Machine:
    """The machine with huge pages on some nodes that have none."""
    if rng.random() < 0.5:
        return machine

    def filled(node: MemoryNode) -> MemoryNode:
        if rng.random() < 0.4 or node.hugepages or node.memory_bytes < 2**30:
            return node
        pools = [HugepagePool(page_bytes=2 * MIB, count=rng.randint(0, node.memory_bytes // (8 * MIB)))]
        if rng.random() < 0.5:
            pools.append(HugepagePool(page_bytes=2**30, count=rng.randint(0, node.memory_bytes // 2**32)))
        return msgspec.structs.replace(node, hugepages=tuple(pools))

    return msgspec.structs.replace(machine, nodes=tuple(filled(n) for n in machine.nodes))


def some_devices(machine: Machine, rng: random.Random) -> dict[str, tuple[DeviceUnit, ...]]:
    offered = offered_devices(machine)
    ids = [n.id for n in machine.nodes]
    for name in ("example.com/nic", "example.com/fpga"):
        units = []
        for i in range(rng.randint(0, 8)):
            where = None if rng.random() < 0.2 else NodeSet(rng.sample(ids, min(len(ids), rng.choice([1, 1, 1, 2, 3]))))
            units.append(DeviceUnit(id=f"{name[-4:]}{i}", nodes=where, healthy=rng.random() < 0.9))
        if units:
            offered[name] = tuple(units)
    return offered


def some_pod(hub: Hub, rng: random.Random, uid: str) -> Pod:
    machine = hub.machine
    kubelet = hub.policy.kubelet  # type: ignore[attr-defined]
    qos = rng.choices(["Guaranteed", "Burstable", "BestEffort"], [8, 2, 1])[0]
    scale = rng.choice([1, 1, 1, 2, 8])

    def container(name: str, *, init: bool = False, restartable: bool = False) -> Request:
        top = max(1, len(machine.online) * scale // 24)
        cpu = rng.randint(1, top) * 1000 if rng.random() < 0.85 else rng.randint(1, 5000)
        memory = rng.randint(1, max(1, machine.memory_bytes * scale // (24 * MIB))) * MIB
        sizes = sorted({p.page_bytes for n in machine.nodes for p in n.hugepages})
        pages = {p: p * rng.randint(1, 200) for p in sizes if rng.random() < 0.25}
        devices = {d: rng.randint(1, 3) for d in kubelet.device_manager.devices if rng.random() < 0.15}
        if qos == "BestEffort":
            return Request(name=name, init=init, restartable=restartable, devices=devices)
        asked = Request(name=name, cpu_milli=cpu, memory_bytes=memory, hugepages=pages, devices=devices)
        if qos == "Guaranteed":
            asked = msgspec.structs.replace(asked, cpu_limit_milli=cpu, memory_limit_bytes=memory)
        return msgspec.structs.replace(asked, init=init, restartable=restartable)

    inits = rng.choice([0, 0, 0, 1, 2, 3])
    whole = None
    if rng.random() < 0.05:
        whole = PodResources(cpu_milli=4000, cpu_limit_milli=4000, memory_bytes=MIB, memory_limit_bytes=MIB)
    return Pod(
        uid=uid,
        name=uid,
        init=tuple(container(f"init-{i}", init=True, restartable=rng.random() < 0.35) for i in range(inits)),
        containers=tuple(container(f"c-{i}") for i in range(rng.choice([1, 1, 2, 3]))),
        resources=whole,
    )


def resized(pod: Pod, rng: random.Random) -> Pod:
    """The pod with other amounts of CPU and memory; now and then something that nobody may change."""

    def other(c: Request) -> Request:
        if rng.random() < 0.3:
            return c
        cpu = max(0, c.cpu_milli + rng.choice([-1000, -100, 0, 100, 1000, 10**6]))
        memory = max(0, c.memory_bytes + rng.choice([-MIB, 0, MIB, 2**40]))
        return msgspec.structs.replace(
            c,
            cpu_milli=cpu,
            cpu_limit_milli=None if c.cpu_limit_milli is None else cpu,
            memory_bytes=memory,
            memory_limit_bytes=None if c.memory_limit_bytes is None else memory,
        )

    containers = tuple(other(c) for c in pod.containers)
    if rng.random() < 0.1:
        containers = (*containers, Request(name="more"))
    if rng.random() < 0.1:
        containers = tuple(msgspec.structs.replace(c, cpu_limit_milli=None) for c in containers)
    return msgspec.structs.replace(pod, containers=containers)

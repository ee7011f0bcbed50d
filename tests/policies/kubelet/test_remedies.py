"""A refusal says what would have to change, and each remedy is true: applied, it has the pod admitted."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.hub.hub import Hub
from bayplan.machine import Machine
from bayplan.policies.kubelet.settings import ALIGN_L3, DISTRIBUTE_NODES, FULL_CORES, STRICT_RESERVATION, StartError
from bayplan.workload.model import Pod, Request
from bayplan.workload.totals import pod_totals

MIB, GIB = 2**20, 2**30
Build = Any
"""The class of that name in conftest.py."""


@pytest.fixture(scope="module")
def two(build: Build) -> Machine:
    """Two nodes of four cores of two threads, 16 GiB and 512 pages of 2 MiB each."""
    machine: Machine = build.machine([2] * 4, [2] * 4, hugepages=512)
    return machine


def remedies(hub: Hub, pod: Pod) -> tuple[str, ...]:
    decision = hub.admit(pod)
    assert decision.refusal is not None
    assert decision.refusal.remedies == (), "remedies take their time and are looked for when asked for"
    before = hub.ledger.contents
    advised = hub.advise(pod, decision.refusal)
    assert hub.ledger.contents is before
    assert msgspec.structs.replace(advised, remedies=()) == decision.refusal
    return advised.remedies


def test_too_many_cpus_for_one_node(build: Build, two: Machine) -> None:
    hub = build.hub(two, topology="single-numa-node")
    assert remedies(hub, build.guaranteed("a", 10)) == (
        "container main: 8 CPUs instead of 10 would fit",
        "topologyManagerPolicy restricted instead of single-numa-node would admit it here",
    )


def test_an_odd_number_of_threads(build: Build, two: Machine) -> None:
    hub = build.hub(two, options=["full-pcpus-only"])
    assert remedies(hub, build.guaranteed("a", 3)) == (
        "container main: ask for 4 or 2 CPUs, a multiple of the 2 threads of a core",
    )
    assert remedies(hub, build.guaranteed("a", 15)) == (
        "container main: ask for 14 CPUs, a multiple of the 2 threads of a core",
    )
    assert remedies(hub, build.guaranteed("a", 16)) == ("container main: 14 CPUs instead of 16 would fit",)


def test_others_are_in_the_way(build: Build, two: Machine) -> None:
    hub = build.hub(two)
    hub.admit(build.guaranteed("a", 10))
    assert remedies(hub, build.guaranteed("b", 10)) == (
        "container main: 5 CPUs instead of 10 would fit",
        "it fits on this node when it is empty: move pods away from it, or the pod elsewhere",
    )
    assert remedies(hub, build.guaranteed("b", 16))[-1] == "it does not fit on this node even when it is empty"


def test_too_much_memory(build: Build, two: Machine) -> None:
    hub = build.hub(two, memory=True, limited=False)
    free = 30 * GIB - GIB
    assert remedies(hub, build.guaranteed("a", 1, 40 * GIB)) == (
        f"container main: {free // MIB}Mi of memory (29 GiB) instead of 40 GiB would fit",
    )


def test_too_many_devices(build: Build, two: Machine) -> None:
    hub = build.hub(two, nics=[0])
    assert remedies(hub, build.guaranteed("a", 1, nics=3)) == (
        "container main: 1 instead of 3 example.com/nic would fit",
    )


def test_a_request_for_a_million_million_devices_is_not_tried_one_by_one(build: Build, two: Machine) -> None:
    hub = build.hub(two, nics=[0, 0, 0])
    assert remedies(hub, build.guaranteed("a", 1, nics=10**12)) == (
        f"container main: 3 instead of {10**12} example.com/nic would fit",
    )


def test_too_many_huge_pages(build: Build, two: Machine) -> None:
    hub = build.hub(two)
    pod = build.pod("a", build.container(huge=2000 * 2 * MIB))
    assert remedies(hub, pod) == ("container main: 1024 instead of 2000 pages of hugepages-2Mi would fit",)


def test_too_much_cpu_that_is_shared(build: Build, two: Machine) -> None:
    hub = build.hub(two)
    assert remedies(hub, build.burstable("a", 20_500)) == ("container main: 15000m of CPU instead of 20500m would fit",)


def test_too_many_pods(build: Build, two: Machine) -> None:
    hub = build.hub(two, max_pods=1)
    hub.admit(build.burstable("a"))
    assert remedies(hub, build.burstable("b")) == (
        "it fits on this node when it is empty: move pods away from it, or the pod elsewhere",
    )


def test_nothing_helps(build: Build) -> None:
    hub = build.hub(build.machine([1]), options=[STRICT_RESERVATION], reserved="0", cpu_policy="static", limited=False)
    assert remedies(hub, build.burstable("a")) == (
        "nothing that was tried helps: this machine, so configured, cannot hold the pod",
    )


# Every remedy is carried out.


def applied(remedy: str, node: dict[str, Any], build: Build, machine: Machine, hub: Hub, pod: Pod) -> Iterator[bool]:
    """Whether the pod is admitted once the remedy is carried out, for every way of doing it that the text names."""
    found = re.fullmatch(r"topologyManagerPolicy (\S+) instead of \S+ would admit it here", remedy)
    if found:
        other = build.hub(machine, **{**node, "topology": found[1]})
        other.restore(hub.ledger.entries())
        yield other.admit(pod).admitted
    elif remedy.startswith("it fits on this node when it is empty"):
        yield build.hub(machine, **node).admit(pod).admitted
    elif remedy == "it does not fit on this node even when it is empty":
        yield not build.hub(machine, **node).admit(pod).admitted
    elif found := re.fullmatch(r"ask for at most (\S+) of pods in all, .*", remedy):
        yield int(found[1]) < 1
    elif remedy.startswith("ask for at most"):
        yield pod_totals(pod).keys() >= {remedy.split(" of ")[1].split(" in all")[0]}
    elif not remedy.startswith("nothing that was tried helps"):
        for smaller in changed(remedy, pod):
            # In its exact mode even a pod that comes and goes, or is refused, leaves traces.
            before = hub.ledger.contents
            yield hub.admit(smaller).admitted
            hub.ledger.contents = before


def changed(remedy: str, pod: Pod) -> Iterator[Pod]:
    """The pod as a remedy would have it."""
    name, _, text = remedy.removeprefix("container ").partition(": ")
    container = next(c for c in pod.all_containers if c.name == name)
    for pattern, field in (
        (r"(\d+) CPUs instead of .*", "cpu"),
        (r"ask for (\d+)(?: or (\d+))? CPUs, a multiple .*", "cpu"),
        (r"(\d+)m of CPU instead of .*", "milli"),
        (r"(\d+)Mi of memory .*", "memory"),
        (r"(\d+) instead of \d+ pages of hugepages-2Mi would fit", "pages"),
        (r"(\d+) instead of \d+ example.com/nic would fit", "nics"),
    ):
        found = re.fullmatch(pattern, text)
        if found:
            for amount in filter(None, found.groups()):
                yield with_container(pod, container, with_amount(container, field, int(amount)))
            return
    raise AssertionError(f"no such remedy: {remedy}")


def with_amount(c: Request, field: str, amount: int) -> Request:
    if field in ("cpu", "milli"):
        milli = amount * (1000 if field == "cpu" else 1)
        return msgspec.structs.replace(c, cpu_milli=milli, cpu_limit_milli=c.cpu_limit_milli and milli)
    if field == "memory":
        size = amount * MIB
        return msgspec.structs.replace(c, memory_bytes=size, memory_limit_bytes=c.memory_limit_bytes and size)
    if field == "pages":
        return msgspec.structs.replace(c, hugepages={2 * MIB: amount * 2 * MIB})
    return msgspec.structs.replace(c, devices={"example.com/nic": amount} if amount else {})


def with_container(pod: Pod, old: Request, new: Request) -> Pod:
    def swapped(containers: tuple[Request, ...]) -> tuple[Request, ...]:
        return tuple(new if c.name == old.name else c for c in containers)

    return msgspec.structs.replace(pod, init=swapped(pod.init), containers=swapped(pod.containers))


def some_pod(build: Build, rng: random.Random, uid: str, machine: Machine) -> Pod:
    most = len(machine.online)

    def container(name: str, *, init: bool = False) -> Request:
        asked: Request = build.container(
            name,
            cpus=rng.choice([rng.randint(1, most), rng.randint(1, 3), rng.randint(1, 4) + 0.5]),
            memory=rng.choice([MIB, GIB, rng.randint(1, 40) * GIB]),
            nics=rng.choice([0, 0, 1, 3]),
            huge=rng.choice([0, 0, rng.randint(1, 1500) * 2 * MIB]),
            init=init,
        )
        return asked

    containers = [container(f"c{i}") for i in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.3:
        containers.insert(0, container("init", init=True))
    pod: Pod = build.pod(uid, *containers)
    if rng.random() < 0.2:
        plain = tuple(msgspec.structs.replace(c, cpu_limit_milli=None) for c in pod.containers)
        pod = msgspec.structs.replace(pod, containers=plain)
    return pod


@pytest.mark.parametrize("exact", [False, True])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_every_remedy_is_true(exact: bool, seed: int, build: Build) -> None:
    rng = random.Random(seed)
    machine = build.machine(*[[2] * rng.randint(1, 4)] * rng.randint(1, 3), hugepages=512)
    node = {
        "exact": exact,
        "topology": rng.choice(["none", "best-effort", "restricted", "single-numa-node"]),
        "scope": rng.choice(["container", "pod"]),
        "memory": rng.random() < 0.5,
        "options": rng.choice([[], [FULL_CORES], [DISTRIBUTE_NODES], [STRICT_RESERVATION], [ALIGN_L3]]),
        "nics": [rng.choice([None, *range(len(machine.nodes))]) for _ in range(rng.randint(0, 4))],
        "limited": rng.random() < 0.6,
    }
    try:
        hub = build.hub(machine, **node)
    except StartError:
        return
    for number in range(6):
        pod = some_pod(build, rng, f"pod-{number}", machine)
        decision = hub.admit(pod)
        if decision.refusal is None:
            continue
        told = hub.advise(pod, decision.refusal).remedies
        assert told
        for remedy in told:
            for holds in applied(remedy, node, build, machine, hub, pod):
                assert holds, remedy

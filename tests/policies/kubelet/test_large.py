"""Many nodes, and devices that each sit on several of them: an answer comes, and what it promises is there."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet, NodeSet
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.configuration import KubeletConfiguration
from bayplan.policies.kubelet.hints import Cover, Hints, Sum, Up
from bayplan.policies.kubelet.subsets import Budget, best_subset
from bayplan.policies.policy import NodeSetup
from bayplan.resources.cpu import CpuResource
from bayplan.resources.devices import DeviceResource, DeviceUnit
from bayplan.resources.memory import MemoryResource

Build = Any
"""The class of that name in conftest.py."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("topology", ["best-effort", "restricted", "single-numa-node"])
def test_devices_that_sit_anywhere_on_64_nodes_are_answered(seed: int, topology: str, build: Build) -> None:
    rng = random.Random(seed)
    machine = build.machine(*[[2] * rng.randint(2, 9) for _ in range(64)])
    units = tuple(
        DeviceUnit(id=f"nic{i}", nodes=NodeSet(rng.sample(range(64), rng.choice([1, 1, 2, 3])))) for i in range(100)
    )
    configuration = KubeletConfiguration(
        cpu_manager_policy="static", topology_manager_policy=topology, reserved_system_cpus=CpuSet([0])
    )
    setup = NodeSetup(configuration=configuration, devices={build.nic: units})
    hub = Hub(machine, KubeletPolicy(machine, setup), [CpuResource(), MemoryResource(), DeviceResource()])
    for i in range(8):
        nics = rng.randint(1, 60)
        decision = hub.admit(build.guaranteed(f"p{i}", rng.randint(1, 200), nics=nics))
        if decision.admitted:
            (given,) = decision.grants[0].devices
            assert len({*given.ids}) == nics
        hub.check()


def some_cover(rng: random.Random, width: int) -> Up:
    """Things on two or three nodes each, three quarters of which have to be touched."""
    groups = [(sum(1 << i for i in rng.sample(range(width), rng.choice([2, 3]))), 1) for _ in range(2 * width)]
    return Up((1 << width) - 1, [Cover(groups, len(groups) * 3 // 4, width), Sum([1] * width, 3)])


def test_what_is_taken_for_the_narrowest_is_a_member_of_its_size() -> None:
    for seed in range(2):
        up = some_cover(random.Random(seed), 48)
        size = up.narrowest()
        assert size is not None
        mask = up.smallest(size)
        assert mask is not None
        assert mask.bit_count() == size
        assert up.accepts(mask)
        assert Hints(up, preferred_size=size).narrowest == size


def test_small_machines_are_searched_to_the_end() -> None:
    for seed in range(30):
        up = some_cover(random.Random(seed), 9)
        members = [mask for mask in range(1, 1 << 9) if up.accepts(mask)]
        size = min(mask.bit_count() for mask in members)
        assert up.narrowest() == size
        assert up.smallest(size) == min(mask for mask in members if mask.bit_count() == size)


class _Counted(Up):
    """Counts the branches that a search looks at."""

    looked = 0

    def possible(self, chosen: int, lower: int, count: int) -> bool:
        self.looked += 1
        return super().possible(chosen, lower, count)


def test_a_search_looks_at_no_more_branches_than_its_budget_has() -> None:
    up = some_cover(random.Random(0), 48)
    counted = _Counted(up.universe, up.conditions)
    size = up.narrowest() or 0
    budget = Budget(48)
    budget.left = 3
    found = best_subset(up.universe, 0, size, counted, budget=budget)
    assert counted.looked <= 3
    assert found is not None
    assert up.accepts(found)
    assert found.bit_count() == size

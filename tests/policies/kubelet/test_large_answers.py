"""Machines of far more NUMA nodes than a kubelet survives: answers stay good and searches end.

Each of these once ran for minutes.
"""

from __future__ import annotations

import random

from bayplan.policies.kubelet.distributed import take_distributed
from bayplan.policies.kubelet.hints import Cover, Hints, Sum, Up
from bayplan.policies.kubelet.merge import merge
from bayplan.policies.kubelet.topology import CpuTopology, SeenCpu

NODES = 64
ALL = (1 << NODES) - 1


def test_leftovers_are_spread_over_many_nodes_one_group_each() -> None:
    machine = CpuTopology(SeenCpu(cpu, cpu // 16, cpu // 16, cpu // 2 % 8) for cpu in range(16 * NODES))
    count = 2 * (63 * 8 + 3)
    taken = take_distributed(machine, machine.all, count, 2, exact=False)
    shares = [(taken & cpus).bit_count() for cpus in machine.node_cpus.values()]
    assert sum(shares) == count
    assert set(shares) == {14, 16}


def test_uneven_leftovers_come_from_where_most_is_left() -> None:
    machine = CpuTopology(SeenCpu(cpu, cpu // 20, cpu // 20, cpu % 20) for cpu in range(20 * 24))
    rooms = {node: 20 - node % 8 for node in range(24)}
    free = sum(((1 << room) - 1) << 20 * node for node, room in rooms.items())
    # The fewest nodes that can all give the same are the 15 with 16 CPUs or more; 9 more have to come from somewhere.
    taken = take_distributed(machine, free, 15 * 16 + 9, 1, exact=False)
    left = {rooms[node]: (cpus & free & ~taken).bit_count() for node, cpus in machine.node_cpus.items()}
    assert left == {20: 2, 19: 2, 18: 2, 17: 1, 16: 0, 15: 15, 14: 14, 13: 13}


def devices_on_several_nodes(seed: int) -> Up:
    pick = random.Random(seed)
    groups = [(sum(1 << i for i in pick.sample(range(NODES), 3)), 1) for _ in range(128)]
    return Up(ALL, [Cover(groups, 100, NODES)])


def test_few_nodes_that_touch_many_devices_are_found() -> None:
    up = devices_on_several_nodes(1)
    size = up.narrowest()
    assert size is not None
    # 128 devices at three ends each: a node touches six on average, and at best a little over ten.
    assert 100 / 12 < size < 30
    mask = up.smallest(size)
    assert mask is not None
    assert up.accepts(mask)
    assert mask.bit_count() == size


def test_a_merge_of_tight_lists_ends_with_a_mask_that_all_allow() -> None:
    pick = random.Random(2)
    weights = [[pick.randint(2**30, 2**35) for _ in range(NODES)] for _ in range(2)]
    memory = Up(ALL, [Sum(w, sum(w) * 6 // 10) for w in weights])
    lists = [Hints(up, preferred_size=20) for up in (memory, devices_on_several_nodes(3))]
    flat = [[10 if i == j else 11 + (i ^ j) % 13 for j in range(NODES)] for i in range(NODES)]
    for distances in (None, flat):
        merged = merge(lists, ALL, distances)
        assert merged.nodes is not None
        assert not merged.preferred
        assert merged.nodes.bit_count() >= 20

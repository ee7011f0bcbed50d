"""The merge without a walk gives what the kubelet's walk gives."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.policies.kubelet.hints import Cover, Hints, NoPreference, Sum, Up
from bayplan.policies.kubelet.merge import merge, merge_single_node
from bayplan.policies.kubelet.state import KubeletPanicError
from bayplan.policies.kubelet.walk import merge_by_walking


def some_distances(rng: random.Random, count: int) -> list[list[int]]:
    table = [[10 if i == j else rng.choice([11, 12, 21, 32]) for j in range(count)] for i in range(count)]
    if rng.random() < 0.7:
        for i in range(count):
            for j in range(i):
                table[i][j] = table[j][i]
    return table


def some_up(rng: random.Random, count: int) -> Up:
    """Thresholds on a few amounts, sometimes things that sit on several nodes, sometimes nodes that must be there."""
    full = (1 << count) - 1
    universe = full if rng.random() < 0.6 else rng.randrange(1, full + 1)
    conditions: list[Sum | Cover] = []
    for _ in range(rng.choice([1, 1, 2])):
        top = rng.choice([1, 3, 20])
        weights = [rng.randint(0, top) for _ in range(count)]
        conditions.append(Sum(weights, rng.randint(0, max(1, sum(weights)))))
    if rng.random() < 0.3:
        groups = [(rng.randrange(1, full + 1), rng.randint(1, 3)) for _ in range(rng.randint(1, 4))]
        conditions.append(Cover(groups, rng.randint(0, sum(n for _, n in groups)), count))
    must = rng.randrange(full + 1) & universe if rng.random() < 0.15 else 0
    touches = [rng.randrange(1, full + 1)] if rng.random() < 0.15 else []
    return Up(universe, conditions, must, touches)


def some_list(rng: random.Random, count: int) -> Hints | NoPreference:
    if rng.random() < 0.12:
        return NoPreference(rng.random() < 0.7)
    full = (1 << count) - 1
    up = some_up(rng, count) if rng.random() < 0.85 else None
    fixed = [rng.randrange(1, full + 1) for _ in range(rng.choice([0, 0, 0, 1, 2, 4]))]
    fixed = [m for m in dict.fromkeys(fixed) if up is None or not up.accepts(m)]
    hints = Hints(up, fixed, preferred_size=rng.randint(1, count))
    return NoPreference(False) if hints.empty else hints


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 4))
@settings(max_examples=600, deadline=None)
def test_merge_is_the_walks_answer(seed: int, count: int, lists: int) -> None:
    rng = random.Random(seed)
    entries = [some_list(rng, count) for _ in range(lists if count < 5 else min(lists, 3))]
    if rng.random() < 0.3:
        entries.append(entries[rng.randrange(len(entries))])  # memory gives the same list once for each type
    full = (1 << count) - 1
    assert merge(entries, full) == merge_by_walking(entries, full)
    table = some_distances(rng, count)
    assert merge(entries, full, table) == merge_by_walking(entries, full, dict(enumerate(table)))


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_single_numa_node_wants_one_preferred_node_of_all(seed: int, count: int, lists: int) -> None:
    rng = random.Random(seed)
    entries = [some_list(rng, count) for _ in range(lists)]
    full = (1 << count) - 1
    kept = [e.only_single_preferred() if isinstance(e, Hints) else e for e in entries]
    merged = merge_single_node(entries, full)
    if any(isinstance(e, NoPreference) and not e.preferred for e in kept):
        assert merged == (None, False)
    else:
        walked = merge_by_walking(kept, full)
        assert merged == (None if walked.nodes == full else walked.nodes, walked.preferred)


def test_a_walk_over_too_many_nodes_is_not_begun() -> None:
    full = (1 << 64) - 1
    wide = Hints(Up(full, [Sum([1] * 64, 1)]), preferred_size=1)
    with pytest.raises(KubeletPanicError, match="more than 1000000 hints"):
        merge_by_walking([wide], full)


def test_masks_that_stand_for_themselves_are_walked_however_many_nodes_they_span() -> None:
    full = (1 << 64) - 1
    fixed = Hints(None, [full, 0b11, 1 << 63], preferred_size=1)
    assert fixed.listed() == [(1 << 63, True), (0b11, False), (full, False)]
    assert merge_by_walking([fixed], full) == (1 << 63, True)

"""The Topology manager's merge as the kubelet does it: walking every combination of hints.

Needed where the walk itself matters: with `prefer-closest-numa-nodes` on a machine whose node ids have gaps, the
kubelet takes an id for a place in its distance table and dies when two masks of equal size are compared. Tests hold
`merge` against it. Exponential; `merge` is what decides otherwise.

Facts: HintMerger in pkg/kubelet/cm/topologymanager/policy.go, NUMADistances in numa_info.go of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from bayplan.idset import bits
from bayplan.policies.kubelet.hints import Hints
from bayplan.policies.kubelet.merge import Lists, Merged
from bayplan.policies.kubelet.state import KubeletPanicError

MAX_STEPS = 1_000_000

Rows = Mapping[int, Sequence[int]]
"""Node id -> distances to the other nodes by their place."""


def merge_by_walking(lists: Lists, full: int, distances: Rows | None = None) -> Merged:
    """The merged hint. Raises `KubeletPanicError` where the kubelet runs past the end of its distance table."""
    if any(entry.steps_to_list > MAX_STEPS for entry in lists if isinstance(entry, Hints)):
        raise KubeletPanicError(f"more than {MAX_STEPS} hints to list before its distance table fails")
    entries: list[list[tuple[int | None, bool]]] = [
        list(entry.listed()) if isinstance(entry, Hints) else [(None, entry.preferred)] for entry in lists
    ]
    sizes = [[mask.bit_count() for mask, _ in entry if mask is not None] for entry in entries]
    target = max((min(size) for size in sizes if size), default=0)
    best: Merged | None = None
    for step, chosen in enumerate(product(*entries)):
        if step == MAX_STEPS:
            raise KubeletPanicError(f"more than {MAX_STEPS} combinations of hints to walk")
        masks = [mask for mask, _ in chosen if mask is not None]
        nodes = full
        for mask in masks:
            nodes &= mask
        if nodes:
            preferred = all(p for _, p in chosen) and len(set(masks)) <= 1
            best = _better(best, Merged(nodes, preferred), target, distances)
    return best or Merged(full, False)


def _better(current: Merged | None, candidate: Merged, target: int, distances: Rows | None) -> Merged:
    if current is None or current.preferred != candidate.preferred:
        return candidate if current is None or candidate.preferred else current
    assert current.nodes is not None
    assert candidate.nodes is not None
    if current.preferred:
        return _fitter(current, candidate, distances)
    have, size = current.nodes.bit_count(), candidate.nodes.bit_count()
    if have > target or have == size:
        return _fitter(current, candidate, distances)
    if have == target or size > target:
        return current
    return candidate if size > have else current


def _fitter(current: Merged, candidate: Merged, distances: Rows | None) -> Merged:
    one, other = current.nodes, candidate.nodes
    assert one is not None
    assert other is not None
    if one == other:
        return current
    if one.bit_count() != other.bit_count():
        return current if one.bit_count() < other.bit_count() else candidate
    if distances is not None:
        near, far = _average(one, distances), _average(other, distances)
        if near != far:
            return current if near < far else candidate
    return current if one < other else candidate


def _average(mask: int, distances: Rows) -> float:
    members = list(bits(mask))
    total = 0.0
    for i in members:
        row = distances[i]
        for j in members:
            if j >= len(row):
                raise KubeletPanicError(f"runtime error: index out of range [{j}] with length {len(row)}")
            total += row[j]
    return total / len(members) ** 2

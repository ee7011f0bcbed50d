"""Resources of the pod as a whole (`spec.resources`, KEP-2837), defaulted and checked as the API server does.

Facts: pkg/apis/core/v1/defaults.go (`defaultPodRequests`, `defaultHugePagePodLimits`), pkg/apis/core/validation
(`validatePodResourceConsistency`), k8s.io/component-helpers/resource (`AggregateContainerRequests`: sidecars count
beside every container, other init containers only where one of them needs more than all that runs later).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.errors import InputError
from bayplan.quantity import HUGEPAGES
from bayplan.workload.fields import Fields
from bayplan.workload.model import PodResources
from bayplan.workload.notes import Notes
from bayplan.workload.requirements import (
    Requirements,
    check_company,
    check_requirements,
    hugepages,
    may_overcommit,
    read_amounts,
    whole,
)

_KNOWN = frozenset({"limits", "requests", "claims"})


class Needs(msgspec.Struct, frozen=True):
    """A container's requirements with what kind of container it is."""

    requirements: Requirements
    init: bool
    restartable: bool


def read_pod_resources(spec: Fields, containers: Sequence[Needs], notes: Notes) -> PodResources | None:
    """The pod's own resources, or None where it has none. Raises `InputError` for what the API server would refuse."""
    resources = spec.optional("resources")
    if resources is None:
        return None
    notes.unknown_fields(resources.value, _KNOWN, "the pod's resources")
    if resources.sequence("claims"):
        raise resources.error("claims", "the pod's own resources have no claims")
    limits = _read_supported(resources.mapping("limits"))
    given = _read_supported(resources.mapping("requests"))
    if not limits and not given:
        return None
    asked = aggregate([(c, c.requirements.requests) for c in containers])
    ceilings = aggregate([(c, c.requirements.limits) for c in containers])
    for name, amount in ceilings.items():
        if name.startswith(HUGEPAGES) and name not in given:
            limits.setdefault(name, amount)
    requests = _default_requests(given, limits, asked)
    check_requirements(resources, given, limits)
    check_company(resources, {*requests, *limits})
    _check_consistency(resources, containers, requests, limits, asked, ceilings)
    return _to_model(resources, requests, limits)


def aggregate(containers: Sequence[tuple[Needs, dict[str, int]]]) -> dict[str, int]:
    """What all containers need together, by resource, in the unit given."""
    total: dict[str, int] = {}
    for needs, amounts in containers:
        if not needs.init or needs.restartable:
            _add(total, amounts)
    beside: dict[str, int] = {}
    for needs, amounts in containers:
        if not needs.init:
            continue
        if needs.restartable:
            _add(beside, amounts)
            continue
        for name, amount in amounts.items():
            total[name] = max(total.get(name, 0), amount + beside.get(name, 0))
    return total


def _add(total: dict[str, int], amounts: dict[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _read_supported(amounts: Fields) -> dict[str, int]:
    for name in amounts.value:
        if name not in ("cpu", "memory") and not name.startswith(HUGEPAGES):
            raise InputError(
                "not a resource of a pod as a whole", place=amounts.at(name), expected="cpu, memory or hugepages-<size>"
            )
    return read_amounts(amounts)


def _default_requests(given: dict[str, int], limits: dict[str, int], asked: dict[str, int]) -> dict[str, int]:
    if not limits:
        return given
    requests = dict(given)
    for name in ("cpu", "memory"):
        if name in asked:
            requests.setdefault(name, asked[name])
    for name, amount in limits.items():
        requests.setdefault(name, amount)
    return requests


def _check_consistency(
    resources: Fields,
    containers: Sequence[Needs],
    requests: dict[str, int],
    limits: dict[str, int],
    asked: dict[str, int],
    ceilings: dict[str, int],
) -> None:
    for name, amount in requests.items():
        if asked.get(name, 0) > amount:
            raise _too_small(resources, "requests", name, "its containers request more together", asked[name])
        if name in limits and amount > limits[name]:
            raise _too_small(resources, "limits", name, "the pod's request is above its limit", amount)
    for name, limit in limits.items():
        if not may_overcommit(name) and ceilings.get(name, 0) > limit:
            raise _too_small(resources, "limits", name, "its containers' limits are more together", ceilings[name])
        for needs in containers:
            if not needs.init and needs.requirements.limits.get(name, 0) > limit:
                highest = needs.requirements.limits[name]
                raise _too_small(resources, "limits", name, "one of its containers has a higher limit", highest)


def _too_small(resources: Fields, kind: str, name: str, problem: str, least: int) -> InputError:
    amounts = resources.mapping(kind)
    value = amounts.value.get(name, ...)
    least_text = f"{least}m" if name == "cpu" else str(whole(least))
    return InputError(problem, place=amounts.at(name), value=value, expected=f"at least {least_text}")


def _to_model(resources: Fields, requests: dict[str, int], limits: dict[str, int]) -> PodResources:
    memory, memory_limit = requests.get("memory"), limits.get("memory")
    return PodResources(
        cpu_milli=requests.get("cpu"),
        cpu_limit_milli=limits.get("cpu"),
        memory_bytes=None if memory is None else whole(memory),
        memory_limit_bytes=None if memory_limit is None else whole(memory_limit),
        hugepages=hugepages(requests, resources.path),
    )

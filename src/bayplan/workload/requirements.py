"""One container's `resources`, defaulted and checked as the API server does.

Facts: pkg/apis/core/v1/defaults.go (a limit without a request is a request too), pkg/apis/core/validation
(`validateResourceRequirements`), KEP-1539 (huge pages of several sizes). Amounts are held in thousandths, which is as
fine as the API server keeps them (it rounds up), so that comparisons here are its comparisons.
"""

from __future__ import annotations

import functools
import math

import msgspec

from bayplan.errors import InputError
from bayplan.quantity import HUGEPAGES, LARGEST, format_bytes, parse_count, parse_quantity
from bayplan.workload.fields import Fields
from bayplan.workload.model import Request
from bayplan.workload.names import is_qualified
from bayplan.workload.notes import Notes

THOUSAND = 1000
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
_KNOWN = frozenset({"limits", "requests", "claims"})
_CACHED_TEXT = 64


class Requirements(msgspec.Struct, frozen=True):
    """Requests (defaulted) and limits by resource name, in thousandths of a core, a byte or a piece."""

    requests: dict[str, int]
    limits: dict[str, int]


NOTHING = Requirements({}, {})


def read_requirements(resources: Fields, notes: Notes) -> Requirements:
    """Read a container's `resources`. Raises `InputError` for what the API server would refuse."""
    if not resources.value:
        return NOTHING
    notes.unknown_fields(resources.value, _KNOWN, "resources")
    if resources.sequence("claims"):
        notes.add("not-considered", "resource claims (resources.claims) are not considered")
    limits = read_amounts(resources.mapping("limits"))
    given = read_amounts(resources.mapping("requests"))
    requests = {**{name: amount for name, amount in limits.items() if name not in given}, **given}
    check_requirements(resources, given, limits)
    check_company(resources, set(requests))
    return Requirements(requests, limits)


def read_amounts(amounts: Fields) -> dict[str, int]:
    """Quantities by resource name, in thousandths, each checked by itself."""
    return {name: _read_amount(amounts, name) for name in amounts.value}


def check_requirements(resources: Fields, given: dict[str, int], limits: dict[str, int]) -> None:
    """What requests and limits must be to each other. Raises `InputError`."""
    for name, amount in given.items():
        limit = limits.get(name)
        if limit is None and not may_overcommit(name):
            raise InputError(
                f"{name} needs a limit, equal to the request",
                place=resources.mapping("requests").at(name),
                value=resources.mapping("requests").value[name],
            )
        if limit is None or amount == limit or (amount < limit and may_overcommit(name)):
            continue
        raise InputError(
            "request is above the limit" if may_overcommit(name) else f"request and limit of {name} must be equal",
            place=resources.mapping("requests").at(name),
            value=resources.mapping("requests").value[name],
            expected=f"the limit, {resources.mapping('limits').value[name]}",
        )


def check_company(resources: Fields, names: set[str]) -> None:
    """Huge pages may not be asked for alone. Raises `InputError`."""
    if any(name.startswith(HUGEPAGES) for name in names) and not names & {"cpu", "memory"}:
        raise InputError("huge pages need cpu or memory beside them", place=resources.path)


def may_overcommit(name: str) -> bool:
    """Whether a request may be below its limit: native resources, but not huge pages."""
    return not name.startswith(HUGEPAGES) and ("/" not in name or "kubernetes.io/" in name)


def page_bytes(name: str) -> int:
    """The page size that a resource name such as `hugepages-2Mi` tells. Raises `InputError`."""
    try:
        size = parse_count(name.removeprefix(HUGEPAGES))
    except InputError as error:
        raise InputError("not a huge page size", value=name, expected="like hugepages-2Mi") from error
    if size <= 0:
        raise InputError("not a huge page size", value=name, expected="like hugepages-2Mi")
    return size


def whole(thousandths: int) -> int:
    """Thousandths as whole bytes or pieces, rounded up."""
    return -(-thousandths // THOUSAND)


def hugepages(amounts: dict[str, int], path: str) -> dict[int, int]:
    """Page bytes -> bytes, of the amounts that are huge pages and not zero."""
    pages: dict[int, int] = {}
    for name, amount in amounts.items():
        if not name.startswith(HUGEPAGES):
            continue
        size = page_bytes(name)
        if size in pages:
            raise InputError("one huge page size under two names", place=path, value=name)
        pages[size] = whole(amount)
    return {size: count for size, count in pages.items() if count}


def to_request(name: str, needs: Requirements, path: str, *, init: bool, restartable: bool) -> Request:
    """The container's request in the model's units."""
    asked, limits = needs.requests, needs.limits
    memory_limit = limits.get("memory")
    return Request(
        name=name,
        cpu_milli=asked.get("cpu", 0),
        cpu_limit_milli=limits.get("cpu"),
        memory_bytes=whole(asked.get("memory", 0)),
        memory_limit_bytes=None if memory_limit is None else whole(memory_limit),
        hugepages=hugepages(asked, path),
        devices={
            resource: whole(amount)
            for resource, amount in asked.items()
            if amount and resource not in _NATIVE and not resource.startswith(HUGEPAGES)
        },
        ephemeral_bytes=whole(asked.get("ephemeral-storage", 0)),
        init=init,
        restartable=restartable,
    )


def _read_amount(amounts: Fields, name: str) -> int:
    value = amounts.value[name]
    try:
        _check_resource_name(name)
        amount = thousandths(value)
        _check_amount(name, amount, value)
    except InputError as error:
        raise error.within(place=amounts.at(name)) from error
    return amount


def thousandths(value: object) -> int:
    """A quantity in thousandths, rounded up, zero or more. Raises `InputError`."""
    if isinstance(value, str) and len(value) <= _CACHED_TEXT:
        return _thousandths_of_text(value)
    return _thousandths(value)


def _thousandths(value: object) -> int:
    if isinstance(value, dict | list) or value is None:
        raise InputError("not a quantity", expected="like 500m, 2 or 1Gi")
    amount = math.ceil(parse_quantity(value) * THOUSAND)
    if amount < 0:
        raise InputError("negative quantity", value=value, expected="zero or more")
    return amount


@functools.lru_cache(maxsize=4096)
def _thousandths_of_text(value: str) -> int:
    return _thousandths(value)


def _check_amount(name: str, amount: int, value: object) -> None:
    if name == "cpu" and amount > LARGEST:
        raise InputError("quantity too large", value=value, expected=f"at most {LARGEST // THOUSAND}")
    if name.startswith(HUGEPAGES):
        size = page_bytes(name)
        if amount % (size * THOUSAND):
            raise InputError("not a whole number of pages", value=value, expected=f"a multiple of {format_bytes(size)}")
    elif not may_overcommit(name) and amount % THOUSAND:
        raise InputError(f"{name} is handed out in whole pieces", value=value, expected="a whole number")


@functools.lru_cache(maxsize=4096)
def _check_resource_name(name: str) -> None:
    if name in _NATIVE:
        return
    if name.startswith(HUGEPAGES):
        page_bytes(name)
        return
    if "/" not in name:
        raise InputError(
            "not a resource that a container can ask for",
            expected="cpu, memory, ephemeral-storage, hugepages-<size> or a name like example.com/gpu",
        )
    if not is_qualified(name) or name.startswith("requests."):
        raise InputError("not a valid resource name", expected="a name like example.com/gpu")

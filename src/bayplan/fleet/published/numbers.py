"""A node's refusal in numbers by zone, where its policy says only that resources cannot be had with topology locality.

Two texts: a short one that is the same for many nodes (kube-scheduler counts equal reasons), and a full one that names
the zones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from bayplan.fleet.published.kinds import Kind
from bayplan.hub.ledger import Contents
from bayplan.policies.policy import View
from bayplan.quantity import format_size, is_in_bytes
from bayplan.resources.decision import Refusal
from bayplan.workload.model import Pod

ALIGNMENT = "TopologyAffinityError"
LISTED_ZONES = 8
Room = Mapping[str, Mapping[int, int]]


@runtime_checkable
class TellsRoom(Protocol):
    """A policy that can tell what it has left on each NUMA node, and what of a pod it has to find there."""

    def room_by_node(self, view: View) -> Room:
        """Resource -> NUMA node -> whole CPUs, bytes or pieces that are free."""
        ...

    def needs_of(self, pod: Pod, container: str = "") -> Mapping[str, int]:
        """The same units, of a pod or of one of its containers."""
        ...


class Numbers(NamedTuple):
    """The texts, and the numbers of the resource that is short where one is short by itself."""

    short: str
    full: str
    resource: str = ""
    asked: int | None = None
    free: int | None = None


class _Want(NamedTuple):
    """What is asked of one resource: so much, which takes so many zones, of which the best have so much left."""

    resource: str
    asked: int
    width: int
    best: int
    empty: bool
    rooms: Mapping[int, int]


def numbers_of(kind: Kind, contents: Contents, pod: Pod, refusal: Refusal) -> Numbers:
    """The refusal that a hub in that state gave, in numbers."""
    if refusal.reason != ALIGNMENT or not isinstance(kind.policy, TellsRoom):
        return _plain(refusal)
    policy = refusal.rule.rpartition("/")[2]
    by_container = kind.policy.settings.get("topologyManagerScope") == "container" and refusal.container
    before = _before(kind, contents, pod, refusal.container) if by_container else contents
    needs = kind.policy.needs_of(pod, refusal.container if by_container else "")
    rooms, whole = kind.policy.room_by_node(_view(before)), kind.policy.room_by_node(_view(kind.empty))
    single, empty = policy == "single-numa-node", contents is kind.empty
    wants = [_want(name, asked, (rooms, whole), single=single, empty=empty) for name, asked in needs.items()]
    who = f"container {refusal.container}: " if by_container and len(pod.all_containers) > 1 else ""
    if not wants:
        return _plain(refusal)
    lacking = [want for want in wants if want.best < want.asked]
    if not lacking:
        short = f"{policy}: {who}{_together(wants)}"
        return Numbers(short, f"{short}; free: {'; '.join(_rooms(want) for want in wants)}")
    first = lacking[0]
    short = f"{policy}: {who}{', '.join(_short(want) for want in lacking)}"
    full = f"{policy}: {who}{'; '.join(f'{_short(want)} ({_rooms(want)})' for want in lacking)}"
    return Numbers(short, full, first.resource, _unit(first, first.asked), _unit(first, first.best))


def with_numbers(refusal: Refusal, numbers: Numbers, tail: str) -> Refusal:
    """The refusal with the full text and the numbers."""
    message = f"{numbers.full}{tail}"
    if not numbers.resource:
        return msgspec.structs.replace(refusal, message=message)
    return msgspec.structs.replace(
        refusal, message=message, resource=numbers.resource, asked=numbers.asked, free=numbers.free
    )


def _plain(refusal: Refusal) -> Numbers:
    text = f"{refusal.reason}: {refusal.message}"
    return Numbers(text, text, refusal.resource, refusal.asked, refusal.free)


def _before(kind: Kind, contents: Contents, pod: Pod, container: str) -> Contents:
    """The state after the containers that come before one; as it was where they cannot be had by themselves."""
    names = [c.name for c in pod.all_containers]
    earlier = set(names[: names.index(container)]) if container in names else set()
    if not earlier:
        return contents
    part = msgspec.structs.replace(
        pod,
        init=tuple(c for c in pod.init if c.name in earlier),
        containers=tuple(c for c in pod.containers if c.name in earlier),
    )
    hub = kind.hub(contents)
    return hub.ledger.contents if hub.admit(part).admitted else contents


def _view(contents: Contents) -> View:
    return View(pods=contents.pods, grants=contents.grants, pools=contents.pools, memo=contents.memo)


def _want(resource: str, asked: int, zones: tuple[Room, Room], *, single: bool, empty: bool) -> _Want:
    """How many zones it takes on an empty node (one, where the policy allows one only), and what the best have now.

    `zones`: what they have now, and what they have on an empty node; `empty`: that is now.
    """
    rooms, whole = zones
    own = rooms.get(resource, {})
    width = 1
    if not single:
        sizes = sorted(whole.get(resource, {}).values(), reverse=True)
        width = next((k for k in range(1, len(sizes) + 1) if sum(sizes[:k]) >= asked), max(1, len(sizes)))
    return _Want(resource, asked, width, sum(sorted(own.values(), reverse=True)[:width]), empty, own)


def _together(wants: list[_Want]) -> str:
    """Each could be had by itself, but not all at once, or not in the same number of zones."""
    by_width: dict[int, list[str]] = {}
    for want in wants:
        by_width.setdefault(want.width, []).append(_amount(want.resource, want.asked))
    if len(by_width) == 1:
        places = "one zone has" if 1 in by_width else "group of zones has"
        return f"no {places} all of {' and '.join(by_width.popitem()[1])}"
    groups = [
        f"{' and '.join(amounts)} in {width} zone{'' if width == 1 else 's'}"
        for width, amounts in sorted(by_width.items())
    ]
    return f"not to be had in the same zones: {', '.join(groups)}"


def _short(want: _Want) -> str:
    where = "in one zone" if want.width == 1 else f"in {want.width} zones together"
    most = f"most {where} of an empty node" if want.empty else f"most free {where}"
    return f"{_amount(want.resource, want.asked)} asked, {most}: {_figure(want.resource, want.best)}"


def _rooms(want: _Want) -> str:
    ranked = sorted(want.rooms.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{_figure(want.resource, free)} in node {node}" for node, free in ranked[:LISTED_ZONES])
    more = f" and {len(ranked) - LISTED_ZONES} more" if len(ranked) > LISTED_ZONES else ""
    return f"{want.resource} {listed}{more}" if ranked else f"{want.resource} nowhere"


def _amount(resource: str, amount: int) -> str:
    return f"{_figure(resource, amount)} of {resource}" if is_in_bytes(resource) else f"{amount} {resource}"


def _figure(resource: str, amount: int) -> str:
    return format_size(amount) if is_in_bytes(resource) else str(amount)


def _unit(want: _Want, amount: int) -> int:
    """In the resource's own terms: millicores for cpu."""
    return amount * 1000 if want.resource == "cpu" else amount

"""Who sits on which CPU of a planned node, with the letter that stands for each container in every picture.

Text, SVG and HTML take letters and colours from here, so that `A` is the same container in all of them. Containers
without exclusive CPUs have no letter of their own: they share the pool. Init containers that end before the
application starts (KEP-753 calls the others sidecars) give their CPUs back and are not drawn.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

import msgspec

from bayplan.fleet.plan import Placement, Plan, PlannedNode
from bayplan.idset import CpuSet
from bayplan.resources.decision import Grant
from bayplan.workload.model import Pod

SHARED, RESERVED, FREE, DOUBLE, VACANT = "shared", "reserved", "free", "double", "vacant"


class Seat(msgspec.Struct, frozen=True):
    """One container with exclusive CPUs: its letter, its number (colours follow it), whose it is."""

    code: str
    index: int
    pod: str
    container: str
    cpus: CpuSet
    grant: Grant


class Seating(msgspec.Struct, frozen=True):
    """The whole node. `holders` gives the seats of each exclusive CPU: more than one is a double grant.

    `free` are online CPUs that nobody may use. `device_holders`: device id -> (letter or empty, `pod/container`).
    """

    seats: tuple[Seat, ...]
    sharers: tuple[tuple[str, str], ...]
    holders: dict[int, tuple[Seat, ...]]
    reserved: CpuSet
    shared: CpuSet
    code_width: int
    free: CpuSet
    device_holders: dict[str, tuple[str, str]]

    @property
    def doubled(self) -> CpuSet:
        """CPUs that more than one container holds exclusively."""
        return CpuSet(cpu for cpu, seats in self.holders.items() if len(seats) > 1)

    def state(self, cpu: int) -> Seat | str:
        """The seat of a CPU, or one of the words of this module."""
        seats = self.holders.get(cpu)
        if seats:
            return seats[0] if len(seats) == 1 else DOUBLE
        if cpu in self.reserved:
            return RESERVED
        return SHARED if cpu in self.shared else FREE


def by_node(plan: Plan) -> dict[str, list[Placement]]:
    """Node name -> the pods placed there, in the plan's order."""
    index: dict[str, list[Placement]] = {}
    for placement in plan.placements:
        if placement.node is not None:
            index.setdefault(placement.node, []).append(placement)
    return index


def seating(node: PlannedNode, placements: Sequence[Placement]) -> Seating:
    """Seats of a node given the pods placed on it."""
    held: list[tuple[str, Grant]] = []
    sharers: list[tuple[str, str]] = []
    for placement in placements:
        for grant in lasting_grants(placement):
            if grant.exclusive:
                held.append((placement.pod.full_name, grant))
            else:
                sharers.append((placement.pod.full_name, grant.container))
    codes = _codes(len(held))
    seats = tuple(Seat(codes[i], i, pod, g.container, g.exclusive, g) for i, (pod, g) in enumerate(held))
    holders: dict[int, tuple[Seat, ...]] = {}
    for seat in seats:
        for cpu in seat.cpus:
            holders[cpu] = (*holders.get(cpu, ()), seat)
    free = node.machine.online - node.reserved - node.shared - CpuSet(holders)
    devices: dict[str, tuple[str, str]] = {}
    letters = {(seat.pod, seat.container): seat.code for seat in seats}
    for placement in placements:
        for grant in lasting_grants(placement):
            who = (placement.pod.full_name, grant.container)
            for device_id in (i for held_devices in grant.devices for i in held_devices.ids):
                devices[device_id] = (letters.get(who, ""), "/".join(who))
    width = len(codes[0]) if codes else 1
    return Seating(seats, tuple(sharers), holders, node.reserved, node.shared, width, free, devices)


def lasting_grants(placement: Placement) -> list[Grant]:
    """Grants of containers that run as long as the pod does."""
    if placement.decision is None:
        return []
    passing = passing_containers(placement.pod)
    return [grant for grant in placement.decision.grants if grant.container not in passing]


def passing_containers(pod: Pod) -> frozenset[str]:
    """Names of init containers that end before the application starts."""
    return frozenset(request.name for request in pod.all_containers if request.ends)


def _codes(count: int) -> list[str]:
    """Letters for so many containers, all of one length."""
    if count <= 2 * 26:
        return list((string.ascii_uppercase + string.ascii_lowercase)[:count])
    length = 2
    while 26**length < count:
        length += 1
    return [_spell(i, length) for i in range(count)]


def _spell(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, digit = divmod(number, 26)
        letters.append(string.ascii_uppercase[digit])
    return "".join(reversed(letters))

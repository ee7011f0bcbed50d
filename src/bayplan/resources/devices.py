"""Devices of extended resources: one device, one pod. Which devices there are is the policy's knowledge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bayplan.idset import NodeSet
from bayplan.machine import Machine
from bayplan.resources.decision import Grant
from bayplan.resources.effects import Effects
from bayplan.resources.plugin import ConflictError


class DeviceUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A device as its plugin offers it to a node. `nodes` None: no topology given."""

    id: str
    nodes: NodeSet | None = None
    healthy: bool = True


DeviceHoldings = Mapping[tuple[str, str], tuple[Grant, ...]]
"""(resource, device) -> the grants that hold it, all of one pod."""


class DeviceResource:
    """Devices that plugins offer."""

    name = "devices"

    def empty(self, machine: Machine) -> DeviceHoldings:
        """See `ResourcePlugin.empty`."""
        return {}

    def free(self, machine: Machine, holdings: DeviceHoldings) -> dict[str, int]:
        """The machine's own devices that are not held, by resource."""
        amounts: dict[str, int] = {}
        for device in machine.devices:
            if device.resource:
                taken = (device.resource, device.address) in holdings
                amounts[device.resource] = amounts.get(device.resource, 0) + (not taken)
        return amounts

    def take(self, machine: Machine, holdings: DeviceHoldings, grant: Grant) -> DeviceHoldings:
        """See `ResourcePlugin.take`. An init container that ends may leave its devices to later ones of its pod."""
        if not grant.devices:
            return holdings
        new = dict(holdings)
        for resource, device in _named(grant):
            held = new.get((resource, device), ())
            if any(h.pod != grant.pod or not h.ends for h in held):
                problem = f"{device} is held by {held[0].pod}/{held[0].container}"
                raise ConflictError(resource, f"{grant.pod}/{grant.container}", problem)
            new[resource, device] = (*held, grant)
        return new

    def give_back(self, machine: Machine, holdings: DeviceHoldings, grant: Grant) -> DeviceHoldings:
        """See `ResourcePlugin.give_back`."""
        if not grant.devices:
            return holdings
        new = dict(holdings)
        for key in _named(grant):
            rest = tuple(h for h in new.get(key, ()) if h != grant)
            if rest:
                new[key] = rest
            else:
                new.pop(key, None)
        return new

    def effects(self, machine: Machine, grant: Grant, effects: Effects) -> Effects:
        """The devices by id."""
        return msgspec.structs.replace(effects, devices=grant.devices)


def _named(grant: Grant) -> Iterator[tuple[str, str]]:
    """(resource, device) of each device granted."""
    return ((granted.resource, device) for granted in grant.devices for device in granted.ids)

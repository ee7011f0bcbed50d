"""Nodes of one kind: the same hardware under the same policy, whose hubs answer alike.

A thousand equal nodes publish a thousand texts; machines and policies made from equal ones are the same objects, so
that what one hub has answered need not be asked of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from bayplan.errors import BayplanError, InputError
from bayplan.fleet.published.layout import HeldPod, Management, read_spec
from bayplan.hub.hub import Hub
from bayplan.hub.ledger import Contents, Entry, Ledger
from bayplan.idset import encode_idset
from bayplan.machine import Machine
from bayplan.policies.policy import NodeSetup, Policy
from bayplan.resources.plugin import ResourcePlugin
from bayplan.workload.fields import Fields

PolicyOf = Callable[[str], Callable[[Machine, NodeSetup], Policy]]
"""A policy's class by its name. Raises `InputError` for a name that is none."""

_MAX_KEPT = 10_000
_encode = msgspec.json.Encoder().encode


class Kind:
    """One machine under one policy, with what a hub of it starts from. `number` tells kinds apart.

    `allocatable` is what such a node says to be for pods; empty: it does not say.
    """

    def __init__(
        self,
        number: int,
        machine: Machine,
        policy: Policy,
        plugins: Sequence[ResourcePlugin],
        allocatable: Mapping[str, int] | None = None,
    ) -> None:
        self.allocatable = dict(allocatable or {})
        self.number = number
        self.machine = machine
        self.policy = policy
        self._plugins = plugins
        self.empty = Hub(machine, policy, plugins).ledger.contents

    def hub(self, contents: Contents) -> Hub:
        """A hub of its own in that state: what it admits changes nothing else."""
        ledger = Ledger()
        ledger.contents = contents
        return Hub(self.machine, self.policy, self._plugins, ledger)

    def restored(self, pods: Sequence[HeldPod]) -> Contents:
        """The state in which these pods hold what they hold. Raises `InputError` where that cannot be."""
        if not pods:
            return self.empty
        hub = self.hub(self.empty)
        try:
            hub.restore([Entry(pod=held.pod, grants=held.grants) for held in pods])
        except BayplanError as error:
            raise InputError(f"what is granted contradicts the machine: {error}", place="status.pods") from error
        return hub.ledger.contents


class Kinds:
    """The kinds of nodes met so far."""

    def __init__(self, policies: PolicyOf, plugins: Sequence[ResourcePlugin]) -> None:
        self._policies = policies
        self._plugins = tuple(plugins)
        self._by_text: dict[bytes, Kind] = {}
        self._by_value: dict[bytes, Kind] = {}
        self._adopted: dict[tuple[int, int], Kind] = {}
        self._made = 0
        self._encode = msgspec.msgpack.Encoder(enc_hook=encode_idset).encode

    def of_spec(self, spec: Fields) -> Kind:
        """The kind that the `spec` of a layout tells. Raises `InputError`."""
        text = _text(spec)
        kind = self._by_text.get(text)
        if kind is None:
            kind = self.of(*read_spec(spec))
            self._keep(self._by_text, text, kind)
        return kind

    def of(self, machine: Machine, management: Management) -> Kind:
        """The kind of a machine that is managed so. Raises `InputError` where its policy would not start."""
        key = self._encode((machine, management))
        kind = self._by_value.get(key)
        if kind is None:
            setup = NodeSetup(
                configuration=management.configuration,
                devices=management.devices,
                allocatable=management.allocatable,
                exact=management.mode == "exact",
            )
            try:
                policy = self._policies(management.policy)(machine, setup)
            except InputError:
                raise
            except BayplanError as error:
                raise InputError(f"policy {management.policy} would not start: {error}", place="spec") from error
            kind = Kind(self._made, machine, policy, self._plugins, management.allocatable)
            self._made += 1
            self._keep(self._by_value, key, kind)
        return kind

    def adopt(self, machine: Machine, policy: Policy) -> Kind:
        """The kind of a machine under a policy that was made elsewhere; the same for the same objects."""
        key = (id(machine), id(policy))
        if key not in self._adopted:
            self._adopted[key] = Kind(self._made, machine, policy, self._plugins)  # which keeps both alive
            self._made += 1
        return self._adopted[key]

    def _keep(self, table: dict[bytes, Kind], key: bytes, kind: Kind) -> None:
        if len(table) >= _MAX_KEPT:
            table.clear()
        table[key] = kind


def _text(spec: Fields) -> bytes:
    """What tells specs apart, as they were written. Raises `InputError`."""
    try:
        return _encode(spec.value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InputError(f"no plain values: {error}", place=spec.path) from error

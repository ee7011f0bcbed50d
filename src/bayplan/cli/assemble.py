"""From what a person named (machine, configuration, cluster file) to the nodes of a fleet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from bayplan.errors import InputError
from bayplan.files.documents import open_documents
from bayplan.files.plugins import load_policy, load_resources
from bayplan.files.source import open_machine
from bayplan.fleet.cluster_file import InlineConfiguration, NodeSpec, read_cluster
from bayplan.fleet.node import FleetNode
from bayplan.hub.hub import Hub
from bayplan.idset import encode_idset
from bayplan.machine import Machine
from bayplan.machine.hugepages import with_hugepages
from bayplan.policies.kubelet.allocatable import node_allocatable
from bayplan.policies.kubelet.configuration import (
    ConfigurationFile,
    KubeletConfiguration,
    read_configuration,
    read_inline,
)
from bayplan.policies.kubelet.settings import StartError
from bayplan.policies.policy import NodeSetup, Policy
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.documents import Document
from bayplan.workload.notes import Note

if TYPE_CHECKING:  # one machine needs none of it, and starts faster without
    from bayplan.cli.told_cluster import ToldCluster

LIVE = "live"


class Assembly:
    """Builds nodes; machines and configurations that several nodes name are read once. Gathers notes."""

    def __init__(self, policy: str, exact: bool | None, hugepages: Sequence[str] = ()) -> None:
        self._policy = policy
        self._hugepages = hugepages
        self._exact = exact
        self._machines: dict[tuple[str, ...], Machine] = {}
        self._configurations: dict[str, ConfigurationFile] = {}
        self._policies: dict[tuple[object, ...], Policy] = {}
        resources = load_resources()
        self._plugins = resources.found
        self._defaults = KubeletConfiguration()
        self._inline: list[KubeletConfiguration] = []
        self.notes = [Note(name="plugin-not-loaded", message=str(problem)) for problem in resources.problems]

    def single(self, machine: str, kubelet_config: str | None) -> FleetNode:
        """One node that is just this machine. Raises `InputError` if its kubelet would not start."""
        hardware = self._machine(machine, self._hugepages)
        configuration = self._configuration(kubelet_config)
        exact = self._exact if self._exact is not None else kubelet_config is not None
        setup = NodeSetup(
            configuration=configuration, allocatable=node_allocatable(hardware, configuration), exact=exact
        )
        try:
            policy = self._policy_for(self._policy, hardware, setup)
            return self._node(hardware.name, hardware, policy, {**setup.allocatable, **_offered(policy)})
        except StartError as error:
            source = kubelet_config or "the kubelet's defaults"
            problem = f"this kubelet would not start on {machine}: {error}"
            raise InputError(problem, source=source, expected=_help_for(error)) from error

    def cluster(self, path: str, default_machine: str, kubelet_config: str | None) -> ToldCluster:
        """The nodes of a cluster file, or of a cluster that tells of itself; `kubelet_config` is for those without."""
        from bayplan.cli.told_cluster import ToldCluster, told_cluster
        from bayplan.fleet.published.cluster_objects import read_objects

        documents, folder = _cluster_documents(path), os.path.dirname(path)
        objects = read_objects(documents)
        if not objects.anything:
            try:
                specs = read_cluster(documents, default_machine)
            except InputError as error:
                raise error.within(source=path) from error
            return ToldCluster([self._of_spec(spec, folder, kubelet_config) for spec in specs], [], [])

        def parts(spec: NodeSpec) -> tuple[Machine, Policy, Mapping[str, int]]:
            return self._parts(spec, folder, kubelet_config)

        return told_cluster(documents, objects, default_machine, self._plugins, parts)

    def offering(self, path: str) -> list[FleetNode | NodeSpec]:
        """As `cluster`, but a node that names no machine is given as the file has it, for what it says to offer."""
        try:
            specs = read_cluster(open_documents([path]), machines=False)
        except InputError as error:
            raise error.within(source=path) from error
        return [self._of_spec(spec, os.path.dirname(path), None) if spec.machine else spec for spec in specs]

    def _of_spec(self, spec: NodeSpec, folder: str, kubelet_config: str | None) -> FleetNode:
        machine, policy, offers = self._parts(spec, folder, kubelet_config)
        return self._node(spec.name, machine, policy, offers, spec)

    def _parts(
        self, spec: NodeSpec, folder: str, kubelet_config: str | None
    ) -> tuple[Machine, Policy, Mapping[str, int]]:
        """Machine, policy and what is for pods, of a node that names its machine."""
        try:
            machine = self._machine(_beside(spec.machine, folder), spec.hugepages or self._hugepages)
            given = spec.kubelet_config
            named = _beside(given, folder) if isinstance(given, str) else given or kubelet_config
            configuration = self._configuration(named)
            exact = {"exact": True, "safe": False}.get(spec.mode, self._exact)
            setup = NodeSetup(
                configuration=configuration,
                devices=_checked_devices(spec, machine),
                allocatable={**node_allocatable(machine, configuration), **spec.allocatable},
                exact=named is not None if exact is None else exact,
            )
            policy = self._policy_for(spec.policy or self._policy, machine, setup)
            return machine, policy, {**setup.allocatable, **_offered(policy)}
        except StartError as error:
            problem = f"node {spec.name}: its kubelet would not start: {error}"
            raise InputError(problem, source=spec.source, expected=_help_for(error)) from error
        except InputError as error:
            place = f"{spec.source}: node {spec.name}"
            # An error in a file that the node names: both are needed to find it.
            error.source = place if error.source in ("", place) else f"{place}: {error.source}"
            raise

    def _node(
        self, name: str, machine: Machine, policy: Policy, offers: Mapping[str, int], spec: NodeSpec | None = None
    ) -> FleetNode:
        return FleetNode(
            name=name,
            hub=Hub(machine, policy, self._plugins),
            labels=dict(spec.labels) if spec else {},
            taints=spec.taints if spec else (),
            unschedulable=spec.unschedulable if spec else False,
            allocatable=offers,
        )

    def _policy_for(self, name: str, machine: Machine, setup: NodeSetup) -> Policy:
        """Nodes that are alike share one policy, which holds no state; so the fleet knows that they are alike."""
        amounts = tuple(sorted(setup.allocatable.items()))
        devices = msgspec.json.encode(setup.devices, enc_hook=encode_idset, order="sorted")
        key = (name, id(machine), id(setup.configuration), amounts, devices, setup.exact)
        if key not in self._policies:
            self._policies[key] = load_policy(name)(machine, setup)
        return self._policies[key]

    def _machine(self, source: str, hugepages: Sequence[str]) -> Machine:
        """The machine, with other huge pages if any are wished for."""
        bare, key = (source,), (source, *hugepages)
        if bare not in self._machines:
            self._machines[bare] = open_machine(source)
        if key not in self._machines:
            try:
                self._machines[key] = with_hugepages(self._machines[bare], hugepages)
            except InputError as error:
                raise error.within(source=source) from error
        return self._machines[key]

    def _configuration(self, named: str | InlineConfiguration | None) -> KubeletConfiguration:
        if named is None:
            return self._defaults
        if isinstance(named, InlineConfiguration):
            file = read_inline(named.value, source=named.source, place=named.place)
            self.notes += file.notes
            self._inline.append(file.configuration)  # kept, since it is known by its identity
            return file.configuration
        if named not in self._configurations:
            try:
                self._configurations[named] = read_configuration(open_documents([named]))
            except InputError as error:
                raise error.within(source=named) from error
            self.notes += self._configurations[named].notes
        return self._configurations[named].configuration


def _cluster_documents(path: str) -> list[Document]:
    if path == LIVE:
        from bayplan.cli.live_cluster import live_documents

        return live_documents()
    try:
        return list(open_documents([path]))
    except InputError as error:
        raise error.within(source=path) from error


def _beside(named: str, folder: str) -> str:
    """A path as it is meant: relative to the file that names it. `preset:x` and absolute paths stay as they are."""
    kind, colon, rest = named.partition(":")
    if kind == "preset" or named == "live":
        return named
    if colon and kind in ("sysfs", "hwloc"):
        return f"{kind}:{os.path.join(folder, rest)}"
    return os.path.join(folder, named)


def _checked_devices(spec: NodeSpec, machine: Machine) -> Mapping[str, tuple[DeviceUnit, ...]]:
    """The devices that the file names. Raises `InputError` for one beside a NUMA node that the machine lacks."""
    for name, units in spec.devices.items():
        for unit in units:
            if unit.nodes is not None and not unit.nodes <= machine.all_nodes:
                problem = f"device {unit.id} is on NUMA nodes that {machine.name} lacks"
                place, there = f"devices[{name}]", str(machine.all_nodes)
                raise InputError(problem, place=place, value=str(unit.nodes), expected=there)
    return spec.devices


def _offered(policy: Policy) -> dict[str, int]:
    """How many devices a node offers to the scheduler: the healthy ones."""
    return {name: sum(1 for unit in units if unit.healthy) for name, units in policy.devices.items()}


def _help_for(error: StartError) -> str:
    if "more than 8 NUMA" in error.message:
        return "topologyManagerPolicyOptions: max-allowable-numa-nodes at least as many, or --mode safe"
    if "unknown CPU ID" in error.message:
        return "reservedSystemCPUs of CPUs that are online on this machine"
    if "Alpha-level Options not enabled" in error.message:
        return "featureGates: {CPUManagerPolicyAlphaOptions: true}"
    if "Beta-level Options not enabled" in error.message:
        return "the feature gate CPUManagerPolicyBetaOptions not switched off"
    if "unknown policy" in error.message:
        return {"cpu": "none or static", "memory": "None or Static"}.get(error.stage, "another policy")
    if "reserved" in error.message and error.stage == "cpu":
        return "reservedSystemCPUs, or cpu in kubeReserved or systemReserved"
    if error.stage == "memory" and "total amount" in error.message:
        return "reservedMemory that adds up to kubeReserved + systemReserved + evictionHard"
    return "a configuration that this kubelet accepts"

"""How one kubelet is set up, and whether it would start at all.

`Settings` is what the resource managers look at, from a `KubeletConfiguration` or made by hand. `StartError` carries
the kubelet's own words. Facts: NewManager, NewStaticPolicyOptions and their like in pkg/kubelet/cm of Kubernetes
1.36; the project's account, chapter 12.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.errors import BayplanError
from bayplan.idset import CpuSet
from bayplan.policies.kubelet.configuration import ReservedMemory
from bayplan.policies.kubelet.packed import CpuOptions
from bayplan.quantity import HUGEPAGES, format_bytes
from bayplan.resources.devices import DeviceUnit

TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")

FULL_CORES = "full-pcpus-only"
DISTRIBUTE_NODES = "distribute-cpus-across-numa"
ALIGN_SOCKET = "align-by-socket"
SPREAD_CORES = "distribute-cpus-across-cores"
STRICT_RESERVATION = "strict-cpu-reservation"
ALIGN_L3 = "prefer-align-cpus-by-uncorecache"
CLOSEST = "prefer-closest-numa-nodes"
MAX_NODES = "max-allowable-numa-nodes"

_ALPHA = (ALIGN_SOCKET, SPREAD_CORES)
_BETA = (DISTRIBUTE_NODES,)
_STABLE = (FULL_CORES, STRICT_RESERVATION, ALIGN_L3)
_EXCLUDES = (
    (FULL_CORES, SPREAD_CORES),
    (DISTRIBUTE_NODES, SPREAD_CORES),
    (ALIGN_L3, SPREAD_CORES),
    (ALIGN_L3, DISTRIBUTE_NODES),
)
_DEFAULT_MAX_NODES = 8


class StartError(BayplanError):
    """The kubelet would not start. `stage` is `topology`, `cpu` or `memory`, the text the kubelet's."""

    def __init__(self, stage: str, message: str) -> None:
        self.stage = stage
        self.message = message
        super().__init__(f"{stage} manager: {message}")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a kubelet's configuration that its resource managers act on.

    `reserved_cpu_milli` is kubeReserved + systemReserved, None where neither was given; with `reserved_cpus` it is
    that set's size. `node_reserved` is what the node as a whole reserves by memory type (None: what
    `reserved_memory` adds up to). `devices` is by extended resource.
    """

    cpu_policy: str = "none"
    cpu_options: dict[str, str] = {}
    reserved_cpus: CpuSet | None = None
    reserved_cpu_milli: int | None = None
    memory_policy: str = "None"
    reserved_memory: tuple[ReservedMemory, ...] = ()
    node_reserved: dict[str, int] | None = None
    topology_policy: str = "none"
    scope: str = "container"
    topology_options: dict[str, str] = {}
    feature_gates: dict[str, bool] = {}
    devices: dict[str, tuple[DeviceUnit, ...]] = {}


class TopologyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The Topology manager's options, parsed."""

    closest: bool = False
    max_nodes: int = _DEFAULT_MAX_NODES


def parse_cpu_options(settings: Settings, *, exact: bool) -> CpuOptions:
    """The static policy's options, or `StartError` in the kubelet's words."""
    values: dict[str, bool] = {}
    for name, value in settings.cpu_options.items():
        _check_available(name, settings.feature_gates)
        values[name] = _parse_bool(name, value, "cpu", "new static policy error: ")
    for one, other in _EXCLUDES:
        if values.get(one) and values.get(other):
            raise StartError(
                "cpu",
                f"new static policy error: static policy options {one} and {other} can not be used at the same time",
            )
    return CpuOptions(
        full_cores=values.get(FULL_CORES, False),
        distribute_nodes=values.get(DISTRIBUTE_NODES, False),
        align_by_socket=values.get(ALIGN_SOCKET, False),
        spread_cores=values.get(SPREAD_CORES, False),
        strict_reservation=values.get(STRICT_RESERVATION, False),
        align_l3=values.get(ALIGN_L3, False),
        exact=exact,
    )


def parse_topology_options(
    settings: Settings, node_count: int, *, distances_known: bool, exact: bool
) -> TopologyOptions:
    """The Topology manager's options for a machine of so many nodes, or `StartError`. Policy none checks nothing.

    The limit on the number of nodes guards the kubelet against its own walk; it holds in `exact` only.
    """
    if settings.topology_policy == "none":
        return TopologyOptions()
    closest, max_nodes = False, _DEFAULT_MAX_NODES
    for name, value in settings.topology_options.items():
        if name == CLOSEST:
            closest = _parse_bool(name, value, "topology", "")
        elif name == MAX_NODES:
            max_nodes = _parse_max_nodes(value)
        else:
            raise StartError("topology", f'unknown Topology Manager Policy option: "{name}"')
    if closest and not distances_known:
        raise StartError("topology", "cannot discover NUMA topology: error getting NUMA distances from cadvisor")
    if exact and node_count > max_nodes:
        raise StartError("topology", f"unsupported on machines with more than {max_nodes} NUMA Nodes")
    if settings.topology_policy not in ("best-effort", "restricted", "single-numa-node"):
        raise StartError("topology", f'unknown policy: "{settings.topology_policy}"')
    if settings.scope not in ("container", "pod"):
        raise StartError("topology", f'unknown scope: "{settings.scope}"')
    return TopologyOptions(closest=closest, max_nodes=max_nodes)


def check_checkpoint(manager: str, written: str, configured: str) -> None:
    """A state written under another policy is refused (`StartError`). `manager` is `cpu` or `memory`."""
    if written == configured:
        return
    name, prefix = ("CPU", "") if manager == "cpu" else ("memory", "[memorymanager] ")
    raise StartError(
        f"{manager}-start",
        f'could not restore state from checkpoint: {prefix}configured policy "{configured}" differs from state '
        f'checkpoint policy "{written}", please drain this node and delete the {name} manager checkpoint file '
        f'"/var/lib/kubelet/{manager}_manager_state" before restarting Kubelet',
    )


def check_reserved_memory(settings: Settings, node_ids: frozenset[int]) -> dict[int, dict[str, int]]:
    """Reserved bytes by node and type after the kubelet's checks, or `StartError`."""
    totals: dict[str, int] = {}
    by_node: dict[int, dict[str, int]] = {node: {} for node in node_ids}
    for reservation in settings.reserved_memory:
        if reservation.node not in node_ids:
            raise StartError(
                "memory",
                f"the reserved memory configuration references a NUMA node {reservation.node} "
                "that does not exist on this machine",
            )
        for kind, amount in reservation.limits.items():
            totals[kind] = totals.get(kind, 0) + amount
            by_node[reservation.node][kind] = amount  # a second entry for a node replaces the first, in the kubelet too
    wanted = totals if settings.node_reserved is None else settings.node_reserved
    for kind in sorted({*totals, *(k for k in wanted if k == "memory" or k.startswith(HUGEPAGES))}):
        if totals.get(kind, 0) != wanted.get(kind, 0):
            raise StartError(
                "memory",
                f'the total amount "{format_bytes(totals.get(kind, 0))}" of type "{kind}" is not equal to the value '
                f'"{format_bytes(wanted.get(kind, 0))}" determined by Node Allocatable feature',
            )
    if not any(amounts.get("memory", 0) > 0 for amounts in by_node.values()):
        raise StartError("memory", "[memorymanager] you should specify the system reserved memory")
    return by_node


def _check_available(name: str, gates: Mapping[str, bool]) -> None:
    prefix = "new static policy error: "
    if name in _STABLE:
        return
    if name in _ALPHA:
        if not gates.get("CPUManagerPolicyAlphaOptions", False):
            message = f'CPU Manager Policy Alpha-level Options not enabled, but option "{name}" provided'
            raise StartError("cpu", prefix + message)
        return
    if name in _BETA:
        if not gates.get("CPUManagerPolicyBetaOptions", True):
            message = f'CPU Manager Policy Beta-level Options not enabled, but option "{name}" provided'
            raise StartError("cpu", prefix + message)
        return
    raise StartError("cpu", f'{prefix}unknown CPU Manager Policy option: "{name}"')


def _parse_bool(name: str, value: str, stage: str, prefix: str) -> bool:
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise StartError(
        stage, f'{prefix}bad value for option "{name}": strconv.ParseBool: parsing "{value}": invalid syntax'
    )


def _parse_max_nodes(value: str) -> int:
    digits = value[1:] if value[:1] in ("+", "-") else value
    unreadable = f'unable to convert policy option to integer "{MAX_NODES}": strconv.Atoi: parsing "{value}"'
    if not (digits.isascii() and digits.isdigit()):
        raise StartError("topology", f"{unreadable}: invalid syntax")
    if len(digits.lstrip("0")) > 18:
        raise StartError("topology", f"{unreadable}: value out of range")
    if int(value) < _DEFAULT_MAX_NODES:
        message = f'the minimum value of "{MAX_NODES}" should not be less than {_DEFAULT_MAX_NODES}'
        raise StartError("topology", message)
    return int(value)

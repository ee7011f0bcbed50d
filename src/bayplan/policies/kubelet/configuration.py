"""A real KubeletConfiguration file, as far as it bears on what containers get.

Facts: k8s.io/kubelet/config/v1beta1 (types), pkg/kubelet/apis/config/v1beta1/defaults.go (defaults),
pkg/kubelet/apis/config/validation (what is refused), cmd/kubelet/app/server.go (reserved resources, and that
`evictionHard` has its default only where it is absent), pkg/kubelet/eviction/helpers.go (thresholds); Kubernetes 1.36.
Names of policies of the CPU and memory manager and names and values of options are not judged here: the kubelet
judges them when those managers start, and so do the managers' rooms here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.policies.kubelet.configuration_fields import KNOWN, check_types
from bayplan.policies.kubelet.configuration_wrappers import KIND, Found, found_in
from bayplan.quantity import HUGEPAGES, parse_count, parse_cpu_milli, parse_quantity
from bayplan.workload.documents import Document
from bayplan.workload.fields import INT32_MAX, Fields, as_fields
from bayplan.workload.notes import Note, Notes
from bayplan.workload.requirements import page_bytes

API_VERSION = "kubelet.config.k8s.io/v1beta1"
TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TOPOLOGY_SCOPES = ("container", "pod")
DEFAULT_MAX_PODS = 110
DEFAULT_EVICTION = "100Mi"
_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
_SIGNALS = frozenset(
    {
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "containerfs.available",
        "containerfs.inodesFree",
        "allocatableMemory.available",
        "pid.available",
    }
)
_KUBE, _SYSTEM = "kube-reserved", "system-reserved"
_ENFORCEMENTS = ("pods", _SYSTEM, f"{_SYSTEM}-compressible", _KUBE, f"{_KUBE}-compressible", "none")
# The Linux list format as k8s.io/utils/cpuset parses it: no spaces, no strides.
_CPU_LIST = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*", re.ASCII)
_PER_CENT = re.compile(r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})%", re.ASCII)
_NOT_CONSIDERED = {
    "qosReserved": "qosReserved is not considered",
    "registerWithTaints": "registerWithTaints is not considered; write the node's taints in the cluster file",
}


class ReservedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the memory manager keeps from containers: bytes by type (`memory`, `hugepages-2Mi`) on one node."""

    node: int
    limits: dict[str, int]


class MemoryThreshold(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that must stay free: bytes, or a part (0..1) of the machine's. Both None: none need stay free."""

    bytes: int | None = None
    part: float | None = None

    def of(self, capacity_bytes: int) -> int:
        """Bytes on a machine with so much memory, cut off as the kubelet does."""
        if self.part is not None:
            return int(float(capacity_bytes) * self.part)
        return self.bytes or 0


class KubeletConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """How one kubelet is configured, defaulted.

    `kube_reserved` and `system_reserved` are by resource: cpu in millicores, memory and ephemeral-storage in bytes, pid
    in pieces; as written, also where `reserved_system_cpus` overrides their cpu (see `reserved`).
    """

    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: dict[str, str] = {}
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: dict[str, str] = {}
    memory_manager_policy: str = "None"
    reserved_system_cpus: CpuSet | None = None
    reserved_memory: tuple[ReservedMemory, ...] = ()
    kube_reserved: dict[str, int] = {}
    system_reserved: dict[str, int] = {}
    eviction_hard: MemoryThreshold = MemoryThreshold(bytes=100 * 2**20)
    feature_gates: dict[str, bool] = {}
    max_pods: int = DEFAULT_MAX_PODS
    pods_per_core: int = 0

    def reserved(self, resource: str) -> int:
        """What kube and system have reserved together; a set of reserved CPUs takes the place of both for cpu."""
        if resource == "cpu" and self.reserved_system_cpus:
            return 1000 * len(self.reserved_system_cpus)
        return self.kube_reserved.get(resource, 0) + self.system_reserved.get(resource, 0)


class ConfigurationFile(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration and what was noticed while reading it."""

    configuration: KubeletConfiguration
    notes: tuple[Note, ...] = ()


def read_configuration(documents: Iterable[Document]) -> ConfigurationFile:
    """The one KubeletConfiguration among the documents of a file, or within one (see `configuration_wrappers`).

    Raises `InputError` where there is none, or more than one, or one that the kubelet would refuse.
    """
    found: list[Found] = []
    others: list[Document] = []
    for document in documents:
        inside = list(found_in(document))
        found += inside
        others += [] if inside else [document]
    if not found and len(others) == 1:
        # It says best itself what is wrong with it.
        found = [Found(others[0].value, others[0].source, others[0].place, True)]
    if len(found) != 1:
        source = found[0].source if found else others[0].source if others else ""
        raise InputError(f"{len(found)} documents of kind {KIND}", source=source, expected="exactly one")
    return read_inline(found[0].value, source=found[0].source, place=found[0].place, header=found[0].header)


def read_inline(value: Any, *, source: str, place: str, header: bool = False) -> ConfigurationFile:
    """A configuration that stands within something else, at `place`; `header`: kind and apiVersion must be there."""
    notes = Notes()
    notes.place = f"{source}: {place}"
    try:
        fields = as_fields(value, "")
        _check_header(fields, header)
        configuration = _read(fields, notes)
    except InputError as error:
        raise error.in_document(source=source, document=place) from error
    return ConfigurationFile(configuration=configuration, notes=notes.all())


def _check_header(fields: Fields, required: bool) -> None:
    for name, right in (("kind", KIND), ("apiVersion", API_VERSION)):
        given = fields.text(name)
        if given != right and (given or required):
            raise fields.error(name, "wrong" if given else "missing", value=given or ..., expected=right)


def _read(fields: Fields, notes: Notes) -> KubeletConfiguration:
    notes.unknown_fields(fields.value, KNOWN, f"a {KIND}")
    check_types(fields)
    _check_enforcement(fields)
    for name, message in _NOT_CONSIDERED.items():
        if fields.value.get(name):
            notes.add("not-considered", message)
    return KubeletConfiguration(
        cpu_manager_policy=fields.text("cpuManagerPolicy") or "none",
        cpu_manager_policy_options=fields.text_map("cpuManagerPolicyOptions"),
        topology_manager_policy=_one_of(fields, "topologyManagerPolicy", TOPOLOGY_POLICIES),
        topology_manager_scope=_one_of(fields, "topologyManagerScope", TOPOLOGY_SCOPES),
        topology_manager_policy_options=fields.text_map("topologyManagerPolicyOptions"),
        memory_manager_policy=fields.text("memoryManagerPolicy") or "None",
        reserved_system_cpus=_read_reserved_cpus(fields),
        reserved_memory=_read_reserved_memory(fields),
        kube_reserved=_read_reserved(fields.mapping("kubeReserved")),
        system_reserved=_read_reserved(fields.mapping("systemReserved")),
        eviction_hard=_read_eviction(fields),
        feature_gates=_read_gates(fields.mapping("featureGates")),
        max_pods=fields.integer("maxPods", 0, INT32_MAX) or DEFAULT_MAX_PODS,
        pods_per_core=fields.integer("podsPerCore", 0, INT32_MAX) or 0,
    )


def _one_of(fields: Fields, name: str, allowed: tuple[str, ...]) -> str:
    """A name among the allowed ones, of which the first is the default."""
    value = fields.text(name) or allowed[0]
    if value not in allowed:
        raise fields.error(name, "unknown name", value=value, expected=", ".join(allowed))
    return value


def _read_reserved_cpus(fields: Fields) -> CpuSet | None:
    text = fields.text("reservedSystemCPUs")
    if not text:
        return None
    for cgroup in ("systemReservedCgroup", "kubeReservedCgroup"):
        if fields.text(cgroup):
            raise fields.error(cgroup, "cannot be used with reservedSystemCPUs", value=fields.text(cgroup))
    try:
        if _CPU_LIST.fullmatch(text) is None:
            raise InputError("not a list of CPUs", value=text[:100], expected="like 0-3,8, without spaces")
        return CpuSet.parse(text)
    except InputError as error:
        raise error.within(place=fields.at("reservedSystemCPUs")) from error


def _read_reserved_memory(fields: Fields) -> tuple[ReservedMemory, ...]:
    seen: set[tuple[int, str]] = set()
    reservations = []
    for entry in fields.entries("reservedMemory"):
        node = entry.integer("numaNode", 0) or 0
        limits = entry.mapping("limits")
        amounts = {kind: _read_memory_limit(limits, kind) for kind in limits.value}
        for kind in amounts:
            if (node, kind) in seen:
                raise limits.error(kind, f"given twice for NUMA node {node}")
            seen.add((node, kind))
        reservations.append(ReservedMemory(node=node, limits=amounts))
    return tuple(reservations)


def _read_memory_limit(limits: Fields, kind: str) -> int:
    try:
        if kind.startswith(HUGEPAGES):
            page_bytes(kind)
        elif kind != "memory":
            raise InputError("not a type of memory", expected="memory or hugepages-<size>")
        amount = _quantity(limits.value[kind], parse_count)
        if amount == 0:
            raise InputError("zero reserved", expected="more than zero")
    except InputError as error:
        raise error.within(place=limits.at(kind)) from error
    return amount


def _read_reserved(reserved: Fields) -> dict[str, int]:
    return {name: _read_reserved_amount(reserved, name) for name in reserved.value}


def _read_reserved_amount(reserved: Fields, name: str) -> int:
    try:
        if name not in _RESERVABLE:
            raise InputError("cannot be reserved", expected=", ".join(_RESERVABLE))
        return _quantity(reserved.value[name], parse_cpu_milli if name == "cpu" else parse_count)
    except InputError as error:
        raise error.within(place=reserved.at(name)) from error


def _quantity(value: Any, parse: Any) -> int:
    if value is None or isinstance(value, dict | list):
        raise InputError("not a quantity", expected="like 500m, 2 or 1Gi")
    amount: int = parse(value)
    return amount


def _read_eviction(fields: Fields) -> MemoryThreshold:
    """`memory.available` of `evictionHard`, after a look at the others."""
    hard = fields.optional("evictionHard")
    if hard is None:
        return _threshold(DEFAULT_EVICTION)
    thresholds: dict[str, MemoryThreshold] = {}
    for signal in hard.value:
        try:
            if signal not in _SIGNALS:
                raise InputError("unknown eviction signal", expected=", ".join(sorted(_SIGNALS)))
            thresholds[signal] = _threshold(hard.text(signal))
        except InputError as error:
            raise (error if error.place else error.within(place=hard.at(signal))) from error
    if "memory.available" not in thresholds and fields.boolean("mergeDefaultEvictionSettings"):
        return _threshold(DEFAULT_EVICTION)
    return thresholds.get("memory.available", MemoryThreshold())


def _threshold(text: str) -> MemoryThreshold:
    if not text.endswith("%"):
        if parse_quantity(text) <= 0:
            raise InputError("not above zero", value=text, expected="a quantity, or a per cent value")
        return MemoryThreshold(bytes=parse_count(text))
    if text in ("0%", "100%"):
        return MemoryThreshold()
    if _PER_CENT.fullmatch(text) is None:
        raise InputError("not a per cent value", value=text[:100], expected="like 5%")
    part = _single(_single(float(text[:-1])) / 100)
    if not 0 <= part <= 1:
        raise InputError("out of range", value=text, expected="0%..100%")
    return MemoryThreshold(part=part)


def _single(number: float) -> float:
    """The nearest number of single precision, in which the kubelet holds a per cent value."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return float("inf")
    return rounded


def _read_gates(gates: Fields) -> dict[str, bool]:
    return {name: gates.boolean(name) for name in gates.value}


def _check_enforcement(fields: Fields) -> None:
    """What is enforced does not bear on what containers get, but a wrong word would stop the kubelet."""
    absent = fields.value.get("enforceNodeAllocatable") is None
    given = ("pods",) if absent else fields.texts("enforceNodeAllocatable")
    for i, name in enumerate(given):
        place = f"enforceNodeAllocatable[{i}]"
        if name not in _ENFORCEMENTS:
            raise InputError("unknown name", place=place, value=name[:100], expected=", ".join(_ENFORCEMENTS))
        if name in given[:i]:
            raise InputError("given twice", place=place, value=name)
        if name == "none" and len(given) > 1:
            raise InputError("beside others", place=place, value=name, expected="none alone")
        _check_cgroups(fields, place, name)
    for group in (_KUBE, _SYSTEM):
        if group in given and f"{group}-compressible" in given:
            raise fields.error("enforceNodeAllocatable", f"both {group} and {group}-compressible", expected="one")


def _check_cgroups(fields: Fields, place: str, name: str) -> None:
    """What an enforcement needs beside it."""
    if name == "none":
        return
    if not fields.boolean("cgroupsPerQOS", True):
        raise fields.error("cgroupsPerQOS", f"false, but enforceNodeAllocatable has {name}", expected="true")
    for group, cgroup in ((_SYSTEM, "systemReservedCgroup"), (_KUBE, "kubeReservedCgroup")):
        if name.startswith(group) and not fields.text(cgroup):
            raise fields.error(cgroup, f"missing, but {place} is {name}", expected="the path of a cgroup")

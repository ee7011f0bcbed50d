"""What Bayplan's node agent publishes of its node: kind NodeLayout, as an object of its own or in an annotation.

    apiVersion: bayplan.dev/v1alpha1
    kind: NodeLayout
    metadata: {name: node-a}              # the node's name
    spec:                                 # what the node is: changes when it is set up anew
      machine: {...}                      # the fields of a Machine, as `bayplan machine -o json` writes them
      policy: kubelet
      mode: exact                         # or safe
      kubeletConfiguration: {...}
      devices: {nvidia.com/gpu: [{id: GPU-0, numaNodes: [0]}]}     # left out: the machine's own
      allocatable: {cpu: "94", memory: 500Gi}                      # left out: not limited
    status:                               # what is held: changes with every pod
      heartbeat: "2026-12-03T14:00:00Z"   # when the node last said so; content that stays as it is gets older
      generation: 17                      # of what is held
      pods:
      - {uid: ..., namespace: ml, name: train-0, containers: [...], grants: [...]}
      classes: {l3: {gold: {free: 3}}}    # users that a class can still take; without `free`: any number
      power: {profiles: {performance: 12}, wattsHeadroom: 180}     # CPUs a profile can still take; watts

Grants are told pod by pod, not as sums by zone, so that a pod that ended and one that came cannot be mistaken for each
other. Requests and grants are in the words of a plan (`bayplan plan -o json`); a grant's `pod` goes without saying.
Nothing is opened here; whatever is wrong is an `InputError` that names the field.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.node_fields import read_allocatable, read_devices, refuse_unknown
from bayplan.idset import encode_idset
from bayplan.machine import Machine, saved
from bayplan.machine.document import API_VERSION, Limits, convert, parse
from bayplan.policies.kubelet.configuration import KubeletConfiguration, read_inline
from bayplan.resources.decision import Grant
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.fields import Fields
from bayplan.workload.model import Pod, PodResources, Request
from bayplan.workload.names import check_subdomain
from bayplan.workload.times import parse_moment

KIND = "NodeLayout"
LAYOUT_ANNOTATION = "bayplan.dev/layout"
HEARTBEAT_ANNOTATION = "bayplan.dev/layout-heartbeat"
LAYOUT_FILE = Limits(text_bytes=8 * 2**20, yaml_bytes=2**21, set_bytes=2**26)
MAX_PODS = 4_096
MAX_NAMES = 1_024
_TOP = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC = frozenset({"machine", "policy", "mode", "kubeletConfiguration", "devices", "allocatable"})
_STATUS = frozenset({"heartbeat", "generation", "pods", "classes", "power"})
_POD = frozenset(
    {"uid", "namespace", "name", "init", "containers", "resources", "overheadCpuMilli", "overheadMemoryBytes", "grants"}
)
_MODES = ("exact", "safe")


class Management(msgspec.Struct, frozen=True, kw_only=True):
    """How a node hands out what it has. `devices` and `allocatable` empty: the machine's own, and not limited."""

    policy: str = "kubelet"
    mode: Literal["exact", "safe"] = "exact"
    configuration: KubeletConfiguration | None = None
    devices: dict[str, tuple[DeviceUnit, ...]] = {}
    allocatable: dict[str, int] = {}


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """What a node still has of classes and power.

    `classes`: resource (`l3`, `blockio`) -> class -> users that it can still take (None: any number). `profiles`: power
    profile -> CPUs that it can still take. `watts_headroom`: watts below the node's budget (None: not told).
    """

    classes: dict[str, dict[str, int | None]] = {}
    profiles: dict[str, int] = {}
    watts_headroom: float | None = None


class HeldPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the node and what its containers hold. The pod has requests and name, but no labels."""

    pod: Pod
    grants: tuple[Grant, ...]


class NodeLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A node as its agent tells of it. `heartbeat`: seconds since 1970 (None: never told)."""

    name: str
    machine: Machine
    management: Management
    heartbeat: float | None = None
    generation: int = 0
    pods: tuple[HeldPod, ...] = ()
    offers: Offers = Offers()


def read_layout(text: bytes | str, *, source: str = "") -> NodeLayout:
    """A layout from its JSON or YAML. Raises `InputError`."""
    return layout_from(parse(text, source=source, limits=LAYOUT_FILE), source=source)


def layout_from(value: dict[str, Any], *, source: str = "") -> NodeLayout:
    """A layout from the values of its document. Raises `InputError`."""
    try:
        fields = Fields(value)
        check_header(fields)
        name = fields.mapping("metadata").required_text("name")
        check_subdomain(name, "metadata.name")
        spec, status = fields.mapping("spec"), fields.mapping("status")
        machine, management = read_spec(spec)
        return NodeLayout(
            name=name,
            machine=machine,
            management=management,
            heartbeat=read_heartbeat(status),
            generation=status.integer("generation", 0, 2**62) or 0,
            pods=read_pods(status),
            offers=read_offers(status),
        )
    except InputError as error:
        raise error.within(source=source) from error


def check_header(fields: Fields) -> None:
    """Raise `InputError` unless the document says that it is a NodeLayout of this version and has only its parts."""
    for name, right in (("apiVersion", API_VERSION), ("kind", KIND)):
        if fields.text(name) != right:
            raise fields.error(name, "wrong", value=fields.value.get(name, ...), expected=right)
    refuse_unknown(fields, _TOP)
    refuse_unknown(fields.mapping("status"), _STATUS)


def read_spec(spec: Fields) -> tuple[Machine, Management]:
    """`spec`: what a node is. Raises `InputError`."""
    refuse_unknown(spec, _SPEC)
    return _read_machine(spec), _read_management(spec)


def _read_machine(spec: Fields) -> Machine:
    """`spec.machine`, checked. Its name and source say nothing here: nodes of equal hardware have equal machines."""
    machine = spec.mapping("machine")
    if not machine.value:
        raise spec.error("machine", "missing", expected="the fields of a Machine")
    given = {name: value for name, value in machine.value.items() if name not in ("apiVersion", "kind", "source")}
    header = {"apiVersion": API_VERSION, "kind": saved.KIND}
    try:
        return saved.from_document({**header, **given, "name": "published"})
    except InputError as error:
        raise error.within(place=machine.path) from error


def _read_management(spec: Fields) -> Management:
    """The rest of `spec`. Raises `InputError`."""
    mode = spec.text("mode") or "exact"
    if mode not in _MODES:
        raise spec.error("mode", "unknown mode", value=mode, expected="exact or safe")
    given = spec.optional("kubeletConfiguration")
    configuration = None
    if given is not None:
        configuration = read_inline(given.value, source="", place=given.path).configuration
    return Management(
        policy=spec.text("policy") or "kubelet",
        mode="safe" if mode == "safe" else "exact",
        configuration=configuration,
        devices=read_devices(spec),
        allocatable=read_allocatable(spec.mapping("allocatable")),
    )


def read_heartbeat(status: Fields) -> float | None:
    """`status.heartbeat` in seconds since 1970."""
    text = status.text("heartbeat")
    if not text:
        return None
    try:
        return parse_moment(text)
    except InputError as error:
        raise error.within(place=status.at("heartbeat")) from error


def read_pods(status: Fields) -> tuple[HeldPod, ...]:
    """`status.pods`: each uid once, each container with its grant."""
    entries = status.entries("pods")
    if len(entries) > MAX_PODS:
        raise status.error("pods", "too many", value=len(entries), expected=f"at most {MAX_PODS}")
    pods = tuple(_read_pod(entry) for entry in entries)
    if len({held.pod.uid for held in pods}) != len(pods):
        raise status.error("pods", "a uid given twice")
    return pods


def read_offers(status: Fields) -> Offers:
    """`status.classes` and `status.power`."""
    classes = status.mapping("classes")
    power = status.mapping("power")
    refuse_unknown(power, frozenset({"profiles", "wattsHeadroom"}))
    profiles = power.mapping("profiles")
    headroom = power.value.get("wattsHeadroom")
    if headroom is not None and (isinstance(headroom, bool) or not isinstance(headroom, int | float)):
        raise power.error("wattsHeadroom", "not a number", value=headroom, expected="watts")
    return Offers(
        classes={resource: _read_classes(classes.mapping(resource)) for resource in _few(classes)},
        profiles={name: profiles.integer(name, 0) or 0 for name in _few(profiles)},
        watts_headroom=None if headroom is None else float(headroom),
    )


def write_layout(layout: NodeLayout, kubelet_configuration: dict[str, Any] | None = None) -> dict[str, Any]:
    """The document of a layout as plain values. `kubelet_configuration` is written as it was given."""
    management = layout.management
    spec: dict[str, Any] = {
        # Without a name, nodes of equal hardware publish the very same text, which is then read once.
        "machine": {name: value for name, value in _plain(layout.machine).items() if name not in ("name", "source")},
        "policy": management.policy,
        "mode": management.mode,
    }
    if kubelet_configuration is not None:
        spec["kubeletConfiguration"] = kubelet_configuration
    if management.devices:
        spec["devices"] = {name: [_device(unit) for unit in units] for name, units in management.devices.items()}
    if management.allocatable:
        spec["allocatable"] = {
            name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in management.allocatable.items()
        }
    status: dict[str, Any] = {"generation": layout.generation, "pods": [_pod(held) for held in layout.pods]}
    if layout.heartbeat is not None:
        status["heartbeat"] = datetime.fromtimestamp(layout.heartbeat, UTC).isoformat()
    offers = layout.offers
    if offers.classes:
        status["classes"] = {
            resource: {name: {} if free is None else {"free": free} for name, free in classes.items()}
            for resource, classes in offers.classes.items()
        }
    power: dict[str, Any] = {"profiles": offers.profiles} if offers.profiles else {}
    if offers.watts_headroom is not None:
        power["wattsHeadroom"] = offers.watts_headroom
    if power:
        status["power"] = power
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": layout.name},
        "spec": spec,
        "status": status,
    }


def _read_pod(entry: Fields) -> HeldPod:
    refuse_unknown(entry, _POD)
    uid = entry.required_text("uid")
    pod = Pod(
        uid=uid,
        name=entry.required_text("name"),
        namespace=entry.text("namespace") or "default",
        init=tuple(_converted(entry, "init", tuple[Request, ...])),
        containers=tuple(_converted(entry, "containers", tuple[Request, ...])),
        resources=_converted(entry, "resources", PodResources) if entry.value.get("resources") is not None else None,
        overhead_cpu_milli=entry.integer("overheadCpuMilli", 0) or 0,
        overhead_memory_bytes=entry.integer("overheadMemoryBytes", 0, 2**63 - 1) or 0,
    )
    owned = {"grants": [{**grant.value, "pod": uid} for grant in entry.entries("grants")]}
    grants = _converted(Fields(owned, entry.path), "grants", tuple[Grant, ...])
    if [grant.container for grant in grants] != [container.name for container in pod.all_containers]:
        raise entry.error("grants", "not one for each container", expected="init containers, then the others, in order")
    return HeldPod(pod=pod, grants=grants)


def _converted(entry: Fields, name: str, kind: Any) -> Any:
    value = entry.value.get(name)
    try:
        return convert([] if value is None else value, kind)
    except InputError as error:
        raise error.within(place=entry.at(name)) from error


def _read_classes(classes: Fields) -> dict[str, int | None]:
    free: dict[str, int | None] = {}
    for name in _few(classes):
        entry = classes.mapping(name)
        refuse_unknown(entry, frozenset({"free"}))
        free[name] = entry.integer("free", 0)
    return free


def _few(fields: Fields) -> dict[str, Any]:
    if len(fields.value) > MAX_NAMES:
        raise InputError("too many", place=fields.path, value=len(fields.value), expected=f"at most {MAX_NAMES}")
    return fields.value


def _pod(held: HeldPod) -> dict[str, Any]:
    pod = held.pod
    value: dict[str, Any] = {"uid": pod.uid, "namespace": pod.namespace, "name": pod.name}
    if pod.init:
        value["init"] = [_plain(request) for request in pod.init]
    value["containers"] = [_plain(request) for request in pod.containers]
    if pod.resources is not None:
        value["resources"] = _plain(pod.resources)
    if pod.overhead_cpu_milli:
        value["overheadCpuMilli"] = pod.overhead_cpu_milli
    if pod.overhead_memory_bytes:
        value["overheadMemoryBytes"] = pod.overhead_memory_bytes
    value["grants"] = [{k: v for k, v in _plain(grant).items() if k != "pod"} for grant in held.grants]
    return value


def _device(unit: DeviceUnit) -> dict[str, Any]:
    value: dict[str, Any] = {"id": unit.id, "numaNodes": list(unit.nodes or ())}
    return value if unit.healthy else {**value, "healthy": False}


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    """Plain values without those that are the defaults, for documents that are kept once a node."""
    values: dict[str, Any] = msgspec.to_builtins(struct, enc_hook=encode_idset, str_keys=True)
    return {
        field.encode_name: values[field.encode_name]
        for field in msgspec.structs.fields(type(struct))
        if getattr(struct, field.name) != _default(field)
    }


def _default(field: msgspec.structs.FieldInfo) -> object:
    """The default of a field; of a field without one, what no value is equal to."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()

"""The document of a node's agent: written and read back, and the kind that is installed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.published.layout import KIND, HeldPod, Management, NodeLayout, Offers, read_layout, write_layout
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Machine, MemoryNode
from bayplan.machine.document import API_VERSION
from bayplan.machine.model import Core
from bayplan.resources.decision import DeviceGrant, Grant, MemoryBlock
from bayplan.resources.devices import DeviceUnit
from bayplan.workload.model import Pod, PodResources, Request

CRD = Path(__file__).resolve().parents[3] / "deploy" / "nodelayouts.bayplan.dev.yaml"


def full(machine: Machine) -> NodeLayout:
    init = Request(name="i", cpu_milli=500, init=True)
    main = Request(name="c", cpu_milli=2000, cpu_limit_milli=0, hugepages={2**21: 2**22}, devices={"a.b/c": 1})
    grants = (
        Grant(pod="u", container="i", pool="shared", ends=True),
        Grant(
            pod="u",
            container="c",
            exclusive=CpuSet([1, 2]),
            memory=(MemoryBlock(type="memory", nodes=NodeSet([0, 1]), bytes=2**30),),
            devices=(DeviceGrant(resource="a.b/c", ids=("x",)),),
            affinity=NodeSet([0, 1]),
            preferred=True,
        ),
    )
    pod = Pod(
        uid="u",
        name="p",
        namespace="n",
        init=(init,),
        containers=(main,),
        resources=PodResources(cpu_milli=3000),
        overhead_cpu_milli=10,
        overhead_memory_bytes=2**20,
    )
    return NodeLayout(
        name="node-a",
        machine=machine,
        management=Management(
            mode="safe",
            devices={"a.b/c": (DeviceUnit(id="x", nodes=NodeSet([0])), DeviceUnit(id="y", healthy=False))},
            allocatable={"cpu": 95_500, "memory": 2**39, "a.b/c": 2},
        ),
        heartbeat=1_800_000_000.5,
        generation=17,
        pods=(HeldPod(pod=pod, grants=grants),),
        offers=Offers(classes={"l3": {"gold": 3, "any": None}}, profiles={"fast": 4}, watts_headroom=12.5),
    )


def test_a_layout_that_was_written_is_read_back_the_same(dgx: Machine) -> None:
    layout = full(dgx)
    back = read_layout(msgspec.json.encode(write_layout(layout)))
    machine = msgspec.structs.replace(back.machine, name=dgx.name, source=dgx.source)
    assert msgspec.structs.replace(back, machine=machine) == layout


def test_nodes_of_equal_hardware_publish_the_very_same_spec(dgx: Machine) -> None:
    one, other = full(dgx), msgspec.structs.replace(full(dgx), name="node-b")
    renamed = msgspec.structs.replace(other, machine=msgspec.structs.replace(dgx, name="host-7", source="/sys"))
    assert write_layout(one)["spec"] == write_layout(renamed)["spec"]


def test_the_kind_that_is_installed_has_every_part_that_is_written(dgx: Machine) -> None:
    (crd,) = yaml.safe_load_all(CRD.read_text())
    (version,) = crd["spec"]["versions"]
    assert f"{crd['spec']['group']}/{version['name']}" == API_VERSION
    assert crd["spec"]["names"]["kind"] == KIND
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    written = write_layout(full(dgx), {"cpuManagerPolicy": "static"})
    for part in ("spec", "status"):
        assert written[part].keys() == schema[part]["properties"].keys()


_ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inside for place in _places(one, (*path, key)))]


TINY = Machine(
    name="tiny",
    online=CpuSet(range(4)),
    cores=tuple(Core(id=c, core_id=c, cpus=CpuSet([c]), package=0) for c in range(4)),
    packages=(),
    nodes=(MemoryNode(id=0, cpus=CpuSet(range(4)), memory_bytes=2**34),),
)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_layout_with_anything_in_any_place_is_read_or_refused_in_words(data: st.DataObject) -> None:
    value = write_layout(full(TINY), {"cpuManagerPolicy": "static"})
    assert read_layout(msgspec.json.encode(value)).name == "node-a"
    place = data.draw(st.sampled_from([place for place in _places(value) if place]))
    target = value
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = data.draw(_ANY)
    problem = _problem(value)
    assert problem is None or problem.isprintable()


def _problem(value: dict[str, Any]) -> str | None:
    """What is said of a document that cannot be used. Nothing but `InputError` may come out of it."""
    try:
        read_layout(msgspec.json.encode(value))
    except InputError as error:
        return str(error)
    return None

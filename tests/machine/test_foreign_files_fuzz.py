"""Whatever a file holds, a reader answers with an `InputError` or with a Machine that is consistent.

Faults are made in two ways: in the text (cut, doubled, overwritten) and in single values, so that some get past the
parser. The long run does the same with the real topologies and presets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.files.presets import load_preset
from bayplan.machine import description, document, hwloc, preset, saved
from bayplan.machine.check import check
from bayplan.machine.model import Machine
from bayplan.machine.zones import build_zones

TOPOLOGY = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000001f" allowed_cpuset="0x00000007">
    <info name="Architecture" value="x86_64"/>
    <object type="Package" os_index="0" cpuset="0x0000000f" gp_index="1"><info name="CPUModel" value="X"/>
      <object type="MemCache" cpuset="0x00000003" cache_size="99" depth="1" cache_linesize="64">
        <object type="NUMANode" os_index="0" cpuset="0x00000003" gp_index="2" local_memory="4194304">
          <page_type size="4096" count="512"/><page_type size="2097152" count="1"/></object></object>
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" gp_index="3" local_memory="1024"/>
      <object type="NUMANode" os_index="2" cpuset="0x0000000f" gp_index="4" local_memory="1024" subtype="HBM"/>
      <object type="L3Cache" cpuset="0x0000000f" gp_index="5" cache_size="100" depth="3" cache_type="0"
              cache_associativity="-1">
        <object type="Die" os_index="0" cpuset="0x00000003"><object type="Core" os_index="0" cpuset="0x00000003">
          <object type="PU" os_index="0" cpuset="0x00000001"/><object type="PU" os_index="1" cpuset="0x00000002"/>
        </object></object>
        <object type="Die" os_index="1" cpuset="0x0000000c"><object type="Core" os_index="1" cpuset="0x0000000c">
          <object type="PU" os_index="2" cpuset="0x00000004"/><object type="PU" os_index="3" cpuset="0x00000008"/>
        </object></object>
      </object>
      <object type="Bridge"><object type="PCIDev" gp_index="6" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330]"/>
        <object type="PCIDev" gp_index="7" pci_busid="0000:02:00.0" pci_type="0302 [10de:2330]"/></object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="3" kind="5" name="NUMALatency" indexing="os"><indexes length="6">0 1 2 </indexes>
    <u64values length="30">10 20 15 20 10 15 15 15 10 </u64values></distances2>
  <distances2 type="PCIDev" nbobjs="2" kind="9" name="NVLinkBandwidth" indexing="gp"><indexes length="4">6 7 </indexes>
    <u64values length="10">0 25 25 0 </u64values></distances2>
  <memattr name="Bandwidth" flags="5"><memattr_value target_obj_type="NUMANode" target_obj_gp_index="4" value="20"
    initiator_cpuset="0x0000000f"/></memattr>
  <cpukind cpuset="0x00000003"><info name="CoreType" value="IntelCore"/>
    <info name="FrequencyMaxMHz" value="9"/></cpukind>
  <cpukind cpuset="0x0000000c"><info name="CoreType" value="IntelAtom"/><info name="LinuxCapacity" value="9"/></cpukind>
</topology>
"""
SAVED = saved.dump(load_preset("power9-ac922")).decode()
VALUES = [
    "",
    "0",
    "-1",
    "1",
    "7",
    "65535",
    "65536",
    "4294967295",
    "9" * 30,
    "x",
    "0x0",
    "0xf...f",
    "0xffffffff",
    "0-3",
    "\u202e",
]
PLAIN: list[Any] = [None, True, -1, 0, 3, 70_000, 2**63, 2**70, 1.5, "", "0-3", "65535", "\x1b[2J", [], {}, [[]], [{}]]
_VALUE = re.compile(r'(?<=")[^"<>]*(?=")|(?<=>)[^<>]+(?=</)')


def survives(read: Callable[[], Machine]) -> None:
    """A Machine, checked and with a tree of zones; or an InputError that can be shown."""
    try:
        machine = read()
    except InputError as error:
        shown = str(error)
    else:
        shown = check(machine).name
        build_zones(machine)

    assert shown.isprintable()


def broken(draw: st.DrawFn, text: str) -> str:
    """The text with some of its parts cut, doubled, moved or overwritten."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 200)))
        insert = draw(
            st.sampled_from(["", text[start:end] * 2, "<", '"', "{", "&x;", "]]>", "\x00", "9" * 40, "\ud800"])
        )
        text = text[:start] + insert + text[end:]
    return text


def revalued(draw: st.DrawFn, text: str) -> str:
    """The XML with some values replaced."""
    for _ in range(draw(st.integers(1, 4))):
        places = [match.span() for match in _VALUE.finditer(text)]
        start, end = draw(st.sampled_from(places))
        text = text[:start] + draw(st.sampled_from([*VALUES, *re.findall(r'"(0x\w+)"', text)])) + text[end:]
    return text


def replaced(draw: st.DrawFn, value: Any) -> Any:
    """A plain value with one part of it replaced, taken out or doubled."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: replaced(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        index = draw(st.integers(0, len(value) - 1))
        action = draw(st.sampled_from(["replace", "remove", "double"]))
        middle = {"replace": [replaced(draw, value[index])], "remove": [], "double": [value[index]] * 2}[action]
        return value[:index] + middle + value[index + 1 :]
    return draw(st.sampled_from(PLAIN))


@given(st.data())
def test_broken_hwloc_text(data: st.DataObject) -> None:
    text = data.draw(st.composite(broken)(TOPOLOGY))
    survives(lambda: hwloc.read(text, name="x"))


@given(st.data())
def test_wrong_values_in_hwloc(data: st.DataObject) -> None:
    text = data.draw(st.composite(revalued)(TOPOLOGY))
    survives(lambda: hwloc.read(text, name="x"))


@given(st.binary(max_size=200))
def test_noise_is_no_topology(noise: bytes) -> None:
    with pytest.raises(InputError):
        hwloc.read(noise, name="x")
    with pytest.raises(InputError):
        saved.load(noise)


@given(st.data())
def test_broken_machine_files(data: st.DataObject) -> None:
    text = data.draw(st.composite(broken)(SAVED))
    survives(lambda: saved.load(text))
    survives(lambda: saved.load("#\n" + text))  # the comment makes it YAML


@given(st.data())
def test_wrong_values_in_machine_files(data: st.DataObject) -> None:
    values = data.draw(st.composite(replaced)(msgspec.json.decode(SAVED)))
    survives(lambda: saved.load(msgspec.json.encode(values)))


@given(st.data())
def test_wrong_values_in_descriptions(data: st.DataObject) -> None:
    values: dict[str, Any] = {
        "apiVersion": document.API_VERSION,
        "kind": description.KIND,
        "summary": "s",
        "sources": [],
        "architecture": "x",
        "packages": {
            "count": 2,
            "dies": 1,
            "nodes": 2,
            "cores": [{"count": 4, "threads": 2, "l2": "1Mi", "l2_cores": 2}],
        },
        "memory": {"bytes": "1Gi", "ids": [0, 1, 2, 3]},
        "bare_memory": [{"ids": "8-9", "near": 0, "kind": "hbm"}],
        "distances": {"machine": 20, "pairs": [{"a": "0", "b": "8-9", "distance": 13}]},
        "devices": [{"kind": "gpu", "name": "g", "addresses": ["a", "b"], "nodes": [0, 1], "linked": True}],
    }
    changed = data.draw(st.composite(replaced)(values))
    if isinstance(changed, dict):
        survives(lambda: preset.expand(description.read(changed), name="x"))


def test_the_unbroken_texts_are_read() -> None:
    machine = hwloc.read(TOPOLOGY, name="x")
    assert machine.node_by_id[2].access is not None
    assert machine.devices[0].links == ("0000:02:00.0",)
    assert len(machine.dies) == 2
    assert len(machine.core_kinds) == 2
    assert saved.load(SAVED).nodes
    assert saved.load("#\n" + SAVED) == saved.load(SAVED)


@pytest.mark.long
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_broken_real_topologies(shared_data: Path, data: st.DataObject) -> None:
    paths = sorted((shared_data / "sysfs").glob("*.xml"))
    text = data.draw(st.sampled_from([path for path in paths if path.stat().st_size < 50_000])).read_text()
    change = data.draw(st.sampled_from([broken, revalued]))
    survives(lambda: hwloc.read(data.draw(st.composite(change)(text)), name="x"))

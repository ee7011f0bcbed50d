"""A machine file says what is wrong with it: which field, which value, what was wanted."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from bayplan.errors import InputError
from bayplan.files.presets import load_preset, preset_names
from bayplan.idset import CpuSet
from bayplan.machine import document, saved
from bayplan.machine.model import Core, HugepagePool, Machine, MemoryAccess, MemoryNode, MemorySideCache, Package

SMALL = Machine(
    name="small",
    online=CpuSet.parse("0-1"),
    offline=CpuSet.parse("2-3"),
    cores=(Core(id=0, core_id=0, cpus=CpuSet.parse("0-1"), package=0),),
    packages=(Package(id=0, cpus=CpuSet.parse("0-1")),),
    nodes=(
        MemoryNode(
            id=0,
            cpus=CpuSet.parse("0-1"),
            memory_bytes=2**30,
            hugepages=(HugepagePool(page_bytes=2**21, count=4),),
            access=MemoryAccess(read_latency_ns=90),
            side_caches=(MemorySideCache(level=1, bytes=2**20),),
        ),
    ),
)


def small(**changes: object) -> str:
    """The file of SMALL with some fields replaced or (`...`) taken out."""
    fields = {**msgspec.json.decode(saved.dump(SMALL)), **changes}
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not ...}).decode()


@pytest.mark.parametrize("name", preset_names())
def test_a_machine_comes_back_from_its_file(name: str) -> None:
    machine = load_preset(name)
    assert saved.load(saved.dump(machine)) == machine


def test_yaml_is_read_as_well() -> None:
    text = yaml.safe_dump(msgspec.json.decode(saved.dump(SMALL)))
    assert saved.load(text) == SMALL
    assert saved.load(text.encode(), source="x.yaml").source == "x.yaml"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"apiVersion": "v1"}, "m.json: apiVersion: unknown version: 'v1' (expected bayplan.dev/v1alpha1)"),
        ({"apiVersion": ...}, "m.json: apiVersion: unknown version: None (expected bayplan.dev/v1alpha1)"),
        ({"kind": "Pod"}, "m.json: kind: unknown kind: 'Pod' (expected Machine)"),
        ({"name": 3}, "m.json: name: wrong type: 3 (expected str)"),
        ({"online": "3-1"}, "m.json: online: range runs backwards: '3-1' (expected first-last)"),
        ({"online": 7}, "m.json: online: not a list of ids: 7 (expected text like 0-3,8)"),
        ({"cores": [{"id": 0}]}, "m.json: cores[0]: object missing required field `core_id`"),
        ({"cores": [{"id": "0"}]}, "m.json: cores[0].id: wrong type: '0' (expected int)"),
        ({"nodes": ...}, "m.json: object missing required field `nodes`"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        saved.load(small(**changes), source="m.json")
    assert str(caught.value) == message


def test_a_mistyped_field_is_not_dropped_in_silence() -> None:
    with pytest.raises(InputError, match=r"^onlin: unknown field"):
        saved.load(small(onlin="0-3"))
    node = msgspec.json.decode(small())["nodes"][0]
    with pytest.raises(InputError, match=r"^nodes\[0\].hugepages\[0\].pages: unknown field"):
        saved.load(small(nodes=[{**node, "hugepages": [{"page_bytes": 1, "count": 1, "pages": 1}]}]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a mapping: None"),
        ("[1, 2]", "not a mapping"),
        ("{", "not JSON"),
        ("{" + '"a":{' * 100_000, "not JSON|nested too deep"),
        ("a: " + "[" * 40, "line 1: nested too deep"),
        ("a: " + "[" * 100_000, "nest"),
        ("a: &a [1]\nb: *a\n", "line 2: YAML alias"),
        ("a: [1\nb: 2", "not YAML"),
        ("a: 2020-13-45", "not YAML"),
        ("? [a]\n: 1", "not YAML"),
        ("a: \x00", "not YAML"),
        ("--- 1\n--- 2", "not YAML"),
    ],
)
def test_text_that_is_no_document_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        saved.load(text)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="byte 1: not UTF-8"):
        saved.load(b"{\xff}")


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(InputError, match="too large"):
        document.parse("x" * (document.MAX_TEXT_BYTES + 1))


def test_many_small_texts_cannot_stand_for_gigabytes() -> None:
    many = [{"id": index, "core_id": 0, "cpus": "65535", "package": 0} for index in range(20_000)]
    with pytest.raises(InputError, match="too large together"):
        saved.load(small(cores=many))


def test_a_message_carries_no_escapes_from_the_file() -> None:
    with pytest.raises(InputError) as caught:
        saved.load(small(**{"\x1b[2J\n": 1}))
    assert str(caught.value).startswith("\\x1b[2J\\x0a: unknown field")
    with pytest.raises(InputError, match=r"^\\x1b\[2J: online: no CPU is online"):
        saved.load(small(source="\x1b[2J", online=""))

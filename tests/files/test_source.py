"""A machine is found by the words that a person types, and told by what a file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.errors import InputError
from bayplan.files import documents, source
from bayplan.files.presets import load_preset
from bayplan.files.source import open_machine
from bayplan.machine import saved
from bayplan.machine.model import Machine

TOPOLOGY = '<topology><object type="Machine"><object type="PU" os_index="0"/></object></topology>'
DESCRIPTION = """
apiVersion: bayplan.dev/v1alpha1
kind: MachineDescription
summary: one package
sources: []
architecture: x86_64
packages: {cores: [{count: 4}]}
memory: {bytes: 8Gi}
"""


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """The calls that would read a tree of `/sys`; that reader has tests of its own."""
    calls: list[tuple[str, str, str]] = []

    def note(path: str, *, name: str, source: str) -> Machine:
        calls.append((path, name, source))
        return load_preset("gh200")

    monkeypatch.setattr(source, "read_tree", note)
    return calls


def test_presets_are_named() -> None:
    assert open_machine("preset:gh200") is load_preset("gh200")


def test_a_topology_is_told_by_its_prefix_or_its_first_character(tmp_path: Path) -> None:
    path = tmp_path / "lab.v2.xml"
    path.write_text("\n" + TOPOLOGY)
    for words in (f"hwloc:{path}", str(path)):
        machine = open_machine(words)
        assert (machine.name, machine.source, len(machine.online)) == ("lab", words, 1)


@pytest.mark.parametrize("ending", ["json", "yaml", "machine"])
def test_a_machine_file_is_told_by_its_kind(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"m.{ending}"
    path.write_bytes((b"# mine\n" if ending == "yaml" else b"") + saved.dump(load_preset("gh200")))
    machine = open_machine(str(path))
    assert (machine.name, machine.source) == ("gh200", str(path))


def test_a_description_of_ones_own_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "planned.yaml"
    path.write_text(DESCRIPTION)
    machine = open_machine(str(path))
    assert (machine.name, len(machine.cores), machine.memory_bytes) == ("planned", 4, 8 * 2**30)


@pytest.mark.parametrize("words", ["", "live"])
def test_nothing_is_this_machine(trees: list[tuple[str, str, str]], words: str) -> None:
    open_machine(words)
    assert trees == [("/", "live", "live")]


def test_captures_are_told_by_prefix_folder_or_first_bytes(trees: list[tuple[str, str, str]], tmp_path: Path) -> None:
    starts = {
        "a.tgz": b"\x1f\x8b\x08",
        "b.tar.bz2": b"BZh9",
        "c.tar.xz": b"\xfd7zXZ\x00",
        "d.tar": b"sys/".ljust(257, b"\0") + b"ustar",
    }
    for name, start in starts.items():
        (tmp_path / name).write_bytes(start)
        open_machine(str(tmp_path / name))
    open_machine(str(tmp_path))
    open_machine("sysfs:lab/x.tar.gz")
    assert [name for _, name, _ in trees] == ["a", "b", "c", "d", tmp_path.name, "x"]
    assert trees[-1] == ("lab/x.tar.gz", "x", "sysfs:lab/x.tar.gz")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("preset:", "preset:: nothing named"),
        ("preset:gh20", "unknown preset: 'gh20' (expected gh200"),
        ("hwloc:/nowhere/x.xml", "hwloc:/nowhere/x.xml: cannot be read (No such file or directory)"),
        ("/nowhere", "/nowhere: cannot be read (No such file or directory)"),
        ("gh200", "gh200: no such file (expected preset:gh200 for the preset of that name)"),
        ("a\0b", "cannot be read"),
        ("a" * 5000, "cannot be read (File name too long)"),
    ],
)
def test_what_cannot_be_opened_is_named(words: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        open_machine(words)
    assert message in str(caught.value)


def test_a_file_of_nothing_known_says_what_was_expected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("hello")
    with pytest.raises(InputError, match="not a mapping: 'hello'"):
        open_machine(str(path))
    path.write_text("kind: Pod\napiVersion: v1\n")
    with pytest.raises(InputError, match="apiVersion: unknown version: 'v1'"):
        open_machine(str(path))


def test_a_file_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 2**20)
    with pytest.raises(InputError, match="too large"):
        open_machine("/dev/zero")

"""A captured machine is the machine, and nothing but."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bayplan.errors import InputError
from bayplan.files import open_tree
from bayplan.files.capture import capture
from bayplan.machine import Machine
from bayplan.machine.sysfs import read

Make = Callable[..., Path]
PCI = "sys/bus/pci/devices"
MEMBERS = {
    "etc/hostname": "secret-host\n",
    "sys/devices/system/cpu/online": "0-1\n",
    "sys/devices/system/cpu/cpu2/online": "0\n",
    "sys/devices/system/cpu/vulnerabilities/x": "y\n",
    "sys/devices/system/node/node0/cpumap": "3\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 8 kB\nNode 0 MemFree: 4 kB\n",
    "sys/devices/system/node/node3/cpumap": "0\n",
    "sys/devices/system/node/node3/meminfo": "Node 3 MemTotal: 8 kB\n",
    "sys/devices/system/node/node3/access0/initiators/node0": "->../../../node0",
    "sys/bus/dax/drivers/kmem/dax0.0": "->../../../../devices/ndbus0/dax0.0",
    "sys/bus/dax/devices/dax0.0": "->../../../devices/ndbus0/dax0.0",
    "sys/devices/ndbus0/dax0.0/target_node": "3\n",
    "sys/devices/ndbus0/dax0.0/serial": "secret-dimm\n",
    "sys/devices/pci0000:00/0000:00:01.0/class": "0x020000\n",
    "sys/devices/pci0000:00/0000:00:01.0/net/eth0/address": "52:54:00:12:34:56\n",
    "sys/devices/pci0000:00/0000:00:01.0/physfn": "->../0000:00:00.0",
    f"{PCI}/0000:00:01.0": "->../../../devices/pci0000:00/0000:00:01.0",
    "sys/class/dmi/id/product_name": "Box\n",
    "sys/class/dmi/id/product_serial": "secret-serial\n",
    "sys/class/dmi/id/product_uuid": "secret-uuid\n",
    "proc/cpuinfo": "model name : X\nSerial : secret-cpu\n",
    "proc/driver/nvidia/gpus/0000:00:01.0/information": "Model: \t GPU\nGPU UUID: \t secret-gpu\n",
}


def without_source(machine: Machine) -> Machine:
    return msgspec.structs.replace(machine, source="")


def test_the_machine_comes_back_and_no_secret_with_it(make_folder: Make, tmp_path: Path) -> None:
    root, out = make_folder(MEMBERS), tmp_path / "out.tar.gz"
    machine = capture(root, out)
    assert (machine.name, machine.nodes[1].kind, machine.devices[0].virtual_function_of) == (
        "Box",
        "pmem",
        "0000:00:00.0",
    )
    assert str(machine.offline) == "2"
    assert without_source(read(open_tree(out))) == without_source(machine)
    with tarfile.open(out) as archive:
        members = archive.getmembers()
        contents = [stream.read() for m in members if m.isfile() and (stream := archive.extractfile(m))]
    assert len(contents) == 10
    assert not any(b"secret" in content or b"52:54" in content for content in contents)
    assert not any("serial" in m.name or "address" in m.name or "vulnerabilities" in m.name for m in members)


def test_only_what_the_reader_asked_for_goes_in(make_folder: Make, tmp_path: Path) -> None:
    out = tmp_path / "out.tar.gz"
    capture(make_folder(MEMBERS), out)
    with tarfile.open(out) as archive:
        names = archive.getnames()
    assert names == sorted(names)
    assert f"{PCI}/0000:00:01.0/class" in names
    assert "sys/devices/system/node/node3/access0/initiators/node0" in names
    assert not any(name.startswith(("etc", "sys/devices/pci")) for name in names)


def test_this_very_machine_comes_back(tmp_path: Path) -> None:
    machine = capture("/", tmp_path / "live.tar.gz")
    assert len(machine.online) >= 1
    assert without_source(read(open_tree(tmp_path / "live.tar.gz"))) == without_source(machine)


def test_a_capture_of_a_capture_is_the_same_file(make_folder: Make, tmp_path: Path) -> None:
    first, second = tmp_path / "first.tar.gz", tmp_path / "second.tar.gz"
    capture(make_folder(MEMBERS), first)
    capture(first, second)
    assert first.read_bytes() == second.read_bytes()


def test_nothing_is_overwritten_unless_asked(make_folder: Make, tmp_path: Path) -> None:
    root, out = make_folder(MEMBERS), tmp_path / "out.tar.gz"
    out.write_text("precious")
    with pytest.raises(InputError, match=r"out\.tar\.gz: exists already"):
        capture(root, out)
    assert out.read_text() == "precious"
    capture(root, out, overwrite=True)
    assert read(open_tree(out)).name == "Box"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_interrupts_it_leaves_nothing_behind(
    make_folder: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    def interrupt(_: int) -> None:
        raise interruption

    root = make_folder(MEMBERS)
    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises((KeyboardInterrupt, InputError)):
        capture(root, tmp_path / "out.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_a_place_that_cannot_be_written_is_an_error(make_folder: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        capture(make_folder(MEMBERS), tmp_path / "nowhere" / "out.tar.gz")


def test_a_folder_without_a_machine_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no CPUs"):
        capture(tmp_path, tmp_path / "out.tar.gz")
    assert list(tmp_path.iterdir()) == []

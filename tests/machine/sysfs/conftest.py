"""A small made machine, of which tests change a few files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from bayplan.machine import Machine
from bayplan.machine.sysfs import read
from bayplan.machine.tree import DictTree

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"

Build = Callable[..., Machine]


def base_files() -> dict[str, str]:
    """Two packages of two cores of two threads, a memory node each: CPUs 0-3 and 4-7, threads beside each other."""
    files = {f"{CPU}/online": "0-7\n", f"{CPU}/present": "0-7\n"}
    for cpu in range(8):
        core, package = cpu // 2, cpu // 4
        topology = f"{CPU}/cpu{cpu}/topology"
        files |= {
            f"{topology}/core_id": f"{core % 2}\n",
            f"{topology}/physical_package_id": f"{package}\n",
            f"{topology}/thread_siblings": f"{0b11 << 2 * core:08x}\n",
            f"{topology}/core_siblings": f"{0b1111 << 4 * package:08x}\n",
        }
        for index, (level, kind, size, mask) in enumerate(
            (
                (1, "Data", "32K", 0b11 << 2 * core),
                (1, "Instruction", "32K", 0b11 << 2 * core),
                (2, "Unified", "1M", 0b11 << 2 * core),
                (3, "Unified", "16384K", 0b1111 << 4 * package),
            )
        ):
            cache = f"{CPU}/cpu{cpu}/cache/index{index}"
            files |= {
                f"{cache}/level": f"{level}\n",
                f"{cache}/type": f"{kind}\n",
                f"{cache}/size": f"{size}\n",
                f"{cache}/shared_cpu_map": f"{mask:08x}\n",
                f"{cache}/coherency_line_size": "64\n",
                f"{cache}/ways_of_associativity": "8\n",
            }
    for node in range(2):
        files |= {
            f"{NODE}/node{node}/cpumap": f"{0b1111 << 4 * node:08x}\n",
            f"{NODE}/node{node}/meminfo": f"Node {node} MemTotal:       1048576 kB\n",
            f"{NODE}/node{node}/distance": ("10 21\n", "21 10\n")[node],
        }
    return files


@pytest.fixture
def sound_files() -> dict[str, str]:
    """The files of the made machine."""
    return base_files()


@pytest.fixture
def made() -> Build:
    """Reads the made machine with some files changed, added, or (None) taken away; `gone` takes away whole folders."""

    def build(
        changes: Mapping[str, str | None] | None = None,
        *,
        links: Mapping[str, str] | None = None,
        gone: tuple[str, ...] = (),
    ) -> Machine:
        files: dict[str, str | None] = {**base_files(), **(changes or {})}
        kept = {
            path: content
            for path, content in files.items()
            if content is not None and not any(path.startswith(f"{folder}/") for folder in gone)
        }
        return read(DictTree(kept, links), source="made")

    return build

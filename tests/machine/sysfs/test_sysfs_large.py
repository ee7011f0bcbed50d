"""A large machine is read quickly, for a person waits for it."""

from __future__ import annotations

from collections import Counter

from bayplan.machine.counts import counts_line
from bayplan.machine.sysfs import read
from bayplan.machine.tree import DictTree

CPU = "sys/devices/system/cpu"
CPUS = 512


class CountingTree(DictTree):
    """Counts what is read."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__(files)
        self.reads: Counter[str] = Counter()

    def read(self, path: str) -> str | None:
        self.reads[path] += 1
        return super().read(path)


def mask(first: int, count: int) -> str:
    digits = f"{((1 << count) - 1) << first:0{CPUS // 4}x}"
    return ",".join(digits[i : i + 8] for i in range(0, len(digits), 8))


def large() -> CountingTree:
    """512 CPUs: two packages, threads in pairs, a level 3 cache for each 16 of them, eight nodes."""
    files = {f"{CPU}/online": "0-511\n", f"{CPU}/present": "0-511\n"}
    for cpu in range(CPUS):
        topology = f"{CPU}/cpu{cpu}/topology"
        files |= {
            f"{topology}/core_id": f"{cpu // 2 % 128}\n",
            f"{topology}/physical_package_id": f"{cpu // 256}\n",
            f"{topology}/die_id": "0\n",
            f"{topology}/core_cpus": mask(cpu & ~1, 2),
            f"{topology}/package_cpus": mask(cpu & ~255, 256),
            f"{topology}/cluster_cpus": mask(cpu & ~1, 2),
            f"{CPU}/cpu{cpu}/cpu_capacity": "1024\n",
        }
        for index, (level, size) in enumerate(((1, 2), (1, 2), (2, 2), (3, 16))):
            cache = f"{CPU}/cpu{cpu}/cache/index{index}"
            files |= {
                f"{cache}/level": f"{level}\n",
                f"{cache}/type": ("Data", "Instruction", "Unified", "Unified")[index] + "\n",
                f"{cache}/size": "1024K\n",
                f"{cache}/shared_cpu_map": mask(cpu // size * size, size),
            }
    for node in range(8):
        folder = f"sys/devices/system/node/node{node}"
        files |= {f"{folder}/cpumap": mask(node * 64, 64), f"{folder}/meminfo": f"Node {node} MemTotal: 1024 kB\n"}
    return CountingTree(files)


def test_no_file_of_512_cpus_is_read_twice() -> None:
    tree = large()
    machine = read(tree)
    assert counts_line(machine) == "packages=2 dies=0 numa=8 cores=256 pus=512 l2=256 l3=32"
    assert machine.findings == ()
    assert set(tree.reads.values()) == {1}
    assert sum(tree.reads.values()) < 25 * CPUS

"""A description that cannot be expanded says which field is wrong; one that can gives numbers as Linux would."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.errors import InputError
from bayplan.idset import CpuSet
from bayplan.machine import description, document, preset
from bayplan.machine.model import Machine

BASE: dict[str, Any] = {
    "summary": "s",
    "sources": [],
    "architecture": "x86_64",
    "packages": {"count": 2, "dies": 2, "nodes": 2, "cores": [{"count": 4, "threads": 2, "l1d": "32Ki"}]},
    "memory": {"bytes": "1Gi"},
}


def expanded(**changes: Any) -> Machine:
    header = {"apiVersion": document.API_VERSION, "kind": description.KIND}
    fields = {**header, **BASE, **changes}
    return preset.expand(description.read(fields, source="d.yaml"), name="d", source="d.yaml")


def test_siblings_come_after_all_first_threads() -> None:
    machine = expanded()
    assert [str(core.cpus) for core in machine.cores] == [f"{cpu},{cpu + 8}" for cpu in range(8)]
    assert [(die.package, die.id, str(die.cpus)) for die in machine.dies] == [
        (0, 0, "0-1,8-9"),
        (0, 1, "2-3,10-11"),
        (1, 0, "4-5,12-13"),
        (1, 1, "6-7,14-15"),
    ]
    assert machine.cores[3].die == 1


def test_siblings_can_be_neighbours() -> None:
    machine = expanded(numbering="threads-adjacent")
    assert machine.nodes[1].cpus == CpuSet.parse("4-7")


def test_cores_without_a_sibling_get_no_second_number() -> None:
    cores = [{"count": 2, "threads": 2}, {"count": 2}]
    machine = expanded(packages={"cores": cores})
    assert [str(core.cpus) for core in machine.cores] == ["0,4", "1,5", "2", "3"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": {"bytes": "lots"}}, "d.yaml: memory.bytes: not a quantity: 'lots'"),
        ({"memory": {"bytes": "1Gi", "ids": [0]}}, "d.yaml: memory.ids: not one id a node"),
        ({"memory": {"bytes": "1Gi", "ids": [0, 0, 1, 2]}}, r"d.yaml: nodes\[1\].id: not unique"),
        ({"packages": {"cores": []}}, "d.yaml: packages: CPUs out of range: 0"),
        ({"packages": {"cores": [{"count": 10**9}]}}, r"packages.cores\[0\].count: out of range"),
        ({"packages": {"count": 60_000, "cores": [{"count": 60_000}]}}, "packages: CPUs out of range"),
        ({"packages": {"count": 2_000, "cores": [{"count": 1}]}}, "packages: too many memory nodes"),
        ({"packages": {"cores": [{"count": 4}], "nodes": 3}}, "packages.nodes: does not divide"),
        ({"packages": {"cores": [{"count": 4}], "l3": {"bytes": 1, "cores": 3}}}, "packages.l3.cores: does not divide"),
        ({"packages": {"cores": [{"count": 4, "l2_cores": 3}]}}, r"packages.cores\[0\].l2_cores: does not divide"),
        ({"packages": {"cores": [{"count": 4}], "ids": [1, 2]}}, "packages.ids: not one id a package"),
        ({"packages": {"cores": [{"cout": 4}]}}, r"d.yaml: packages.cores\[0\]: object"),
        ({"bare_memory": [{"ids": "9", "near": 77, "kind": "hbm"}]}, r"bare_memory\[0\].near: no such node: 77"),
        ({"bare_memory": [{"ids": "0", "near": 0, "kind": "hbm"}]}, r"nodes\[1\].id: not unique"),
        ({"devices": [{"kind": "gpu", "name": "", "addresses": ["a"], "nodes": []}]}, "not one node a device"),
        ({"devices": [{"kind": "gpu", "name": "", "addresses": ["a"], "nodes": [9]}]}, "no such memory node: 9"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        expanded(**changes)

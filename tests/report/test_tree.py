"""A machine as the tree of its zones."""

from __future__ import annotations

import pytest

from bayplan.files.presets import load_preset, preset_names
from bayplan.report.tree import draw_tree


@pytest.mark.parametrize("name", preset_names())
def test_every_core_and_memory_node_has_its_line(name: str) -> None:
    machine = load_preset(name)
    lines = draw_tree(machine).splitlines()
    assert sum("core " in line for line in lines) == len(machine.cores)
    assert sum("memory: node " in line for line in lines) == len(machine.nodes)
    assert sum("device: " in line for line in lines) == len(machine.devices)


def test_what_is_inside_stands_further_in() -> None:
    lines = draw_tree(load_preset("dgx-h100")).splitlines()
    assert lines[:3] == ["machine: CPUs 0-223", "├─ package 0: CPUs 0-55,112-167", "│  └─ node 0: CPUs 0-55,112-167"]
    assert draw_tree(load_preset("gb200-tray"), unicode=False).isascii()

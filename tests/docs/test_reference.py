"""The reference of commands is what the program says of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from bayplan.cli.reference import reference

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_reference_of_commands_has_not_drifted() -> None:
    kept = (REPOSITORY / "docs/reference/commands.md").read_text()
    assert reference() == kept, "run `make docs` and commit docs/reference/commands.md"


def test_every_warning_that_a_plan_can_carry_is_in_the_docs() -> None:
    written = "".join(path.read_text() for path in (REPOSITORY / "src/bayplan").rglob("*.py"))
    names = set(re.findall(r'^[A-Z_]+ = "(kubelet-[a-z-]+)"', written, re.MULTILINE))
    names |= set(re.findall(r'Notice\(\s*name="([a-z-]+)"', written))
    assert len(names) >= 10
    told = (REPOSITORY / "docs/kubelet.md").read_text()
    assert not {name for name in names if f"`{name}`" not in told}


def test_the_picture_of_the_readme_is_what_the_program_draws(tmp_path: Path) -> None:
    arguments = [
        *("plan", "examples/workload.yaml", "--machine", "preset:dgx-h100"),
        *("--kubelet-config", "examples/kubelet.yaml", "--hugepages", "1Gi=16", "-o", "svg", "--quiet"),
    ]
    program = str(Path(sys.executable).parent / "bayplan")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    drawn = subprocess.run(
        [program, *arguments], cwd=REPOSITORY, capture_output=True, text=True, env=environment, check=False
    )
    assert drawn.stdout == (REPOSITORY / "docs/picture.svg").read_text(), "run `make docs` and commit docs/picture.svg"


def test_the_picture_of_simulations_is_what_the_program_draws() -> None:
    arguments = ["preset:small", "--policy", "values,fgd,bestfit,pwr,random", "--seeds", "1-5", "-o", "svg", "--quiet"]
    program = str(Path(sys.executable).parent / "bayplan")
    drawn = subprocess.run([program, "simulate", *arguments], capture_output=True, text=True, check=False)
    assert drawn.stdout == (REPOSITORY / "docs/cards.svg").read_text(), "run `make docs` and commit docs/cards.svg"

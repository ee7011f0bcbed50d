"""The reference of commands is what the program says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bayplan.cli.reference import reference

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_reference_of_commands_has_not_drifted() -> None:
    kept = (REPOSITORY / "docs/reference/commands.md").read_text()
    assert reference() == kept, "run `make docs` and commit docs/reference/commands.md"


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

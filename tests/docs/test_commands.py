"""Every command in the README and the docs works as it is printed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted([REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACED_OR_REFUSED = (0, 3)


def commands_of(page: Path) -> list[str]:
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.splitlines()]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which the commands find what they name, and in which they may write."""
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    for name in ("benchmarks", "tests", "src"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_of_a_page_run(page: Path, folder: Path) -> None:
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    for command in commands_of(page):
        if command.startswith("make "):  # what continuous integration runs; that the target is there is enough here
            assert command.split()[1] in targets, command
            continue
        line = command.replace(".venv/bin/", "")
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env=environment, capture_output=True, timeout=300, check=False
        )
        assert done.returncode in PLACED_OR_REFUSED, f"{command}\n{done.stderr.decode()}"


def test_pages_have_commands_at_all() -> None:
    named = {shlex.split(command)[0] for page in PAGES for command in commands_of(page)}
    assert {"bayplan", ".venv/bin/bayplan", "make", "python"} <= named


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(REPOSITORY)}: {target}"

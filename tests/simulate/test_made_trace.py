"""The small trace that comes along is what its script makes."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from bayplan.simulate import made_trace

FOLDER = resources.files("bayplan.simulate") / "presets" / "small"


@pytest.mark.parametrize("name", ["nodes.csv", "pods.csv"])
def test_the_files_have_not_drifted(name: str, tmp_path: Path) -> None:
    made_trace.main(str(tmp_path))
    kept = (FOLDER / name).read_text()
    assert (tmp_path / name).read_text() == kept, (
        "python -m bayplan.simulate.made_trace src/bayplan/simulate/presets/small"
    )

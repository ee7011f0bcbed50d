"""Where the data shared between projects is, and how skipped tests are held to account."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder `shared/data` beside the repository, or the one that BAYPLAN_SHARED_DATA names."""
    folder = Path(os.environ.get("BAYPLAN_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"shared data is absent: no folder {folder}; BAYPLAN_SHARED_DATA can name another")
    return folder

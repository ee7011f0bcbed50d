"""Where the last plan is kept for `bayplan explain`, and where it cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bayplan.cli.last_plan import keep, last_plan
from bayplan.errors import InputError
from bayplan.fleet.plan import Plan


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with neither HOME nor a line in the password database, like the numbered ones in a container."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)


def test_a_plan_is_kept_and_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = Plan(nodes=(), placements=())
    assert keep(plan) == ""
    assert last_plan() == plan


@pytest.mark.usefixtures("nobody")
def test_without_a_home_a_plan_is_not_kept_and_that_is_said() -> None:
    assert "no home folder; set XDG_CACHE_HOME" in keep(Plan(nodes=(), placements=()))
    with pytest.raises(InputError, match="no last plan: this user has no home folder"):
        last_plan()

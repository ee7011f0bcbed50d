"""Where the data shared between projects is, how work is counted, and how skipped tests are held to account."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# The same examples every time, so that a run fails for what a change did and for nothing else; `make test-long` looks
# for new ones. No deadline: machines are shared.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.register_profile("searching", deadline=None)
hypothesis.settings.load_profile("searching" if os.environ.get("BAYPLAN_SEARCH") else "steady")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder `shared/data` beside the repository, or the one that BAYPLAN_SHARED_DATA names."""
    folder = Path(os.environ.get("BAYPLAN_SHARED_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"shared data is absent: no folder {folder}; BAYPLAN_SHARED_DATA can name another")
    return folder


@pytest.fixture(scope="session")
def openb_data(shared_data: Path) -> Path:
    """The folder of the openb trace in the shared data."""
    folder = shared_data / "openb"
    if not folder.is_dir():
        pytest.skip(f"shared data is absent: no folder {folder}")
    return folder


@pytest.fixture(scope="session")
def calls() -> Callable[[Callable[[], object]], int]:
    """Counts the function calls, Python's and C's, that some work takes.

    The same number on every machine, however busy, which seconds are not; those are for `benchmarks/reading.py`.
    """

    def count(work: Callable[[], object]) -> int:
        number = 0

        def event(frame: object, kind: str, argument: object) -> None:
            nonlocal number
            number += kind in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(event)
        try:
            work()
        finally:
            sys.setprofile(before)
        return number

    return count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where BAYPLAN_CI is set, name the skipped tests that are not on the list of tests that may be skipped."""
    unexpected = _unexpected_skips(terminalreporter)
    if unexpected:
        terminalreporter.section("tests that must not be skipped here")
        for name, reason in unexpected:
            terminalreporter.line(f"{name}: {reason}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where BAYPLAN_CI is set, such a skip fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter is not None and _unexpected_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unexpected_skips(reporter: pytest.TerminalReporter) -> list[tuple[str, str]]:
    if not os.environ.get("BAYPLAN_CI"):
        return []
    lines = (REPOSITORY / "tests" / "allowed-skips.txt").read_text().splitlines()
    allowed = {line.split("  ", 1)[0] for line in lines if line and not line.startswith("#")}
    folders = tuple(entry for entry in allowed if entry.endswith("/"))
    return [
        (report.nodeid, str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr))
        for report in reporter.stats.get("skipped", [])
        if report.nodeid not in allowed and not report.nodeid.startswith(folders)
    ]

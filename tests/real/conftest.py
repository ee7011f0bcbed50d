"""A real control plane for the tests that need one: it is started once, and every test leaves it empty."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from tests.real.control_plane import ControlPlane, MissingError, binaries
from tests.real.processes import tail


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver for the whole session; tests that make objects want `cluster`."""
    try:
        programs = binaries()
    except MissingError as error:
        pytest.skip(str(error))
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"), programs)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane without nodes and pods; what the test makes with `create`, `node` and `pod` goes with it."""
    yield control_plane
    control_plane.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a test that failed the ends of the logs that were written while it ran."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and plane is not None:
        written = [log for log in plane.logs if log.stat().st_mtime >= report.start]
        report.sections += [(f"end of {log.name}", tail(log)) for log in written]
    return report

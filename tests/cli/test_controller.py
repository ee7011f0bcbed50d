"""`bayplan controller`: what its options and its file come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.cli.controller import Inputs, process_of, settings_of
from bayplan.errors import InputError

FILE = """\
controller:
  period: 2s
  evictions: {policies: [default/hot], perMinute: 3}
telemetry:
  missing_policy: allow
"""


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bayplan.yaml"
    file.write_text(FILE)
    upkeep, telemetry = settings_of(Inputs(config=str(file)))
    assert (upkeep.period_s, upkeep.evictions.policies, upkeep.evictions.all_policies) == (2.0, ("default/hot",), False)
    assert telemetry.missing_policy == "allow"
    upkeep, _ = settings_of(Inputs(config=str(file), sync_period="7s", evicts=True))
    assert (upkeep.period_s, upkeep.evictions.all_policies, upkeep.evictions.cards) == (7.0, True, True)
    assert upkeep.evictions.per_minute == 3


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("controler: {}", "bayplan.yaml: controler: unknown section (expected controller, telemetry)"),
        ("controller: {period: 0s}", "bayplan.yaml: controller.period: too short: '0s' (expected at least 0.1s)"),
        ("telemetry: {missing_policy: maybe}", "bayplan.yaml: telemetry: Invalid enum value 'maybe'"),
        ("a: 1\n---\nb: 2", "bayplan.yaml: 2 documents (expected one)"),
        ("- 1", "is a list (expected a mapping)"),
    ],
)
def test_a_file_that_cannot_be_used(content: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bayplan.yaml").write_text(content)
    with pytest.raises(InputError) as wrong:
        settings_of(Inputs(config="bayplan.yaml"))
    assert error in str(wrong.value)


@pytest.mark.parametrize("period", ["soon", "0s", "5 s"])
def test_a_period_that_is_none(period: str) -> None:
    with pytest.raises(InputError, match="--syncPeriod"):
        settings_of(Inputs(sync_period=period))


def test_who_and_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "controller-1")
    monkeypatch.setenv("POD_NAMESPACE", "here")
    assert (process_of(Inputs()).identity, process_of(Inputs()).namespace) == ("controller-1", "here")
    assert process_of(Inputs(namespace="there")).namespace == "there"
    monkeypatch.delenv("POD_NAME")
    assert process_of(Inputs()).identity


def test_tls_needs_both_files() -> None:
    assert process_of(Inputs()).tls is None
    tls = process_of(Inputs(certificate="c", key="k", client_ca="ca")).tls
    assert tls is not None
    assert tls.paths == ("c", "k", "ca")
    with pytest.raises(InputError, match="--cert, --key: one without the other"):
        process_of(Inputs(certificate="c"))

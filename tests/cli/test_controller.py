"""`bayplan controller`: what its options and its file come to."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.app import bayplan
from bayplan.cli.controller import Inputs, configuration_of, process_of
from bayplan.errors import InputError

FILE = """\
controller:
  period: 2s
  evictions: {policies: [default/hot], perMinute: 3}
telemetry:
  missingPolicy: allow
"""


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bayplan.yaml"
    file.write_text(FILE)
    configuration = configuration_of(Inputs(config=str(file)))
    upkeep, telemetry = configuration.upkeep, configuration.scheduling.telemetry
    assert (upkeep.period_s, upkeep.evictions.policies, upkeep.evictions.all_policies) == (2.0, ("default/hot",), False)
    assert telemetry.missing_policy == "allow"
    configuration = configuration_of(Inputs(config=str(file), sync_period="7s", evicts=True))
    upkeep = configuration.upkeep
    assert configuration.sources.polling.interval_s == 7.0
    assert (upkeep.period_s, upkeep.evictions.all_policies, upkeep.evictions.cards) == (7.0, True, True)
    assert upkeep.evictions.per_minute == 3


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("controler: {}", "bayplan.yaml: controler: unknown section (expected "),
        ("controller: {period: 0s}", "bayplan.yaml: controller.period: too short: '0s' (expected at least 0.1s)"),
        ("telemetry: {missingPolicy: maybe}", "bayplan.yaml: telemetry.missingPolicy: Invalid enum value 'maybe'"),
        ("a: 1\n---\nb: 2", "bayplan.yaml: 2 documents (expected one)"),
        ("- 1", "is a list (expected a mapping)"),
    ],
)
def test_a_file_that_cannot_be_used(content: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bayplan.yaml").write_text(content)
    with pytest.raises(InputError) as wrong:
        configuration_of(Inputs(config="bayplan.yaml"))
    assert error in str(wrong.value)


@pytest.mark.parametrize("period", ["soon", "0s", "5 s"])
def test_a_period_that_is_none(period: str) -> None:
    with pytest.raises(InputError, match="--syncPeriod"):
        configuration_of(Inputs(sync_period=period))


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


def test_the_arguments_of_the_original_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Inputs] = []

    def note(inputs: Inputs) -> int:
        seen.append(inputs)
        return 0

    monkeypatch.setattr("bayplan.cli.controller.controller", note)
    arguments = ["-syncPeriod=2s", "--kubeConfig", "/root/.kube/config", "--v=2", "--port=9005", "--logtostderr"]
    ended = CliRunner().invoke(bayplan, ["controller", *arguments])
    assert ended.exit_code == 0, ended.output
    assert seen == [Inputs(sync_period="2s", kubeconfig="/root/.kube/config", verbosity=2, port=9005)]
    CliRunner().invoke(bayplan, ["controller", "--evict", "--dry-run=true", "--no-leader-elect"])
    assert (seen[1].evicts, seen[1].dry_run, seen[1].elects) == (True, True, False)


def test_it_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """Against an API server that is not there: it goes on trying, and ends in order."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        '{"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],'
        '"contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}], "current-context": "c", "users": []}'
    )
    program = "from bayplan.cli import main; main()"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    arguments = ["controller", "--kubeConfig", str(kubeconfig), "--host=127.0.0.1", "--port", port]
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not _answers(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    assert "Traceback" not in said


def _answers(port: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()

"""Where the API is and who we are: kubeconfigs, service accounts, tokens that are rotated, credential plugins."""

from __future__ import annotations

import base64
import json
import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import kmock
import pytest
import trustme
from aiohttp.test_utils import RawTestServer

from bayplan.cluster.api import Api, Settings, UnauthorizedError, UnavailableError, find_config
from bayplan.cluster.api.connection import open_clients
from bayplan.errors import InputError

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def kubeconfig(path: Path, server: str = "http://127.0.0.1:1", user: Any = None, **cluster: Any) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


def connected(path: Path) -> Api:
    return Api.connect(find_config(path), trust_env=False)


def test_the_one_that_is_named_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = kubeconfig(tmp_path / "named", "http://named")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "environment", "http://environment")))
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    kubeconfig(tmp_path / "home" / ".kube" / "config", "http://home")
    assert find_config(named).cluster.server == "http://named"
    assert find_config().cluster.server == "http://environment"
    monkeypatch.delenv("KUBECONFIG")
    assert find_config().cluster.server == "http://home"
    assert find_config().namespace == "ns"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be used as a configuration of the API"),
        ("{}", "no field 'clusters'"),
        ("[]", "cannot be used"),
        ('{"clusters": [{"name": "c", "cluster": {"server": 3}}], "contexts": []}', "Expected `str`"),
        ('{"clusters": [], "contexts": [], "current-context": "y"}', "Context 'y' not found"),
        ('{"clusters": [], "contexts": []}', "No current context"),
    ],
)
def test_a_bad_kubeconfig_is_named(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(InputError, match=problem) as bad:
        find_config(tmp_path / "config")
    assert bad.value.source == str(tmp_path / "config")


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"~/\.kube/config"):
        find_config()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(InputError, match="the service account"):
        find_config()
    with pytest.raises(InputError, match="nothing"):
        find_config(tmp_path / "nothing")
    with pytest.raises(InputError, match="Context 'other' not found"):
        find_config(kubeconfig(tmp_path / "config"), "other")


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", **{"certificate-authority": "gone.crt"})
    with pytest.raises(InputError, match="context x cannot be used"):
        connected(path)


@pytest.mark.parametrize(
    ("environment", "is_proxied"),
    [
        ({}, False),
        ({"http_proxy": "http://127.0.0.1:9"}, True),
        ({"http_proxy": "http://127.0.0.1:9", "no_proxy": "10.0.0.1"}, False),
        ({"https_proxy": "http://127.0.0.1:9"}, False),
    ],
)
async def test_where_a_proxy_is_watches_go_through_it_too(
    environment: dict[str, str], is_proxied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    clients = open_clients(find_config(kubeconfig(tmp_path / "config", "http://10.0.0.1:6443")))
    assert (clients.streams is clients.calls) == is_proxied
    for client in clients:
        await client.aclose()


class Gate:
    """What the server says of tokens: which one is good, and which have come."""

    def __init__(self) -> None:
        self.good = "t1"
        self.seen: list[str] = []

    def __call__(self, request: kmock.Request) -> dict[str, str]:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen.append(token)
        if token != self.good:
            raise kmock.KubernetesError(status=401, reason="Unauthorized", message="who?")
        return {"who": "you"}


@pytest.fixture
async def gate(emulator: Any) -> Gate:
    gate = Gate()
    emulator["get /x"] << gate
    return gate


async def test_a_token_file_that_is_rotated_is_read_again(tmp_path: Path, emulator: Any, gate: Gate) -> None:
    (tmp_path / "token").write_text("t1\n")
    path = kubeconfig(tmp_path / "config", str(emulator.servers[0].url), {"tokenFile": "token"})
    async with connected(path) as api:
        await api.get("/x")
        (tmp_path / "token").write_text("t2")
        gate.good = "t2"
        await api.get("/x")
        await api.get("/x")
    assert gate.seen == ["t1", "t1", "t2", "t2"]


def plugin(folder: Path, status: str) -> dict[str, Any]:
    """A credential plugin that counts its calls in `calls` and prints an ExecCredential."""
    path = folder / "plugin"
    said = f'{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}'
    path.write_text(
        f"#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO $EXTRA $1\" >> '{folder}/calls'\nn=$(wc -l < '{folder}/calls')\n"
        f"cat <<END\n{said}\nEND\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    environment = [{"name": "EXTRA", "value": "extra"}]
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": "./plugin", "args": ["login"], "env": environment}}


async def test_a_plugin_is_asked_once_and_again_when_refused(tmp_path: Path, emulator: Any, gate: Gate) -> None:
    user = plugin(tmp_path, '{"token": "t$n"}')
    async with connected(kubeconfig(tmp_path / "config", str(emulator.servers[0].url), user)) as api:
        await api.get("/x")
        await api.get("/x")
        gate.good = "t2"
        await api.get("/x")
        gate.good = "nobody's"
        with pytest.raises(UnauthorizedError):
            await api.get("/x")
    assert gate.seen == ["t1", "t1", "t1", "t2", "t2", "t3"]
    info = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}'
    assert (tmp_path / "calls").read_text().splitlines() == [f"{info} extra login"] * 3


async def test_a_token_that_has_ended_is_not_used(tmp_path: Path, emulator: Any, gate: Gate) -> None:
    user = plugin(tmp_path, '{"token": "t$n", "expirationTimestamp": "2001-01-01T00:00:00Z"}')
    async with connected(kubeconfig(tmp_path / "config", str(emulator.servers[0].url), user)) as api:
        await api.get("/x")
        gate.good = "t2"
        await api.get("/x")
    assert gate.seen == ["t1", "t2"]


@pytest.mark.parametrize(
    ("status", "problem"),
    [("{}", "gave no token"), ('{"token": 3}', "did not print an ExecCredential"), ("oops", "did not print")],
)
async def test_a_plugin_that_fails_is_no_answer(status: str, problem: str, tmp_path: Path, emulator: Any) -> None:
    user = plugin(tmp_path, status)
    async with connected(kubeconfig(tmp_path / "config", str(emulator.servers[0].url), user)) as api:
        with pytest.raises(UnavailableError, match=problem):
            await api.get("/x")
    assert len(emulator) == 0


async def test_a_plugin_that_ends_badly_is_quoted(tmp_path: Path, emulator: Any) -> None:
    user = plugin(tmp_path, "{}")
    (tmp_path / "plugin").write_text("#!/bin/sh\necho 'please log in' >&2\nexit 3\n")
    async with connected(kubeconfig(tmp_path / "config", str(emulator.servers[0].url), user)) as api:
        with pytest.raises(UnavailableError, match="plugin ended with 3: please log in"):
            await api.get("/x")


async def test_a_plugin_that_hangs_is_killed(tmp_path: Path, emulator: Any, gate: Gate) -> None:
    user = plugin(tmp_path, "{}")
    (tmp_path / "plugin").write_text(f"#!/bin/sh\necho $$ > '{tmp_path}/pid'\nexec sleep 600\n")
    path = kubeconfig(tmp_path / "config", str(emulator.servers[0].url), user)
    async with Api.connect(find_config(path), Settings(call_s=0.5), trust_env=False) as api:
        with pytest.raises(UnavailableError, match=r"no answer within 0\.5 s"):
            await api.get("/x")
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert gate.seen == []


async def test_a_plugin_that_is_not_there_is_no_answer(tmp_path: Path, emulator: Any) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./none"}}
    async with connected(kubeconfig(tmp_path / "config", str(emulator.servers[0].url), user)) as api:
        with pytest.raises(UnavailableError, match="No such file"):
            await api.get("/x")


def test_plugins_of_other_protocols_are_refused(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "example.com/v9", "command": "x"}}
    with pytest.raises(InputError, match=r"plugins of example\.com/v9 are not supported"):
        connected(kubeconfig(tmp_path / "config", user=user))


@pytest.fixture
async def mutual(tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig of a server that wants a client's certificate."""
    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(serving)
    serving.verify_mode = ssl.CERT_REQUIRED
    ours = authority.issue_cert("someone@example.com")

    def data(*blobs: trustme.Blob) -> str:
        return base64.b64encode(b"".join(blob.bytes() for blob in blobs)).decode()

    async with kmock.KubernetesEmulator() as handler:
        handler["get /x"] << b"{}"
        tls_server = RawTestServer(handler, host="127.0.0.1")
        await tls_server.start_server(ssl=serving)
        user = {
            "client-certificate-data": data(*ours.cert_chain_pems),
            "client-key-data": data(ours.private_key_pem),
        }
        cluster = {"certificate-authority-data": data(authority.cert_pem)}
        yield kubeconfig(tmp_path / "config", f"https://127.0.0.1:{tls_server.port}", user, **cluster)
        await tls_server.close()


async def test_client_certificates(mutual: Path) -> None:
    async with connected(mutual) as api:
        assert await api.get("/x") == b"{}"

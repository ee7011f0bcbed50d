"""Where the API server is and who we are: a kubeconfig or the pod's service account, read by lightkube.

Only the client is made here; what goes over it is bytes. The token of a service account is read again when it has been
rotated (lightkube). A credential plugin is asked again when its token ends or is refused; that is ours, because
lightkube 1.0 knows neither the plugins' present version nor the expiry, and waits for a plugin for ever.
Facts: client-go tools/clientcmd, client.authentication.k8s.io/v1 ExecCredential.
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import datetime
import os
import urllib.request
from collections.abc import AsyncGenerator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2
import msgspec
import yaml
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, KubeConfig, SingleConfig
from lightkube.config.models import User, UserExec
from lightkube.core.exceptions import ConfigError

from bayplan.cluster.api.streaming import StreamTransport
from bayplan.errors import InputError

_PLUGIN_API = "client.authentication.k8s.io"
# A token is not used in its last seconds: the server's clock may be ahead.
_EXPIRY_MARGIN_S = 10.0
# What lightkube lets through of a document that is no kubeconfig.
_BAD_CONFIG = (
    ConfigError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    OSError,
    yaml.YAMLError,
    msgspec.MsgspecError,
)


def find_config(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> SingleConfig:
    """The named kubeconfig, else the one of KUBECONFIG, else the service account in a pod, else ~/.kube/config.

    Raises `InputError` that names the file.
    """
    named = os.fspath(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
    in_cluster = not named and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    source = "the service account" if in_cluster else named or DEFAULT_KUBECONFIG
    try:
        config = KubeConfig.from_service_account() if in_cluster else KubeConfig.from_file(source)
        found = config.get(context)
    except _BAD_CONFIG as error:
        problem = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"cannot be used as a configuration of the API: {problem}", source=source) from error
    assert found is not None, "without a default, lightkube raises where nothing is found"
    return found


class Clients(NamedTuple):
    """Two faces of one API server with the same credentials: for calls, and for watches (the same where a proxy is)."""

    calls: httpx2.AsyncClient
    streams: httpx2.AsyncClient


def open_clients(config: SingleConfig, *, trust_env: bool = True) -> Clients:
    """Clients with the certificates and credentials of `config`. Raises `InputError`.

    trust_env: whether HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE are obeyed.
    """
    user = config.user or User()
    try:
        verify = client_adapter.verify_cluster(config.cluster, user, config.abs_file, trust_env=trust_env)
        auth = _auth(user, config)
    except _BAD_CONFIG as error:
        raise InputError(
            f"context {config.context_name} cannot be used: {error}", source=str(config.fname or "")
        ) from error
    server = config.cluster.server
    # Answers are not compressed: the CPU this costs on both sides is worth more than the bytes in a cluster.
    headers = {"User-Agent": f"bayplan/{version('bayplan')}", "Accept-Encoding": "identity"}
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=60)
    calls = httpx2.AsyncClient(
        base_url=server, verify=verify, auth=auth, trust_env=trust_env, headers=headers, limits=limits
    )
    if trust_env and _has_proxy(server):
        return Clients(calls, calls)
    return Clients(
        calls, httpx2.AsyncClient(base_url=server, auth=auth, headers=headers, transport=StreamTransport(verify))
    )


def _has_proxy(server: str) -> bool:
    place = urlsplit(server)
    proxies = urllib.request.getproxies()
    return bool(proxies.get(place.scheme) or proxies.get("all")) and not urllib.request.proxy_bypass(place.netloc)


def _auth(user: User, config: SingleConfig) -> httpx2.Auth | None:
    if user.token_file:
        return client_adapter.BearerTokenFileAuth(str(config.abs_file(user.token_file)))
    if user.exec and not user.token:
        return PluginAuth(user.exec, config.fname.parent if config.fname else None)
    return client_adapter.user_auth(user)


class _Credential(msgspec.Struct, rename="camel"):
    token: str | None = None
    expiration_timestamp: datetime.datetime | None = None
    client_certificate_data: str | None = None


class _ExecCredential(msgspec.Struct):
    status: _Credential


class PluginAuth(httpx2.Auth):
    """Bearer tokens from a credential plugin, asked for once at a time, and kept until they end or are refused."""

    def __init__(self, plugin: UserExec, folder: Path | None) -> None:
        group, _, self._version = plugin.apiVersion.partition("/")
        if group != _PLUGIN_API or not self._version.startswith("v1"):
            raise ConfigError(f"credential plugins of {plugin.apiVersion} are not supported, only {_PLUGIN_API}/v1")
        self._plugin = plugin
        self._folder = folder
        self._token = ""
        self._ends: datetime.datetime | None = None
        self._asking = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Authorize the request; once more with a new token where the server does not take the one we have."""
        used = await self._current(refused="")
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {await self._current(refused=used)}"
            yield request

    async def _current(self, refused: str) -> str:
        async with self._asking:
            if not self._token or self._token == refused or self._has_ended():
                await self._ask()
            return self._token

    def _has_ended(self) -> bool:
        margin = datetime.timedelta(seconds=_EXPIRY_MARGIN_S)
        return self._ends is not None and datetime.datetime.now(datetime.UTC) + margin >= self._ends

    async def _ask(self) -> None:
        api = f"{_PLUGIN_API}/{self._version}"
        info = {"apiVersion": api, "kind": "ExecCredential", "spec": {"interactive": False}}
        said = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        environment = {**os.environ, **{item.name: item.value for item in self._plugin.env or ()}, **said}
        command = self._plugin.command
        if self._folder and "/" in command:
            command = str(self._folder / command)
        output = await _output([command, *(self._plugin.args or ())], environment)
        try:
            found = msgspec.json.decode(output, type=_ExecCredential).status
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{command} did not print an ExecCredential: {error}") from error
        if not found.token:
            raise ConfigError(f"{command} gave no token (client certificates of plugins are not supported)")
        self._token, self._ends = found.token, _aware(found.expiration_timestamp)


async def _output(command: Sequence[str], environment: Mapping[str, str]) -> bytes:
    """What a command prints; it is killed when the caller has waited long enough. Raises `ConfigError`, `OSError`."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        output, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ConfigError(f"{command[0]} ended with {process.returncode}: {said.decode(errors='replace').strip()}")
    return output


def _aware(moment: datetime.datetime | None) -> datetime.datetime | None:
    return moment.replace(tzinfo=datetime.UTC) if moment and moment.tzinfo is None else moment

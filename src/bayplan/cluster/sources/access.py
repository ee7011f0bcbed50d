"""How an HTTP source is reached: its URL, TLS, credentials from files that are read again when they change.

A secret is never kept longer than its file says: tokens of service accounts and certificates rotate. Redirects are not
followed, so that a token goes nowhere but where it was meant for, and proxies of the environment are not used.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2
import msgspec

from bayplan.cluster.sources.source import SourceError
from bayplan.errors import InputError

_LARGEST_SECRET = 1 << 20
_Signature = tuple[tuple[int, int, int], ...]


class HttpAccess(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Where a server is and how to be let in. Files are paths; of the credentials, only one kind may be given.

    `headers` go with every request (a tenant of Mimir or Thanos, say). `insecure_skip_verify` believes any certificate.
    """

    url: str
    bearer_token_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        try:
            place = urlsplit(self.url)
            usable = place.scheme in ("http", "https") and place.hostname and (place.port or True)
            httpx2.URL(self.url)
        except (ValueError, httpx2.InvalidURL) as error:
            raise InputError("not a URL", place="url", value=_harmless(self.url)) from error
        if not usable or place.username is not None or place.query or place.fragment:
            raise InputError(
                "not a URL of a server", place="url", value=_harmless(self.url), expected="http(s)://host:port/path"
            )
        if self.bearer_token_file and self.username:
            raise InputError("two kinds of credentials", place="username", expected="bearerTokenFile or username")
        if bool(self.username) != bool(self.password_file):
            raise InputError("half of the credentials", place="passwordFile", expected="username and passwordFile")
        if bool(self.cert_file) != bool(self.key_file):
            raise InputError("half of a certificate", place="keyFile", expected="certFile and keyFile")


class _Connections:
    """A client made of one state of the TLS files, and how many requests it is serving."""

    def __init__(self, client: httpx2.AsyncClient, signature: _Signature) -> None:
        self.client = client
        self.signature = signature
        self.users = 0


class HttpSource:
    """Requests to one server. Not before the first request is anything opened or read."""

    def __init__(self, access: HttpAccess) -> None:
        self._access = access
        self._current: _Connections | None = None
        self._token = _SecretFile(access.bearer_token_file or access.password_file)

    async def aclose(self) -> None:
        """Close all connections."""
        current, self._current = self._current, None
        if current is not None:
            await current.client.aclose()

    async def post(self, path: str, form: Mapping[str, str], *, largest: int) -> tuple[int, bytes]:
        """Status and body of the answer to a form. Raises `SourceError`, also beyond `largest` bytes."""
        try:
            async with self._client() as client:
                url = self._access.url.rstrip("/") + path
                request = client.build_request("POST", url, data=dict(form), headers=self._headers())
                response = await client.send(request, stream=True, auth=self._auth())
                try:
                    return response.status_code, await _body(response, largest)
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            said = str(error) or type(error).__name__
            raise SourceError(f"no answer from {self._access.url}: {said}", is_down=True) from error

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx2.AsyncClient]:
        connections = await self._connections()
        connections.users += 1
        try:
            yield connections.client
        finally:
            connections.users -= 1
            if connections is not self._current and not connections.users:
                await connections.client.aclose()

    async def _connections(self) -> _Connections:
        """Those of the TLS files as they are now; the former ones where the files cannot be used (half a rotation)."""
        files = [path for path in (self._access.ca_file, self._access.cert_file, self._access.key_file) if path]
        current = self._current
        try:
            signature = tuple(_signature(path) for path in files)
            if current is not None and current.signature == signature:
                return current
            verify = _tls(self._access)
        except (OSError, ssl.SSLError) as error:
            if current is not None:
                return current
            raise SourceError(f"TLS files of {self._access.url}: {error}", is_down=True) from error
        client = httpx2.AsyncClient(verify=verify, trust_env=False, follow_redirects=False, timeout=None)
        made = self._current = _Connections(client, signature)
        if current is not None and not current.users:
            await current.client.aclose()
        return made

    def _headers(self) -> dict[str, str]:
        # Answers are not compressed: a small one could unpack to anything.
        headers = {**self._access.headers, "Accept": "application/json", "Accept-Encoding": "identity"}
        if self._access.bearer_token_file:
            headers["Authorization"] = f"Bearer {self._token.read()}"
        return headers

    def _auth(self) -> httpx2.Auth | None:
        return httpx2.BasicAuth(self._access.username, self._token.read()) if self._access.username else None


class _SecretFile:
    """The first line of a file, read again when the file has changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._signature: tuple[int, int, int] | None = None
        self._text = ""

    def read(self) -> str:
        """Raises `SourceError`."""
        try:
            signature = _signature(self._path)
            if signature != self._signature:
                with open(self._path, "rb") as file:
                    content = file.read(_LARGEST_SECRET)
                self._text = (content.decode("ascii").splitlines() or [""])[0].strip()
                self._signature = signature
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"credentials cannot be read: {error}", is_down=True) from error
        return self._text


async def _body(response: httpx2.Response, largest: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise SourceError(f"the answer is encoded ({encoding[:40]}), which was not asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > largest:
            raise SourceError(f"the answer has more than {largest} bytes")
    return bytes(body)


def _signature(path: str) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _tls(access: HttpAccess) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.ca_file or None)
    if access.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.cert_file:
        context.load_cert_chain(access.cert_file, access.key_file)
    return context


def _harmless(url: str) -> str:
    """A URL for messages, without what may be a password in it."""
    head, at, tail = url.rpartition("@")
    return f"...@{tail}" if at and head else url

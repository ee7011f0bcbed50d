"""TLS and mutual TLS, and certificates that change while the server runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import warnings
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from bayplan.cluster.http import Limits, Response, TlsFiles
from bayplan.cluster.http.tls import FreshContext
from bayplan.errors import InputError

Serve = Any
"""Makes a `Serving` of conftest.py."""
NAME = "extender.example"
SOON_S = 0.05


class Authority:
    """A certificate authority, with the certificates that it gives out."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self.pem = self._ca.cert_pem.bytes()

    def write(self, folder: Path) -> TlsFiles:
        """A new certificate for the server in a folder, with this authority as that of the clients."""
        certificate = self._ca.issue_cert(NAME, "127.0.0.1")
        folder.mkdir(exist_ok=True)
        files = TlsFiles(
            certificate=str(folder / "tls.crt"), key=str(folder / "tls.key"), client_ca=str(folder / "ca.crt")
        )
        _replace(files.certificate, b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        _replace(files.key, certificate.private_key_pem.bytes())
        _replace(files.client_ca, self.pem)
        return files

    def client(self, *, certificate_of: Authority | None = None, anonymous: bool = False) -> ssl.SSLContext:
        """What a client needs that trusts this authority; its own certificate is of this one or of another."""
        context = ssl.create_default_context(cadata=self.pem.decode())
        if not anonymous:
            (certificate_of or self)._ca.issue_cert("scheduler.example").configure_cert(context)
        return context


def _replace(path: str, content: bytes) -> None:
    """As a tool does that renews a certificate: no reader sees half of it."""
    Path(path + ".new").write_bytes(content)
    os.replace(path + ".new", path)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def stranger() -> Authority:
    return Authority()


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> TlsFiles:
    return authority.write(tmp_path / "tls")


def served(serving: Any, context: ssl.SSLContext, name: str | None = NAME) -> bool:
    """Whether a client gets an answer on a new connection."""
    try:
        client = serving.client(context, name)
        answer = client.post(b"hello", "connection: close")
    except (ssl.SSLError, ConnectionError, EOFError):
        return False
    assert answer.body == b"hello"
    return True


def serial(serving: Any, context: ssl.SSLContext, name: str = NAME) -> str:
    """The serial number of the certificate that a new connection is shown."""
    client = serving.client(context, name)
    shown = client.socket.getpeercert()
    client.close()
    return str(shown["serialNumber"])


def test_a_client_with_a_certificate_of_the_authority_is_answered(
    serve: Serve, authority: Authority, files: TlsFiles
) -> None:
    serving = serve(tls=files)
    client = serving.client(authority.client(), NAME)
    assert client.socket.version() == "TLSv1.3"
    for body in (b"one", b"two" * 100_000):
        assert client.post(body).body == body
    client.send(client.head("POST", "content-length: 1") + b"a" + client.head("POST", "content-length: 1") + b"b")
    assert [client.answer().body, client.answer().body] == [b"a", b"b"]


def test_the_client_may_connect_by_address_and_so_without_a_name(
    serve: Serve, authority: Authority, files: TlsFiles
) -> None:
    assert served(serve(tls=files), authority.client(), "127.0.0.1")


def test_a_client_without_a_certificate_is_refused(serve: Serve, authority: Authority, files: TlsFiles) -> None:
    serving = serve(tls=files)
    assert not served(serving, authority.client(anonymous=True))
    assert served(serving, authority.client())


def test_a_client_with_a_certificate_of_another_authority_is_refused(
    serve: Serve, authority: Authority, stranger: Authority, files: TlsFiles
) -> None:
    assert not served(serve(tls=files), authority.client(certificate_of=stranger))


def test_without_an_authority_for_clients_anyone_is_answered(
    serve: Serve, authority: Authority, files: TlsFiles
) -> None:
    serving = serve(tls=TlsFiles(certificate=files.certificate, key=files.key))
    assert served(serving, authority.client(anonymous=True))


def test_the_server_proves_who_it_is(serve: Serve, stranger: Authority, files: TlsFiles) -> None:
    serving = serve(tls=files)
    with pytest.raises(ssl.SSLCertVerificationError):
        serving.client(stranger.client(), NAME)
    serving.until(lambda: serving.server.connections == 0)


@pytest.mark.parametrize(("version", "answers"), [("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)])
def test_tls_1_2_and_later_are_spoken(
    serve: Serve, authority: Authority, files: TlsFiles, version: str, answers: bool
) -> None:
    context = authority.client()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        # OpenSSL itself speaks TLS 1.1 only if security is turned off; here it is the server that shall refuse.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
    assert served(serve(tls=files), context) is answers


def test_who_speaks_no_tls_gets_nothing(serve: Serve, files: TlsFiles) -> None:
    serving = serve(tls=files)
    client = serving.client()
    client.send(client.head("GET"))
    assert b"200" not in client.rest()
    serving.until(lambda: serving.server.connections == 0)


def test_a_large_body_and_answer_go_through_tls(serve: Serve, authority: Authority, files: TlsFiles) -> None:
    body = os.urandom(1 << 20) * 37
    client = serve(tls=files).client(authority.client(), NAME)
    for _ in range(2):
        assert client.post(body).body == body


def test_a_body_over_the_limit_is_refused_through_tls(serve: Serve, authority: Authority, files: TlsFiles) -> None:
    serving = serve(tls=files, limits=Limits(body_bytes=1000))
    client = serving.client(authority.client(), NAME)
    client.send(client.head("POST", "content-length: 1001"))
    assert client.answer().status == 413
    client.close()
    serving.until(lambda: serving.server.connections == 0)


def test_a_client_that_takes_no_answer_is_cut_off_from_tls_too(
    serve: Serve, authority: Authority, files: TlsFiles
) -> None:
    serving = serve(lambda request: Response(pieces=[bytes(1 << 20)] * 50), Limits(write_timeout_s=SOON_S), files)
    client = serving.client(authority.client(), NAME)
    client.send(client.head("GET"))
    serving.until(lambda: serving.server.connections == 0)


def test_a_handshake_that_is_not_finished_takes_a_place_and_is_cut_off(
    serve: Serve, authority: Authority, files: TlsFiles
) -> None:
    serving = serve(tls=files, limits=Limits(connections=2, read_timeout_s=5 * SOON_S))
    silent = [serving.client(), serving.client()]
    serving.until(lambda: serving.server.connections == 2)
    assert not served(serving, authority.client())
    assert [client.rest() for client in silent] == [b"", b""]
    serving.until(lambda: serving.server.connections == 0)
    assert served(serving, authority.client())


def test_stopping_does_not_wait_for_a_handshake(serve: Serve, files: TlsFiles) -> None:
    serving = serve(tls=files)
    client = serving.client()
    serving.until(lambda: serving.server.connections == 1)
    serving.wait_for(serving.server.stop(30))
    assert client.rest() == b""


def test_stopping_closes_idle_and_answers_begun_requests_through_tls(
    serve: Serve, authority: Authority, files: TlsFiles
) -> None:
    serving = serve(tls=files)
    idle, asking = (serving.client(authority.client(), NAME) for _ in range(2))
    assert idle.post(b"x").body == b"x"
    asking.send(asking.head("POST", "content-length: 5"), b"hel")
    serving.until(lambda: serving.server.memory.bytes_out == 5)
    stopping = asyncio.run_coroutine_threadsafe(serving.server.stop(30), serving.loop)
    assert idle.rest() == b""
    idle.close()
    asking.send(b"lo")
    answer = asking.answer()
    assert (answer.body, answer.headers["connection"]) == (b"hello", "close")
    asking.close()
    stopping.result(30)


# Files that change.


def test_a_new_certificate_is_shown_to_the_next_connection(
    serve: Serve, authority: Authority, files: TlsFiles, tmp_path: Path
) -> None:
    serving = serve(tls=files)
    context = authority.client()
    kept = serving.client(context, NAME)
    before = serial(serving, context)
    assert serial(serving, context, "127.0.0.1") == before
    authority.write(tmp_path / "tls")
    after = serial(serving, context)
    assert after != before
    assert serial(serving, context, "127.0.0.1") == after
    assert kept.post(b"still there").body == b"still there"


@pytest.mark.parametrize("name", [NAME, "127.0.0.1"])
def test_a_new_authority_for_clients_is_held_to_by_the_next_connection(
    serve: Serve, authority: Authority, stranger: Authority, files: TlsFiles, name: str
) -> None:
    serving = serve(tls=files)
    ours, theirs = authority.client(), authority.client(certificate_of=stranger)
    assert (served(serving, ours, name), served(serving, theirs, name)) == (True, False)
    _replace(files.client_ca, stranger.pem)
    assert (served(serving, ours, name), served(serving, theirs, name)) == (False, True)
    _replace(files.client_ca, stranger.pem + authority.pem)
    assert (served(serving, ours, name), served(serving, theirs, name)) == (True, True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_not_resumed_past_a_new_authority(
    serve: Serve, authority: Authority, stranger: Authority, files: TlsFiles, version: ssl.TLSVersion
) -> None:
    serving = serve(tls=files)
    context = authority.client()
    context.maximum_version = version
    client = serving.client(context, NAME)
    assert client.post(b"x").body == b"x"
    session = client.socket.session
    assert session is not None
    client.close()
    _replace(files.client_ca, stranger.pem)

    def ask() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", serving.port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=NAME, session=session) as again,
        ):
            again.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            return again.recv(100)

    with contextlib.suppress(ssl.SSLError, ConnectionError):
        assert ask() == b""


def test_files_behind_a_symbolic_link_change_when_it_does(
    serve: Serve, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    """As the kubelet does with a Secret: `tls.crt` is a link to `..data/tls.crt`, and `..data` one to a folder."""
    authority.write(tmp_path / "..1")
    stranger.write(tmp_path / "..2")
    (tmp_path / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    files = TlsFiles(
        certificate=str(tmp_path / "tls.crt"), key=str(tmp_path / "tls.key"), client_ca=str(tmp_path / "ca.crt")
    )
    serving = serve(tls=files)
    assert served(serving, authority.client())
    (tmp_path / "..data_tmp").symlink_to("..2")
    os.replace(tmp_path / "..data_tmp", tmp_path / "..data")
    assert served(serving, stranger.client())
    assert served(serving, stranger.client(), "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        serving.client(authority.client(), NAME)
    assert serving.failed == []


BREAK = {
    "half a certificate": lambda files: _replace(files.certificate, Path(files.certificate).read_bytes()[:300]),
    "the key of another": lambda files: _replace(files.key, trustme.CA().issue_cert("x").private_key_pem.bytes()),
    "no key": lambda files: Path(files.key).unlink(),
    "an empty authority": lambda files: _replace(files.client_ca, b""),
    "no authority": lambda files: Path(files.client_ca).unlink(),
}


@pytest.mark.parametrize("kind", BREAK)
def test_files_that_cannot_be_used_leave_the_former_in_use_and_are_told_of_once(
    serve: Serve, authority: Authority, files: TlsFiles, tmp_path: Path, kind: str
) -> None:
    serving = serve(tls=files)
    context = authority.client()
    before = serial(serving, context)
    BREAK[kind](files)
    assert [serial(serving, context) for _ in range(3)] == [before] * 3
    [error] = serving.failed
    assert isinstance(error, InputError)
    assert error.source == (files.client_ca if "authority" in kind else files.certificate)
    authority.write(tmp_path / "tls")
    assert serial(serving, context) != before
    assert len(serving.failed) == 1


@pytest.mark.parametrize("kind", BREAK)
def test_files_that_cannot_be_used_at_the_start_are_an_error_of_the_input(files: TlsFiles, kind: str) -> None:
    BREAK[kind](files)
    with pytest.raises(InputError, match="cannot use the certificate"):
        FreshContext(files, print)


def test_a_key_behind_a_password_is_refused_and_nobody_is_asked_for_it(files: TlsFiles) -> None:
    key = serialization.load_pem_private_key(Path(files.key).read_bytes(), None)
    locked_key = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(b"secret"),
    )
    Path(files.key + ".locked").write_bytes(locked_key)
    locked = TlsFiles(certificate=files.certificate, key=files.key + ".locked")
    with pytest.raises(InputError, match="cannot use the certificate and key"):
        FreshContext(locked, print)


def test_contexts_are_made_only_when_files_change(files: TlsFiles) -> None:
    fresh = FreshContext(files, print)
    assert fresh.now() is fresh.now()
    os.utime(files.key, ns=(1, 1))
    assert fresh.now() is not None

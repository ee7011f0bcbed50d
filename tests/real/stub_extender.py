"""An extender that answers what a test says and keeps what it was sent, byte for byte."""

from __future__ import annotations

import contextlib
import http
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]
Answer = Callable[[Json], object]


class Call:
    """One request: the last part of its path, its headers, its body as it came and as JSON."""

    def __init__(self, verb: str, version: str, headers: Mapping[str, str], raw: bytes) -> None:
        self.verb = verb
        self.version = version
        self.headers = headers
        self.raw = raw
        self.body: Json = json.loads(raw)


class StubExtender:
    """What was sent to the stub at `url`.

    peers: the addresses that connections came from, one for each connection.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[Call] = []
        self.peers: list[tuple[str, int]] = []

    def of(self, verb: str) -> list[Call]:
        """The calls of one verb, in the order in which they came."""
        return [call for call in list(self.calls) if call.verb == verb]


@contextlib.contextmanager
def stub_extender(answers: Mapping[str, Answer], tls: ssl.SSLContext | None = None) -> Iterator[StubExtender]:
    """A stub at a free loopback port while the block runs; with `tls` it speaks HTTPS.

    Each verb of `answers` is answered with what its function makes of the request's body: JSON, or a status of HTTP
    without any.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            stub.peers.append(self.client_address)

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            call = Call(self.path.rsplit("/", 1)[-1], self.request_version, dict(self.headers), raw)
            stub.calls.append(call)
            answer = answers[call.verb](call.body)
            status = answer if isinstance(answer, http.HTTPStatus) else http.HTTPStatus.OK
            content = b"" if status is answer else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Say nothing: the calls are kept."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    stub = StubExtender(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

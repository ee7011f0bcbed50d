"""A request with its whole body, the response to it, and what handles one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

import msgspec

from bayplan.errors import BayplanError

Piece = bytes | bytearray | memoryview


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`headers` by lower-case name, the first of each. `body` may be read until the response has been sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: memoryview

    @property
    def is_json(self) -> bool:
        """Whether the body is said to be JSON, in whatever character set (JSON is UTF-8)."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A status and a body in pieces, which are sent one after the other."""

    status: int = HTTPStatus.OK
    content_type: str = "application/json"
    pieces: Sequence[Piece] = ()
    headers: Mapping[str, str] = {}


Handler = Callable[[Request], Awaitable[Response] | Response]


class HttpError(BayplanError):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        super().__init__(reason)

    @property
    def response(self) -> Response:
        """The answer that tells it."""
        return json_error(self.status, self.reason, self.headers)


def json_error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """`{"Error": reason}`: what people and the extender protocol's clients can read."""
    body = msgspec.json.encode({"Error": reason})
    return Response(status=status, pieces=[body, b"\n"], headers=headers or {})

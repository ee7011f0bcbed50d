"""What the API server refuses, as types that carry the facts.

One type per reason that callers act on; the text is made from the verb, the path, the status and the server's own
message. Facts: meta/v1 Status and its reasons (k8s.io/apimachinery/pkg/apis/meta/v1/types.go), HTTP's `Retry-After`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.errors import BayplanError

LONGEST_MESSAGE = 1024


class Cause(msgspec.Struct, frozen=True):
    """One thing that is wrong, of a Status: why, in which field, in words."""

    reason: str = ""
    field: str = ""
    message: str = ""


class ApiError(BayplanError):
    """A call that failed.

    `status` is HTTP's (0 where there was no answer), `reason` the Status object's (`Conflict`, `Expired`, ...),
    `causes` what it names in particular, `retry_after_s` what the server asked to wait, if it did.
    """

    def __init__(
        self,
        message: str,
        *,
        verb: str = "",
        path: str = "",
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        self.message = message
        self.verb = verb
        self.path = path
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def __str__(self) -> str:
        """`PATCH /api/v1/nodes/a: 409 Conflict: what the server said`; one line, and printable."""
        head = " ".join(part for part in (self.verb, self.path) if part)
        code = " ".join(part for part in (str(self.status or ""), self.reason) if part)
        text = ": ".join(part for part in (head, code, self.message) if part)
        return text if text.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


class BadRequestError(ApiError):
    """400: the request is malformed."""


class UnauthorizedError(ApiError):
    """401: the credentials are not accepted."""


class ForbiddenError(ApiError):
    """403: the role does not allow it, or a quota or an admission plugin refused it."""


class NotFoundError(ApiError):
    """404: no such object, or no such resource (a definition that is not installed)."""


class ConflictError(ApiError):
    """409: the object is not what the caller took it for (resourceVersion, UID, or already there or bound)."""


class AlreadyBoundError(ConflictError):
    """The pod is bound already, to `node` and with `annotations`, which is not what was to be bound now."""

    def __init__(self, message: str, *, node: str, annotations: Mapping[str, str]) -> None:
        super().__init__(message, status=409, reason="Conflict")
        self.node = node
        self.annotations = annotations


class GoneError(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""


class InvalidError(ApiError):
    """422: the object does not pass validation, or a JSON patch does not apply."""


class TooManyRequestsError(ApiError):
    """429: throttled, or (`is_disruption_budget`) an eviction that a PodDisruptionBudget does not allow now."""

    @property
    def is_disruption_budget(self) -> bool:
        """Whether a budget is the reason rather than load."""
        return any(cause.reason == "DisruptionBudget" for cause in self.causes)


class UnavailableError(ApiError):
    """No answer in time, no connection, an answer that is not one, or 5xx. A write may have been made all the same."""


_TYPES: Mapping[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


class _Details(msgspec.Struct, rename="camel"):
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = ""
    message: str | None = ""
    details: _Details | None = None


_DECODER = msgspec.json.Decoder(_Status)


def error_from_answer(verb: str, path: str, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error that an answer other than 2xx tells of; a body that is no Status object is shown as it is."""
    said = _status(body) or _Status(message=body[:LONGEST_MESSAGE].decode(errors="replace").strip())
    return _error(verb, path, status, said, _seconds(retry_after))


def error_from_event(path: str, document: bytes | msgspec.Raw) -> ApiError:
    """The error that the Status object of a watch's ERROR event tells of."""
    said = _status(document) or _Status(message="an ERROR event without a Status object")
    return _error("WATCH", path, said.code or 500, said, None)


def _error(verb: str, path: str, status: int, said: _Status, retry_after_s: float | None) -> ApiError:
    details = said.details or _Details()
    kind = _TYPES.get(status, UnavailableError if status >= 500 else ApiError)
    return kind(
        (said.message or "")[:LONGEST_MESSAGE],
        verb=verb,
        path=path,
        status=status,
        reason=said.reason or "",
        causes=details.causes or (),
        retry_after_s=details.retry_after_seconds if retry_after_s is None else retry_after_s,
    )


def _status(body: bytes | msgspec.Raw) -> _Status | None:
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _seconds(retry_after: str | None) -> float | None:
    """Seconds only: the API server never sends a date. More than an hour is no answer one waits for: an hour then."""
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return None
    return float(min(int(retry_after[:9]), 3600))

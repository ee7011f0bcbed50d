"""What the server said is told whole, and of the type that callers act on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.cluster.api import (
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from bayplan.cluster.api.errors import error_from_answer


def refused(status: int, retry_after: str | None = None, **fields: Any) -> ApiError:
    return error_from_answer("GET", "/api/v1/pods", status, json.dumps(fields).encode(), retry_after)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequestError),
        (401, UnauthorizedError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (418, ApiError),
        (422, InvalidError),
        (429, TooManyRequestsError),
        (500, UnavailableError),
        (503, UnavailableError),
    ],
)
def test_each_status_has_its_type(status: int, kind: type[ApiError]) -> None:
    error = refused(status, reason="Why", message="because")
    assert type(error) is kind
    assert str(error) == f"GET /api/v1/pods: {status} Why: because"


def test_a_body_that_is_no_status_is_shown() -> None:
    error = error_from_answer("GET", "/x", 502, b"<html>\nBad \x1b[31m gateway" + b"x" * 5000)
    assert str(error).startswith("GET /x: 502: <html>\\x0aBad \\x1b[31m gateway")
    assert len(str(error)) < 1200


def test_a_disruption_budget_is_told_from_load() -> None:
    causes = [{"reason": "DisruptionBudget", "message": "needs 3 healthy pods"}]
    by_budget = refused(429, message="Cannot evict", details={"causes": causes, "retryAfterSeconds": 10})
    assert isinstance(by_budget, TooManyRequestsError)
    assert by_budget.is_disruption_budget
    assert by_budget.retry_after_s == 10
    by_load = refused(429, "2", message="too many requests")
    assert isinstance(by_load, TooManyRequestsError)
    assert not by_load.is_disruption_budget


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("2", 2.0), ("0", 0.0), ("99999999999", 3600.0), ("soon", None), ("-1", None), ("٣", None), (None, None)],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert refused(429, header).retry_after_s == seconds

"""Times as the API has them (meta/v1 MicroTime). Pure."""

from __future__ import annotations

import datetime


def micro_time(seconds: float) -> str:
    """Seconds since the epoch as `2026-01-02T03:04:05.000006Z`."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""What a process in a cluster knows of itself, and options that extender and controller have alike."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from bayplan.cluster.configuration import Configuration
from bayplan.errors import InputError
from bayplan.workload.times import parse_length

_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DEFAULT_NAMESPACE = "bayplan-system"


def identity() -> str:
    """What tells this replica from others: the pod's name, or the host's with the process's number."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}"


def own_namespace() -> str:
    """The namespace of the pod that this runs in."""
    named = os.environ.get("POD_NAMESPACE")
    if named:
        return named
    try:
        return _ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:  # not in a pod
        return _DEFAULT_NAMESPACE


def polling_every(period: str, configuration: Configuration) -> Configuration:
    """The configuration with `--syncPeriod` over it, where that was given. Raises `InputError`."""
    if not period:
        return configuration
    try:
        seconds = parse_length(period)
        polling = msgspec.structs.replace(configuration.sources.polling, interval_s=seconds)
    except InputError as error:
        raise InputError("not a length of time", place="--syncPeriod", value=period, expected="like 5s") from error
    sources = msgspec.structs.replace(configuration.sources, polling=polling)
    upkeep = msgspec.structs.replace(configuration.upkeep, period_s=seconds)
    return msgspec.structs.replace(configuration, sources=sources, upkeep=upkeep)

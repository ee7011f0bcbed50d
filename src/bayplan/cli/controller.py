"""`bayplan controller`: from its options to a running process."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bayplan.cluster.api import Api, Settings, find_config
from bayplan.cluster.controller.controller import Feed
from bayplan.cluster.controller.process import ProcessSettings, serve, stop_on_signals
from bayplan.cluster.http import TlsFiles
from bayplan.cluster.logs import set_up_logs
from bayplan.errors import InputError
from bayplan.files.documents import read_bytes
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import TelemetrySettings
from bayplan.fleet.upkeep.configuration import read_upkeep
from bayplan.fleet.upkeep.upkeep import Upkeep, UpkeepSettings
from bayplan.workload.documents import read_documents
from bayplan.workload.fields import Fields, as_fields
from bayplan.workload.times import parse_length

SECTIONS = ("controller", "telemetry")
FeedOf = Callable[[Api, Upkeep], Feed]
"""Makes what fetches the metrics."""
_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DEFAULT_NAMESPACE = "bayplan-system"


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line; empty: nothing."""

    kubeconfig: str = ""
    config: str = ""
    sync_period: str = ""
    namespace: str = ""
    host: str = ""
    port: int = 9002
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    qps: float = 50.0
    burst: int = 100
    elects: bool = True
    evicts: bool = False
    dry_run: bool = False
    verbosity: int = 0


def controller(inputs: Inputs, feed_of: FeedOf) -> int:
    """Run until told to stop. Raises `InputError` for options and files that cannot be used."""
    upkeep, telemetry = settings_of(inputs)
    process = process_of(inputs)
    set_up_logs(inputs.verbosity)
    asyncio.run(_run(inputs, upkeep, telemetry, process, feed_of))
    return 0


def settings_of(inputs: Inputs) -> tuple[UpkeepSettings, TelemetrySettings]:
    """What the configuration file says, and over it what the command line does. Raises `InputError`."""
    upkeep, telemetry = _read_file(inputs.config) if inputs.config else (UpkeepSettings(), TelemetrySettings())
    replaced: dict[str, Any] = {}
    if inputs.sync_period:
        try:
            replaced["period_s"] = parse_length(inputs.sync_period)
        except InputError as error:
            raise error.within(place="--syncPeriod") from error
        if replaced["period_s"] <= 0:
            raise InputError("too short", place="--syncPeriod", value=inputs.sync_period, expected="like 5s")
    if inputs.evicts:
        replaced["evictions"] = msgspec.structs.replace(upkeep.evictions, all_policies=True, cards=True)
    return msgspec.structs.replace(upkeep, **replaced), telemetry


def process_of(inputs: Inputs) -> ProcessSettings:
    """How the process runs. Raises `InputError`."""
    if bool(inputs.certificate) != bool(inputs.key):
        raise InputError("one without the other", place="--cert, --key", expected="both, or neither for plain HTTP")
    tls = None
    if inputs.certificate:
        tls = TlsFiles(certificate=inputs.certificate, key=inputs.key, client_ca=inputs.client_ca)
    return ProcessSettings(
        identity=os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
        namespace=inputs.namespace or os.environ.get("POD_NAMESPACE") or _own_namespace(),
        host=inputs.host,
        port=inputs.port,
        tls=tls,
        elects=inputs.elects,
        dry_run=inputs.dry_run,
    )


async def _run(
    inputs: Inputs, upkeep: UpkeepSettings, telemetry: TelemetrySettings, process: ProcessSettings, feed_of: FeedOf
) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    config = find_config(inputs.kubeconfig or None)
    async with Api.connect(config, Settings(qps=inputs.qps, burst=inputs.burst)) as api:
        kept = Upkeep(TelemetryEngine(telemetry), upkeep)
        await serve(api, kept, feed_of(api, kept), process, stop=stop)


def _read_file(path: str) -> tuple[UpkeepSettings, TelemetrySettings]:
    documents = read_documents(read_bytes(path), path)
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents", source=path, expected="one")
    try:
        fields = as_fields(documents[0].value, "")
        for name in fields.value:
            if name not in SECTIONS:
                raise fields.error(name, "unknown section", expected=", ".join(SECTIONS))
        return read_upkeep(fields.mapping("controller")), _telemetry(fields.mapping("telemetry"))
    except InputError as error:
        raise error.within(source=path) from error


def _telemetry(section: Fields) -> TelemetrySettings:
    try:
        return msgspec.convert(section.value, TelemetrySettings)
    except msgspec.ValidationError as error:
        raise InputError(str(error), place=section.path) from error


def _own_namespace() -> str:
    try:
        return _ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:  # not in a pod
        return _DEFAULT_NAMESPACE

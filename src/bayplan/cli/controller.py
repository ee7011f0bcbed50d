"""`bayplan controller`: from its options to a running process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from bayplan.cli.in_cluster import identity, own_namespace, polling_every
from bayplan.cluster.api import Api, Settings, find_config
from bayplan.cluster.configuration import Configuration, read_configuration
from bayplan.cluster.controller.process import ProcessSettings, serve, stop_on_signals
from bayplan.cluster.http import TlsFiles
from bayplan.cluster.logs import set_up_logs
from bayplan.cluster.sources.feed import MetricFeed
from bayplan.cluster.sources.nodes import NodeBook
from bayplan.cluster.stores import Sink
from bayplan.errors import InputError
from bayplan.fleet.telemetry.engine import TelemetryEngine
from bayplan.fleet.telemetry.model import MetricKey
from bayplan.fleet.upkeep.upkeep import Upkeep


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


def controller(inputs: Inputs) -> int:
    """Run until told to stop. Raises `InputError` for options and files that cannot be used."""
    configuration = configuration_of(inputs)
    process = process_of(inputs)
    set_up_logs(inputs.verbosity)
    asyncio.run(_run(inputs, configuration, process))
    return 0


def configuration_of(inputs: Inputs) -> Configuration:
    """What the configuration file says, and over it what the command line does. Raises `InputError`."""
    configuration = polling_every(inputs.sync_period, read_configuration(inputs.config))
    if not inputs.evicts:
        return configuration
    upkeep = configuration.upkeep
    evictions = msgspec.structs.replace(upkeep.evictions, all_policies=True, cards=True)
    return msgspec.structs.replace(configuration, upkeep=msgspec.structs.replace(upkeep, evictions=evictions))


def process_of(inputs: Inputs) -> ProcessSettings:
    """How the process runs. Raises `InputError`."""
    if bool(inputs.certificate) != bool(inputs.key):
        raise InputError("one without the other", place="--cert, --key", expected="both, or neither for plain HTTP")
    tls = None
    if inputs.certificate:
        tls = TlsFiles(certificate=inputs.certificate, key=inputs.key, client_ca=inputs.client_ca)
    return ProcessSettings(
        identity=identity(),
        namespace=inputs.namespace or own_namespace(),
        host=inputs.host,
        port=inputs.port,
        tls=tls,
        elects=inputs.elects,
        dry_run=inputs.dry_run,
    )


async def _run(inputs: Inputs, configuration: Configuration, process: ProcessSettings) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    config = find_config(inputs.kubeconfig or None)
    async with Api.connect(config, Settings(qps=inputs.qps, burst=inputs.burst)) as api:
        kept = Upkeep(TelemetryEngine(configuration.scheduling.telemetry), configuration.upkeep)
        sources, polling, book = configuration.sources.make(api), configuration.sources.polling, NodeBook()

        async def feed(wanted: Callable[[], frozenset[MetricKey]], sink: Sink) -> None:
            await MetricFeed(wanted, sources, sink, lambda: book.current, polling).run()

        await serve(api, kept, feed, process, stop=stop, listeners=(book.take,))

"""`bayplan extender`: from its options to a running process."""

from __future__ import annotations

import asyncio
import random

import msgspec

from bayplan.cli.in_cluster import identity, own_namespace, polling_every
from bayplan.cluster.api import Api, Settings, find_config
from bayplan.cluster.configuration import Configuration, read_configuration
from bayplan.cluster.controller.process import stop_on_signals
from bayplan.cluster.extender.process import Extender, ProcessSettings, serve
from bayplan.cluster.http import TlsFiles
from bayplan.cluster.logs import logger, set_up_logs
from bayplan.errors import InputError
from bayplan.files.plugins import load_policy, load_resources
from bayplan.fleet.scheduling.setup import set_up


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line; empty: nothing."""

    kubeconfig: str = ""
    config: str = ""
    host: str = ""
    port: int = 9001
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    plain_http: bool = False
    watch_port: int = 9002
    sync_period: str = ""
    binds: bool = True
    elects: bool = True
    namespace: str = ""
    qps: float = 50.0
    burst: int = 100
    verbosity: int = 0


def extender(inputs: Inputs) -> int:
    """Run until told to stop. Raises `InputError` for options and files that cannot be used."""
    configuration = polling_every(inputs.sync_period, read_configuration(inputs.config))
    settings = process_of(inputs)
    set_up_logs(inputs.verbosity)
    asyncio.run(_run(inputs, configuration, settings))
    return 0


def process_of(inputs: Inputs) -> ProcessSettings:
    """How the process runs. Raises `InputError`."""
    tls = None
    if not inputs.plain_http:
        if not inputs.certificate or not inputs.key:
            raise InputError("no certificate to serve with", place="--cert, --key", expected="both, or --plain-http")
        tls = TlsFiles(certificate=inputs.certificate, key=inputs.key, client_ca=inputs.client_ca)
    elif inputs.certificate or inputs.key or inputs.client_ca:
        raise InputError("certificates without TLS", place="--plain-http", expected="one or the other")
    return ProcessSettings(
        identity=identity(),
        namespace=inputs.namespace or own_namespace(),
        host=inputs.host,
        port=inputs.port,
        watch_port=inputs.watch_port,
        tls=tls,
        binds=inputs.binds,
        elects=inputs.elects,
    )


async def _run(inputs: Inputs, configuration: Configuration, settings: ProcessSettings) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    log = logger("extender")
    resources = load_resources()
    for problem in resources.problems:
        log.error("a plugin is not loaded", problem=str(problem))
    setup = set_up(configuration.scheduling, load_policy, resources.found)
    config = find_config(inputs.kubeconfig or None)
    async with Api.connect(config, Settings(qps=inputs.qps, burst=inputs.burst)) as api:
        running = Extender(api, setup, configuration, settings, rng=random.Random())
        await serve(running, stop, lambda port, watch: log.info("listening", port=port, watch_port=watch))

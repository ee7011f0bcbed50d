"""`bayplan extender`: its options, which are those of TAS and GAS where they have them.

Apart from what runs, so that asking for help costs nothing.
"""

from __future__ import annotations

import click

from bayplan.cli.go_flags import GoCommand

FILE = click.Path()


@click.command("extender", cls=GoCommand)
@click.option("--kubeConfig", "kubeconfig", type=FILE, default="", help="Without it, as every client finds it.")
@click.option("--config", type=FILE, default="", help="A configuration file, the same as the controller's.")
@click.option("--host", default="", help="Address to listen on.  [default: all]")
@click.option("--port", type=click.IntRange(0, 65_535), default=9001, show_default=True, help="For the scheduler.")
@click.option("--cert", type=FILE, default="", help="The server's certificate.")
@click.option("--key", type=FILE, default="", help="Its key.")
@click.option("--cacert", type=FILE, default="", help="Only clients with a certificate of this authority are answered.")
@click.option("--plain-http", is_flag=True, help="No TLS: for behind a proxy, and for tests.")
@click.option(
    "--watch-port",
    type=click.IntRange(-1, 65_535),
    default=9002,
    show_default=True,
    help="For /metrics, /healthz and /readyz, without TLS; -1: none.",
)
@click.option("--syncPeriod", "sync_period", default="", help="How often metrics are polled.  [default: 5s]")
@click.option("--bind/--no-bind", "binds", default=True, help="Answer the bind verb; then one replica leads.")
@click.option("--leader-elect/--no-leader-elect", default=True, help="Several replicas, of which one binds.")
@click.option("--namespace", default="", help="Where the lease is.  [default: the pod's own]")
@click.option("--qps", type=click.FloatRange(0.1, 1000), default=50, show_default=True, help="Calls a second.")
@click.option("--burst", type=click.IntRange(1, 1000), default=100, show_default=True, help="Calls at once.")
@click.option("--v", "verbosity", type=int, default=0, show_default=True, help="4 and more: everything.")
def extender(
    kubeconfig: str,
    config: str,
    host: str,
    port: int,
    cert: str,
    key: str,
    cacert: str,
    plain_http: bool,
    watch_port: int,
    sync_period: str,
    binds: bool,
    leader_elect: bool,
    namespace: str,
    qps: float,
    burst: int,
    verbosity: int,
) -> int:
    """Answer kube-scheduler's questions: filter, prioritize, bind, preempt; run it in the cluster.

    Takes the arguments of Telemetry Aware Scheduling and GPU Aware Scheduling. Ends in order on SIGTERM.
    """
    from bayplan.cli import extender as command

    inputs = command.Inputs(
        kubeconfig=kubeconfig,
        config=config,
        host=host,
        port=port,
        certificate=cert,
        key=key,
        client_ca=cacert,
        plain_http=plain_http,
        watch_port=watch_port,
        sync_period=sync_period,
        binds=binds,
        elects=leader_elect,
        namespace=namespace,
        qps=qps,
        burst=burst,
        verbosity=verbosity,
    )
    return command.extender(inputs)

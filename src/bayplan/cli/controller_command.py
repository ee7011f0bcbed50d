"""`bayplan controller`: its options, which are those of TAS where TAS has them.

Apart from what runs, so that asking for help costs nothing.
"""

from __future__ import annotations

import click

from bayplan.cli.go_flags import GoCommand

FILE = click.Path()


@click.command("controller", cls=GoCommand)
@click.option("--kubeConfig", "kubeconfig", type=FILE, default="", help="Without it, as every client finds it.")
@click.option("--config", type=FILE, default="", help="A configuration file, the same as the extender's.")
@click.option("--syncPeriod", "sync_period", default="", help="How often metrics are polled.  [default: 5s]")
@click.option("--evict", is_flag=True, help="Evict pods too; for those who have no descheduler.")
@click.option("--dry-run", is_flag=True, help="Write nothing, and tell what would be written.")
@click.option("--leader-elect/--no-leader-elect", default=True, help="Several replicas, of which one writes.")
@click.option("--namespace", default="", help="Where the lease is.  [default: the pod's own]")
@click.option("--host", default="", help="Address of /metrics, /healthz and /readyz.  [default: all]")
@click.option("--port", type=click.IntRange(1, 65_535), default=9002, show_default=True, help="Their port.")
@click.option("--cert", type=FILE, default="", help="Serve them over TLS, with this certificate.")
@click.option("--key", type=FILE, default="", help="Its key.")
@click.option("--cacert", type=FILE, default="", help="And only to clients with a certificate of this authority.")
@click.option("--qps", type=click.FloatRange(0.1, 1000), default=50, show_default=True, help="Calls a second.")
@click.option("--burst", type=click.IntRange(1, 1000), default=100, show_default=True, help="Calls at once.")
@click.option("--v", "verbosity", type=int, default=0, show_default=True, help="4 and more: everything.")
def controller(
    kubeconfig: str,
    config: str,
    sync_period: str,
    evict: bool,
    dry_run: bool,
    leader_elect: bool,
    namespace: str,
    host: str,
    port: int,
    cert: str,
    key: str,
    cacert: str,
    qps: float,
    burst: int,
    verbosity: int,
) -> int:
    """Label nodes, evict, wake waiting pods, and tell of policies; run it in the cluster.

    Takes the arguments of Telemetry Aware Scheduling. Ends in order on SIGTERM.
    """
    from bayplan.cli import controller as command

    inputs = command.Inputs(
        kubeconfig=kubeconfig,
        config=config,
        sync_period=sync_period,
        namespace=namespace,
        host=host,
        port=port,
        certificate=cert,
        key=key,
        client_ca=cacert,
        qps=qps,
        burst=burst,
        elects=leader_elect,
        evicts=evict,
        dry_run=dry_run,
        verbosity=verbosity,
    )
    return command.controller(inputs)

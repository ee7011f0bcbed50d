"""How replays grow: `python benchmarks/simulate.py [POLICY [NODES ARRIVALS]]`.

Prints two rows for each size, pods that come and stay and pods that come and go: seconds of the replay itself with what
it measures, microseconds a pod, and the memory of the whole process at its peak. Nodes and pods are those of
`preset:small`, many times over; in all sizes but the last, pods ask for about 130 % of the cards.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import msgspec
import numpy as np

from bayplan.files.plugins import load_card_policy
from bayplan.files.tables import open_lines
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.policy import CardPolicy, PolicySetup
from bayplan.simulate.node_tables import read_nodes
from bayplan.simulate.orders import given
from bayplan.simulate.pod_tables import read_pods
from bayplan.simulate.replay import replay
from bayplan.simulate.trace import Trace

SIZES = ((200, 2_000), (1_200, 12_000), (5_000, 50_000), (20_000, 200_000), (20_000, 1_000_000))
STAY_S = 0.65
"""How long a pod stays, where pods leave: in units of the time in which as many come as fill 130 % of the cards."""


def made(nodes: int, arrivals: int, *, leave: bool) -> Trace:
    with open_lines("preset:small/nodes.csv") as lines:
        shapes = read_nodes(lines.all)
    with open_lines("preset:small/pods.csv") as lines:
        pods = read_pods(lines.all)
    fleet = [msgspec.structs.replace(shapes[i * 7 % len(shapes)], name=f"n{i}") for i in range(nodes)]
    trace = given(fleet, pods)
    draws = Generator(1)
    which = pods.which[np.array([draws.below(len(pods.which)) for _ in range(arrivals)], np.int64)]
    trace = trace._replace(arrivals=which, names=[f"p{i}" for i in range(arrivals)])
    if not leave:
        return trace
    arrives = np.arange(arrivals, dtype=np.float64)
    stays = np.array([2 * STAY_S * draws.unit() * nodes * 10 for _ in range(arrivals)], np.float64)
    return trace._replace(arrives_s=arrives, leaves_s=arrives + stays)


def measure(factory: Callable[[PolicySetup], CardPolicy], nodes: int, arrivals: int, *, leave: bool) -> str:
    trace = made(nodes, arrivals, leave=leave)
    start = time.perf_counter()
    record = replay(trace, factory, seed=1)
    took = time.perf_counter() - start
    share = 100 * int(record.standing.alloc_milli[-1]) / record.capacity_milli
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    kind = "come and go" if leave else "come"
    each = 1e6 * took / arrivals
    return f"{kind:<12} {nodes:>7,} {arrivals:>10,} {took:>9.2f} {each:>9.1f} {megabytes:>7.0f} {share:>8.1f}"


def main(policy: str = "fgd", *size: str) -> None:
    factory = load_card_policy(policy)
    print(
        f"{'pods that':<12} {'nodes':>7} {'arrivals':>10} {'seconds':>9} {'us/pod':>9} {'peak MB':>7} {'alloc. %':>8}"
    )
    for nodes, arrivals in [(int(size[0]), int(size[1]))] if size else SIZES:
        for leave in (False, True):
            print(measure(factory, nodes, arrivals, leave=leave), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What Bayplan's card policy reaches: `python benchmarks/cards.py [--data FOLDER] [--seeds 42-46] [--only 1,2]`.

Prints, on the openb traces in FOLDER (the published orders of arrivals and nodes; by default `shared/data/openb` beside
the repository): 1. allocation beside the goals, beside FGD, and with its modes; 2. two traces spliced, of which nobody
knew; 3. pods that end; 4. seconds of whole commands side by side; 5. the time of one decision on a large fleet.
Where the folder is absent it says so, and does the same with `preset:small`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from bayplan.files.plugins import load_card_policy
from bayplan.fleet.cards.dialects import KNOWN
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.mix import kind_of
from bayplan.fleet.cards.policy import PolicySetup
from bayplan.fleet.cards.state import CardFleet
from bayplan.simulate.replay import replay
from bayplan.simulate.result import RunResult, result
from bayplan.simulate.run import PolicyName, parse_seeds
from bayplan.simulate.sources import TraceSource, Wishes, open_nodes, preset_file
from bayplan.simulate.trace import Trace

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SMALL = "preset:small"
GOALS = {
    "default": (96.4, 96.45),
    "gpuspec33": (95.0, 96.2),
    "gpushare100": (88.4, 88.7),
    "multigpu50": (97.95, 98.0),
    "cpu250": (95.4, 95.6),
}
POLICIES = (("fgd", True), ("values", True), ("values:power", True), ("values", False))
SPLICES = (("default", "gpushare100"), ("gpuspec33", "default"), ("cpu250", "multigpu50"))
FLEET = 5_000
DECISIONS = 2_000


class Data(NamedTuple):
    """Where traces come from; no folder: the preset."""

    folder: str

    def trace(self, name: str, seed: int) -> Trace:
        """A trace as it was published, or the preset shuffled."""
        if not self.folder:
            nodes = open_nodes(preset_file(SMALL, "nodes.csv"))
            return TraceSource(nodes, Wishes(preset_file(SMALL, "pods.csv")), KNOWN, _told).trace(seed)
        nodes = open_nodes(f"{self.folder}/openb_node_list_gpu_node.csv.gz")
        pods, order = (f"{self.folder}/{kind}_{name}_s{{seed}}.csv.gz" for kind in ("arrivals", "nodeorder"))
        return TraceSource(nodes, Wishes(pods, as_given=True, node_order=order), KNOWN, _told).trace(seed)

    def names(self) -> list[str]:
        """The traces that there are."""
        return list(GOALS) if self.folder else [SMALL]


class Job(NamedTuple):
    """One run, for another process."""

    data: Data
    trace: str
    seed: int
    policy: str
    informed: bool


def run(job: Job) -> RunResult:
    return replayed(job.data.trace(job.trace, job.seed), job.policy, job.seed, informed=job.informed)


def replayed(trace: Trace, policy: str, seed: int, *, informed: bool = True) -> RunResult:
    name = PolicyName.parse(policy)
    record = replay(trace, load_card_policy(name.name), option=name.option, seed=seed, informed=informed)
    return result(trace, record, policy, seed, informed=informed)


def goals(data: Data, seeds: Sequence[int], pool: ProcessPoolExecutor) -> None:
    print(f"1. Allocation in % at 100 / 130 % load, mean of {len(seeds)} seeds; watts saved against FGD at 50 / 80 %\n")
    names = [f"{policy}{'' if informed else ', nothing known'}" for policy, informed in POLICIES]
    print(f"{'trace':<12} {'goal':>14} " + " ".join(f"{name:>22}" for name in names) + f" {'power saves':>13}")
    jobs = [Job(data, t, s, p, i) for t in data.names() for p, i in POLICIES for s in seeds]
    found = list(pool.map(run, jobs))
    for place, trace in enumerate(data.names()):
        mine = found[place * len(POLICIES) * len(seeds) :]
        runs = [mine[i * len(seeds) : (i + 1) * len(seeds)] for i in range(len(POLICIES))]
        cells = [f"{_mean(some, '100'):>14.2f} / {_mean(some, '130'):.2f}" for some in runs]
        goal = "{:.2f} / {:.2f}".format(*GOALS[trace]) if trace in GOALS else "-"
        saves = [100 * (1 - _watts(runs[2], load) / _watts(runs[0], load)) for load in ("50", "80")]
        print(f"{trace:<12} {goal:>14} {' '.join(cells)} {saves[0]:>6.1f} / {saves[1]:.1f}", flush=True)


def spliced(first: Trace, second: Trace) -> Trace:
    """Of the first trace the arrivals up to half the cards, then the second one's."""
    total = np.cumsum(np.array([r.total_milli for r in first.requests], np.int64)[first.arrivals])
    cards = 1000 * sum(node.cards for node in first.nodes)
    head = first.arrivals[: int(np.searchsorted(total, cards // 2))]
    arrivals = np.concatenate([head, second.arrivals + len(first.requests)])
    requests = first.requests + second.requests
    counts = Counter(kind_of(requests[i]) for i in arrivals.tolist())
    return first._replace(
        requests=requests, arrivals=arrivals, names=[str(i) for i in range(len(arrivals))], counts=counts
    )


def splices(data: Data, seed: int) -> None:
    print("\n2. Half of one trace, then another: allocation in % at 100 / 130 %\n")
    print(
        f"{'first, then':<24} {'fgd (first)':>16} {'values (first)':>16} {'values (both)':>16} {'values (nothing)':>16}"
    )
    for one, other in SPLICES if data.folder else ((SMALL, SMALL),):
        first = data.trace(one, seed)
        whole = spliced(first, data.trace(other, seed))
        before = whole._replace(counts=first.counts)
        runs = [
            replayed(before, "fgd", seed),
            replayed(before, "values", seed),
            replayed(whole, "values", seed),
            replayed(whole, "values", seed, informed=False),
        ]
        cells = [f"{_mean([r], '100'):>8.2f} / {_mean([r], '130'):.2f}" for r in runs]
        print(f"{one + ', ' + other:<24} " + " ".join(cells), flush=True)


def coming_and_going(trace: Trace, offered: float) -> Trace:
    """The arrivals one a second, five times over, each for a time so that `offered` times the cards are asked for."""
    arrivals = np.tile(trace.arrivals, 5 if len(trace.arrivals) > 5_000 else 1)
    asked = np.array([r.total_milli for r in trace.requests], np.float64)[arrivals].mean() / 1000
    cards = sum(node.cards for node in trace.nodes)
    draws = Generator(1)
    stay = offered * cards / asked
    times = np.array([2 * stay * draws.unit() for _ in range(len(arrivals))])
    arrives = np.arange(len(arrivals), dtype=np.float64)
    names = [str(i) for i in range(len(arrivals))]
    return trace._replace(arrivals=arrivals, names=names, arrives_s=arrives, leaves_s=arrives + times)


def endings(data: Data, seed: int) -> None:
    print("\n3. Pods that end: mean allocation over time in %, and pods refused, by load offered\n")
    print(
        f"{'trace':<12} {'load':>5} "
        + " ".join(f"{name:>20}" for name in ("bestfit", "fgd", "values", "values (nothing)"))
    )
    for name in data.names()[:2]:
        for offered in (0.95, 1.1):
            trace = coming_and_going(data.trace(name, seed), offered)
            cells = []
            for policy, informed in (("bestfit", True), ("fgd", True), ("values", True), ("values", False)):
                found = replayed(trace, policy, seed, informed=informed)
                cells.append(f"{found.mean_allocation_percent or 0:>11.2f} {found.failed:>8,}")
            print(f"{name:<12} {offered:>5.2f} " + " ".join(cells), flush=True)


def commands(data: Data, seed: int) -> None:
    print("\n4. Whole commands, Python start and files included: seconds, and as a ratio to bestfit\n")
    base = 0.0
    for policy in ("bestfit", "fgd", "values", "values:power"):
        where = [SMALL]
        if data.folder:
            where = ["--nodes", f"{data.folder}/openb_node_list_gpu_node.csv.gz"]
            where += ["--node-order", f"{data.folder}/nodeorder_default_s{seed}.csv.gz"]
            where += ["--arrivals", f"{data.folder}/arrivals_default_s{seed}.csv.gz"]
        command = [
            str(Path(sys.executable).parent / "bayplan"),
            "simulate",
            *where,
            "--policy",
            policy,
            "-o",
            "json",
            "--quiet",
        ]
        took = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            took.append(time.perf_counter() - start)
        base = base or min(took)
        print(f"{policy:<14} {min(took):>7.2f} s {min(took) / base:>6.2f}x", flush=True)


def decisions(data: Data, seed: int) -> None:
    print(f"\n5. One decision on {FLEET:,} nodes, half full: milliseconds, median and 99th percentile\n")
    trace = data.trace(data.names()[0], seed)
    shapes = trace.nodes
    nodes = tuple(msgspec.structs.replace(shapes[i * 7 % len(shapes)], name=f"n{i}") for i in range(FLEET))
    for policy in ("bestfit", "fgd", "values"):
        took = [1000 * seconds for seconds in _decide(trace._replace(nodes=nodes), policy)]
        print(f"{policy:<14} {statistics.median(took):>7.3f} {statistics.quantiles(took, n=100)[98]:>8.3f}", flush=True)


def _decide(trace: Trace, policy: str) -> list[float]:
    fleet = CardFleet(trace.nodes)
    chosen = load_card_policy(policy)(PolicySetup(fleet=fleet, counts=trace.counts))
    took: list[float] = []
    draws = Generator(1)
    while len(took) < DECISIONS:
        request = trace.requests[trace.arrivals[draws.below(len(trace.arrivals))]]
        start = time.perf_counter()
        chosen.seen(request)
        spot = chosen.place(request)
        seconds = time.perf_counter() - start
        if spot is not None:
            fleet.take(spot, request)
        if 2 * fleet.allocated_milli > fleet.capacity_milli or len(took):
            took.append(seconds)
    return took


def _mean(runs: Sequence[RunResult], load: str) -> float:
    return statistics.fmean(_at(run.allocation_percent, load) for run in runs)


def _watts(runs: Sequence[RunResult], load: str) -> float:
    return statistics.fmean(_at(run.power_kw, load) for run in runs)


def _at(by_load: dict[str, float], load: str) -> float:
    """At a load, or, where no arrival ends at it, at the next one below."""
    return by_load[load] if load in by_load else by_load[max((k for k in by_load if int(k) <= int(load)), key=int)]


def _told(text: str) -> None:
    print(text, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=str(Path(os.environ.get("BAYPLAN_SHARED_DATA") or SHARED) / "openb"))
    parser.add_argument("--seeds", default="42-46")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="1,2,3,4,5")
    wanted = parser.parse_args()
    there = Path(wanted.data).is_dir()
    if not there:
        print(f"no folder {wanted.data}: this is {SMALL}, for which there are no goals\n")
    data = Data(wanted.data if there else "")
    seeds = parse_seeds([wanted.seeds])
    parts: dict[str, Callable[[], None]] = {
        "2": lambda: splices(data, seeds[0]),
        "3": lambda: endings(data, seeds[0]),
        "4": lambda: commands(data, seeds[0]),
        "5": lambda: decisions(data, seeds[0]),
    }
    for part in wanted.only.split(","):
        if part == "1":
            with ProcessPoolExecutor(wanted.jobs) as pool:
                goals(data, seeds, pool)
        else:
            parts[part]()


if __name__ == "__main__":
    main()

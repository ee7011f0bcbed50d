"""Holds the card policies of the literature against what is published for the openb trace.

    python tests/conformance/openb.py [--data FOLDER] [--traces default,... | all] [--seeds 42-46] [--jobs 2]

FOLDER holds the trace, the orders of nodes and arrivals of the published experiments for some traces and seeds, and
what four policies did at each arrival of one of them; by default `shared/data/openb` beside the repository. What is
published stands in `openb_published.json`. Held against each other are

- every arrival of the four runs: node, cards, milli arrived and allocated, fragmentation, watts of CPUs and cards;
- the allocation after the last arrival of each seed, to 0.01;
- allocation and fragmentation by load, and pods refused by kind: published as means over seeds 42 to 51, of which there
  are orders for 42 to 46 only; so the means have to agree as well as those of some of ten draws do;
- the watts saved, means over seeds 42 to 44, to the last figure given.

Traces without orders are shuffled by a generator of our own: other draws of the same experiment. The last line is
`N passed, M failed`, and the exit status tells whether any failed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import os
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from bayplan.fleet.cards.fragmentation import Fragmentation
from bayplan.fleet.cards.generator import Generator
from bayplan.fleet.cards.literature.best_fit import BestFitPolicy
from bayplan.fleet.cards.literature.clustering import ClusteringPolicy
from bayplan.fleet.cards.literature.dot_product import DotProductPolicy
from bayplan.fleet.cards.literature.gradient import GradientPolicy
from bayplan.fleet.cards.literature.least_power import LeastPowerPolicy
from bayplan.fleet.cards.literature.lots import RandomPolicy
from bayplan.fleet.cards.literature.packing import PackingPolicy
from bayplan.fleet.cards.literature.power_and_gradient import PowerAndGradientPolicy
from bayplan.fleet.cards.mix import counted, typical
from bayplan.fleet.cards.model import CardNode, CardRequest
from bayplan.fleet.cards.policy import CardPolicy, PolicySetup
from bayplan.fleet.cards.power import PowerModel
from bayplan.fleet.cards.state import CardFleet, Floats, Ints
from bayplan.simulate.trace import Trace

HERE = Path(__file__).resolve().parent
BESIDE = HERE.parent.parent.parent / "shared" / "data" / "openb"
STEPS = {"bestfit": "BestFit", "fgd": "FGD", "pwr": "PWR", "pwr+fgd:100": "PF100"}
POLICIES: dict[str, Callable[[PolicySetup], CardPolicy]] = {
    "random": RandomPolicy,
    "dotprod": DotProductPolicy,
    "gpuclustering": ClusteringPolicy,
    "gpupacking": PackingPolicy,
    "bestfit": BestFitPolicy,
    "fgd": GradientPolicy,
    "pwr": LeastPowerPolicy,
    "pwr+fgd": PowerAndGradientPolicy,
}
POWER_SEEDS = (42, 43, 44)
FULL_LOAD = 1.3
SHOWN = 5
HALF = 0.501
"""By how much of its last figure a number that was rounded may differ, and a hair."""
PUBLISHED_SEEDS = 10
CHANCE = 0.001
"""How often means are told to differ that do not: hundreds of them, which hang together, are compared."""

Json = dict[str, Any]
Rows = list[dict[str, str]]


def rows_of(path: Path) -> Rows:
    """A gzipped table."""
    with gzip.open(path, "rt", newline="") as lines:
        return list(csv.DictReader(lines))


def request_of(row: dict[str, str]) -> CardRequest:
    """A pod of a list or of an order of arrivals."""
    cards = int(row["num_gpu"])
    return CardRequest(
        cpu_milli=int(row["cpu_milli"]),
        memory_bytes=int(row["memory_mib"]) << 20,
        cards=cards,
        milli=min(1000, int(row["gpu_milli"])) if cards else 0,
        models=tuple(sorted({model for model in (row.get("gpu_spec") or "").split("|") if model})),
    )


def node_of(row: dict[str, str]) -> CardNode:
    """A node of a list."""
    cpu, memory, cards = int(row["cpu_milli"]), int(row["memory_mib"]) << 20, int(row["gpu"])
    return CardNode(name=row["sn"], cpu_milli=cpu, memory_bytes=memory, cards=cards, model=row["model"])


def trace_of(data: Path, name: str, seed: int) -> Trace:
    """The trace in the published order, or shuffled where there is none."""
    nodes = {row["sn"]: node_of(row) for row in rows_of(data / "openb_node_list_gpu_node.csv.gz")}
    pods = sorted(rows_of(data / f"openb_pod_list_{name}.csv.gz"), key=lambda row: row["name"])
    if has_order(data, name, seed):
        ranked = [nodes[row["sn"]] for row in rows_of(data / f"nodeorder_{name}_s{seed}.csv.gz")]
        arrivals = rows_of(data / f"arrivals_{name}_s{seed}.csv.gz")
    else:
        generator = Generator(seed)
        sorted_nodes = [nodes[key] for key in sorted(nodes)]
        ranked = [sorted_nodes[i] for i in generator.shuffled(len(nodes)).tolist()]
        arrivals = shuffled(pods, 1000 * sum(node.cards for node in ranked), generator)
    numbers: dict[CardRequest, int] = {}
    which = [numbers.setdefault(request_of(row), len(numbers)) for row in arrivals]
    return Trace(
        nodes=tuple(ranked),
        requests=tuple(numbers),
        arrivals=np.array(which, np.int64),
        names=[row["name"] for row in arrivals],
        counts=counted(map(request_of, pods)),
    )


def has_order(data: Path, name: str, seed: int) -> bool:
    """Whether the order of the published experiment is there."""
    return all((data / f"{kind}_{name}_s{seed}.csv.gz").is_file() for kind in ("nodeorder", "arrivals"))


def shuffled(pods: Rows, capacity_milli: int, generator: Generator) -> Rows:
    """All pods in an order that is drawn, then copies of drawn ones up to 1.3 times the cards."""
    arrivals = [pods[i] for i in generator.shuffled(len(pods)).tolist()]
    requests = [request_of(pod) for pod in pods]
    arrived = sum(request.total_milli for request in requests)
    while True:
        drawn = generator.below(len(pods))
        if arrived + requests[drawn].milli > FULL_LOAD * capacity_milli:
            return arrivals
        arrivals.append({**pods[drawn], "name": f"{pods[drawn]['name']}-tuned-{len(arrivals) - len(pods)}"})
        arrived += requests[drawn].total_milli


class Played(NamedTuple):
    """By arrival: where it went (-1: nowhere), and how the fleet stood after it."""

    trace: Trace
    node: Ints
    cards: list[tuple[int, ...]]
    arrived_milli: Ints
    alloc_milli: Ints
    frag_milli: Floats
    cpu_w: Floats
    gpu_w: Floats
    capacity_milli: int


def play(trace: Trace, policy_name: str, seed: int) -> Played:
    """Let the pods arrive one after the other."""
    fleet = CardFleet(trace.nodes)
    name, _, option = policy_name.partition(":")
    policy = POLICIES[name](PolicySetup(fleet=fleet, counts=trace.counts, option=option, seed=seed))
    measures = Measures(fleet, trace)
    nodes, cards, rows, arrived = [], [], [], []
    for which in trace.arrivals.tolist():
        request = trace.requests[which]
        policy.seen(request)
        spot = policy.place(request)
        if spot is not None:
            fleet.take(spot, request)
            measures.changed(spot.node)
        nodes.append(-1 if spot is None else spot.node)
        cards.append(() if spot is None else spot.cards)
        arrived.append(request.total_milli)
        rows.append((fleet.allocated_milli, *measures.totals))
    columns = np.array(rows, np.float64).T
    return Played(
        trace=trace,
        node=np.array(nodes, np.int64),
        cards=cards,
        arrived_milli=np.cumsum(np.array(arrived, np.int64)),
        alloc_milli=columns[0].astype(np.int64),
        frag_milli=columns[1],
        cpu_w=columns[2],
        gpu_w=columns[3],
        capacity_milli=fleet.capacity_milli,
    )


class Measures:
    """Fragmented milli and watts of the whole fleet, brought up to date node by node."""

    def __init__(self, fleet: CardFleet, trace: Trace) -> None:
        self.fragmentation = Fragmentation(fleet, typical(trace.counts))
        self.power = PowerModel(fleet)
        self.by_node = self.of(np.arange(len(fleet)))
        self.totals = self.by_node.sum(0)

    def of(self, nodes: Ints) -> Floats:
        """By node, the three numbers."""
        return np.stack([self.fragmentation.amounts(nodes), *self.power.watts(nodes)], axis=1)

    def changed(self, node: int) -> None:
        """Measure this node again."""
        now = self.of(np.array([node]))[0]
        self.totals = self.totals + (now - self.by_node[node])
        self.by_node[node] = now


class Summary(NamedTuple):
    """What is published of a run. By load: means over the arrivals at that many percent."""

    final_percent: float
    idle_milli: int
    failed: dict[str, int]
    first_failure: int
    alloc_percent: dict[str, float]
    frag_percent: dict[str, float]
    frag_ratio: dict[str, float]
    of_arrived: dict[str, float]
    power_kw: dict[str, float]


def summed_up(played: Played) -> Summary:
    """The metrics of a run."""
    percent = played.capacity_milli / 100
    loads = np.round(played.arrived_milli / percent).astype(np.int64)
    idle = played.capacity_milli - played.alloc_milli
    refused = np.flatnonzero(played.node < 0)
    kinds = Counter(kind_name(played.trace.requests[which]) for which in played.trace.arrivals[refused].tolist())

    def by_load(values: Floats) -> dict[str, float]:
        sums = np.bincount(loads, values) / np.maximum(np.bincount(loads), 1)
        return {str(load): float(sums[load]) for load in np.unique(loads).tolist()}

    return Summary(
        final_percent=float(played.alloc_milli[-1] / percent),
        idle_milli=int(idle[-1]),
        failed={"all": len(refused), **kinds},
        first_failure=int(refused[0]) if len(refused) else -1,
        alloc_percent=by_load(np.round(played.alloc_milli / percent, 2)),
        frag_percent=by_load(np.round(played.frag_milli / percent, 2)),
        frag_ratio=by_load(np.round(100 * played.frag_milli / np.maximum(idle, 1), 2)),
        of_arrived=by_load(played.alloc_milli / np.maximum(played.arrived_milli, 1)),
        power_kw=by_load((played.cpu_w + played.gpu_w) / 1000),
    )


def kind_name(request: CardRequest) -> str:
    """As in the table of refused pods."""
    return "shared" if request.is_shared else f"{request.cards}-card" if request.cards else "cpu-only"


def different_steps(played: Played, steps: Rows) -> Iterator[str]:
    """Arrivals at which a run differs from the one that was written down."""
    if len(steps) != len(played.node):
        yield f"{len(steps)} arrivals expected, {len(played.node)} played"
    for i, step in enumerate(steps):
        node = int(played.node[i])
        found = {
            "pod": played.trace.names[i],
            "node": "" if node < 0 else played.trace.nodes[node].name,
            "cards": "-".join(map(str, played.cards[i])),
            "arrived_milli": str(played.arrived_milli[i]),
            "alloc_milli": str(played.alloc_milli[i]),
            "power_cpu_w": f"{played.cpu_w[i]:.0f}",
            "power_gpu_w": f"{played.gpu_w[i]:.0f}",
            "failed": str(int(node < 0)),
        }
        expected = {key: step[key] for key in found}
        if found != expected or abs(played.frag_milli[i] - float(step["frag_milli"])) > HALF / 100:
            yield f"arrival {i}: expected {step}, got {found} and {played.frag_milli[i]:.2f} milli fragmented"


class Finding(NamedTuple):
    """One number held against a published one; `within` how much they may differ."""

    what: str
    expected: float
    found: float
    within: float

    @property
    def agrees(self) -> bool:
        """Whether it is near enough."""
        return abs(self.expected - self.found) <= self.within

    def __str__(self) -> str:
        """One line."""
        mark = "ok     " if self.agrees else "DIFFERS"
        return f"{mark} {self.what}: published {self.expected:g}, found {self.found:.4g} (within {self.within:.2g})"


Run = tuple[str, str, int]
Runs = dict[Run, Summary]


def summary_of(data: Path, run: Run) -> Summary:
    """Play one run: trace, policy, seed."""
    trace, policy, seed = run
    return summed_up(play(trace_of(data, trace, seed), policy, seed))


def final_allocations(runs: Runs, published: Json) -> Iterator[Finding]:
    """Seed by seed, after the last arrival."""
    for (trace, policy, seed), run in runs.items():
        figures = published["final_allocation_percent"].get(policy, {})
        if trace == "default" and str(seed) in figures:
            expected = figures[str(seed)]
            yield Finding(
                f"default {policy} seed {seed}, allocated at the end %", expected, run.final_percent, HALF / 100
            )
        if (trace, seed) == ("default", 42):
            for field, number in published["default_42"].get(policy, {}).items():
                found = run.failed["all"] if field == "failed" else getattr(run, field)
                yield Finding(f"default {policy} seed 42, {field}", number, found, 0)


def means(runs: Runs, published: Json, ordered: Callable[[str], bool]) -> Iterator[Finding]:
    """Means over seeds: of some of the ten seeds that were published, or of others."""
    for trace, by_policy in published["allocation_percent"].items():
        for policy, figures in by_policy.items():
            exact = ordered(trace) and policy != "random"
            yield from compared(runs, (trace, policy), "allocated %", "alloc_percent", figures, exact)
    for policy, figures in published["default_allocation_by_load"].items():
        yield from compared(runs, ("default", policy), "allocated %", "alloc_percent", figures, policy != "random")
    for kind, field in (("amount", "frag_percent"), ("ratio", "frag_ratio")):
        for policy, figures in published["default_fragmentation"][kind].items():
            what = f"fragmented %, {kind}"
            yield from compared(runs, ("default", policy), what, field, figures, policy != "random")
    for policy, figures in published["default_failed"].items():
        yield from compared(runs, ("default", policy), "refused", "failed", figures, policy != "random")


def compared(
    runs: Runs, which: tuple[str, str], what: str, field: str, published: dict[str, float], some_of_them: bool
) -> Iterator[Finding]:
    """Means of one policy on one trace."""
    digits = 1 if field in ("failed", "frag_ratio") else 2
    of_seeds = [getattr(run, field) for (trace, policy, _), run in runs.items() if (trace, policy) == which]
    if len(of_seeds) < 2:
        return
    for key, expected in published.items():
        values = [found.get(key, 0) for found in of_seeds]
        within = spread(values, some_of_them) + HALF / 10**digits
        yield Finding(f"{which[0]} {which[1]}, {what} at {key}", expected, statistics.fmean(values), within)


def spread(values: Sequence[float], some_of_them: bool) -> float:
    """By how much the mean of these draws differs from that of the ten published ones, at most, by Student's t.

    `some_of_them`: they are among the ten, so that only the others make a difference.
    """
    count = len(values)
    variance = 1 / count + (-1 if some_of_them else 1) / PUBLISHED_SEEDS
    error: float = statistics.stdev(values) * math.sqrt(max(variance, 0.0))
    return float(student.ppf(1 - CHANCE / 2, count - 1)) * error


def savings(runs: Runs, published: Json, ordered: Callable[[str], bool]) -> Iterator[Finding]:
    """Watts against FGD, and what is allocated of what has arrived."""

    def mean(trace: str, policy: str, field: str, load: str) -> float | None:
        found = [runs.get((trace, policy, seed)) for seed in POWER_SEEDS]
        return float(np.mean([getattr(run, field)[load] for run in found if run])) if all(found) else None

    for trace, by_policy in published["power_saving_percent"].items():
        for policy in by_policy if ordered(trace) else ():
            for load, expected in by_policy[policy].items():
                own, fgd = mean(trace, policy, "power_kw", load), mean(trace, "fgd", "power_kw", load)
                if own is not None and fgd is not None:
                    saved = 100 * (1 - own / fgd)
                    yield Finding(f"{trace} {policy}, % of FGD's watts saved at {load}", expected, saved, HALF / 10)
            for load, expected in published["allocated_of_arrived"][trace][policy].items():
                own = mean(trace, policy, "of_arrived", load)
                if own is not None:
                    yield Finding(f"{trace} {policy}, allocated of arrived at {load}", expected, own, HALF / 10_000)
    for policy, figures in published["default_power_kw"].items():
        for load, expected in figures.items():
            own = mean("default", policy, "power_kw", load)
            if own is not None:
                yield Finding(f"default {policy}, kW at {load}", expected, own, HALF)


def wanted_runs(traces: Sequence[str], seeds: Sequence[int], published: Json) -> list[Run]:
    """All that something is published of."""
    power = published["power_saving_percent"]
    return [
        (trace, policy, seed)
        for trace in traces
        for seed in seeds
        for policy in dict.fromkeys((*published["allocation_percent"][trace], *(power.get(trace, {}))))
        if policy not in power["default"] or policy in ("fgd", "bestfit") or seed in POWER_SEEDS
    ]


def published_figures() -> Json:
    """What is published."""
    figures: Json = json.loads((HERE / "openb_published.json").read_text())
    return figures


def check_steps(data: Path) -> Iterator[tuple[str, list[str]]]:
    """For each run that is written down arrival by arrival, where it differs."""
    for policy, name in STEPS.items():
        yield policy, list(steps_of(data, policy, name))


def steps_of(data: Path, policy: str, name: str) -> Iterable[str]:
    """Where one differs."""
    steps = rows_of(data / f"steps_default_{name}_s42.csv.gz")
    return different_steps(play(trace_of(data, "default", 42), policy, 42), steps)


def made(data: Path, wanted: Sequence[Run], jobs: int) -> Runs:
    """All the runs."""
    if jobs == 1:
        return {run: summary_of(data, run) for run in wanted}
    with ProcessPoolExecutor(jobs) as pool:
        return dict(zip(wanted, pool.map(summary_of, [data] * len(wanted), wanted), strict=True))


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 if all agrees, 1 if something does not, 2 if there is no data."""
    published = published_figures()
    every = list(published["allocation_percent"])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=BESIDE)
    parser.add_argument("--traces", default="default,gpuspec33,gpushare100,multigpu50,cpu250")
    parser.add_argument("--seeds", default="42-46")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    first, _, last = chosen.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    traces = every if chosen.traces == "all" else chosen.traces.split(",")
    if not (chosen.data / "openb_node_list_gpu_node.csv.gz").is_file():
        print(f"{chosen.data} does not hold the openb trace", file=sys.stderr)
        return 2

    def ordered(trace: str) -> bool:
        return all(has_order(chosen.data, trace, seed) for seed in seeds)

    outcomes: list[bool] = []
    for policy, different in check_steps(chosen.data):
        outcomes.append(not different)
        print(f"{'DIFFERS' if different else 'ok     '} {policy}, arrival by arrival: {len(different)} differ")
        print("\n".join(f"        {line}" for line in different[:SHOWN]), end="\n" if different else "")
    for trace in traces:
        if not ordered(trace):
            print(f"        {trace}: no published order for all of these seeds, shuffled by our own generator")
    runs = made(chosen.data, wanted_runs(traces, seeds, published), chosen.jobs)
    for finding in (
        *final_allocations(runs, published),
        *means(runs, published, ordered),
        *savings(runs, published, ordered),
    ):
        outcomes.append(finding.agrees)
        print(finding)
    print(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from bayplan.files.plugins import load_card_policy
from bayplan.files.tables import open_lines
from bayplan.fleet.cards.mix import counted
from bayplan.simulate.node_tables import read_node_order, read_nodes
from bayplan.simulate.orders import given, shuffled
from bayplan.simulate.pod_tables import PodList, read_pods
from bayplan.simulate.record import Record
from bayplan.simulate.replay import replay
from bayplan.simulate.result import RunResult, result
from bayplan.simulate.run import PolicyName
from bayplan.simulate.trace import Trace

HERE = Path(__file__).resolve().parent
BESIDE = HERE.parent.parent.parent / "shared" / "data" / "openb"
STEPS = {"bestfit": "BestFit", "fgd": "FGD", "pwr": "PWR", "pwr+fgd:100": "PF100"}
POWER_SEEDS = (42, 43, 44)
SHOWN = 5
HALF = 0.501
"""By how much of its last figure a number that was rounded may differ, and a hair."""
PUBLISHED_SEEDS = 10
SIGMAS = 4
CHANCE = 0.001
"""How often means are told to differ that do not: hundreds of them, which hang together, are compared."""

Json = dict[str, Any]
Rows = list[dict[str, str]]


def rows_of(path: Path) -> Rows:
    """A gzipped table."""
    with gzip.open(path, "rt", newline="") as lines:
        return list(csv.DictReader(lines))


def has_order(data: Path, name: str, seed: int) -> bool:
    """Whether the order of the published experiment is there."""
    return all((data / f"{kind}_{name}_s{seed}.csv.gz").is_file() for kind in ("nodeorder", "arrivals"))


def trace_of(data: Path, name: str, seed: int) -> Trace:
    """The trace in the published order, or shuffled where there is none.

    What is typical is that of the whole list, of which not all arrive where it asks for more than 1.3 times the cards.
    """
    with open_lines(str(data / "openb_node_list_gpu_node.csv.gz")) as lines:
        nodes = read_nodes(lines.all)
    pods = pods_of(data / f"openb_pod_list_{name}.csv.gz")
    if not has_order(data, name, seed):
        return shuffled(nodes, pods, seed)
    with open_lines(str(data / f"nodeorder_{name}_s{seed}.csv.gz")) as lines:
        ranked = read_node_order(lines.all, nodes)
    arriving = given(ranked, pods_of(data / f"arrivals_{name}_s{seed}.csv.gz"))
    return arriving._replace(counts=counted(pods.requests[which] for which in pods.which.tolist()))


def pods_of(path: Path) -> PodList:
    """The pods of a list or of an order of arrivals."""
    with open_lines(str(path)) as lines:
        return read_pods(lines.all)


def play(trace: Trace, policy: str, seed: int) -> Record:
    """Let the pods arrive one after the other."""
    name = PolicyName.parse(policy)
    return replay(trace, load_card_policy(name.name), option=name.option, seed=seed)


class Summary(NamedTuple):
    """What is published of a run. By load: means over the arrivals at that many percent."""

    metrics: RunResult
    first_failure: int
    of_arrived: dict[str, float]

    @property
    def refused(self) -> dict[str, int]:
        """By kind of pod, and all."""
        return {"all": self.metrics.failed, **self.metrics.refused}


def summed_up(trace: Trace, record: Record, policy: str, seed: int) -> Summary:
    """The metrics of a run, and what of all that has arrived by a load is allocated."""
    loads = np.round(record.arrived_milli * 100 / record.capacity_milli).astype(np.int64)
    share = record.standing.alloc_milli / np.maximum(record.arrived_milli, 1)
    refused = np.flatnonzero(record.node < 0)
    return Summary(
        metrics=result(trace, record, policy, seed),
        first_failure=int(refused[0]) if len(refused) else -1,
        of_arrived={str(load): float(share[loads == load].mean()) for load in np.unique(loads).tolist()},
    )


def different_steps(trace: Trace, record: Record, steps: Rows) -> Iterator[str]:
    """Arrivals at which a run differs from the one that was written down."""
    if len(steps) != len(record.node):
        yield f"{len(steps)} arrivals expected, {len(record.node)} played"
    standing = record.standing
    for i, (node, step) in enumerate(zip(record.node.tolist(), steps, strict=False)):
        found = {
            "pod": trace.names[i],
            "node": "" if node < 0 else trace.nodes[node].name,
            "cards": "-".join(map(str, record.card_sets[record.cards[i]])),
            "arrived_milli": str(record.arrived_milli[i]),
            "alloc_milli": str(standing.alloc_milli[i]),
            "used_nodes": str(standing.used_nodes[i]),
            "alloc_cpu_milli": str(standing.alloc_cpu_milli[i]),
            "power_cpu_w": f"{standing.cpu_w[i]:.0f}",
            "power_gpu_w": f"{standing.gpu_w[i]:.0f}",
            "failed": str(int(node < 0)),
        }
        expected = {key: step[key] for key in found}
        if found != expected or abs(standing.frag_milli[i] - float(step["frag_milli"])) > HALF / 100:
            yield f"arrival {i}: expected {step}, got {found} and {standing.frag_milli[i]:.2f} milli fragmented"


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
    name, policy, seed = run
    trace = trace_of(data, name, seed)
    return summed_up(trace, play(trace, policy, seed), policy, seed)


def final_allocations(runs: Runs, published: Json) -> Iterator[Finding]:
    """Seed by seed, after the last arrival; and of one seed, when pods were refused first and how many in all."""
    for (trace, policy, seed), run in runs.items():
        if trace != "default":
            continue
        expected = published["final_allocation_percent"].get(policy, {}).get(str(seed))
        if expected is not None:
            found = run.metrics.final_allocation_percent
            yield Finding(f"default {policy} seed {seed}, allocated at the end %", expected, found, HALF / 100)
        details = published["default_42"].get(policy, {}) if seed == 42 else {}
        found_details = {
            "idle_cards": run.metrics.final_unallocated_cards,
            "refused": run.metrics.failed,
            "first_failure": run.first_failure,
        }
        for field, number in details.items():
            yield Finding(f"default {policy} seed 42, {field}", number, found_details[field], HALF / 1000)


def means(runs: Runs, published: Json, ordered: Callable[[str], bool]) -> Iterator[Finding]:
    """Means over seeds: of some of the ten seeds that were published, or of others."""
    least = published["fgd_deviation_percent"]
    for trace, by_policy in published["allocation_percent"].items():
        for policy, figures in by_policy.items():
            means = Means(trace, policy, ordered(trace) and policy != "random", least[trace])
            yield from means.compared(runs, "allocation_percent", figures)
    by_field = {
        "allocation_percent": published["default_allocation_by_load"],
        "fragmentation_percent": published["default_fragmentation"]["amount"],
        "fragmentation_ratio": published["default_fragmentation"]["ratio"],
        "refused": published["default_failed"],
    }
    for field, figures_of in by_field.items():
        for policy, figures in figures_of.items():
            means = Means("default", policy, ordered("default") and policy != "random", least["default"])
            yield from means.compared(runs, field, figures)


class Means(NamedTuple):
    """Means of one policy on one trace, over seeds that are `some_of_them` that were published, or over others.

    `least_deviation`: of a policy's allocations, in percent. Five may lie nearer to each other by chance.
    """

    trace: str
    policy: str
    some_of_them: bool
    least_deviation: float

    def compared(self, runs: Runs, field: str, published: dict[str, float]) -> Iterator[Finding]:
        """Held against the published means."""
        same = [run for (trace, policy, _), run in runs.items() if (trace, policy) == (self.trace, self.policy)]
        of_seeds = [run.refused if field == "refused" else getattr(run.metrics, field) for run in same]
        digits = 1 if field in ("refused", "fragmentation_ratio") else 2
        for key, expected in published.items() if len(same) > 1 else ():
            values = [found.get(key, 0) for found in of_seeds]
            least = self.least_deviation if field == "allocation_percent" else 0.0
            within = self.spread(values, least) + HALF / 10**digits
            yield Finding(f"{self.trace} {self.policy}, {field} at {key}", expected, statistics.fmean(values), within)

    def spread(self, values: Sequence[float], least_deviation: float) -> float:
        """By how much the mean of these draws differs from that of the ten published ones, at most, by Student's t."""
        count = len(values)
        variance = 1 / count + (-1 if self.some_of_them else 1) / PUBLISHED_SEEDS
        deviation = float(student.ppf(1 - CHANCE / 2, count - 1)) * statistics.stdev(values)
        return max(deviation, SIGMAS * least_deviation) * math.sqrt(max(variance, 0.0))


def savings(runs: Runs, published: Json, ordered: Callable[[str], bool]) -> Iterator[Finding]:
    """Watts against FGD, and what is allocated of what has arrived; means over the seeds they are published of."""
    for trace, by_policy in published["power_saving_percent"].items():
        fgd = power_runs(runs, trace, "fgd") if ordered(trace) else []
        for policy in by_policy if fgd else ():
            own = power_runs(runs, trace, policy)
            for load, expected in by_policy[policy].items():
                pairs = [
                    (one.metrics.power_kw[load], other.metrics.power_kw[load])
                    for one, other in zip(own, fgd, strict=True)
                ]
                saved = statistics.fmean(100 * (1 - one / other) for one, other in pairs)
                yield Finding(f"{trace} {policy}, % of FGD's watts saved at {load}", expected, saved, HALF / 10)
            for load, expected in published["allocated_of_arrived"][trace][policy].items():
                share = statistics.fmean(run.of_arrived[load] for run in own)
                yield Finding(f"{trace} {policy}, allocated of arrived at {load}", expected, share, HALF / 10_000)
    for policy, figures in published["default_power_kw"].items():
        own = power_runs(runs, "default", policy)
        for load, expected in figures.items() if own else ():
            kilowatts = statistics.fmean(run.metrics.power_kw[load] for run in own)
            yield Finding(f"default {policy}, kW at {load}", expected, kilowatts, HALF)


def power_runs(runs: Runs, trace: str, policy: str) -> list[Summary]:
    """The runs of those seeds, if all were made."""
    wanted = [(trace, policy, seed) for seed in POWER_SEEDS]
    return [runs[run] for run in wanted] if all(run in runs for run in wanted) else []


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


def steps_that_differ(data: Path, policy: str) -> list[str]:
    """Where a run that is written down arrival by arrival comes out differently."""
    trace = trace_of(data, "default", 42)
    steps = rows_of(data / f"steps_default_{STEPS[policy]}_s42.csv.gz")
    return list(different_steps(trace, play(trace, policy, 42), steps))


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
    for policy in STEPS:
        different = steps_that_differ(chosen.data, policy)
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

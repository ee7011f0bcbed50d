"""How long one admission takes, from 1 to 64 NUMA nodes, beside what the kubelet takes.

    python benchmarks/admission.py [--quick]

Three tables: (1) one admission of a pod with CPU, memory and two devices through `Hub.admit`, on machines of equal
nodes and of nodes that all differ, and on presets; (2) the cases of the kubelet's own figures on machines of the same
shape (they were measured elsewhere, once, with the kubelet's Go code: compare growth, not milliseconds); (3) the same
merges by our own walk over all combinations, in this very run, as a baseline. The data file of (2) is found beside the
repository or where BAYPLAN_SHARED_DATA says; without it the column stays empty.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from bayplan.files.presets import load_preset
from bayplan.hub.hub import Hub
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Core, Machine, MemoryNode, Package
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.allocatable import node_allocatable
from bayplan.policies.kubelet.configuration import KubeletConfiguration, ReservedMemory
from bayplan.policies.kubelet.hints import Hints, NoPreference
from bayplan.policies.kubelet.merge import merge
from bayplan.policies.kubelet.walk import merge_by_walking
from bayplan.policies.policy import NodeSetup
from bayplan.resources.cpu import CpuResource
from bayplan.resources.devices import DeviceResource, DeviceUnit
from bayplan.resources.memory import MemoryResource
from bayplan.workload.model import Pod, Request

MIB, GIB = 2**20, 2**30
DEVICES = ("example.com/gpu", "example.com/nic")
POLICIES = ("best-effort", "restricted", "single-numa-node")
PRESETS = ("dgx-h100", "epyc-9654-nps4", "xeon-8480-2s-snc4", "xeon-max-9480-flat", "gb200-tray", "superdome-flex-32s")
SIZES = (1, 2, 4, 8, 16, 32, 64)
CASES = (
    "cpu",
    "cpu+mem",
    "cpu+mem/closest",
    "cpu+mem+1dev",
    "cpu+mem/single-numa-node",
    "cpu+mem+1dev/single-numa-node",
)
CPUS_PER_NODE = 16
WALKED = (1, 2, 3, 4, 5, 6)


def regular(nodes: int) -> Machine:
    """Nodes of 8 cores of two threads and 64 GiB, one a socket."""
    return machine_of([8] * nodes, [64 * GIB] * nodes, f"{nodes} equal")


def different(nodes: int) -> Machine:
    """Nodes no two of which have as many cores and as much memory."""
    rng = random.Random(nodes)
    cores = rng.sample(range(4, 4 + nodes), nodes)
    memory = [(48 + extra) * GIB + extra * 7 * MIB for extra in rng.sample(range(4 * nodes), nodes)]
    return machine_of(cores, memory, f"{nodes} different")


def machine_of(cores: Sequence[int], memory: Sequence[int], name: str) -> Machine:
    made: list[Core] = []
    nodes: list[MemoryNode] = []
    for i, count in enumerate(cores):
        first = 2 * len(made)
        for cpu in range(first, first + 2 * count, 2):
            made.append(Core(id=cpu, core_id=len(made), cpus=CpuSet([cpu, cpu + 1]), package=i))
        nodes.append(MemoryNode(id=i, cpus=CpuSet(range(first, 2 * len(made))), memory_bytes=memory[i]))
    return Machine(
        name=name,
        online=CpuSet(range(2 * len(made))),
        cores=tuple(made),
        packages=tuple(Package(id=node.id, cpus=node.cpus) for node in nodes),
        nodes=tuple(nodes),
        distances=tuple(
            tuple(10 if a == b else 12 + (a * b) % 9 for b in range(len(cores))) for a in range(len(cores))
        ),
    )


def hub_of(
    machine: Machine, policy: str, *, static_memory: bool = True, closest: bool = False, even: bool = False
) -> Hub:
    """A node with the static policies. Devices on every node: two each if `even`, one to four otherwise."""
    rng = random.Random(machine.name)
    devices = {}
    for resource in DEVICES:
        nodes = [node.id for node in machine.nodes for _ in range(2 if even else rng.randint(1, 4))]
        devices[resource] = tuple(DeviceUnit(id=f"d{i}", nodes=NodeSet([node])) for i, node in enumerate(nodes))
    with_cpus = next(node.id for node in machine.nodes if node.cpus)
    configuration = KubeletConfiguration(
        cpu_manager_policy="static",
        topology_manager_policy=policy,
        topology_manager_policy_options={"prefer-closest-numa-nodes": "true"} if closest else {},
        memory_manager_policy="Static" if static_memory else "None",
        reserved_system_cpus=CpuSet([machine.online.first()]),
        reserved_memory=(ReservedMemory(node=with_cpus, limits={"memory": GIB}),),
        system_reserved={"memory": GIB - 100 * MIB},
    )
    setup = NodeSetup(
        configuration=configuration, devices=devices, allocatable=node_allocatable(machine, configuration)
    )
    return Hub(machine, KubeletPolicy(machine, setup), [CpuResource(), MemoryResource(), DeviceResource()])


def pod_of(name: str, cpus: int, memory_bytes: int, devices: int, resources: Sequence[str] = DEVICES) -> Pod:
    container = Request(
        name="main",
        cpu_milli=cpus * 1000,
        cpu_limit_milli=cpus * 1000,
        memory_bytes=memory_bytes,
        memory_limit_bytes=memory_bytes,
        devices=dict.fromkeys(resources, devices) if devices else {},
    )
    return Pod(uid=name, name=name, containers=(container,))


def mixed_pods(machine: Machine) -> list[Pod]:
    """Pods for one node, for a node and a half, for a quarter and for nearly half of the machine."""
    with_cpus = [node for node in machine.nodes if node.cpus]
    per_node = len(machine.online) // len(with_cpus)
    whole = sum(node.memory_bytes for node in with_cpus)
    count = len(with_cpus)
    shapes = [
        (min(4, per_node // 2), 4 * GIB, 1),
        (per_node * 3 // 2 if count > 1 else per_node // 2, whole // count // 2, 1),
        (max(1, len(machine.online) // 4), whole // 8, max(1, count // 4)),
        (max(1, len(machine.online) // 2 - per_node // 2), whole // 4, max(1, count // 3)),
    ]
    return [pod_of(f"mixed-{i}", *shape) for i, shape in enumerate(shapes)]


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of CPU time: admission waits for nothing, and what else the machine does must not show."""
    start = time.thread_time()
    call()
    return (time.thread_time() - start) * 1000


def admissions(hub: Hub, pods: Sequence[Pod], rounds: int) -> list[float]:
    """Times of admitting each pod on the node as it is; what was admitted goes again at once."""
    times = []
    for number in range(rounds + 1):
        for pod in pods:
            took = timed(partial(hub.admit, pod))
            if pod.uid in hub.ledger.pods:
                hub.release(pod.uid)
            if number:  # the first round warms up
                times.append(took)
    return times


def spread(times: Sequence[float]) -> tuple[float, float]:
    """Median and 90th percentile."""
    ordered = sorted(times)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)]


def used(hub: Hub) -> Hub:
    """The node with some pods on it, so that it is neither empty nor even."""
    rng = random.Random(1)
    for i in range(max(1, len(hub.machine.nodes) // 3)):
        hub.admit(pod_of(f"there-{i}", rng.randint(1, 6), rng.randint(1, 12) * GIB, rng.randint(0, 1)))
    return hub


def two_devices(rounds: int, note: Callable[[str], None]) -> None:
    """Table 1."""
    print("1. One admission with CPU, memory and two device resources, in ms of CPU time: median / 90th percentile")
    print("   (Hub.admit with its trace; pods for one node, 1.5 nodes, a quarter and half of the machine, in turn)\n")
    print(f"   {'machine':<20}{'nodes':>6}{'CPUs':>6}" + "".join(f"{policy:>22}" for policy in POLICIES))
    medians: dict[tuple[str, str], float] = {}
    machines = [make(n) for make in (regular, different) for n in SIZES] + [load_preset(name) for name in PRESETS]
    for machine in machines:
        note(f"{machine.name}")
        cells = []
        for policy in POLICIES:
            hub = used(hub_of(machine, policy, even="equal" in machine.name))
            median, high = spread(admissions(hub, mixed_pods(machine), rounds))
            medians[machine.name, policy] = median
            cells.append(f"{median:>12.3f} /{high:>8.3f}")
        print(f"   {machine.name:<20}{len(machine.nodes):>6}{len(machine.online):>6}" + "".join(cells))
    for kind in ("equal", "different"):
        growth = (f"{medians[f'64 {kind}', p] / medians[f'1 {kind}', p]:>21.1f}x" for p in POLICIES)
        print(f"   {'growth 1 to 64, ' + kind:<32}" + "".join(growth))
    print()


def kubelet_figures() -> dict[tuple[str, int], float]:
    """(case, nodes) -> ms of the kubelet, as measured elsewhere; empty if the file is not there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("BAYPLAN_SHARED_DATA") or beside) / "kubelet-scaling.tsv"
    if not path.is_file():
        return {}
    with path.open(newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {(row["case"], int(row["nodes"])): float(row["ms_per_admission"]) for row in rows}


def case_hub(case: str, machine: Machine) -> tuple[Hub, Pod]:
    """A node and a pod for a case such as `cpu+mem+1dev/single-numa-node`."""
    resources, _, option = case.partition("/")
    hub = hub_of(
        machine,
        option if option == "single-numa-node" else "best-effort",
        static_memory="mem" in resources,
        closest=option == "closest",
        even=True,
    )
    return hub, pod_of("asked", 4, 2 * GIB, 1 if "1dev" in resources else 0, DEVICES[:1])


def beside_the_kubelet(rounds: int, note: Callable[[str], None]) -> None:
    """Table 2."""
    figures = kubelet_figures()
    print("2. The same cases on machines of the same shape (16 CPUs a node): ms per admission")
    if figures:
        print("   The kubelet's figures were measured elsewhere, on another machine, not in this run.\n")
    else:
        print("   kubelet-scaling.tsv is not here (BAYPLAN_SHARED_DATA can name its folder): no figures beside ours.\n")
    sizes = sorted({*SIZES, *(nodes for _, nodes in figures if nodes >= 8)})
    print(f"   {'case':<32}{'nodes':>6}{'kubelet (elsewhere)':>22}{'here':>10}{'ratio':>14}")
    for case in CASES:
        note(case)
        for nodes in sizes:
            hub, pod = case_hub(case, regular(nodes))
            median, _ = spread(admissions(hub, [pod], 2 * rounds))
            theirs = figures.get((case, nodes))
            shown, ratio = ("-", "-") if theirs is None else (f"{theirs:,.3f}", f"{theirs / median:,.1f}x")
            print(f"   {case:<32}{nodes:>6}{shown:>22}{median:>10.3f}{ratio:>14}")
    print()


def lists_of(hub: Hub, pod: Pod) -> list[Hints | NoPreference]:
    """What the three managers would give the Topology manager for a pod of one container."""
    policy = hub.policy
    assert isinstance(policy, KubeletPolicy)
    state, (container,) = hub.ledger.contents.memo.state, pod.containers
    kubelet = policy.kubelet
    managers = (kubelet.device_manager, kubelet.cpu_manager, kubelet.memory_manager)
    return [entry for manager in managers for entry in manager.hints(state, pod, container)]


def beside_our_walk(sizes: Iterable[int], rounds: int, note: Callable[[str], None]) -> None:
    """Table 3."""
    print("3. Baseline, measured in this run: merging by walking all combinations, as the kubelet does (ms)\n")
    print(f"   {'resources':<16}{'nodes':>6}{'combinations':>14}{'walk':>14}{'merge':>10}{'ratio':>12}")
    for resources, count in (("cpu+mem", 0), ("cpu+mem+1dev", 1)):
        for nodes in sizes:
            note(f"walk over {nodes} nodes")
            machine = regular(nodes)
            hub = hub_of(machine, "best-effort", even=True)
            pod = pod_of("asked", 4, 2 * GIB, count, DEVICES[:1])
            full = (1 << nodes) - 1
            # The lists are made anew for each merge: they keep what they have found out.
            ours = [timed(partial(merge, lists_of(hub, pod), full)) for _ in range(rounds)]
            walked = timed(partial(merge_by_walking, lists_of(hub, pod), full))
            if nodes < 5 and merge(lists_of(hub, pod), full) != merge_by_walking(lists_of(hub, pod), full):
                raise AssertionError("the merge and the walk differ")
            combinations = (2**nodes - 1) ** (2 + count)
            fast = statistics.median(ours)
            print(
                f"   {resources:<16}{nodes:>6}{combinations:>14,}{walked:>14.3f}{fast:>10.3f}{walked / fast:>11,.1f}x"
            )
    print()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure one admission, from 1 to 64 NUMA nodes.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no long walks")
    quick = parser.parse_args(arguments).quick

    def note(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[2K   {text} ...\r", end="", file=sys.stderr, flush=True)

    print(f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} CPUs; one thread is used\n")
    two_devices(2 if quick else 15, note)
    beside_the_kubelet(2 if quick else 15, note)
    beside_our_walk(WALKED[:4] if quick else WALKED, 5 if quick else 30, note)
    if sys.stderr.isatty():
        print("\r\x1b[2K", end="", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

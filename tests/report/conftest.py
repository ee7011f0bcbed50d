"""Machines and plans for the pictures, made by a small builder."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from bayplan.fleet.plan import NodeRefusal, Placement, Plan, PlannedNode
from bayplan.idset import CpuSet, NodeSet
from bayplan.machine import Cache, Core, CoreKind, Device, HugepagePool, Machine, MemoryNode, Package
from bayplan.resources.decision import Choice, Decision, DeviceGrant, Grant, MemoryBlock, Notice, Refusal
from bayplan.workload.model import Pod, Request

GIB = 1 << 30


def regular(
    name: str, *, packages: int = 1, nodes: int = 1, caches: int = 1, cores: int = 4, threads: int = 1, memory: int = 64
) -> Machine:
    """`nodes` a package, `caches` a node, `cores` a cache; threads numbered as Linux on x86 does (siblings last)."""
    total = packages * nodes * caches * cores
    made = [
        Core(
            id=i,
            core_id=i,
            package=i // (total // packages),
            cpus=CpuSet(i + thread * total for thread in range(threads)),
        )
        for i in range(total)
    ]

    def cpus_of(part: int, parts: int) -> CpuSet:
        size = total // parts
        return CpuSet(cpu for core in made[part * size : (part + 1) * size] for cpu in core.cpus)

    count = packages * nodes
    return Machine(
        name=name,
        architecture="x86_64",
        online=CpuSet(range(total * threads)),
        cores=tuple(made),
        packages=tuple(Package(id=p, cpus=cpus_of(p, packages), model="Made CPU 9000") for p in range(packages)),
        nodes=tuple(
            MemoryNode(
                id=n,
                cpus=cpus_of(n, count),
                memory_bytes=memory * GIB,
                kind="dram",
                hugepages=(HugepagePool(page_bytes=2 << 20, count=512),) if n == 0 else (),
                initiators=NodeSet([n]),
            )
            for n in range(count)
        ),
        caches=tuple(
            Cache(level=3, kind="unified", cpus=cpus_of(c, count * caches), bytes=32 << 20)
            for c in range(count * caches)
        ),
        distances=tuple(
            tuple(10 if a == b else 12 if a // nodes == b // nodes else 32 for b in range(count)) for a in range(count)
        ),
    )


def two_sockets() -> Machine:
    base = regular("xeon-2s", packages=2, nodes=2, cores=8, threads=2)
    devices = (
        Device(
            address="0000:17:00.0", kind="gpu", node=0, cpus=base.nodes[0].cpus, resource="nvidia.com/gpu", name="H100"
        ),
        Device(address="0000:31:00.0", kind="network", node=1, cpus=base.nodes[1].cpus, name="ConnectX-7"),
        Device(address="0000:98:00.0", kind="storage", node=3, cpus=base.nodes[3].cpus, name="NVMe"),
        Device(address="0000:ff:00.0", kind="other"),
    )
    return msgspec.structs.replace(base, devices=devices, isolated=CpuSet([14, 46]), offline=CpuSet([64, 65]))


def eight_nodes() -> Machine:
    return regular("epyc-nps4", packages=2, nodes=4, caches=3, cores=8, threads=2, memory=96)


def hybrid() -> Machine:
    """8 performance cores with two threads, 16 efficient ones in fours that share an L2."""
    performance = [Core(id=2 * i, core_id=4 * i, package=0, cpus=CpuSet([2 * i, 2 * i + 1])) for i in range(8)]
    efficient = [Core(id=16 + i, core_id=100 + i, package=0, cpus=CpuSet([16 + i])) for i in range(16)]
    every = CpuSet(range(32))
    level2 = [Cache(level=2, kind="unified", cpus=core.cpus, bytes=2 << 20) for core in performance]
    level2 += [Cache(level=2, kind="unified", cpus=CpuSet(range(i, i + 4)), bytes=4 << 20) for i in range(16, 32, 4)]
    return Machine(
        name="desktop",
        architecture="x86_64",
        online=every,
        cores=(*performance, *efficient),
        packages=(Package(id=0, cpus=every, model="Made Core Ultra"),),
        nodes=(MemoryNode(id=0, cpus=every, memory_bytes=32 * GIB, kind="dram", initiators=NodeSet([0])),),
        caches=(*level2, Cache(level=3, kind="unified", cpus=every, bytes=36 << 20)),
        distances=((10,),),
        core_kinds=(
            CoreKind(name="performance", cpus=CpuSet(range(16)), capacity=1024),
            CoreKind(name="efficient", cpus=CpuSet(range(16, 32)), capacity=640),
        ),
    )


def gpu_tray() -> Machine:
    """Two packages with CPUs; nodes 2-33 have neither CPUs nor memory, as on a GB200 tray."""
    base = regular("gb200", packages=2, cores=72, memory=480)
    empty = tuple(
        MemoryNode(id=n, cpus=CpuSet(), memory_bytes=0, kind="gpu", initiators=NodeSet([(n - 2) // 16]))
        for n in range(2, 34)
    )
    size = 34
    side = [n if n < 2 else (n - 2) // 16 for n in range(size)]
    rows = tuple(
        tuple(10 if a == b else 80 if side[a] == side[b] else 40 if max(a, b) < 2 else 120 for b in range(size))
        for a in range(size)
    )
    return msgspec.structs.replace(base, nodes=base.nodes + empty, distances=rows)


def sixty_four_nodes() -> Machine:
    return regular("superdome", packages=32, nodes=2, cores=16, threads=2)


def largest() -> Machine:
    return regular("largest", packages=16, nodes=4, cores=64, threads=2)


MACHINES: dict[str, Callable[[], Machine]] = {
    "two_sockets": two_sockets,
    "eight_nodes": eight_nodes,
    "hybrid": hybrid,
    "gpu_tray": gpu_tray,
    "sixty_four_nodes": sixty_four_nodes,
    "largest": largest,
}


def request(name: str, cpus: int, gib: int = 1, **more: object) -> Request:
    amounts = {"cpu_milli": cpus * 1000, "memory_bytes": gib * GIB}
    limits = {"cpu_limit_milli": cpus * 1000, "memory_limit_bytes": gib * GIB}
    return msgspec.convert({"name": name, **amounts, **limits, **more}, Request)


def placed(pod: str, node: str, *grants: Grant, namespace: str = "default") -> Placement:
    requests = tuple(request(g.container, max(1, len(g.exclusive))) for g in grants)
    trace = (
        Choice(
            subject=grants[0].container if grants else pod,
            question="which NUMA nodes",
            options=("node 0 (preferred)", "nodes 0-1"),
            taken="node 0 (preferred)",
            rule="topology-manager/best-effort",
        ),
    )
    return Placement(
        pod=Pod(uid=f"uid-{pod}", name=pod, namespace=namespace, containers=requests),
        node=node,
        decision=Decision(pod=f"uid-{pod}", grants=grants, trace=trace),
        elsewhere=(),
    )


def refused(pod: str, *nodes: str, namespace: str = "default") -> Placement:
    refusal = Refusal(
        reason="TopologyAffinityError",
        message="Resources cannot be allocated with Topology locality",
        rule="topology-manager/restricted",
        container="app",
        resource="cpu",
        asked=40_000,
        free=24_000,
        remedies=("ask for at most 24 CPUs", "set topologyManagerPolicy to best-effort"),
    )
    return Placement(
        pod=Pod(uid=f"uid-{pod}", name=pod, namespace=namespace, containers=(request("app", 40),)),
        refusal=refusal,
        elsewhere=tuple(NodeRefusal(node=node, refusal=refusal) for node in nodes),
        refused_nodes={"TopologyAffinityError": len(nodes)},
    )


def plan_for(machine: Machine, *, node: str = "worker-1", most: int = 30) -> Plan:
    """A plan that fills a machine: a container on a whole core or a whole cache each, sharers, one refused pod."""
    reserved = machine.cores[0].cpus
    free = [core for core in machine.cores[1:] if not core.cpus & machine.isolated]
    placements: list[Placement] = []
    taken = CpuSet()
    for index, start in enumerate(range(0, min(len(free) - 2, most * 3), 3)):
        chosen = free[start : start + 1 + index % 3]
        held = CpuSet(cpu for core in chosen for cpu in core.cpus)
        taken |= held
        home = machine.nodes_of(held)
        gpu = (DeviceGrant(resource="nvidia.com/gpu", ids=("0000:17:00.0",)),) if index == 0 else ()
        memory = [MemoryBlock(type="memory", nodes=home, bytes=GIB)]
        if index == 1:
            memory.append(MemoryBlock(type="hugepages-2Mi", nodes=home, bytes=256 << 20))
        grant = Grant(
            pod=f"uid-db-{index}", container="app", exclusive=held, memory_nodes=home, memory=tuple(memory),
            devices=gpu, affinity=home, preferred=True, cpu_milli=len(held) * 1000,
        )  # fmt: skip
        placements.append(placed(f"db-{index}", node, grant))
    pool = machine.online - taken
    for index in range(2):
        grant = Grant(
            pod=f"uid-web-{index}", container="nginx", shared=pool, memory_nodes=machine.all_nodes, cpu_milli=500
        )
        placements.append(placed(f"web-{index}", node, grant, namespace="shop"))
    placements.append(refused("huge", node))
    planned = PlannedNode(
        name=node,
        machine=machine,
        policy="kubelet",
        reserved=reserved,
        shared=pool - machine.isolated,
        allocatable={"cpu": len(machine.online) * 1000 - 1000, "memory": machine.memory_bytes},
        used={"cpu": len(taken) * 1000 + 1000, "memory": 12 * GIB},
        settings={"cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"},
        warnings=(Notice(name="kubelet-hangs", message="this kubelet would walk too many masks"),),
    )
    return Plan(nodes=(planned,), placements=tuple(placements), warnings=(Notice(name="made", message="for a test"),))


def fleet_plan(count: int = 40) -> Plan:
    machine = two_sockets()
    small = [plan_for(machine, node=f"worker-{i}", most=3) for i in range(count)]
    return Plan(
        nodes=tuple(plan.nodes[0] for plan in small),
        placements=tuple(placement for plan in small for placement in plan.placements),
    )


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]()


@pytest.fixture
def plan(machine: Machine) -> Plan:
    return plan_for(machine)


@pytest.fixture
def small_machine() -> Machine:
    return two_sockets()


@pytest.fixture
def small_plan() -> Plan:
    return plan_for(two_sockets())


@pytest.fixture
def large_plan() -> Plan:
    return fleet_plan()


@pytest.fixture
def make_machine() -> dict[str, Callable[[], Machine]]:
    return MACHINES


@pytest.fixture
def make_plan() -> Callable[[Machine], Plan]:
    return plan_for

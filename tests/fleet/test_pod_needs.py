"""What a pod counts for on a node, as the scheduler adds it up."""

from __future__ import annotations

from bayplan.fleet.pod_needs import SCORED_CPU_MILLI, SCORED_MEMORY_BYTES, pod_needs
from bayplan.workload.model import Pod, PodResources, Request

MI = 2**20
GI = 2**30


def test_containers_run_together_and_overhead_comes_on_top() -> None:
    pod = Pod(
        uid="u",
        name="p",
        containers=(
            Request(name="a", cpu_milli=500, memory_bytes=GI, devices={"example.com/gpu": 1}, ephemeral_bytes=5),
            Request(name="b", cpu_milli=250, hugepages={2 * MI: 8 * MI}, devices={"example.com/gpu": 2}),
        ),
        overhead_cpu_milli=10,
        overhead_memory_bytes=MI,
    )
    assert pod_needs(pod).amounts == {
        "cpu": 760,
        "memory": GI + MI,
        "hugepages-2Mi": 8 * MI,
        "example.com/gpu": 3,
        "ephemeral-storage": 5,
    }


def test_a_large_init_container_sets_the_peak_beside_the_sidecars_before_it() -> None:
    pod = Pod(
        uid="u",
        name="p",
        init=(
            Request(name="side", cpu_milli=100, init=True, restartable=True),
            Request(name="setup", cpu_milli=3000, memory_bytes=GI, init=True),
            Request(name="late", cpu_milli=700, init=True, restartable=True),
        ),
        containers=(Request(name="app", cpu_milli=1000, memory_bytes=2 * GI),),
    )
    assert pod_needs(pod).amounts == {"cpu": 3100, "memory": 2 * GI}


def test_the_pods_own_resources_take_the_place_of_the_sum() -> None:
    pod = Pod(
        uid="u",
        name="p",
        containers=(Request(name="a", cpu_milli=500, memory_bytes=GI, hugepages={2 * MI: 4 * MI, GI: GI}),),
        resources=PodResources(cpu_milli=2000, hugepages={2 * MI: 6 * MI}),
        overhead_cpu_milli=50,
    )
    needs = pod_needs(pod)
    assert needs.amounts == {"cpu": 2050, "memory": GI, "hugepages-2Mi": 6 * MI, "hugepages-1Gi": GI}
    assert needs.scored_cpu_milli == 2050


def test_a_container_that_asks_nothing_counts_a_little_in_scores_only() -> None:
    pod = Pod(uid="u", name="p", containers=(Request(name="a"), Request(name="b", cpu_milli=300)))
    needs = pod_needs(pod)
    assert needs.amounts == {"cpu": 300}
    assert needs.scored_cpu_milli == SCORED_CPU_MILLI + 300
    assert needs.scored_memory_bytes == 2 * SCORED_MEMORY_BYTES

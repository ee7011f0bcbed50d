from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.files.plugins import load_resources
from bayplan.files.presets import load_preset
from bayplan.hub.hub import Hub
from bayplan.hub.room import ZoneAdvice, room_on_node
from bayplan.policies.kubelet import KubeletPolicy
from bayplan.policies.kubelet.configuration import read_configuration
from bayplan.policies.policy import NodeSetup
from bayplan.workload.documents import read_documents
from bayplan.workload.model import Pod, Request

GIB = 2**30
CONFIGURATION = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: %s
reservedSystemCPUs: "0"
"""
PLUGINS = load_resources().found


def pod(name: str, cpus: int) -> Pod:
    milli, memory = cpus * 1000, GIB
    request = Request(
        name="main", cpu_milli=milli, cpu_limit_milli=milli, memory_bytes=memory, memory_limit_bytes=memory
    )
    return Pod(uid=name, name=name, containers=(request,))


def hub(policy: str = "restricted", *sizes: int, gone: tuple[int, ...] = ()) -> Hub:
    """A machine of two NUMA nodes with 112 CPUs each, of which one is reserved."""
    file = read_configuration(read_documents(CONFIGURATION % policy, "kubelet.yaml"))
    machine = load_preset("dgx-h100")
    made = Hub(machine, KubeletPolicy(machine, NodeSetup(configuration=file.configuration)), PLUGINS)
    admitted = [made.admit(pod(f"p{i}", size)).admitted for i, size in enumerate(sizes)]
    for i in gone:
        if admitted[i]:
            made.release(f"p{i}")
    return made


def replayed(on: Hub, wanted: Pod, advice: ZoneAdvice) -> None:
    """Carry it out on the hub itself: evict, admit in that order; all must be there in the end."""
    pods = {**on.ledger.pods, wanted.uid: wanted}
    for restart in advice.restarts:
        on.release(next(uid for uid, each in pods.items() if each.full_name == restart.pod))
    for uid in advice.order:
        assert on.admit(pods[uid]).admitted
    on.check()
    assert on.ledger.pods.keys() == pods.keys()


HOLES = (32, 32, 32, 32, 32, 32)
"""Three fit on each node; without the second and the fourth, each node has a hole of less than 64."""


def test_one_restart_closes_two_holes() -> None:
    on = hub("restricted", *HOLES, gone=(0, 3))
    before = on.ledger.contents
    advice = room_on_node(on, pod("wide", 64), {}, 2)
    assert on.ledger.contents is before
    assert len(advice.restarts) == 1
    (restart,) = advice.restarts
    assert restart.before != restart.after
    replayed(on, pod("wide", 64), advice)


def test_the_cheapest_pod_is_restarted_and_fixed_ones_stay() -> None:
    on = hub("restricted", *HOLES, gone=(0, 3))
    costs = dict.fromkeys(on.ledger.pods, 1000) | {"p4": 10}
    assert [each.pod for each in room_on_node(on, pod("wide", 64), costs, 2).restarts] == ["default/p4"]
    fixed = dict.fromkeys(on.ledger.pods, "so")
    none = room_on_node(on, pod("wide", 64), costs, 2, fixed=fixed)
    assert not none.found
    assert none.complete
    assert none.decision.refusal is not None
    assert none.decision.refusal.reason == "TopologyAffinityError"


def test_a_pod_that_has_room_needs_no_restart() -> None:
    advice = room_on_node(hub("restricted", 32), pod("wide", 64), {}, 2)
    assert (advice.found, advice.restarts, advice.order) == (True, (), ("wide",))


def test_aligned_asks_for_more_than_admitted() -> None:
    on = hub("best-effort", *HOLES, gone=(0, 3))
    assert room_on_node(on, pod("wide", 64), {}, 2).restarts == ()
    advice = room_on_node(on, pod("wide", 64), {}, 2, aligned=True)
    assert len(advice.restarts) == 1
    assert all(grant.preferred for grant in advice.decision.grants)
    too_large = room_on_node(on, pod("wide", 112), {}, 0, aligned=True)
    assert not too_large.found


SIZES = st.lists(st.sampled_from([16, 24, 40, 56]), min_size=2, max_size=5)


@settings(deadline=None, max_examples=15)
@given(SIZES, st.sets(st.integers(0, 1)), st.sampled_from([40, 72, 100]))
def test_no_fewer_restarts_would_do(sizes: list[int], gone: set[int], wanted: int) -> None:
    new = pod("wide", wanted)
    on = hub("restricted", *sizes, gone=tuple(gone))
    advice = room_on_node(on, new, {}, 2)
    fewest = by_trying_all(sizes, gone, new)
    assert (len(advice.restarts) if advice.found else None) == fewest
    if advice.found:
        replayed(on, new, advice)


def by_trying_all(sizes: list[int], gone: set[int], new: Pod) -> int | None:
    uids = [*hub("restricted", *sizes, gone=tuple(gone)).ledger.pods]
    for count in range(3):
        for some in combinations(uids, count):
            for order in permutations((*some, new.uid)):
                on = hub("restricted", *sizes, gone=tuple(gone))
                pods = {**on.ledger.pods, new.uid: new}
                for uid in some:
                    on.release(uid)
                if all(on.admit(pods[uid]).admitted for uid in order):
                    return count
    return None

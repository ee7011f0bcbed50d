from __future__ import annotations

import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardNode, Spot
from bayplan.fleet.cards.repack.running import Cluster, Prices, of_manifests
from bayplan.fleet.cluster_file import NodeSpec
from bayplan.fleet.node_fields import Taint
from bayplan.simulate.running_tables import read_running
from bayplan.workload import manifests
from bayplan.workload.documents import read_documents

NODES = [CardNode(name=name, cpu_milli=8000, memory_bytes=2**35, cards=2, model="T4") for name in ("a", "b")]
STANDING = [
    NodeSpec(name="a", machine=""),
    NodeSpec(name="b", machine="", taints=(Taint(key="x", effect="NoSchedule"),)),
]
OWNED = "ownerReferences: [{kind: ReplicaSet, name: r, controller: true, apiVersion: apps/v1, uid: u}]"


def pod(name: str, limits: str, more: str = "", node: str = "a", owner: str = OWNED, created: str = "") -> str:
    return f"""---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations: {{{more}}}
  {owner}
  {f'creationTimestamp: "{created}"' if created else ""}
spec:
  {f"nodeName: {node}" if node else ""}
  containers: [{{name: main, image: x, resources: {{limits: {{{limits}}}}}}}]
"""


def cluster(*texts: str, prices: Prices | None = None, now_s: float | None = None) -> Cluster:
    workload = manifests.read(read_documents("".join(texts), "pods.yaml"), over_time=True)
    return of_manifests(workload.pods, workload.times, NODES, STANDING, prices or Prices(), now_s)


ONE = "nvidia.com/gpu: 1"
HALF = "gpu.intel.com/i915: 1, gpu.intel.com/millicores: 500"


@pytest.mark.parametrize(
    ("annotation", "cards"),
    [
        ('bayplan.dev/cards: "1"', (1,)),
        ('gas-container-cards: "card1"', (1,)),
        ('gpu.intel.com/cards: "card1"', (1,)),
        ('alibabacloud.com/gpu-index: "1"', (1,)),
        ('bayplan.dev/cards: "0", alibabacloud.com/gpu-index: "1"', (0,)),
    ],
)
def test_an_annotation_tells_the_cards(annotation: str, cards: tuple[int, ...]) -> None:
    (running,) = cluster(pod("p", ONE, annotation)).pods
    assert running.spot == Spot(0, cards)


def test_cards_that_nothing_tells_are_those_left_by_the_others_and_a_note_says_so() -> None:
    found = cluster(pod("p", ONE), pod("q", ONE, 'bayplan.dev/cards: "0"'), pod("c", "cpu: 1"))
    assert [each.spot.cards for each in found.pods] == [(1,), (0,), ()]
    (note,) = found.notes
    assert (note.name, note.count, note.place) == ("cards-not-told", 1, "pod default/p")


@pytest.mark.parametrize(
    ("more", "owner", "why"),
    [
        ("", OWNED, ""),
        ('bayplan.dev/movable: "false"', OWNED, "annotated bayplan.dev/movable: false"),
        (
            'cluster-autoscaler.kubernetes.io/safe-to-evict: "false"',
            OWNED,
            "annotated cluster-autoscaler.kubernetes.io/safe-to-evict: false",
        ),
        ("", OWNED.replace("ReplicaSet", "DaemonSet"), "of a DaemonSet"),
        ("", OWNED.replace("ReplicaSet", "Node"), "a static pod"),
        ("kubernetes.io/config.source: file", OWNED, "a static pod"),
        ("", "", "no controller would make it again"),
        ('bayplan.dev/movable: "true"', "", ""),
    ],
)
def test_what_must_not_be_moved_is_known_by_its_reason(more: str, owner: str, why: str) -> None:
    (running,) = cluster(pod("p", ONE, more, owner=owner)).pods
    assert running.fixed == why


def test_pods_go_only_where_taints_let_them() -> None:
    found = cluster(pod("p", ONE))
    assert found.groups[found.pods[0].group].tolist() == [True, False]


def test_a_move_costs_by_pod_card_and_age() -> None:
    old, new = pod("old", ONE, created="2026-01-01T00:00:00Z"), pod("new", ONE, created="2026-01-01T10:00:00Z")
    found = cluster(old, new, prices=Prices(pod=0.5, card=2, card_hour=0.1))
    assert [each.cost for each in found.pods] == [3500, 2500]


def test_pods_without_a_node_count_for_the_mix_only() -> None:
    found = cluster(pod("p", ONE, node=""), pod("q", ONE))
    assert len(found.pods) == 1
    assert [request.cards for request in found.waiting] == [1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (pod("p", ONE, node="z"), "runs on a node that is not there: 'z'"),
        (pod("p", ONE, 'bayplan.dev/cards: "0,1"'), "another number of cards"),
        (pod("p", ONE, "bayplan.dev/cards: first"), "metadata.annotations[bayplan.dev/cards]: not cards: 'first'"),
        (pod("p", ONE, 'bayplan.dev/cards: "7"'), "does not fit where it is said to be"),
        (pod("p", "nvidia.com/gpu: 3"), "has more cards than are free there: 3 (expected at most 2)"),
        (pod("p", "cpu: 9"), "does not fit where it is said to be, on a,"),
    ],
)
def test_what_contradicts_the_nodes_is_told(text: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        cluster(text)
    assert says in str(error.value)


HEAD = "node,pod,cpu_milli,memory_mib,cards,milli,models,movable,cost\n"


def test_a_table_is_read() -> None:
    rows = HEAD + "a,p,1000,1024,0|1,,T4|A10,no,\nb,q,500,,1,250,,,3.5\nb,r,1,,,,,,\n"
    first, second, third = read_running(rows.splitlines(), Prices(pod=1, card=1))
    assert (first.request.cards, first.request.milli, first.request.models) == (2, 1000, ("A10", "T4"))
    assert (first.cards, first.cost, first.fixed != "") == ((0, 1), 3000, True)
    assert (second.request.milli, second.cost, second.fixed) == (250, 3500, "")
    assert (third.request.cards, third.cards) == (0, ())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("a,p,x,,,,,,", "row 2, column cpu_milli: not a number: 'x'"),
        ("a,p,1,,one,,,,", "row 2, column cards: not cards: 'one'"),
        ("a,p,1,,0,1001,,,", "row 2, milli: not a part of a card: 1001"),
        ("a,p,1,,0|1,500,,,", "row 2, milli: parts of several cards"),
        ("a,p,1,,,500,,,", "row 2, milli: a part of no card"),
        ("a,p,1,,,,,maybe,", "row 2, column movable: neither true nor false: 'maybe'"),
        ("a,p,1,,,,,,-1", "row 2, column cost: out of range"),
        ("a,p,1,,,,,,nan", "row 2, column cost: not a time: 'nan'"),
        (",p,1,,,,,,", "row 2, column node: not a name"),
        ("a,p", "row 2: cells that fit no column"),
    ],
)
def test_a_row_that_is_wrong_is_told_with_its_column(row: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        read_running((HEAD + row).splitlines(), Prices())
    assert says in str(error.value)


def test_a_table_without_pods_or_with_odd_columns_is_refused() -> None:
    with pytest.raises(InputError, match="no pods"):
        read_running([HEAD], Prices())
    with pytest.raises(InputError, match="unknown column; did you mean cards"):
        read_running(["node,pod,card\n"], Prices())

"""What pods ask of cards and what nodes offer, however it is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.dialects import KNOWN, card_node, card_request
from bayplan.fleet.cards.model import CardRequest
from bayplan.fleet.cluster_file import NodeSpec
from bayplan.workload.model import Pod, Request, Selector

GIB = 1 << 30
MODELS = ("A100", "H100", "T4")
PRODUCT = "nvidia.com/gpu.product"


def asked(devices: dict[str, int] | None = None, **pod: Any) -> CardRequest:
    container = Request(name="c", cpu_milli=2000, memory_bytes=GIB, devices=devices or {})
    return card_request(Pod(uid="p", name="p", containers=(container,), **pod), MODELS)


def refused(devices: dict[str, int] | None = None, **pod: Any) -> str:
    with pytest.raises(InputError) as caught:
        asked(devices, **pod)
    return str(caught.value)


def node(labels: dict[str, str] | None = None, **allocatable: int) -> NodeSpec:
    named = {name.replace("__", "/").replace("_", "."): amount for name, amount in allocatable.items()}
    return NodeSpec(name="n", machine="", labels=labels or {}, allocatable={"cpu": 8000, "memory": GIB, **named})


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"])
def test_a_piece_of_a_plugin_is_a_whole_card(name: str) -> None:
    assert asked({name: 2}) == CardRequest(cpu_milli=2000, memory_bytes=GIB, cards=2, milli=1000)


def test_a_pod_that_asks_for_no_card_has_none() -> None:
    assert asked({"example.com/nic": 1}) == CardRequest(cpu_milli=2000, memory_bytes=GIB)
    assert asked(node_selector={PRODUCT: "T4"}).models == ()


@pytest.mark.parametrize(
    ("cards", "millicores", "milli"), [(1, 250, 250), (1, 1000, 1000), (2, 2000, 1000), (1, 5000, 1000), (1, 0, 1000)]
)
def test_millicores_are_shared_by_the_cards(cards: int, millicores: int, milli: int) -> None:
    found = asked({"gpu.intel.com/i915": cards, "gpu.intel.com/millicores": millicores})
    assert (found.cards, found.milli) == (cards, milli)


def test_parts_of_several_cards_are_refused() -> None:
    told = refused({"gpu.intel.com/i915": 2, "gpu.intel.com/millicores": 1000})
    assert told == "pod default/p: milli: parts of several cards: 500 (expected 1000)"


@pytest.mark.parametrize(
    ("annotations", "cards", "milli"),
    [
        ({"gpu-milli": "300"}, 1, 300),
        ({"gpu-milli": "1200"}, 1, 1000),
        ({"gpu-count": "4"}, 4, 1000),
        ({"gpu-count": "2", "gpu-milli": "1000"}, 2, 1000),
        ({"gpu-count": "0", "gpu-milli": "300"}, 0, 0),
        ({"gpu-milli": "0"}, 0, 0),
    ],
)
def test_annotations_of_openb(annotations: dict[str, str], cards: int, milli: int) -> None:
    found = asked(annotations={f"alibabacloud.com/{name}": value for name, value in annotations.items()})
    assert (found.cards, found.milli) == (cards, milli)


def test_an_annotation_that_is_no_number_is_refused() -> None:
    assert "metadata.annotations[alibabacloud.com/gpu-milli]: not a number: 'half'" in refused(
        annotations={"alibabacloud.com/gpu-milli": "half"}
    )


def term(operator: str, *values: str, key: str = PRODUCT) -> tuple[Selector, ...]:
    return (Selector(key=key, operator=operator, values=values),)


@pytest.mark.parametrize(
    ("pod", "models"),
    [
        ({}, ()),
        ({"node_selector": {PRODUCT: "T4"}}, ("T4",)),
        ({"node_selector": {"zone": "a"}}, ()),
        ({"node_selector": {PRODUCT: "B200"}}, ("B200",)),  # which no node has, and which must not mean any
        ({"annotations": {"alibabacloud.com/gpu-card-model": "T4|A100"}}, ("A100", "T4")),
        ({"node_terms": (term("In", "T4"), term("In", "H100"))}, ("H100", "T4")),
        ({"node_terms": (term("In", "T4"), term("Exists", key="zone"))}, ()),
        ({"node_terms": (term("NotIn", "T4"),)}, ("A100", "H100")),
        ({"node_terms": (term("In", "T4", "H100") + term("NotIn", "T4"),)}, ("H100",)),
        ({"node_terms": (term("Exists"),)}, ()),
        ({"node_terms": (term("In", *MODELS),)}, ()),
        ({"node_selector": {PRODUCT: "T4"}, "node_terms": (term("Exists", key="zone"),)}, ("T4",)),
    ],
)
def test_selectors_and_affinity_name_models(pod: dict[str, Any], models: tuple[str, ...]) -> None:
    assert asked({"nvidia.com/gpu": 1}, **pod).models == models


def test_what_no_model_could_meet_is_refused() -> None:
    pod = {"node_selector": {PRODUCT: "T4"}, "node_terms": (term("NotIn", "T4"),)}
    assert "no model of cards would do" in refused({"nvidia.com/gpu": 1}, **pod)
    assert "no model of cards would do" in refused({"nvidia.com/gpu": 1}, node_terms=())


def test_a_label_of_ones_own_tells_the_model_too() -> None:
    own = msgspec.structs.replace(KNOWN, model_labels=("example.com/card", *KNOWN.model_labels))
    pod = Pod(uid="p", name="p", containers=(Request(name="c", devices={"nvidia.com/gpu": 1}),))
    chosen = msgspec.structs.replace(pod, node_selector={"example.com/card": "T4"})
    assert card_request(chosen, MODELS, own).models == ("T4",)
    assert card_request(chosen, MODELS).models == ()
    labels = {"example.com/card": "X", PRODUCT: "Y"}
    assert card_node(node(labels), own).model == "X"
    assert card_node(node(labels)).model == "Y"


def test_a_node_offers_the_cards_of_its_plugin() -> None:
    found = card_node(node({PRODUCT: "H100"}, nvidia_com__gpu=8))
    assert (found.cards, found.model, found.cpu_milli, found.memory_bytes) == (8, "H100", 8000, GIB)
    assert card_node(node()).cards == 0


def test_a_plugin_that_offers_pieces_of_cards_tells_them_in_millicores() -> None:
    assert card_node(node(gpu_intel_com__i915=20, gpu_intel_com__millicores=2000)).cards == 2


def test_nodes_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match=r"node n: cards of two kinds in one node: 'nvidia.com/gpu and amd.com/gpu'"):
        card_node(node(nvidia_com__gpu=1, amd_com__gpu=1))
    with pytest.raises(InputError, match="node n: cards: out of range"):
        card_node(node(nvidia_com__gpu=1000))
    with pytest.raises(InputError, match=r"node n: allocatable\[memory\]: not told"):
        card_node(NodeSpec(name="n", machine="", allocatable={"cpu": 1}))

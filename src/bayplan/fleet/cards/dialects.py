"""What a Kubernetes pod asks of cards, and what cards a node offers, in the dialects of those who make or share them.

Names of resources, annotations and labels are data (`CardDialect`); `KNOWN` has those of the vendors' device plugins,
of GPU Aware Scheduling (millicores are shared by the cards asked for) and of Alibaba's openb trace. A pod may say which
models will do, by its node selector and required node affinity on a label that tells a node's model. Facts:
NVIDIA/k8s-device-plugin and gpu-feature-discovery, ROCm/k8s-device-plugin, intel/platform-aware-scheduling (GAS),
alibaba/clusterdata (openb).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.cards.model import WHOLE, CardNode, CardRequest
from bayplan.fleet.pod_needs import pod_needs
from bayplan.fleet.selectors import meets
from bayplan.workload.model import Pod, Selector


class CardDialect(msgspec.Struct, frozen=True, kw_only=True):
    """How cards are asked for.

    `whole`: resources of which a piece is a card. `parts`: for some of them, the resource that tells how many milli of
    all these cards are meant. `count_annotation`, `milli_annotation` and `models_annotation`: a pod's cards, the milli
    of each and the models ('|' between them), where they are not resources. `model_labels`: of a node, the first that
    it has tells the model of its cards.
    """

    whole: tuple[str, ...]
    parts: Mapping[str, str] = {}
    count_annotation: str = ""
    milli_annotation: str = ""
    models_annotation: str = ""
    model_labels: tuple[str, ...] = ()


KNOWN = CardDialect(
    whole=(
        "nvidia.com/gpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "alibabacloud.com/gpu-count",
    ),
    parts={"gpu.intel.com/i915": "gpu.intel.com/millicores", "gpu.intel.com/xe": "gpu.intel.com/millicores"},
    count_annotation="alibabacloud.com/gpu-count",
    milli_annotation="alibabacloud.com/gpu-milli",
    models_annotation="alibabacloud.com/gpu-card-model",
    model_labels=("nvidia.com/gpu.product", "alibabacloud.com/gpu-card-model", "amd.com/gpu.product-name"),
)


class Offering(Protocol):
    """What is known of a node: `fleet.node.FleetNode` and `fleet.cluster_file.NodeSpec` are such."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        ...

    @property
    def allocatable(self) -> Mapping[str, int]:
        """By resource: millicores, bytes, pieces."""
        ...


def card_node(node: Offering, dialect: CardDialect = KNOWN) -> CardNode:
    """A node with its cards. Raises `InputError` for one with cards of two resources, or without CPU and memory."""
    for resource in ("cpu", "memory"):
        if resource not in node.allocatable:
            place = f"allocatable[{resource}]"
            raise InputError("not told", source=f"node {node.name}", place=place, expected="a quantity")
    names = [name for name in dialect.whole if node.allocatable.get(name)]
    if len(names) > 1:
        raise InputError("cards of two kinds in one node", source=f"node {node.name}", value=" and ".join(names))
    cards = node.allocatable[names[0]] if names else 0
    parts = node.allocatable.get(dialect.parts.get(names[0], ""), 0) if names else 0
    try:
        return CardNode(
            name=node.name,
            cpu_milli=node.allocatable["cpu"],
            memory_bytes=node.allocatable["memory"],
            # A plugin that lets pods share a card offers a piece for each of them; of millicores a card has a thousand.
            cards=parts // WHOLE if parts else cards,
            model=_model(node.labels, dialect) or "",
        )
    except InputError as error:
        raise error.within(source=f"node {node.name}") from error


def card_request(pod: Pod, models: Iterable[str], dialect: CardDialect = KNOWN) -> CardRequest:
    """What a pod asks. `models` are those that there are (empty text: a node that tells none).

    Raises `InputError` for what cannot be: cards of two resources, parts of several cards, no model that would do.
    """
    amounts = pod_needs(pod).amounts
    try:
        cards, milli = _annotated(pod, dialect) or _resources(amounts, dialect)
        return CardRequest(
            cpu_milli=amounts.get("cpu", 0),
            memory_bytes=amounts.get("memory", 0),
            cards=cards,
            milli=milli,
            models=_models(pod, sorted(set(models)), dialect) if cards else (),
        )
    except InputError as error:
        raise error.within(source=f"pod {pod.full_name}") from error


def _annotated(pod: Pod, dialect: CardDialect) -> tuple[int, int] | None:
    """Cards and milli of each, from annotations; None where there are none."""
    count = _whole(pod, dialect.count_annotation)
    milli = _whole(pod, dialect.milli_annotation)
    if count is None and milli is None:
        return None
    cards = (1 if milli else 0) if count is None else count
    return cards, min(WHOLE if milli is None else milli, WHOLE) if cards else 0


def _whole(pod: Pod, annotation: str) -> int | None:
    text = pod.annotations.get(annotation) if annotation else None
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        place = f"metadata.annotations[{annotation}]"
        raise InputError("not a number", place=place, value=text, expected="a whole number")
    return int(text)


def _resources(amounts: Mapping[str, int], dialect: CardDialect) -> tuple[int, int]:
    names = [name for name in dialect.whole if amounts.get(name)]
    if len(names) > 1:
        raise InputError("cards of two kinds in one pod", value=" and ".join(names), expected="one of them")
    if not names:
        return 0, 0
    cards = amounts[names[0]]
    parts = amounts.get(dialect.parts.get(names[0], ""), 0)
    # As GAS divides it, rounded down; a whole card where no part is named.
    return cards, min(max(parts // cards, 1), WHOLE) if parts else WHOLE


def _models(pod: Pod, models: list[str], dialect: CardDialect) -> tuple[str, ...]:
    """The models that will do, none where all will."""
    annotated = [name.strip() for name in pod.annotations.get(dialect.models_annotation, "").split("|") if name.strip()]
    terms = _terms(pod, dialect)
    if not annotated and terms is None:
        return ()
    named = {value for term in terms or () for need in term for value in need.values if need.operator == "In"}
    universe = sorted({*models, *annotated, *named})
    found = tuple(
        model
        for model in universe
        if (not annotated or model in annotated) and (terms is None or any(_bears(model, term) for term in terms))
    )
    if not found:
        raise InputError("no model of cards would do", place="spec", expected="a node selector that some model meets")
    return () if set(models) <= set(found) else found


def _terms(pod: Pod, dialect: CardDialect) -> list[tuple[Selector, ...]] | None:
    """What is required of the label that tells the model: alternatives; None: nothing is."""
    own = tuple(
        Selector(key=key, operator="In", values=(value,))
        for key, value in pod.node_selector.items()
        if key in dialect.model_labels
    )
    terms = [
        own + tuple(need for need in term if not need.field and need.key in dialect.model_labels)
        for term in ([()] if pod.node_terms is None else pod.node_terms)
    ]
    return terms if all(terms) else None


def _bears(model: str, term: tuple[Selector, ...]) -> bool:
    return all(meets(need, model or None) for need in term)


def _model(labels: Mapping[str, str], dialect: CardDialect) -> str | None:
    return next((labels[name] for name in dialect.model_labels if labels.get(name)), None)

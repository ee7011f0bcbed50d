"""Pods from Kubernetes manifests, with the times that they came and ended where they tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bayplan.errors import InputError
from bayplan.fleet.cards.dialects import KNOWN, CardDialect, card_request
from bayplan.fleet.cards.model import CardRequest
from bayplan.simulate.pod_tables import PodGatherer, PodList
from bayplan.workload import manifests
from bayplan.workload.documents import Document
from bayplan.workload.model import Pod
from bayplan.workload.notes import Note
from bayplan.workload.times import PodTimes


class ManifestPods(NamedTuple):
    """The pods, and what was noticed: what of manifests does not count here, and what `workload.manifests` noticed."""

    pods: PodList
    notes: tuple[Note, ...]


def read_manifests(documents: Iterable[Document], models: Sequence[str], dialect: CardDialect = KNOWN) -> ManifestPods:
    """The pods of all documents, in order. `models` are those of the nodes. Raises `InputError`.

    Pods of DaemonSets are left out: they hold their part of each node before anyone arrives.
    """
    workload = manifests.read(documents, over_time=True)
    gatherer = PodGatherer()
    for pod in workload.pods:
        if pod.every_node:
            continue
        times = workload.times.get(pod.source, PodTimes())
        try:
            _add(gatherer, pod, times, card_request(pod, models, dialect))
        except InputError as error:
            raise error.within(source=pod.source) from error
    return ManifestPods(gatherer.pods(), (*workload.notes, *_not_considered(workload.pods, dialect)))


def _add(gatherer: PodGatherer, pod: Pod, times: PodTimes, request: CardRequest) -> None:
    arrives = math.nan if times.arrives_s is None else times.arrives_s
    ends = math.inf if times.ends_s is None else times.ends_s
    gatherer.add(pod.full_name, gatherer.number(request), arrives, ends)


def _not_considered(pods: Sequence[Pod], dialect: CardDialect) -> list[Note]:
    """What decides about nodes in a cluster and not in a simulation of its cards."""
    other = [pod for pod in pods if _other_labels(pod, dialect)]
    bound = [pod for pod in pods if pod.node_name]
    everywhere = [pod for pod in pods if pod.every_node]
    found = (
        ("node-selector-not-considered", other, "node selectors other than on a model of cards are not considered"),
        ("node-name-not-considered", bound, "that a pod is bound to a node is not considered"),
        ("daemonset-left-out", everywhere, "the pods of a DaemonSet are left out"),
    )
    return [Note(name=name, message=text, place=some[0].source, count=len(some)) for name, some, text in found if some]


def _other_labels(pod: Pod, dialect: CardDialect) -> bool:
    needs = [need.key for term in pod.node_terms or () for need in term]
    return any(key not in dialect.model_labels for key in (*pod.node_selector, *needs))

"""Labels of pods that run on cards which are to be given up, as GPU Aware Scheduling sets them for a descheduler.

The label itself is the memory: whoever starts takes it away where it is not wanted any more, by the pod's UID, so that
a pod of the same name that came later is never touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from bayplan.fleet.upkeep.pods import DESCHEDULE_POD, PodFacts, PodIndex

GPU = "gpu"
"""The value of the label; one with another value is not ours, and is left where it is in no one's way."""


class PodPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to write to a pod's labels; None: take it away."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str | None]


def pod_patches(given_up: Collection[str], pods: PodIndex) -> list[PodPatch]:
    """At most one patch for each pod: labelled if it is one of `given_up` (UIDs), unlabelled if it is not."""
    there = [facts for uid in sorted(given_up) if (facts := pods.get(uid))]
    labelled = [facts for facts in pods.labelled if facts.labels[DESCHEDULE_POD] == GPU]
    return [
        *_patches((facts for facts in there if facts.labels.get(DESCHEDULE_POD) != GPU), GPU),
        *_patches((facts for facts in labelled if facts.uid not in given_up), None),
    ]


def _patches(pods: Iterable[PodFacts], value: str | None) -> list[PodPatch]:
    return [
        PodPatch(namespace=facts.namespace, name=facts.name, uid=facts.uid, labels={DESCHEDULE_POD: value})
        for facts in sorted(pods, key=lambda facts: facts.full_name)
    ]

"""Where else a KubeletConfiguration stands than in a file of its own.

* the answer of a kubelet's `/configz` (`kubectl get --raw /api/v1/nodes/NODE/proxy/configz`): under `kubeletconfig`;
* OpenShift's KubeletConfig (machineconfiguration.openshift.io/v1, made from a PerformanceProfile):
  `spec.kubeletConfig`;
* kubeadm's ConfigMap `kubelet-config`: as text, under `data.kubelet`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bayplan.workload.documents import Document, read_documents

KIND = "KubeletConfiguration"


class Found(NamedTuple):
    """A configuration: its value, where it stands, and whether it has to say what it is."""

    value: Any
    source: str
    place: str
    header: bool


def found_in(document: Document) -> Iterator[Found]:
    """The configurations that a document is or holds; none in a document of another kind. Raises `InputError`."""
    value, place = document.value, document.place
    if not isinstance(value, dict):
        return
    kind = value.get("kind")
    if kind == KIND:
        yield Found(value, document.source, place, True)
    elif kind is None and isinstance(value.get("kubeletconfig"), dict):
        yield Found(value["kubeletconfig"], document.source, f"{place}: kubeletconfig", False)
    elif kind == "KubeletConfig":
        inner = value["spec"].get("kubeletConfig") if isinstance(value.get("spec"), dict) else None
        if isinstance(inner, dict):
            yield Found(inner, document.source, f"{place}: spec.kubeletConfig", False)
    elif kind == "ConfigMap":
        text = value["data"].get("kubelet") if isinstance(value.get("data"), dict) else None
        if isinstance(text, str):
            for inside in read_documents(text, f"{document.source}: {place}: data.kubelet"):
                yield from found_in(inside)

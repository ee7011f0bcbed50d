"""`bayplan machine layout`: what a node's agent would publish, made from a machine, a configuration and pods."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from bayplan.cli import OK, REFUSED
from bayplan.cli.assemble import Assembly
from bayplan.errors import InputError
from bayplan.files.documents import open_documents
from bayplan.fleet.published.layout import HeldPod, Management, NodeLayout, write_layout
from bayplan.policies.kubelet.configuration import KubeletConfiguration
from bayplan.policies.kubelet.configuration_wrappers import found_in
from bayplan.report.json_text import json_text
from bayplan.workload import manifests
from bayplan.workload.model import Pod
from bayplan.workload.names import check_subdomain
from bayplan.workload.times import parse_moment


class Inputs(NamedTuple):
    """What was typed."""

    node: str
    source: str
    kubelet_config: str | None
    pods: Sequence[str]
    mode: str
    at: str | None


def layout(inputs: Inputs) -> int:
    """Write the layout to standard output; pods that are refused are told on standard error."""
    check_subdomain(inputs.node, "NODE")
    at = time.time() if inputs.at is None else _moment(inputs.at)
    assembly = Assembly("kubelet", inputs.mode == "exact")
    node = assembly.single(inputs.source, inputs.kubelet_config)
    pods = manifests.read(open_documents(inputs.pods)) if inputs.pods else manifests.Workload(pods=())
    for note in (*pods.notes, *assembly.notes):
        print(f"note: {note}", file=sys.stderr)
    refused = 0
    for pod in pods.pods:
        if pod.node_name not in ("", inputs.node):
            continue
        answer = node.hub.admit(_on(pod, inputs.node))
        if answer.refusal is not None:
            refused += 1
            print(f"{pod.full_name}: {answer.refusal.reason}: {answer.refusal.message}", file=sys.stderr)
    made = NodeLayout(
        name=inputs.node,
        machine=node.hub.machine,
        management=Management(
            mode="exact" if inputs.mode == "exact" else "safe",
            configuration=KubeletConfiguration(),
            allocatable=node.allocatable,
        ),
        heartbeat=at,
        generation=len(node.hub.ledger.pods),
        pods=tuple(HeldPod(pod=entry.pod, grants=entry.grants) for entry in node.hub.ledger.entries()),
    )
    sys.stdout.write(json_text(write_layout(made, _configuration(inputs.kubelet_config))))
    return REFUSED if refused else OK


def _configuration(path: str | None) -> dict[str, Any] | None:
    """The configuration as it was written, which `Assembly` has found to be one."""
    if path is None:
        return None
    found = [inside for document in open_documents([path]) for inside in found_in(document)]
    value: dict[str, Any] = found[0].value
    return value


def _on(pod: Pod, node: str) -> Pod:
    """A DaemonSet's pod is this node's."""
    if not pod.every_node:
        return pod
    import msgspec

    return msgspec.structs.replace(pod, uid=f"{pod.uid}-{node}", name=f"{pod.name}-{node}", every_node=False)


def _moment(text: str) -> float:
    try:
        return parse_moment(text)
    except InputError as error:
        raise error.within(source="--at") from error

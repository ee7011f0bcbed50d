"""Bodies that a real kube-scheduler sent (`tests/real` records them), read and answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.protocols.extender import (
    FilterAnswer,
    filter_answer,
    read_args,
    read_bind_args,
    read_preempt_args,
)

RECORDED = Path(__file__).resolve().parent.parent / "recorded"


def recorded(name: str) -> bytes:
    path = RECORDED / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"nothing is recorded at {path.name}")
    return path.read_bytes()


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_whole_nodes_are_read_and_echoed_byte_by_byte(verb: str) -> None:
    body = recorded(f"{verb}-nodes")
    told = json.loads(body)
    args = read_args(body)
    assert args.pod.metadata.name == told["Pod"]["metadata"]["name"]
    assert args.pod.annotations == told["Pod"]["metadata"]["annotations"]
    assert json.loads(bytes(args.pod_json)) == told["Pod"]
    assert args.names == [item["metadata"]["name"] for item in told["Nodes"]["items"]]
    assert args.nodes is not None
    [whole] = args.nodes.echo(lambda name: True)[1:-1]
    assert b'"items":[%s]' % bytes(whole) in body
    last = args.names[-1]
    answer = json.loads(b"".join(filter_answer(args, FilterAnswer(failed=dict.fromkeys(args.names[:-1], "no")))))
    assert answer["Nodes"]["items"] == [item for item in told["Nodes"]["items"] if item["metadata"]["name"] == last]


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_names_are_read(verb: str) -> None:
    body = recorded(f"{verb}-names")
    args = read_args(body)
    assert (args.names, args.nodes) == (json.loads(body)["NodeNames"], None)


def test_a_binding_is_read() -> None:
    body = recorded("bind")
    told = json.loads(body)
    args = read_bind_args(body)
    assert [args.pod_name, args.pod_namespace, args.pod_uid, args.node] == [
        told["PodName"],
        told["PodNamespace"],
        told["PodUID"],
        told["Node"],
    ]


@pytest.mark.parametrize("form", ["nodes", "names"])
def test_a_preemption_is_read(form: str) -> None:
    body = recorded(f"preempt-{form}")
    told: dict[str, Any] = json.loads(body)
    found = told.get("NodeNameToMetaVictims") or told["NodeNameToVictims"]
    victims = read_preempt_args(body).victims
    assert victims
    assert {node: named.uids for node, named in victims.items()} == {
        node: tuple(pod.get("UID") or pod["metadata"]["uid"] for pod in named["Pods"]) for node, named in found.items()
    }

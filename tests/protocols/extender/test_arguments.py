"""What kube-scheduler asks: both shapes, null and absent, keys in any case, and the rest of the protocol's rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bayplan.errors import InputError
from bayplan.protocols.extender import PreemptArgs, Victims, read_args, read_bind_args, read_preempt_args

POD = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "labels": {"telemetry-policy": "p"}},
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"gpu.intel.com/i915": "1"}}}]},
}
NODES = {"metadata": {}, "items": [{"metadata": {"name": "node-a"}}, {"metadata": {"name": "node-b"}}]}


def body(**fields: Any) -> bytes:
    """As Go writes it: no blanks."""
    return json.dumps(fields, separators=(",", ":")).encode()


def test_names_as_a_scheduler_that_is_cache_capable_sends_them() -> None:
    args = read_args(body(Pod=POD, Nodes=None, NodeNames=["node-b", "node-a"]))
    assert args.pod.full_name == "shop/web"
    assert args.pod.labels == {"telemetry-policy": "p"}
    assert args.names == ["node-b", "node-a"]
    assert args.nodes is None


def test_whole_nodes_as_a_scheduler_that_is_not_sends_them() -> None:
    args = read_args(body(Pod=POD, Nodes=NODES, NodeNames=None))
    assert args.names == ["node-a", "node-b"]
    assert args.nodes is not None
    assert len(args.nodes) == 2


def test_the_pod_is_kept_as_it_was_written() -> None:
    written = b'{"metadata":{"name":"web", "annotations":{"a":"\\u003c\\/"}},"status":{}}'
    args = read_args(b'{"Pod":' + written + b',"NodeNames":["n"]}')
    assert bytes(args.pod_json) == written


@pytest.mark.parametrize("nodes", [{}, {"items": None}, {"items": []}, {"metadata": {"resourceVersion": "1"}}])
def test_no_nodes(nodes: dict[str, Any]) -> None:
    args = read_args(body(Pod=POD, Nodes=nodes))
    assert args.names == []
    assert args.nodes is not None


def test_no_names() -> None:
    args = read_args(body(Pod=POD, Nodes=None, NodeNames=[]))
    assert (args.names, args.nodes) == ([], None)


def test_absent_is_as_null() -> None:
    assert read_args(body(Pod=POD, NodeNames=["n"])) == read_args(body(Pod=POD, Nodes=None, NodeNames=["n"]))
    assert read_args(body(Pod=POD, Nodes=NODES)).names == read_args(body(Pod=POD, Nodes=NODES, NodeNames=None)).names


def test_of_names_and_nodes_the_names_count() -> None:
    args = read_args(body(Pod=POD, Nodes=NODES, NodeNames=["node-c"]))
    assert (args.names, args.nodes) == (["node-c"], None)


def test_a_name_that_is_there_twice_stays_so() -> None:
    assert read_args(body(Pod=POD, NodeNames=["n", "m", "n"])).names == ["n", "m", "n"]


@pytest.mark.parametrize("case", [str.lower, str.upper, str.swapcase, str.title])
def test_keys_are_read_in_any_case(case: Any) -> None:
    def cased(**fields: Any) -> bytes:
        return json.dumps({case(key): value for key, value in fields.items()}).encode()

    assert read_args(cased(Pod=POD, NodeNames=["n"])).names == ["n"]
    assert read_args(cased(Pod=POD, Nodes=NODES)).names == ["node-a", "node-b"]
    bind = read_bind_args(cased(PodName="a", PodNamespace="b", PodUID="c", Node="d"))
    assert (bind.pod_name, bind.pod_namespace, bind.pod_uid, bind.node) == ("a", "b", "c", "d")
    preempt = read_preempt_args(cased(Pod=POD, NodeNameToMetaVictims={"n": {"Pods": [{"UID": "u"}]}}))
    assert preempt.victims == {"n": Victims(uids=("u",))}


def test_one_key_may_be_in_another_case() -> None:
    assert read_args(body(Pod=POD, nodenames=["n"])).names == ["n"]
    assert read_args(body(Pod=POD, nodes=NODES)).names == ["node-a", "node-b"]
    assert read_args(body(pod=POD, NodeNames=["n"])).names == ["n"]
    assert read_bind_args(body(PodName="a", PodNamespace="b", podUid="c", NODE="d")).pod_uid == "c"
    assert read_preempt_args(body(Pod=POD, nodenametovictims={"n": {}})).victims == {"n": Victims(uids=())}


def test_of_a_key_in_two_cases_the_last_counts_unless_one_is_the_schedulers() -> None:
    assert read_args(body(pod=POD, nodenames=["first"], NODENAMES=["last"])).names == ["last"]
    assert read_args(body(Pod=POD, NodeNames=["right"], nodenames=["other"])).names == ["right"]


def test_of_a_key_that_is_there_twice_the_last_counts() -> None:
    twice = b'{"Pod":%s,"NodeNames":["a"],"NodeNames":["b"]}' % json.dumps(POD).encode()
    assert read_args(twice).names == ["b"]
    nodes = b'{"Pod":%s,"Nodes":{"items":[{"metadata":{"name":"a"}}],"items":[{"metadata":{"name":"b"}}]}}'
    args = read_args(nodes % json.dumps(POD).encode())
    assert args.names == ["b"]
    assert args.nodes is not None
    assert b"".join(args.nodes.echo(lambda name: True)) == b'[{"metadata":{"name":"b"}}]'


def test_unknown_keys_are_left_out_of_account() -> None:
    args = read_args(body(Extra={"Pod": None, "x": [1, 2.5, True]}, Pod=POD, NodeNames=["n"], Later=None))
    assert args.names == ["n"]


@pytest.mark.parametrize("around", [b"%s", b"\n\t %s \r\n"])
@pytest.mark.parametrize("indent", [None, 0, 2])
def test_blanks_anywhere(around: bytes, indent: int | None) -> None:
    text = json.dumps({"Pod": POD, "Nodes": NODES, "NodeNames": None}, indent=indent).encode()
    assert read_args(around % text).names == ["node-a", "node-b"]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_body_may_be_any_bytes(kind: Any) -> None:
    args = read_args(kind(body(Pod=POD, Nodes=NODES)))
    assert args.nodes is not None
    assert b"".join(args.nodes.echo(lambda name: name == "node-b")) == b'[{"metadata":{"name":"node-b"}}]'


def test_a_body_may_be_part_of_a_larger_buffer() -> None:
    text = body(Pod=POD, Nodes=NODES)
    args = read_args(memoryview(bytearray(b"before" + text + b"{after"))[6 : 6 + len(text)])
    assert args.nodes is not None
    assert b"".join(args.nodes.echo(lambda name: True)) == json.dumps(NODES["items"], separators=(",", ":")).encode()


NOT_ARGS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not ExtenderArgs"),
    "blanks": (b" \n", "not ExtenderArgs"),
    "no JSON": (b"Pod", "not ExtenderArgs"),
    "a list": (b"[]", "not ExtenderArgs"),
    "null": (b"null", "not ExtenderArgs"),
    "two values": (body(Pod=POD, NodeNames=[]) * 2, "not ExtenderArgs"),
    "a byte order mark": (b"\xef\xbb\xbf" + body(Pod=POD, NodeNames=[]), "not ExtenderArgs"),
    "no pod": (body(NodeNames=["n"]), "Pod: no Pod"),
    "a pod that is null": (body(Pod=None, NodeNames=["n"]), "Pod: no Pod"),
    "a pod that is a number": (body(Pod=1, NodeNames=["n"]), "not a Pod"),
    "a pod without a name": (body(Pod={}, NodeNames=["n"]), "Pod.metadata.name: not a name"),
    "a pod with a long name": (
        body(Pod={"metadata": {"name": "x" * 254}}, NodeNames=[]),
        "Pod.metadata.name: not a name",
    ),
    "neither names nor nodes": (body(Pod=POD), "neither Nodes nor NodeNames"),
    "both null": (body(Pod=POD, Nodes=None, NodeNames=None), "neither Nodes nor NodeNames"),
    "names that are none": (body(Pod=POD, NodeNames="node-a"), "not ExtenderArgs"),
    "a name that is a number": (body(Pod=POD, NodeNames=["a", 1]), "not ExtenderArgs"),
    "a name that is null": (body(Pod=POD, NodeNames=["a", None]), "not ExtenderArgs"),
    "an empty name": (body(Pod=POD, NodeNames=["a", ""]), r"NodeNames\[1\]: not a name: ''"),
    "a long name": (body(Pod=POD, NodeNames=["a", "x" * 254]), r"NodeNames\[1\]: not a name"),
    "nodes that are a list": (body(Pod=POD, Nodes=[]), "not ExtenderArgs"),
    "items that are none": (body(Pod=POD, Nodes={"items": {}}), "not ExtenderArgs"),
    "a node that is null": (body(Pod=POD, Nodes={"items": [None]}), r"Nodes.items\[0\]: not a Node"),
    "a node without metadata": (body(Pod=POD, Nodes={"items": [*NODES["items"], {}]}), r"Nodes.items\[2\]: not a Node"),
    "a node whose name is null": (body(Pod=POD, Nodes={"items": [{"metadata": {"name": None}}]}), r"Nodes.items\[0\]"),
    "a node with an empty name": (
        body(Pod=POD, Nodes={"items": [{"metadata": {"name": ""}}]}),
        r"Nodes.items\[0\].metadata.name: not a name: ''",
    ),
    "a node with a long name": (
        body(Pod=POD, Nodes={"items": [{"metadata": {"name": "x" * 254}}]}),
        r"Nodes.items\[0\].metadata.name: not a name",
    ),
}


@pytest.mark.parametrize("kind", NOT_ARGS)
def test_what_is_no_request_is_an_error_of_the_input(kind: str) -> None:
    text, message = NOT_ARGS[kind]
    with pytest.raises(InputError, match=message):
        read_args(text)


def test_bind() -> None:
    args = read_bind_args(body(PodName="web", PodNamespace="shop", PodUID="u-1", Node="node-a"))
    assert (args.pod_name, args.pod_namespace, args.pod_uid, args.node) == ("web", "shop", "u-1", "node-a")


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "PodUID", "Node"])
@pytest.mark.parametrize("value", [None, "", ..., "x" * 254])
def test_bind_needs_all_of_its_fields(field: str, value: Any) -> None:
    fields = {"PodName": "web", "PodNamespace": "shop", "PodUID": "u-1", "Node": "node-a", field: value}
    if value is ...:
        del fields[field]
    with pytest.raises(InputError, match=f"^{field}: not a name"):
        read_bind_args(body(**fields))


def preempted(victims: Any, *, key: str = "NodeNameToVictims") -> PreemptArgs:
    return read_preempt_args(body(Pod=POD, **{key: victims}))


def test_victims_as_whole_pods() -> None:
    pods = [{"metadata": {"name": "a", "uid": "u-a"}, "spec": {}}, {"metadata": {"uid": "u-b"}}]
    args = preempted({"node-a": {"Pods": pods, "NumPDBViolations": 2}, "node-b": {"Pods": None}})
    assert args.pod.full_name == "shop/web"
    assert args.victims == {
        "node-a": Victims(uids=("u-a", "u-b"), budget_violations=2),
        "node-b": Victims(uids=()),
    }


def test_victims_by_uid() -> None:
    args = preempted({"node-a": {"Pods": [{"UID": "u-a"}], "NumPDBViolations": 0}}, key="NodeNameToMetaVictims")
    assert args.victims == {"node-a": Victims(uids=("u-a",))}


def test_no_candidates() -> None:
    assert preempted({}).victims == {}
    assert preempted({}, key="NodeNameToMetaVictims").victims == {}
    for key in ("NodeNameToVictims", "NodeNameToMetaVictims", "Other"):
        with pytest.raises(InputError, match="neither NodeNameToVictims nor NodeNameToMetaVictims"):
            preempted(None, key=key)


@pytest.mark.parametrize(
    "victims",
    [
        [],
        {"node-a": []},
        {"node-a": None},
        {"node-a": {"Pods": {}}},
        {"node-a": {"Pods": [None]}},
        {"node-a": {"Pods": [{}]}},
        {"node-a": {"Pods": [{"UID": ""}]}},
        {"node-a": {"Pods": [{"UID": 5}]}},
        {"node-a": {"Pods": [{"UID": "x" * 254}]}},
        {"node-a": {"Pods": [{"metadata": {}}]}},
        {"node-a": {"NumPDBViolations": "1"}},
        {"node-a": {"NumPDBViolations": 1.5}},
        {"": {}},
        {"x" * 254: {}},
    ],
)
def test_victims_that_are_none_are_an_error_of_the_input(victims: Any) -> None:
    with pytest.raises(InputError):
        preempted(victims)


def test_a_preemption_without_its_pod_is_an_error_of_the_input() -> None:
    with pytest.raises(InputError, match="Pod: no Pod"):
        read_preempt_args(body(NodeNameToVictims={}))

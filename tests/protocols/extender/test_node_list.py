"""Whole nodes: named and echoed as slices of the body, as a JSON reader would name and write them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.protocols.extender import FilterAnswer, NodeList, filter_answer, read_args

POD = b'{"metadata":{"name":"web"}}'
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def asked(*items: bytes, between: bytes = b",") -> bytes:
    return b'{"Pod":%s,"Nodes":{"metadata":{},"items":[%s]},"NodeNames":null}' % (POD, between.join(items))


def names(*items: bytes, between: bytes = b",") -> list[str]:
    return read_args(asked(*items, between=between)).names


def nodes_of(body: bytes) -> NodeList:
    nodes = read_args(body).nodes
    assert nodes is not None
    return nodes


ODD_NODES = {
    "as the scheduler writes it": (b'{"metadata":{"name":"n-1.example","uid":"1"},"spec":{}}', "n-1.example"),
    "only a name": (b'{"metadata":{"name":"n"}}', "n"),
    "kind and version first": (b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}', "n"),
    "version alone": (b'{"apiVersion":"v1","metadata":{"name":"n"}}', "n"),
    "version, then kind": (b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}', "n"),
    "metadata last": (b'{"spec":{"metadata":{"name":"x"}},"status":{},"metadata":{"name":"n"}}', "n"),
    "name last": (b'{"metadata":{"labels":{"name":"x"},"name":"n"}}', "n"),
    "blanks": (b'{ "metadata" : { "name" : "n" } }', "n"),
    "an escaped name": (b'{"metadata":{"name":"\\u006eode\\u002d1"}}', "node-1"),
    "an escaped key": (b'{"met\\u0061data":{"name":"n"}}', "n"),
    "an escaped slash": (b'{"metadata":{"name":"a\\/b"}}', "a/b"),
    "no name of Kubernetes": (b'{"metadata":{"name":"N\xc3\xb6de_1 \xf0\x9f\x9a\xa2"}}', "Nöde_1 🚢"),
    "a pair of surrogates": (b'{"metadata":{"name":"\\ud83d\\udea2"}}', "🚢"),
    "the longest name": (b'{"metadata":{"name":"%s"}}' % (b"x" * 253), "x" * 253),
    "text like a node in an annotation": (
        b'{"metadata":{"annotations":{"a":"{\\"metadata\\":{\\"name\\":\\"x\\"}}"},"name":"n"}}',
        "n",
    ),
    "text like the end of a name": (b'{"metadata":{"name":"n\\",\\"x"}}', 'n","x'),
    "a node in a node": (b'{"status":{"items":[{"metadata":{"name":"x"}}]},"metadata":{"name":"n"}}', "n"),
    "numbers of every kind": (b'{"a":[1,-2.5e+3,0,1E400],"metadata":{"name":"n"},"b":123456789012345678901}', "n"),
}


@pytest.mark.parametrize("kind", ODD_NODES)
@pytest.mark.parametrize("between", [b",", b" , ", b",\n"])
def test_a_node_is_named_however_it_is_written(kind: str, between: bytes) -> None:
    node, name = ODD_NODES[kind]
    other = b'{"metadata":{"name":"other","uid":"2"}}'
    assert json.loads(node)["metadata"]["name"] == name
    for items in ((node,), (node, other), (other, node, other)):
        body = asked(*items, between=between)
        assert read_args(body).names == [name if item is node else "other" for item in items]
        echoed = b"".join(nodes_of(body).echo(lambda found: found == name))
        assert echoed == b"[%s]" % node


def test_what_an_annotation_holds_is_not_taken_for_a_node() -> None:
    """`kubectl apply` keeps the object as text in it, as may anyone else anything."""
    inner = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "inner", "annotations": {}}})
    for text in (inner, f"[{inner},{inner}]", f'"}}}},{inner}', json.dumps(inner)):
        node = {"metadata": {"name": "outer", "annotations": {LAST_APPLIED: text}}, "spec": {}}
        compact = json.dumps(node, separators=(",", ":")).encode()
        assert names(compact, compact) == ["outer", "outer"]
        turned = json.dumps({"spec": {}, "metadata": {"annotations": {LAST_APPLIED: text}, "name": "outer"}}).encode()
        assert names(turned, compact) == ["outer", "outer"]


def test_of_two_metadata_one_is_read_and_the_node_goes_back_as_it_came() -> None:
    """Nobody writes this; it must only not go wrong."""
    for node, name in (
        (b'{"metadata":{"name":"a"},"metadata":{"name":"b"}}', "a"),
        (b'{"metadata":{"name":"a","name":"b"}}', "a"),
        (b'{"spec":{},"metadata":{"name":"a"},"metadata":{"name":"b"}}', "b"),
    ):
        assert names(node) == [name]
        assert b"".join(nodes_of(asked(node)).echo(lambda found, name=name: found == name)) == b"[%s]" % node  # type: ignore[misc]


def test_nodes_side_by_side_are_echoed_in_one_piece() -> None:
    items = [b'{"metadata":{"name":"n%d"}}' % i for i in range(9)]
    passing = {"n1", "n2", "n3", "n6", "n8"}
    pieces = nodes_of(asked(*items)).echo(passing.__contains__)
    assert [bytes(piece) for piece in pieces] == [
        b"[",
        b",".join(items[1:4]),
        b",",
        items[6],
        b",",
        items[8],
        b"]",
    ]


@pytest.mark.parametrize("between", [b",", b", "])
def test_all_or_none_may_pass(between: bytes) -> None:
    items = [b'{"metadata":{"name":"n%d"}}' % i for i in range(3)]
    nodes = nodes_of(asked(*items, between=between))
    assert json.loads(b"".join(nodes.echo(lambda name: True))) == [json.loads(item) for item in items]
    assert b"".join(nodes.echo(lambda name: False)) == b"[]"


def test_a_list_of_no_nodes() -> None:
    nodes = NodeList(b"", [])
    assert (len(nodes), nodes.names) == (0, [])
    assert b"".join(nodes.echo(lambda name: True)) == b"[]"


def test_nodes_that_are_not_slices_of_the_body_are_echoed_too() -> None:
    items = [msgspec.Raw(b'{"metadata":{"name":"a"}}'), msgspec.Raw(b'{"metadata":{"name":"b"}}')]
    nodes = NodeList(b"something else", items)
    assert nodes.names == ["a", "b"]
    assert b"".join(nodes.echo(lambda name: name == "b")) == b'[{"metadata":{"name":"b"}}]'


@pytest.mark.parametrize("item", [b"0", b'""', b"[]", b"null", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":1}}'])
def test_what_is_no_node_is_named_by_its_place(item: bytes) -> None:
    with pytest.raises(InputError, match=r"^Nodes\.items\[1\]: not a Node with a name"):
        names(b'{"metadata":{"name":"n"}}', item, b'{"metadata":{"name":"m"}}')


# Any JSON, written in any way.

SOUND = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEYS = st.sampled_from(["metadata", "name", "items", "kind", "apiVersion", 'a"b', "é", "spec"]) | SOUND
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | SOUND,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
NAMES = st.from_regex(r"[-a-z0-9.]{1,40}", fullmatch=True) | SOUND.filter(bool)
TEXTS = SOUND | NAMES.map(lambda name: json.dumps({"metadata": {"name": name}}, separators=(",", ":")))


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """A node, its keys in any order, with anything else in it."""
    metadata = {"name": draw(NAMES), "annotations": draw(st.dictionaries(SOUND, TEXTS, max_size=2))}
    more = draw(st.dictionaries(SOUND.filter(lambda key: key not in metadata), VALUES, max_size=2))
    node = {"metadata": _shuffled(draw, {**more, **metadata}), "spec": draw(VALUES)}
    if draw(st.booleans()):
        node |= {"kind": "Node", "apiVersion": "v1"}
    return _shuffled(draw, node)


def _shuffled(draw: st.DrawFn, found: dict[str, Any]) -> dict[str, Any]:
    keys = draw(st.permutations(list(found))) if draw(st.booleans()) else list(found)
    return {key: found[key] for key in keys}


@st.composite
def written(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """A request, and the nodes in it."""
    found = draw(st.lists(nodes(), max_size=5))
    texts = []
    for node in found:
        blanks = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]))
        escaped = draw(st.booleans())
        texts.append(
            json.dumps(node, separators=blanks, ensure_ascii=escaped, indent=draw(st.sampled_from([None, None, 1])))
        )
    comma = draw(st.sampled_from([",", ",", ", ", "\n,"]))
    start, end = draw(st.sampled_from([("", ""), ("", ""), (" ", "\n")]))
    body = f'{{"Pod":{POD.decode()},"Nodes":{{"items":[{start}{comma.join(texts)}{end}]}}}}'
    return body.encode("utf-8"), found


@settings(max_examples=300)
@given(written(), st.data())
def test_names_and_echo_are_what_a_json_reader_says(
    request_: tuple[bytes, list[dict[str, Any]]], data: st.DataObject
) -> None:
    body, found = request_
    expected = [node["metadata"]["name"] for node in json.loads(body)["Nodes"]["items"]]
    args = read_args(body)
    assert args.names == expected == [node["metadata"]["name"] for node in found]
    refused = data.draw(st.sets(st.sampled_from(expected))) if expected else set()
    answer = json.loads(b"".join(filter_answer(args, FilterAnswer(failed=dict.fromkeys(refused, "no")))))
    assert answer["Nodes"]["items"] == [node for node in found if node["metadata"]["name"] not in refused]
    assert answer["FailedNodes"] == dict.fromkeys(refused, "no")

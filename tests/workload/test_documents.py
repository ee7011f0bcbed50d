"""What text becomes: the values Kubernetes would see, or one clear error in bounded time."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.workload.documents import MAX_BYTES, read_documents


def one(text: str | bytes) -> Any:
    (document,) = read_documents(text, "a.yaml")
    return document.value


def refused(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_documents(text, "a.yaml")
    assert caught.value.source == "a.yaml"
    return str(caught.value)


def test_several_documents_are_numbered_and_empty_ones_are_left_out() -> None:
    documents = read_documents("a: 1\n---\n# nothing\n---\nb: 2\n...\n", "a.yaml")
    assert [(d.number, d.value) for d in documents] == [(1, {"a": 1}), (3, {"b": 2})]
    assert documents[1].place == "document 3"
    assert read_documents("", "a.yaml") == ()
    assert read_documents("# only words\n", "a.yaml") == ()


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("12:30", "12:30"),
        ("1:00:00", "1:00:00"),
        ("500m", "500m"),
        ("1.2.3", "1.2.3"),
        ("007", 7),
        ("089", 89.0),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("-0x10", -16),
        ("1_000", 1000),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-3", -3),
        ("+3", 3),
        ("yes", True),
        ("off", False),
        ("y", True),
        ("~", None),
        ("null", None),
        ("'yes'", "yes"),
        ('"1"', "1"),
        ("!!str 1", "1"),
        ("!!int 7", 7),
        ("!!float 7", 7.0),
        ("! 12", "12"),
        (".inf", math.inf),
        ("0x", "0x"),
        ("0x_", "0x_"),
        ("..", ".."),
        ("+", "+"),
        ("<<", "<<"),
    ],
)
def test_plain_scalars_mean_what_they_mean_to_kubernetes(plain: str, value: object) -> None:
    read = one(f"a: {plain}\nb: c")["a"]
    assert read == value
    assert type(read) is type(value)


def test_nan_is_read_as_a_number_for_the_field_to_refuse() -> None:
    assert math.isnan(one("a: .nan")["a"])


def test_numbers_and_booleans_as_keys_are_text() -> None:
    assert one("1: a\ntrue: b\n0.5: c") == {"1": "a", "true": "b", "0.5": "c"}
    assert "a mapping key must be text" in refused("? [a]\n: b")
    assert "a mapping key must be text" in refused("? {a: b}\n: b")
    assert "a mapping key must be text" in refused("~: b")


def test_anchors_aliases_and_merge_keys() -> None:
    text = """
base: &base {cpu: 1, memory: 1Gi}
more: &more {cpu: 2, disk: 3}
a: *base
b: {<<: *base, cpu: 5}
c: {<<: [*more, *base]}
d: {cpu: 7, <<: *base}
e: {"<<": plain}
f: &name text
g: *name
"""
    value = one(text)
    assert value["a"] == {"cpu": 1, "memory": "1Gi"}
    assert value["b"] == {"cpu": 5, "memory": "1Gi"}
    assert value["c"] == {"cpu": 2, "disk": 3, "memory": "1Gi"}
    assert value["d"] == {"cpu": 7, "memory": "1Gi"}
    assert value["e"] == {"<<": "plain"}
    assert value["g"] == "text"


def test_bad_aliases_are_errors() -> None:
    assert "alias" in refused("a: *nothing")
    assert "an anchor that contains itself" in refused("a: &x [*x]")
    assert "<< needs a mapping" in refused("a: {<<: 3}")
    assert "<< needs a mapping" in refused("a: &a [1]\nb: {<<: [*a]}")


def test_an_anchor_does_not_reach_into_the_next_document() -> None:
    assert "'x'" in refused("a: &x 1\n---\nb: *x")


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert "aliases expand to too much" in refused("\n".join(lines))
    merges = ["a0: &a0 {k0: 1}"]
    merges += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}], k{i}: 1}}" for i in range(1, 30)]
    assert "aliases expand to too much" in refused("\n".join(merges))


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "- " * 20_000, '{"a":' * 100_000, "[[{" * 9_999])
def test_deep_nesting_is_refused(text: str) -> None:
    message = refused(text)
    assert "nested too deeply" in message or "nesting depth" in message  # ours, or libyaml's own


def test_a_hundred_levels_are_fine() -> None:
    assert one("[" * 100 + "]" * 100)
    assert one("a: " + "{a: " * 100 + "1" + "}" * 100)


def test_equal_keys_are_an_error_that_names_key_and_line() -> None:
    assert refused("a: 1\nb: 2\na: 3\n") == "a.yaml: line 3, column 1: key given twice: 'a'"
    assert "key given twice: '1'" in refused("1: a\n'1': b")
    assert refused('{"a": 1, "a": 2}') == "a.yaml: document 1: key given twice: 'a'"


def test_syntax_errors_name_line_and_column() -> None:
    assert refused("a: 1\nb: [1, 2\nc: 3\n").startswith("a.yaml: line 3, column 2: not YAML: ")
    assert "line 2, column 1" in refused("a:\n\tb: 1")
    assert "not JSON: " in refused('{"a": 1,\n "b": }')
    assert "line 2, column 7" in refused('{"a": 1,\n "b": }')
    assert "not JSON" in refused('{"a": 1')
    assert "line 1, column 1: a mapping key must be" in refused("{{ .Values.x }}: [")


def test_tags_do_not_build_objects() -> None:
    assert "unknown YAML tag" in refused("!!python/object/apply:os.system ['true']")
    assert "unknown YAML tag" in refused("a: !!python/name:os.system ''")
    assert "unknown YAML tag" in refused("a: !!set {x}")
    assert "unknown YAML tag" in refused("a: !mine x")
    assert "not a value for the tag !!int" in refused("a: !!int x")


def test_huge_numbers_do_not_hang() -> None:
    assert one("a: " + "9" * 1_000_000)["a"] == math.inf
    assert one('{"a": ' + "9" * 1_000_000 + "}")["a"] == math.inf
    assert one("a: 0x" + "f" * 1_000_000)["a"].startswith("0xf")
    assert one("a: " + "9" * 40)["a"] == int("9" * 40)
    assert isinstance(one("a: " + "1_" * 100_000 + "1")["a"], float)


def test_json_streams() -> None:
    assert [d.value for d in read_documents('{"a": 1}\n{"a": 2}[3]', "a")] == [{"a": 1}, {"a": 2}, [3]]
    assert [d.value for d in read_documents('{"a": 1}\n---\n{"a": 2}\n', "a")] == [{"a": 1}, {"a": 2}]
    assert one("{a: 1, b: [2]}") == {"a": 1, "b": [2]}
    assert "not JSON" in refused('{"a": b}')
    assert "not a number in JSON" in refused('{"a": NaN}')
    assert one('{"a": "\\ud83d\\ude00 \\\\ud83d"}') == {"a": "\U0001f600 \\ud83d"}
    assert "half of a surrogate pair" in refused('{"a": "\\ud83d"}')


def test_what_is_not_text_is_said_so() -> None:
    assert "UTF-16" in refused("a: 1".encode("utf-16"))
    assert "line 2: not UTF-8" in refused(b"a: 1\nb: \xff\xfe")
    assert "line 2: a NUL byte" in refused(b"a: 1\nb: \0")
    assert "not valid Unicode" in refused("a: \ud800")
    assert "a character that YAML does not allow" in refused("a: 1\nb: \x07")
    assert "line 2: a character" in refused("a: \u00e9\nb: \x07")
    assert "too large" in refused(b" " * (MAX_BYTES + 1))
    assert one("\ufeffa: 1".encode()) == {"a": 1}
    assert one("a: 1\r\nb: |\r\n  x\r\n  y\r\n") == {"a": 1, "b": "x\ny\n"}


WORDS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES.filter(lambda v: isinstance(v, dict | list)))
@settings(deadline=None)
def test_json_values_come_back_as_they_were(value: Any) -> None:
    text = json.dumps(value)
    documents = read_documents(text, "a.json")
    big = any(len(word) > 40 for word in text.replace(",", " ").split())
    assert big or [d.value for d in documents] == [value]


@given(VALUES)
@settings(deadline=None)
def test_yaml_values_with_every_scalar_tagged_come_back_as_they_were(value: Any) -> None:
    text = yaml.safe_dump(value, default_style='"', allow_unicode=True)
    if value is not None:
        assert one(text) == value


def test_without_libyaml_the_same_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert one("a: &x {b: [1, 2024-01-01]}\nc: *x") == {"a": {"b": [1, "2024-01-01"]}, "c": {"b": [1, "2024-01-01"]}}
    assert "line 2, column 1" in refused("a:\n\tb: 1")
    assert "line 2: a character" in refused("a: 1\nb: \x07")
    assert "nested too deeply" in refused("- " * 5_000)


@given(st.text(alphabet=st.sampled_from("ab1 :-[]{}\n\t&*!<>|'\"#%,.~?@`=\\\u00e9\x85\u2028")) | st.text())
@settings(deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_documents(text, "a")
    except InputError as error:
        assert str(error)  # noqa: PT017


@given(st.binary())
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        read_documents(content, "a")
    except InputError as error:
        assert str(error)  # noqa: PT017

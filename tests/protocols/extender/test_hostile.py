"""Bodies meant to hurt: every one is read or is an `InputError`, and costs no more than its size."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.protocols.extender import read_args, read_bind_args, read_preempt_args
from bayplan.protocols.extender.bounds import MOST_NODES, MOST_POD_BYTES, SMALL_BYTES, check_density

READERS: dict[str, Callable[[Any], object]] = {
    "args": read_args,
    "bind": read_bind_args,
    "preempt": read_preempt_args,
}
MB = 1_000_000
POD = b'{"metadata":{"name":"web","labels":{"a":"b"}},"spec":{"priority":5,"containers":[{"name":"c"}]}}'
SMALL = {
    "names": b'{"Pod":%s,"Nodes":null,"NodeNames":["node-a","node-b"]}' % POD,
    "nodes": b'{"Pod":%s,"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}}' % POD,
    "bind": b'{"PodName":"a","PodNamespace":"b","PodUID":"c","Node":"d"}',
    "preempt": b'{"Pod":%s,"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"uid":"u"}}],"NumPDBViolations":1}}}' % POD,
    "preempt by UID": b'{"Pod":%s,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}' % POD,
}


def read_by_all(body: bytes) -> list[str]:
    """Read it as each kind; which of them it was. Anything but an `InputError` comes out."""
    read, errors = [], []
    for kind, reader in READERS.items():
        try:
            reader(body)
        except InputError as error:
            errors.append(str(error))
        else:
            read.append(kind)
    assert all(error.isprintable() and len(error) < 1000 for error in errors)
    return read


@pytest.mark.parametrize("kind", SMALL)
def test_a_body_that_is_cut_off_anywhere_is_refused(kind: str) -> None:
    body = SMALL[kind]
    assert read_by_all(body)
    for size in range(len(body)):
        assert read_by_all(body[:size]) == []


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("byte", [0x00, 0x0A, 0x22, 0x2C, 0x5B, 0x5C, 0x7B, 0x7D, 0x80, 0xC0, 0xED, 0xFF])
def test_one_byte_may_be_any_other(kind: str, byte: int) -> None:
    for i in range(len(SMALL[kind])):
        changed = bytearray(SMALL[kind])
        changed[i] = byte
        read_by_all(bytes(changed))


@settings(max_examples=500)
@given(
    st.sampled_from(sorted(SMALL)), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 10), st.binary(max_size=6)))
)
def test_parts_may_be_anything(kind: str, edits: list[tuple[int, int, bytes]]) -> None:
    body = SMALL[kind]
    for start, length, new in edits:
        body = body[:start] + new + body[start + length :]
    read_by_all(body)


VALUES = [
    b"[" * 100_000,
    b"[" * 300 + b"]" * 300,
    b"[" * 5_000 + b"]" * 5_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b"9" * 10_000,
    b"-" + b"9" * 10_000,
    b"1e999999999",
    b"1e-999999999",
    b"0." + b"1" * 10_000,
    b"-0",
    b"1" + b"0" * 400,
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\\ud83d"',
    b'"\xed\xa0\x80"',
    b'"\xff\xfe"',
    b'"\xc0\x80"',
    b'"\\u0000"',
    b'"\x00"',
    b'"\\x00"',
    b'"' + b"x" * 100_000 + b'"',
    b"true",
    b"NaN",
    b"Infinity",
    b"",
]
PLACES = [
    b"%s",
    b'{"Pod":%s,"NodeNames":["a"]}',
    b'{"Pod":{"metadata":{"name":%s}},"NodeNames":["a"]}',
    b'{"Pod":{"metadata":{"name":"p","labels":{"a":%s}}},"NodeNames":["a"]}',
    b'{"Pod":{"metadata":{"name":"p"},"spec":{"priority":%s}},"NodeNames":["a"]}',
    b'{"Pod":{"metadata":{"name":"p"},"spec":{"containers":[{"resources":{"requests":{"cpu":%s}}}]}},"NodeNames":[]}',
    b'{"Pod":{"metadata":{"name":"p"},"other":%s},"NodeNames":["a"]}',
    b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":%s}',
    b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":["a",%s]}',
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":%s}',
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[%s]}}',
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[{"metadata":{"name":%s}}]}}',
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[{"metadata":{"name":"a"},"x":%s}]}}',
    b'{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":{"a":{"Pods":[%s],"NumPDBViolations":0}}}',
    b'{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":{"a":{"NumPDBViolations":%s}}}',
    b'{"Pod":{"metadata":{"name":"p"}},"NodeNameToMetaVictims":{%s:{}}}',
    b'{"PodName":%s,"PodNamespace":"b","PodUID":"c","Node":"d"}',
    b'{"unknown":%s}',
    b"{%s:1}",
]


@pytest.mark.parametrize("place", PLACES)
def test_any_value_in_any_place_is_read_or_refused(place: bytes) -> None:
    for value in VALUES:
        read_by_all(place.replace(b"%s", value))


def test_names_with_a_nul_are_text_like_any_other() -> None:
    args = read_args(b'{"Pod":%s,"NodeNames":["a\\u0000b"]}' % POD)
    assert args.names == ["a\x00b"]


def test_bytes_that_are_no_text_are_refused_where_they_are_read() -> None:
    for name in (b"\xff", b"\xed\xa0\x80", b"\\ud800"):
        for body in (
            b'{"Pod":%s,"NodeNames":["%s"]}',
            b'{"Pod":%s,"Nodes":{"items":[{"metadata":{"name":"%s"}}]}}',
        ):
            with pytest.raises(InputError):
                read_args(body % (POD, name))


# Size. One process for each, since memory that was once used shows in this one for ever.

COST = """
import resource, sys
from bayplan.errors import InputError
from bayplan.protocols.extender import read_args, read_bind_args, read_preempt_args
body = eval(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF)
for reader in (read_args, read_bind_args, read_preempt_args):
    try:
        reader(body)
    except InputError as error:
        print(str(error)[:60], file=sys.stderr)
    else:
        sys.exit("was read")
after = resource.getrusage(resource.RUSAGE_SELF)
print((after.ru_maxrss - before.ru_maxrss) << 10)
"""
LARGE = {
    "nesting": "b'[' * 100_000_000",
    "nesting of objects": """b'{"a":' * 20_000_000""",
    "nesting in a node": """b'{"Nodes":{"items":[' + b'[' * 100_000_000""",
    "numbers": """b'{"Nodes":{"items":[' + b'0,' * 50_000_000 + b'0]}}'""",
    "numbers as names": """b'{"NodeNames":[' + b'0,' * 50_000_000 + b'0]}'""",
    "tiny names": """b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":[' + b'"",' * 33_000_000 + b'""]}'""",
    "short names": """b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":[' + b'"node-abcdefgh",' * 6_000_000 + b'"a"]}'""",
    "tiny nodes": (
        """b'{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[' + b'{"metadata":{"name":"n"}},' * 4_000_000"""
        """ + b'0]}}'"""
    ),
    "keys": "b'{' + b','.join(b'\"%d\":0' % i for i in range(9_000_000)) + b'}'",
    "one key in another case": """b'{"pod":{"metadata":{"name":"p"}},"NodeNames":["' + b'x' * 100_000_000 + b'"]}'""",
    "labels": (
        """b'{"Pod":{"metadata":{"labels":{' + b','.join(b'"%d":"a long enough value"' % i for i in range(3_000_000))"""
        """ + b'}}},"NodeNames":[]}'"""
    ),
    "victims": ("""b'{"NodeNameToVictims":{' + b','.join(b'"a-name-%d":{}' % i for i in range(5_000_000)) + b'}}'"""),
    "a name": """b'{"Pod":{"metadata":{"name":"' + b'x' * 100_000_000 + b'"}},"NodeNames":[]}'""",
    "a number": """b'{"Pod":{"spec":{"priority":' + b'9' * 100_000_000 + b'}}}'""",
    "blanks": "b' ' * 100_000_000",
    "escapes": """b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":["' + b'\\\\u0041' * 16_000_000 + b'"]}'""",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", LARGE)
def test_a_body_of_100_mb_is_refused_and_takes_a_few_times_its_size(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COST, LARGE[kind]], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 800 * MB


def test_a_large_body_of_tiny_values_is_refused_before_it_is_decoded() -> None:
    body = b'{"NodeNames":[' + b"0," * (SMALL_BYTES // 2) + b"0]}"
    with pytest.raises(InputError, match=f"{SMALL_BYTES // 2} values in {len(body)} bytes"):
        read_args(body)
    check_density(body[:SMALL_BYTES])


def test_a_large_body_of_nodes_is_not_taken_for_that() -> None:
    item = b'{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"8","memory":"64Gi"}}}'
    body = b'{"Pod":%s,"Nodes":{"items":[%s]}}' % (POD, b",".join([item] * 70_000))
    assert len(body) > SMALL_BYTES
    assert len(read_args(body).names) == 70_000


def test_more_nodes_than_any_cluster_has_are_refused() -> None:
    names = ["n"] * (MOST_NODES + 1)
    with pytest.raises(InputError, match=r"^NodeNames: too many nodes: 131073"):
        read_args(json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": names}, separators=(",", ":")).encode())
    items = b",".join([b'{"metadata":{"name":"n"}}'] * (MOST_NODES + 1))
    with pytest.raises(InputError, match=r"^Nodes\.items: too many nodes: 131073"):
        read_args(b'{"Pod":%s,"Nodes":{"items":[%s]}}' % (POD, items))


def test_a_pod_larger_than_the_api_takes_is_refused() -> None:
    pod = b'{"metadata":{"name":"p","annotations":{"a":"%s"}}}' % (b"x" * MOST_POD_BYTES)
    with pytest.raises(InputError, match=r"^Pod: too large"):
        read_args(b'{"Pod":%s,"NodeNames":[]}' % pod)


def test_the_work_for_a_node_does_not_grow_with_what_is_in_it(calls: Callable[[Callable[[], object]], int]) -> None:
    def of(size: int) -> int:
        labels = ",".join(f'"label-{i}":"value-{i}"' for i in range(size))
        item = b'{"metadata":{"name":"n","labels":{%s}}}' % labels.encode()
        body = b'{"Pod":%s,"Nodes":{"items":[%s]}}' % (POD, b",".join([item] * 100))
        return calls(lambda: read_args(body))

    assert of(1) == of(300)

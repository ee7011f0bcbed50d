"""Pods from tables in all their forms; what no pod can ask is refused with its row and column."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardRequest
from bayplan.simulate.pod_tables import PodList, read_pod_lines, read_pods

MIB = 1 << 20
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
ARRIVALS = "idx,name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"


def pods_of(text: str) -> PodList:
    return read_pods(text.splitlines(keepends=True))


def requests_of(pods: PodList) -> list[CardRequest]:
    return [pods.requests[i] for i in pods.which]


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        pods_of(text)
    return str(caught.value)


def test_a_list_of_openb_has_requests_and_times() -> None:
    pods = pods_of(
        OPENB
        + "p0,12000,16384,1,1000,,LS,Running,0,12537496,0\n"
        + "p1,6000,12288,1,460,T4|G2|T4,LS,Running,427061,12902960,427061\n"
        + "p2,6000,0,0,0,,BE,Running,427061,,427061\n"
    )
    assert pods.names == ["p0", "p1", "p2"]
    assert requests_of(pods) == [
        CardRequest(cpu_milli=12000, memory_bytes=16384 * MIB, cards=1, milli=1000),
        CardRequest(cpu_milli=6000, memory_bytes=12288 * MIB, cards=1, milli=460, models=("G2", "T4", "T4")),
        CardRequest(cpu_milli=6000, memory_bytes=0),
    ]
    assert pods.arrives_s is not None
    assert pods.leaves_s is not None
    assert pods.arrives_s.tolist() == [0, 427061, 427061]
    assert pods.leaves_s.tolist() == [12537496, 12902960, math.inf]


def test_rules_at_the_edge_of_openb() -> None:
    pods = pods_of(ARRIVALS + "0,a,1,1,1,1200,\n1,b,1,1,0,300,\n")
    assert [(request.cards, request.milli) for request in requests_of(pods)] == [(1, 1000), (0, 0)]
    assert pods.arrives_s is None


def test_a_list_without_models_and_times_will_do() -> None:
    assert requests_of(pods_of("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,2,8,1000\n"))[0].cards == 8


def test_equal_requests_are_kept_once() -> None:
    pods = pods_of(ARRIVALS + "".join(f"{i},p{i},{i % 3},1,1,500,\n" for i in range(30)))
    assert len(pods.requests) == 3
    assert pods.which.tolist() == [0, 1, 2] * 10


def test_what_is_left_out_of_our_own_table_has_a_default() -> None:
    assert requests_of(pods_of("name,cards\na,2\n")) == [CardRequest(cpu_milli=0, memory_bytes=0, cards=2, milli=1000)]
    assert requests_of(pods_of("milli,name\n250,a\n,b\n")) == [
        CardRequest(cpu_milli=0, memory_bytes=0, cards=1, milli=250),
        CardRequest(cpu_milli=0, memory_bytes=0),
    ]


def test_times_of_our_own_table() -> None:
    pods = pods_of("name,arrives_s,runs_s\na,1.5,\nb,0,2.25\n")
    assert pods.arrives_s is not None
    assert pods.leaves_s is not None
    assert pods.arrives_s.tolist() == [1.5, 0]
    assert pods.leaves_s.tolist() == [math.inf, 2.25]


def test_json_lines_say_the_same_as_our_table() -> None:
    lines = [
        '{"name": "a", "cpu_milli": 500, "milli": 250, "models": ["T4", "A10"], "arrives_s": 1.5, "runs_s": 3}\n',
        "\n",
        '{"name": "b", "cards": null, "models": "T4", "arrives_s": 2}\n',
    ]
    table = "name,cpu_milli,milli,models,arrives_s,runs_s\na,500,250,T4|A10,1.5,3\nb,,,T4,2,\n"
    one, other = read_pod_lines(lines), pods_of(table)
    assert one.names == other.names
    assert requests_of(one) == requests_of(other)
    assert one.arrives_s is not None
    assert other.arrives_s is not None
    assert one.arrives_s.tolist() == other.arrives_s.tolist()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ARRIVALS, "no pods"),
        ("name,cpu_milli,memory_mib,num_gpu\n", "no column gpu_milli"),
        ("cards\n1\n", "no column name"),
        ("name,model\na,T4\n", "unknown column; did you mean models?: 'model'"),
        (ARRIVALS + "0,a,1,1,1,0,\n", "row 2, milli: not a part of a card: 0"),
        (ARRIVALS + "0,a,1,1,2,500,\n", "row 2, milli: parts of several cards: 500"),
        (ARRIVALS + "0,a,1,1,300,1000,\n", "row 2, cards: out of range: 300"),
        (ARRIVALS + "0,a,1,1,1,5OO,\n", "row 2, column gpu_milli: not a number: '5OO'"),
        (ARRIVALS + "0,a,1,1,1,500,T4||G2\n", "row 2, column gpu_spec: not a name: ''"),
        (ARRIVALS + "0,a,1,1,1,500,\n1,a,1,1,1,500,\n", "row 3: two pods of one name: 'a'"),
        (ARRIVALS + "1,a,1,1,1,500,\n1,b,1,1,1,500,\n", "row 3, column idx: not in order: 1 (expected more than 1)"),
        ("name,milli\na,1001\n", "row 2, milli: not a part of a card: 1001"),
        ("name,cards,milli\na,0,500\n", "row 2, milli: a part of no card: 500"),
        ("name,arrives_s\na,nan\n", "row 2, column arrives_s: not a time: 'nan'"),
        ("name,arrives_s\na,inf\n", "row 2, column arrives_s: not a time: 'inf'"),
        ("name,arrives_s\na,1_0\n", "row 2, column arrives_s: not a time: '1_0'"),
        ("name,arrives_s,runs_s\na,1,-1\n", "row 2, column runs_s: not a time to run: '-1'"),
        ("name,arrives_s,runs_s\na,,1\n", "row 2, column arrives_s: a time to run but none of arrival"),
        ("name,arrives_s\na,1\nb,\n", "a pod without a time of arrival among others with one: 'b'"),
        (OPENB + "a,1,1,1,500,,,,10,9,10\n", "row 2: ends before it arrives: 9.0 (expected 10.0 or later)"),
    ],
)
def test_what_is_no_pod_is_refused(text: str, told: str) -> None:
    assert told in refused(text)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "row 1: not JSON"),
        ("[1]", "row 1: not an object"),
        ('{"cards": 1}', "row 1: no column name"),
        ('{"name": "a", "gpus": 1}', "row 1: unknown column: 'gpus'"),
        ('{"name": "a", "cards": true}', "row 1, column cards: neither text nor a number: True"),
        ('{"name": "a", "cards": 1.5}', "row 1, column cards: not a number: '1.5'"),
        ('{"name": "a", "models": {}}', "row 1, column models: neither text nor a number"),
        ("[" * 100_000, "row 1: not JSON"),
    ],
)
def test_a_line_that_is_no_pod_is_refused(line: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        read_pod_lines([line])
    assert told in str(caught.value)


CELL = st.one_of(
    st.integers(-5, 3000).map(str),
    st.sampled_from(["", "nan", "1e9", "-0", "٣", "T4|", "|", '"', "\x00", " 7 ", "a\nb", str(10**30), "0x1"]),
    st.text(max_size=5),
)


@given(
    head=st.sampled_from([OPENB, ARRIVALS, "name,cards,milli,arrives_s,runs_s\n", "name\n", "\n"]),
    rows=st.lists(st.lists(CELL, max_size=11), max_size=6),
)
def test_hostile_rows_make_pods_or_an_input_error(head: str, rows: list[list[str]]) -> None:
    text = head + "\n".join(",".join(row) for row in rows)
    try:
        pods = pods_of(text)
    except InputError:
        return
    assert len(pods.which) == len(pods.names)
    assert all(0 <= request.milli <= 1000 for request in pods.requests)
    assert pods.arrives_s is None or all(math.isfinite(time) for time in pods.arrives_s)

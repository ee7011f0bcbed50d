"""Nodes and their order from tables; what no fleet can be is refused with its row and column."""

from __future__ import annotations

import pytest

from bayplan.errors import InputError
from bayplan.fleet.cards.model import CardNode
from bayplan.simulate.node_tables import MIB, read_node_order, read_nodes

OPENB = "sn,cpu_milli,memory_mib,gpu,model\n"
OWN = "name,cpu_milli,memory_mib,cards,model\n"


def nodes_of(text: str) -> tuple[CardNode, ...]:
    return read_nodes(text.splitlines(keepends=True))


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        nodes_of(text)
    return str(caught.value)


def test_both_forms_mean_the_same() -> None:
    expected = (CardNode(name="n1", cpu_milli=96000, memory_bytes=1024 * MIB, cards=8, model="G2"),)
    assert nodes_of(OPENB + "n1,96000,1024,8,G2\n") == expected
    assert nodes_of(OWN + "n1,96000,1024,8,G2\n") == expected
    assert nodes_of("model,cards,memory_mib,name,cpu_milli\nG2,8,1024,n1,96000") == expected


def test_a_node_may_have_no_cards() -> None:
    assert nodes_of(OPENB + "n1,96000,1024,0,\n")[0].cards == 0
    assert nodes_of("name,cpu_milli,memory_mib\nn1,96000,1024\n")[0] == nodes_of(OPENB + "n1,96000,1024,,\n")[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty (expected a table"),
        (OPENB, "no nodes"),
        ("sn,cpu_milli\n", "no column memory_mib (expected sn, cpu_milli, memory_mib)"),
        ("name,cpu_milli,memory_mib,crads\n", "unknown column; did you mean cards?: 'crads'"),
        ("sn,sn,cpu_milli,memory_mib\n", "row 1: two columns of one name: 'sn'"),
        (OPENB + "n1,96000,1024,8\n", "row 2: cells that fit no column: 4 (expected 5 cells)"),
        (OPENB + "n1,96000,1024,8,G2\n" * 2, "row 3: two nodes of one name: 'n1'"),
        (OPENB + "n1,96e3,1024,8,G2\n", "row 2, column cpu_milli: not a number: '96e3'"),
        (OPENB + "n1,-1,1024,8,G2\n", "row 2, column cpu_milli: not a number: '-1'"),
        (OPENB + "n1,96000,nan,8,G2\n", "row 2, column memory_mib: not a number: 'nan'"),
        (OPENB + "n1,96000,1024,257,G2\n", "row 2, cards: out of range: 257"),
        (OPENB + f"n1,96000,{10**19},8,G2\n", "row 2, memory_bytes: out of range"),
        (OPENB + ",96000,1024,8,G2\n", "row 2, column sn: not a name: ''"),
        (OPENB + "n\x1b[2J,96000,1024,8,G2\n", "row 2, column sn: not a name"),
        (OPENB + '"n1,96000\n', "not CSV"),
    ],
)
def test_what_is_no_node_is_refused(text: str, told: str) -> None:
    assert told in refused(text)


def test_nodes_stand_in_the_order_of_their_ranks() -> None:
    nodes = nodes_of(OPENB + "a,1,1,0,\nb,1,1,0,\nc,1,1,0,\n")
    for name in ("sn", "name"):
        ordered = read_node_order([f"rank,{name}\n", "10,a\n", "2,c\n", "7,b\n"], nodes)
        assert [node.name for node in ordered] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["0,a\n", "1,b\n"], "no rank for 1 nodes: 'c'"),
        (["0,a\n", "1,b\n", "2,d\n"], "row 4, column sn: no such node, or given twice: 'd'"),
        (["0,a\n", "1,a\n"], "row 3, column sn: no such node, or given twice: 'a'"),
        (["0,a\n", "0,b\n"], "row 3, column rank: two nodes of one rank: 0"),
        (["x,a\n"], "row 2, column rank: not a number: 'x'"),
    ],
)
def test_an_order_that_is_none_is_refused(rows: list[str], told: str) -> None:
    nodes = nodes_of(OPENB + "a,1,1,0,\nb,1,1,0,\nc,1,1,0,\n")
    with pytest.raises(InputError) as caught:
        read_node_order(["rank,sn\n", *rows], nodes)
    assert told in str(caught.value)

"""A machine as it would be with other huge pages."""

from __future__ import annotations

import pytest

from bayplan.errors import InputError
from bayplan.files.presets import load_preset
from bayplan.machine import HugepagePool
from bayplan.machine.hugepages import with_hugepages

GIB = 2**30


def pools(machine_name: str, *wishes: str) -> dict[int, tuple[HugepagePool, ...]]:
    machine = with_hugepages(load_preset(machine_name), wishes)
    return {node.id: node.hugepages for node in machine.nodes if node.hugepages}


def test_pages_spread_over_nodes_with_cpus_lower_nodes_first() -> None:
    assert pools("dgx-h100", "1Gi=17") == {
        0: (HugepagePool(page_bytes=GIB, count=9),),
        1: (HugepagePool(page_bytes=GIB, count=8),),
    }
    assert set(pools("gb200-tray", "1Gi=8")) == {0, 1}


def test_pages_on_one_node_and_of_two_sizes() -> None:
    assert pools("dgx-h100", "1Gi=4@1", "2Mi=512@1") == {
        1: (HugepagePool(page_bytes=2**21, count=512), HugepagePool(page_bytes=GIB, count=4))
    }


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ("1Gi", "not a wish for huge pages: '1Gi'"),
        ("1Gi=-1", "not a wish"),
        ("1Gi=1@7", "no such memory node"),
        ("3Mi=1", "not the size of a page: '3Mi'"),
        ("1=1", "not the size of a page"),
        ("1Gi=9999999", "memory node 0: more huge pages than memory"),
        ("Gi=1", "not a quantity: 'Gi'"),
    ],
)
def test_a_wish_that_cannot_be(wish: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        pools("dgx-h100", wish)
    assert told in str(caught.value)

"""Fingerprints of sets of pods, against figures that are published with the format."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.fleet.published.fingerprint import PREFIX, fingerprint, xxh64

TEN = """
analytics/controller-69dkj kube-public/subscriber-tq6v7 kube-public/transformer-hfbng kube-public/validator-c6pn5
kube-system/proxy-wszrd middleware/processor-jkrl4 network/gateway-vsll5 network/importer-kzdfr
network/importer-q5vt9 staging/prometheus-bwgbn
"""


@pytest.mark.parametrize(
    ("data", "wanted"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)],
)
def test_the_hash_is_xxh64(data: bytes, wanted: int) -> None:
    assert xxh64(data) == wanted


def test_ten_pods_in_namespaces_have_the_published_fingerprint() -> None:
    pods = [(namespace, name) for namespace, _, name in (pod.partition("/") for pod in TEN.split())]
    assert fingerprint(pods) == "pfp0v001567144e4a561bb5a"


def test_the_order_of_pods_does_not_matter() -> None:
    pods = [("production", name) for name in ("jaeger-dpgjk", "nginx-rt684", "envoy-g9m22")]
    assert {fingerprint(order) for order in permutations(pods)} == {"pfp0v001607b76a0e9d3aeb4"}


@given(st.lists(st.tuples(st.text(max_size=70), st.text(max_size=70)), unique=True, min_size=1, max_size=6))
def test_a_set_with_one_pod_less_has_another_fingerprint(pods: list[tuple[str, str]]) -> None:
    whole = fingerprint(pods)
    assert whole.startswith(PREFIX)
    assert len(whole) == len(PREFIX) + 16
    assert fingerprint(pods[1:]) != whole

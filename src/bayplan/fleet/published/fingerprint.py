"""The fingerprint of a set of pods that a NodeResourceTopology carries: which pods its numbers include.

Exporters (node-feature-discovery, resource-topology-exporter) hash the pods that they counted; equal fingerprints mean
equal sets. Facts: the pod fingerprint's version `pfp0v001` (XXH64 of each pod's name, seeded with the XXH64 of its
namespace, sorted, hashed again, in hexadecimal) and the XXH64 specification. No safety rests on it: it only
tells what has been counted already.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "pfp0v001"
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_WORD = 2**64 - 1
_STRIPE = 32


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods, given as (namespace, name), in any order."""
    hashes = sorted(xxh64(name.encode(), xxh64(namespace.encode())) for namespace, name in pods)
    return f"{PREFIX}{xxh64(b''.join(h.to_bytes(8, 'little') for h in hashes)):016x}"


def xxh64(data: bytes, seed: int = 0) -> int:
    """The 64-bit xxHash of some bytes."""
    whole = len(data) - len(data) % _STRIPE
    h = _stripes(data, whole, seed) if whole else (seed + _P5) & _WORD
    h = (h + len(data)) & _WORD
    i = whole
    while i + 8 <= len(data):
        h = (_turn(h ^ _round(0, int.from_bytes(data[i : i + 8], "little")), 27) * _P1 + _P4) & _WORD
        i += 8
    if i + 4 <= len(data):
        lane = int.from_bytes(data[i : i + 4], "little") * _P1 & _WORD
        h = (_turn(h ^ lane, 23) * _P2 + _P3) & _WORD
        i += 4
    for byte in data[i:]:
        h = _turn(h ^ (byte * _P5 & _WORD), 11) * _P1 & _WORD
    h = (h ^ h >> 33) * _P2 & _WORD
    h = (h ^ h >> 29) * _P3 & _WORD
    return h ^ h >> 32


def _stripes(data: bytes, whole: int, seed: int) -> int:
    lanes = [(seed + _P1 + _P2) & _WORD, (seed + _P2) & _WORD, seed & _WORD, (seed - _P1) & _WORD]
    for start in range(0, whole, _STRIPE):
        for k in range(4):
            word = int.from_bytes(data[start + 8 * k : start + 8 * k + 8], "little")
            lanes[k] = _round(lanes[k], word)
    turns = (1, 7, 12, 18)
    h = sum(_turn(lane, turn) for lane, turn in zip(lanes, turns, strict=True)) & _WORD
    for lane in lanes:
        h = ((h ^ _round(0, lane)) * _P1 + _P4) & _WORD
    return h


def _round(accumulator: int, word: int) -> int:
    return _turn((accumulator + word * _P2) & _WORD, 31) * _P1 & _WORD


def _turn(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _WORD

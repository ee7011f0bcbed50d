"""States of published nodes, and what hubs in them answered: asked once for all nodes and pods that are alike.

A state is a number for a kind of node with such grants on it, whoever holds them; nodes that publish equal grants, or
that have since taken equal pods in the same order, are in one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bayplan.fleet.published.kinds import Kind
from bayplan.fleet.published.layout import HeldPod
from bayplan.fleet.published.numbers import TellsRoom, numbers_of
from bayplan.hub.ledger import Contents
from bayplan.idset import encode_idset
from bayplan.policies.policy import View
from bayplan.resources.decision import Refusal
from bayplan.workload.model import Pod

TOP_SCORE = 10
_MAX_KEPT = 200_000
_SHARE = 5


class State(NamedTuple):
    """A number, and what hubs of that kind hold in it."""

    number: int
    kind: Kind
    contents: Contents


class Verdict(NamedTuple):
    """What a hub in some state says to a pod of some shape: where it goes from there, or why not.

    `impossible`: an empty node of this kind would refuse it too. `score`: 0 to 10, by how well its zones are used.
    """

    after: State | None
    refusal: Refusal | None
    reason: str
    impossible: bool
    score: int


class States:
    """All states met, and the answers given in them."""

    def __init__(self) -> None:
        self._next = 0
        self._bases: dict[bytes, State] = {}
        self._verdicts: dict[bytes, dict[int, Verdict]] = {}
        self._left: dict[tuple[int, str], int] = {}
        self._count = 0
        self._encode = msgspec.msgpack.Encoder(enc_hook=encode_idset).encode
        self.asked = 0
        """How often a hub was asked, which is what all of this is to keep small."""

    def base(self, kind: Kind, pods: Sequence[HeldPod]) -> State:
        """The state of a node of that kind on which these pods hold what they hold. Raises `InputError`."""
        entries = sorted((self._content(held), held.pod.uid, held) for held in pods)
        key = self._encode((kind.number, [content for content, _, _ in entries]))
        state = self._bases.get(key)
        if state is None:
            contents = kind.restored([held for _, _, held in entries])
            if len(self._bases) >= _MAX_KEPT:
                self._bases.clear()
            state = self._bases[key] = State(self._fresh(), kind, contents)
        elif any(held.pod.uid not in state.contents.pods for held in pods):
            # Alike, but of pods that go by other names: a state of its own for whoever asks who holds what.
            state = state._replace(contents=kind.restored([held for _, _, held in entries]))
        return state

    def verdict(self, shape: bytes, state: State, pod: Pod) -> Verdict:
        """What a hub in that state says to pods of that shape, of which `pod` is one."""
        known = self._verdicts.get(shape)
        if known is None:
            known = self._verdicts[shape] = {}
        found = known.get(state.number)
        if found is None:
            found = self._ask(shape, state, pod)
            known[state.number] = found
            self._make_room()
        return found

    def known(self, shape: bytes) -> dict[int, Verdict]:
        """State -> verdict, of those given already."""
        return self._verdicts.get(shape, {})

    def after(self, shape: bytes, state: State, pod: Pod) -> State | None:
        """Where that pod leads from there, with it among those that hold something; None: it is refused."""
        verdict = self.verdict(shape, state, pod)
        if verdict.after is None:
            return None
        if pod.uid in verdict.after.contents.pods and state.contents.pods.keys() <= verdict.after.contents.pods.keys():
            return verdict.after
        hub = state.kind.hub(state.contents)
        self.asked += 1
        hub.admit(pod)
        return State(verdict.after.number, state.kind, hub.ledger.contents)

    def without(self, state: State, uid: str) -> State:
        """Where it leads from there that a pod goes; nowhere if it holds nothing."""
        if uid not in state.contents.pods:
            return state
        hub = state.kind.hub(state.contents)
        hub.release(uid)
        key = (state.number, uid)
        number = self._left.get(key)
        if number is None:
            if len(self._left) >= _MAX_KEPT:
                self._left.clear()
            number = self._left[key] = self._fresh()
        return State(number, state.kind, hub.ledger.contents)

    def _ask(self, shape: bytes, state: State, pod: Pod) -> Verdict:
        kind = state.kind
        hub = kind.hub(state.contents)
        self.asked += 1
        decision = hub.admit(pod)
        if decision.refusal is None:
            after = State(self._fresh(), kind, hub.ledger.contents)
            return Verdict(after, None, "", impossible=False, score=_score(kind, state.contents, hub.ledger.contents))
        empty = self.base(kind, ())
        if state.number != empty.number:
            when_empty = self.verdict(shape, empty, pod)
            if when_empty.after is None:  # then that is what is to be said, and of all such nodes the same
                return when_empty
        numbers = numbers_of(kind, state.contents, pod, decision.refusal)
        impossible = state.number == empty.number
        tail = "; impossible on this kind of node" if impossible else ""
        return Verdict(None, decision.refusal, f"{numbers.short}{tail}", impossible=impossible, score=0)

    def _fresh(self) -> int:
        self._next += 1
        return self._next

    def _content(self, held: HeldPod) -> bytes:
        """What is held and asked, whoever it is."""
        pod = held.pod
        grants = [msgspec.structs.replace(grant, pod="") for grant in held.grants]
        size = (pod.init, pod.containers, pod.resources, pod.overhead_cpu_milli, pod.overhead_memory_bytes)
        return self._encode((size, grants))

    def _make_room(self) -> None:
        self._count += 1
        if self._count >= _MAX_KEPT:
            self._verdicts.clear()
            self._count = 0


def _score(kind: Kind, before: Contents, after: Contents) -> int:
    """Half for few zones, half for taking from zones that have little left, so that whole ones stay whole."""
    if not isinstance(kind.policy, TellsRoom):
        return TOP_SCORE
    free, left, whole = (kind.policy.room_by_node(_view(c)) for c in (before, after, kind.empty))
    taken = [
        (node, amount, amount - left[name].get(node, 0), whole.get(name, {}).get(node, amount))
        for name, own in free.items()
        for node, amount in own.items()
        if left[name].get(node, 0) < amount
    ]
    if not taken:
        return TOP_SCORE
    zones = {node for node, _, _, _ in taken}
    # What takes a larger share of a zone matters more: a GPU of four rather than a CPU of a hundred.
    shares = [part / size for _, _, part, size in taken]
    wastes = [(2 * free - part) / (2 * size - part) for _, free, part, size in taken]
    waste = sum(share * waste for share, waste in zip(shares, wastes, strict=True)) / sum(shares)
    return max(0, min(TOP_SCORE, round(_SHARE / len(zones) + _SHARE * (1 - waste))))


def _view(contents: Contents) -> View:
    return View(pods=contents.pods, grants=contents.grants, pools=contents.pools, memo=contents.memo)

"""Why a published node would refuse a pod, at length: its zones, the age of the numbers, and the pods in the way.

What stands in the way is found by trying: the fewest pods without which the hub admits the pod. Where only numbers by
zone are told nobody knows who holds what, and the pods that ask for the same are named instead.
"""

from __future__ import annotations

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.published.asks import asks_of, left, objection, score
from bayplan.fleet.published.checks import RULE, ZoneChecks
from bayplan.fleet.published.numbers import TellsRoom, numbers_of, with_numbers
from bayplan.fleet.published.pod_objects import pod_of
from bayplan.fleet.published.sources import TITLES, is_stand_in
from bayplan.fleet.published.states import State
from bayplan.hub.blockers import blockers
from bayplan.resources.decision import Refusal
from bayplan.workload.model import Pod

MOST_NAMED = 6


class ZoneAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one node about one pod.

    `source` says what told it, `age_s` how long ago (None: it has no heartbeat), `generation` of what it told.
    `doubt`: why the hub was not asked. `refusal` None: it would be admitted, with that `score` (0 to 10).
    `impossible`: an empty node of this kind would refuse it too; otherwise `blockers` are pods without which it is
    admitted. `uncounted`: pods that the document does not count and that were added to it.
    """

    node: str
    source: str = ""
    age_s: float | None = None
    generation: int = 0
    doubt: str = ""
    refusal: Refusal | None = None
    impossible: bool = False
    blockers: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()
    score: int = 0


def explain(checks: ZoneChecks, pod: Pod, node: str, now: float) -> ZoneAnswer:
    """The answer of one node, in full. May take its time."""
    books, doubt = checks.books(node), checks.doubt_of(node, now)
    source = None if books is None else books.source
    answer = ZoneAnswer(
        node=node,
        source=TITLES[source.origin] if source is not None else "",
        age_s=now - source.heartbeat if source is not None and source.heartbeat is not None else None,
        generation=source.generation if source is not None else 0,
        doubt=doubt,
    )
    states = () if doubt else checks.states_of(node)
    if books is None or source is None or not states:
        return answer
    state = next((s for s in states if checks.verdict(pod, s).after is None), states[0])
    held = {held.pod.uid for held in source.pods}
    uncounted = tuple(p.full_name for uid, p in state.contents.pods.items() if uid not in held)
    answer = msgspec.structs.replace(answer, uncounted=uncounted)
    verdict = checks.verdict(pod, state)
    if verdict.refusal is None:
        offers, asks = left(source.offers, books.extra_asks), asks_of(pod)
        against, own = objection(offers, asks), score(offers, asks)
        points = verdict.score if own is None else (verdict.score + own) // 2
        refused = Refusal(reason="Unschedulable", message=against, rule="zones/offers") if against else None
        return msgspec.structs.replace(answer, refusal=refused, score=0 if against else points)
    contents = state.kind.empty if verdict.impossible else state.contents
    refusal = msgspec.structs.replace(verdict.refusal, rule=f"{RULE}, {verdict.refusal.rule}")
    numbers = numbers_of(state.kind, contents, pod, verdict.refusal)
    if verdict.impossible:
        refusal = with_numbers(refusal, numbers, "; impossible on this kind of node")
        return msgspec.structs.replace(answer, refusal=refusal, impossible=True)
    names = _blockers(state, pod) or _suspects(checks, state, node, numbers.resource)
    tail = f"; blocked by {', '.join(names)}" if names else ""
    return msgspec.structs.replace(answer, refusal=with_numbers(refusal, numbers, tail), blockers=names)


def _blockers(state: State, pod: Pod) -> tuple[str, ...]:
    """The pods in the way, by name."""
    hub = state.kind.hub(state.contents)
    found = blockers(hub, pod, known=lambda uid: not is_stand_in(uid))
    return tuple(state.contents.pods[uid].full_name for uid in found)


def _suspects(checks: ZoneChecks, state: State, node: str, resource: str) -> tuple[str, ...]:
    """Pods of the node that ask to have the same resource aligned, for which only numbers are told."""
    books = checks.books(node)
    if books is None or books.source is None or books.source.by_pod:
        return ()
    policy = state.kind.policy
    if not isinstance(policy, TellsRoom):
        return ()
    names = []
    for bound in books.bound:
        try:
            needs = policy.needs_of(pod_of(bound))
        except InputError:
            continue  # what cannot be read is not known to ask for it
        if resource in needs or (not resource and needs):
            names.append(bound.full_name)
    shown = names[:MOST_NAMED]
    return (*shown, f"{len(names) - len(shown)} more") if len(names) > len(shown) else tuple(shown)

"""The card values written out, one number at a time: slow, and plain to see."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bayplan.fleet.cards.mix import PodKind
from bayplan.fleet.cards.model import WHOLE
from bayplan.fleet.cards.values.kinds import STEP_MILLI, STEPS


def leftovers(kinds: Sequence[tuple[float, float, int]], tau: float) -> list[float]:
    """v of every leftover, from (weight, profit, size in steps) of the single-card kinds that are admitted."""
    values = [0.0]
    for left in range(1, STEPS + 1):
        fit = [(w, b, s) for w, b, s in kinds if b > 0 and s <= left]
        total = 1 - sum(w for w, _, _ in fit)
        total += sum(w * math.exp((b + values[left - s]) / tau) for w, b, s in fit)
        values.append(tau * math.log(total))
    return values


def taken(kinds: Sequence[tuple[float, float, int]], tau: float, left: int) -> list[float]:
    """How many pods of each kind one leftover takes up, following its chances pod by pod."""
    values = leftovers(kinds, tau)
    found = [0.0] * len(kinds)
    waiting = {left: 1.0}
    while waiting:
        most = max(waiting)
        chance = waiting.pop(most)
        for place, (w, b, s) in enumerate(kinds):
            if b > 0 and s <= most:
                part = chance * w * math.exp((b + values[most - s] - values[most]) / tau)
                found[place] += part
                waiting[most - s] = waiting.get(most - s, 0.0) + part
    return found


def idle_cards(gains: Mapping[int, tuple[float, float]], most: int, tau: float) -> list[float]:
    """G of 0 to `most` idle cards, from (weight, gain) by number of cards."""
    values = [0.0]
    for count in range(1, most + 1):
        there = [(k, q, u) for k, (q, u) in gains.items() if k <= count and u > 0 and q > 0]
        best = values[-1]
        if there:
            top = max(u + values[count - k] for k, _, u in there)
            total = sum(q * math.exp((u + values[count - k] - top) / tau) for k, q, u in there)
            best = max(best, top + tau * math.log(total / sum(q for _, q, _ in there)))
        values.append(best)
    return values


def used(gains: Mapping[int, tuple[float, float]], idle: int, tau: float) -> dict[int, float]:
    """How many pods of so many cards the idle cards of one node take up, following their chances pod by pod."""
    values = idle_cards(gains, idle, tau)
    found = dict.fromkeys(gains, 0.0)
    waiting = [0.0] * idle + [1.0]
    for count in range(idle, 0, -1):
        there = {k: (q, u) for k, (q, u) in gains.items() if k <= count and u > 0 and q > 0}
        pulls = {k: q * math.exp((u + values[count - k] - values[count]) / tau) for k, (q, u) in there.items()}
        # Less than all of the weight: G(f) is that of one card fewer, and one card stays idle.
        if sum(pulls.values()) < sum(q for q, _ in there.values()) * (1 - 1e-9) or not there:
            waiting[count - 1] += waiting[count]
            continue
        for k, pull in pulls.items():
            part = waiting[count] * pull / sum(pulls.values())
            found[k] += part
            waiting[count - k] += part
    return found


def size(kind: PodKind) -> int:
    """Steps of a card, rounded up."""
    return -(-kind.milli // STEP_MILLI)


def face(kind: PodKind) -> float:
    """GPUs."""
    return kind.cards * kind.milli / WHOLE

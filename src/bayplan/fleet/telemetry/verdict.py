"""What a policy says of all nodes, ready to be looked up; and what changed from one verdict to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Literal

import msgspec

from bayplan.fleet.telemetry.model import PolicyKey
from bayplan.fleet.telemetry.scoring import LOWEST
from bayplan.fleet.telemetry.spans import NEVER


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Made when something changes, never when a pod asks.

    `refused`: node -> why. Nodes that are not among `judged` have no value at all: they are refused where `elsewhere`
    says why. `scores` are those of nodes that have values; the others have `lowest`. `has_scores` False: the policy
    does not order nodes. `ranked`: nodes with values, best first. `next_change_at`: from then on it has to be asked for
    again.
    """

    policies: tuple[PolicyKey, ...]
    refused: Mapping[str, str] = {}
    judged: Set[str] = frozenset()
    elsewhere: str = ""
    scores: Mapping[str, int] = {}
    ranked: tuple[str, ...] = ()
    millionths: Mapping[str, int] = {}
    has_scores: bool = False
    lowest: int = LOWEST
    made_at: float = 0.0
    next_change_at: float = NEVER

    def reason(self, node: str) -> str | None:
        """Why a node is refused; None: it is not."""
        found = self.refused.get(node)
        if found is None and self.elsewhere and node not in self.judged:
            return self.elsewhere
        return found

    def score(self, node: str) -> int:
        """The score of a node, 0 to 10."""
        return self.scores.get(node, self.lowest)


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """What a change means for pods of a policy: nodes that may be used now, nodes that may not any more.

    `others`: what it means for nodes that the policy had no value of before and has none of now.
    """

    policy: PolicyKey
    allowed: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    others: Literal["", "allowed", "refused"] = ""

    @property
    def opens(self) -> bool:
        """Whether a pod that waits could go somewhere now where it could not before."""
        return bool(self.allowed) or self.others == "allowed"


def flip(policy: PolicyKey, old: Verdict, new: Verdict) -> Flip | None:
    """What changed for pods; None: nothing."""
    if old.judged is new.judged or (not old.elsewhere and not new.elsewhere):
        allowed, refused = old.refused.keys() - new.refused.keys(), new.refused.keys() - old.refused.keys()
    else:
        names = old.judged | new.judged | old.refused.keys() | new.refused.keys()
        before = {name for name in names if old.reason(name) is not None}
        after = {name for name in names if new.reason(name) is not None}
        allowed, refused = before - after, after - before
    others: Literal["", "allowed", "refused"] = ""
    if bool(old.elsewhere) != bool(new.elsewhere):
        others = "refused" if new.elsewhere else "allowed"
    if not allowed and not refused and not others:
        return None
    return Flip(policy=policy, allowed=frozenset(allowed), refused=frozenset(refused), others=others)


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict for a pod of several policies: refused by any of them; scores are the mean of those that order."""
    if len(verdicts) == 1:
        return verdicts[0]
    judged: Set[str] = frozenset().union(*(verdict.judged for verdict in verdicts))
    refused: dict[str, str] = {}
    for verdict in reversed(verdicts):  # the first has the last word
        if verdict.elsewhere:
            refused.update(dict.fromkeys(judged - verdict.judged, verdict.elsewhere))
        refused.update(verdict.refused)
    ordering = [verdict for verdict in verdicts if verdict.has_scores]
    sums: dict[str, int] = {}
    for verdict in ordering:
        for name, value in verdict.millionths.items():
            sums[name] = sums.get(name, 0) + value
    millionths = {name: value // len(ordering) for name, value in sums.items()}
    return Verdict(
        policies=tuple(key for verdict in verdicts for key in verdict.policies),
        refused=refused,
        judged=judged,
        elsewhere=next((verdict.elsewhere for verdict in verdicts if verdict.elsewhere), ""),
        scores={name: (value + 500_000) // 1_000_000 for name, value in millionths.items()},
        ranked=tuple(sorted(sorted(millionths), key=millionths.__getitem__, reverse=True)),
        millionths=millionths,
        has_scores=bool(ordering),
        made_at=max((verdict.made_at for verdict in verdicts), default=0.0),
        next_change_at=min((verdict.next_change_at for verdict in verdicts), default=NEVER),
    )

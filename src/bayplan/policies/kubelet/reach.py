"""Which masks come out as the AND of one hint of each list, without combining the lists.

A mask m is reached if every list has a hint that contains m and no other node is in all of those hints: each node
outside m must be left out by at least one list. A list that is closed upwards may leave out any nodes as long as what
stays is enough. So the question is whether the nodes outside m can be shared out among the lists, each list taking
no more than it can spare: a small packing problem, solved by depth-first search over nodes (never over masks) with
equal nodes treated alike and failed states remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.idset import bits
from bayplan.policies.kubelet.hints import Sum, Up
from bayplan.policies.kubelet.subsets import Budget


class Reach:
    """Condition (see `subsets.Condition`) that a set of `nodes` is the AND of `nodes` with one member of every `Up`."""

    def __init__(self, nodes: int, ups: Sequence[Up]) -> None:
        self.nodes = nodes
        for up in ups:
            self.nodes &= up.universe
        self._bins = [_Bin(up, self.nodes) for up in ups]
        self._packed: dict[int, bool] = {}
        self._budget = Budget(self.nodes.bit_count())
        self._costs: dict[int, list[float]] = {}
        self._spent: dict[int, float] = {0: 0.0}
        self._cheapest = {x: min(b.cost(x) for b in self._bins) for x in bits(self.nodes)}

    def accepts(self, mask: int) -> bool:
        """Whether the mask is reached."""
        return bool(mask) and self._packable(self.nodes & ~mask)

    def possible(self, chosen: int, lower: int, count: int) -> bool:
        """Whether the nodes left out so far, and the cheapest of those still to be left out, can be shared out."""
        if len(self._bins) == 1:
            only = self._bins[0]
            return only.up.possible(chosen | only.outside, lower, count)
        gone = self.nodes & ~(chosen | lower)
        costs = self._costs.get(lower)
        if costs is None:
            costs = sorted(self._cheapest[x] for x in bits(lower))
            self._costs[lower] = costs
        spent = self._least_spent(gone) + sum(costs[: max(0, len(costs) - count)])
        return spent <= len(self._bins) + 1e-9 and self._packable(gone)

    def _least_spent(self, gone: int) -> float:
        """The shares of slack that leaving these nodes out takes at least. Kept: searches add a node at a time."""
        known = self._spent.get(gone)
        if known is None:
            low = gone & -gone
            known = self._spent[gone] = self._least_spent(gone ^ low) + self._cheapest[low.bit_length() - 1]
        return known

    def some(self, size: int) -> int | None:
        """See `subsets.Condition`: all nodes together are always reached, and no other set for certain."""
        return self.nodes if size == self.nodes.bit_count() else None

    def _packable(self, gone: int) -> bool:
        known = self._packed.get(gone)
        if known is None:
            known = self._packed[gone] = self._pack(gone)
        return known

    def _pack(self, gone: int) -> bool:
        if any(b.can_spare(gone) for b in self._bins):
            return True
        if len(self._bins) == 1:
            return False
        items = []
        for x in bits(gone):
            takers = [n for n, b in enumerate(self._bins) if b.can_spare(1 << x)]
            if not takers:
                return False
            takers.sort(key=lambda n: self._bins[n].cost(x))
            items.append((len(takers), -self._cheapest[x], tuple(b.look(x) for b in self._bins), x, takers))
        items.sort(key=lambda item: item[:4])
        return _share_out(self._bins, [(look, x, takers) for _, _, look, x, takers in items], self._budget)


class _Bin:
    """What one list can spare."""

    __slots__ = ("_binding", "_covers", "_slacks", "outside", "up")

    def __init__(self, up: Up, nodes: int) -> None:
        self.up = up
        self.outside = up.universe & ~nodes
        self._binding: tuple[Sum, int] | None = None
        self._slacks: list[tuple[Sum, int]] = []
        self._covers = [condition for condition in up.conditions if not isinstance(condition, Sum)]
        tightest = 0.0
        for condition in up.conditions:
            if isinstance(condition, Sum):
                whole = condition.total(up.universe)
                slack = whole - condition.need
                self._slacks.append((condition, slack))
                tightness = whole / slack if slack > 0 else float("inf")
                if whole and tightness > tightest:
                    tightest, self._binding = tightness, (condition, slack)

    def can_spare(self, gone: int) -> bool:
        """Whether the list still has a hint without any of these nodes."""
        up = self.up
        if up.must & gone or not up.universe & ~gone:
            return False
        for condition, slack in self._slacks:
            if condition.running_total(gone & up.universe) > slack:
                return False
        left = up.universe & ~gone
        return all(touch & left for touch in up.touches) and all(cover.met(left) for cover in self._covers)

    def cost(self, node: int) -> float:
        """The share of the tightest slack that leaving this node out uses up (more than 1: cannot)."""
        if self.up.must >> node & 1:
            return float("inf")
        if self._binding is None:
            return 0.0
        condition, slack = self._binding
        weight = condition.weights[node]
        return weight / slack if slack > 0 else (float("inf") if weight else 0.0)

    def look(self, node: int) -> tuple[int, ...]:
        """What tells this node from others for the list: equal looks can be exchanged."""
        up = self.up
        bit = 1 << node
        amounts = [c.weights[node] if isinstance(c, Sum) else c.signature(node) for c in up.conditions]
        return (*amounts, int(bool(up.must & bit)), *(int(bool(t & bit)) for t in up.touches))


def _share_out(
    bins: Sequence[_Bin], items: Sequence[tuple[tuple[tuple[int, ...], ...], int, list[int]]], budget: Budget
) -> bool:
    """Whether every item can be spared by one bin. Items with equal looks stand together; they go to bins in order.

    Where the budget is used up the answer is no, which at worst misses a mask.
    """
    failed: set[tuple[int, ...]] = set()

    def place(index: int, gone: tuple[int, ...], last: int) -> bool:
        if index == len(items):
            return True
        state = (index, last, *gone)
        if state in failed or not budget.spend():
            return False
        look, node, takers = items[index]
        same = index > 0 and items[index - 1][0] == look
        for rank, n in enumerate(takers):
            if same and rank < last:
                continue
            grown = gone[n] | 1 << node
            if bins[n].can_spare(grown) and place(index + 1, (*gone[:n], grown, *gone[n + 1 :]), rank):
                return True
        failed.add(state)
        return False

    return place(0, (0,) * len(bins), 0)

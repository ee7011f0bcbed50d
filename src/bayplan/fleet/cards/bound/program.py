"""The linear program behind the bounds, solved by HiGHS (scipy), with patterns brought in as they are worth it.

Variables: of each kind of pod, how many go to each class of nodes; how many cards of each class are cut by each share
pattern; and, where the size of the fleet is asked for, how many times the nodes in question are had. Rows: by class
its CPU, its memory, its cards, and parts of each size; by kind the pods that there are; and one for what has to be
served. Solved first with all classes as one, whose patterns are a good start for the classes apart. It ends when no
pattern would earn more than its card costs, which makes the solution that of all patterns (column generation, Gilmore
and Gomory 1961), or when the prices prove that no more is to be had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayplan.errors import BayplanError
from bayplan.fleet.cards.bound.patterns import Pattern, first_patterns
from bayplan.fleet.cards.bound.prices import Prices, consistent
from bayplan.fleet.cards.bound.problem import CARDS, CPU, MEMORY, Problem
from bayplan.fleet.cards.state import Bools, Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csc_array

MOST_ROUNDS = 500
"""Solutions after which the search for patterns ends; the bound is then valid but not the best."""
TOLERANCE = 1e-7
_INFEASIBLE = 2


class SolverError(BayplanError):
    """HiGHS gave up: no solution and no proof that there is none."""


class Fleet(NamedTuple):
    """Where a number of nodes is asked for: `unit` (3, K), what one more of it has; `gain` (J) what a served pod counts
    for, `needed` how much of that has to be served."""

    unit: Floats
    gain: Floats
    needed: float


class Goal(NamedTuple):
    """What is wanted: the most `gain` (J) by served pods, or, with `fleet`, the fewest units that serve enough.

    `forced` (J): the kinds of which all pods have to be served.
    """

    gain: Floats
    forced: Bools
    fleet: Fleet | None = None


class Solution(NamedTuple):
    """`value`: what is gained, or how many units it takes; `served` (J): pods; `need_price`: of the row of what is
    needed, 0 where there is none."""

    value: float
    served: Floats
    prices: Prices
    need_price: float


class Optimum(NamedTuple):
    """The last solution, the best bound that prices proved, and the patterns that were used."""

    solution: Solution
    proven: float
    patterns: tuple[Pattern, ...]


Proof = Callable[[Prices, float], float]
"""From consistent prices and the price of need to a bound: never above (goal: most) or below (fewest) the best one."""


def optimum(problem: Problem, goal: Goal, proof: Proof, start: Sequence[Pattern] | None = None) -> Optimum | None:
    """The best solution, and the bound that prices prove. None: what is forced or needed cannot be had.

    `start`: patterns to begin with; without, those that are best with all classes as one.
    """
    if start is None:
        start = _start(problem, goal)
    program = _Program(problem, goal)
    for pattern in start:
        program.add_to_all(pattern)
    sign = 1.0 if goal.fleet is None else -1.0
    proven, rounds = np.inf, 0
    while True:
        solution = program.solve()
        if solution is None:
            return None
        rounds += 1
        prices, patterns = consistent(problem, solution.prices)
        proven = min(proven, sign * proof(prices, solution.need_price))
        if rounds == MOST_ROUNDS or proven - sign * solution.value <= TOLERANCE * max(1.0, abs(solution.value)):
            break
        if not program.add_those_worth_it(patterns, solution.prices):
            break
    return Optimum(solution, sign * proven, program.patterns)


def _start(problem: Problem, goal: Goal) -> Sequence[Pattern]:
    first = first_patterns(problem.sizes)
    if problem.capacity.shape[1] == 1 or not first:
        return first
    fleet = goal.fleet and goal.fleet._replace(unit=goal.fleet.unit.sum(axis=1, keepdims=True))
    # No bound is wanted here, so none is proven: it ends when no pattern is worth it.
    worst = np.inf if fleet is None else -np.inf
    found = optimum(problem.pooled(), goal._replace(fleet=fleet), lambda _prices, _need: worst, first)
    return first if found is None else found.patterns


class _Program:
    """Rows by class (CPU, memory, cards, parts by size), by kind, and of need; columns of pods, of units, of patterns.

    CPU and memory are counted in mean nodes of their class, so that all figures have about one size.
    """

    def __init__(self, problem: Problem, goal: Goal) -> None:
        self._problem, self._goal = problem, goal
        self._classes, self._sizes, self._kinds = problem.capacity.shape[1], len(problem.sizes), len(problem.kinds)
        self._known: list[dict[Pattern, None]] = [{} for _ in range(self._classes)]
        self._new: list[tuple[int, Pattern]] = []
        total = problem.capacity if goal.fleet is None else problem.capacity + goal.fleet.unit
        self._scale: Floats = np.maximum(total / np.maximum(total[CARDS], 1.0), 1.0)
        self._scale[CARDS] = 1.0
        self._by_kind = 3 * self._classes + self._classes * self._sizes
        self._rows = self._by_kind + self._kinds + (goal.fleet is not None)
        self._kind, self._class = np.nonzero(problem.fits)
        self._matrix = self._pods()
        self._limit = self._limits()

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """All that are known of any class."""
        return tuple(dict.fromkeys(pattern for known in self._known for pattern in known))

    def add_to_all(self, pattern: Pattern) -> None:
        """Let every class cut cards so."""
        for of_class in range(self._classes):
            self.add(of_class, pattern)

    def add_those_worth_it(self, patterns: Sequence[Pattern], prices: Prices) -> bool:
        """Let each class cut cards by those of the patterns that earn more there than its card costs; False: by none.

        What is best for one class is often good for others too, which saves rounds.
        """
        parts = np.array(patterns, np.float64).reshape(len(patterns), self._sizes)
        earned = parts @ np.maximum(prices.part, 0).T
        pattern, of_class = np.nonzero(earned > np.maximum(prices.card, 0) + TOLERANCE)
        added = [self.add(k, patterns[i]) for i, k in zip(pattern.tolist(), of_class.tolist(), strict=True)]
        return any(added)

    def add(self, of_class: int, pattern: Pattern) -> bool:
        """Let a class cut cards so; False where it could already."""
        if pattern in self._known[of_class]:
            return False
        self._known[of_class][pattern] = None
        self._new.append((of_class, pattern))
        return True

    def solve(self) -> Solution | None:
        """The best with the patterns that are known; None: there is no solution."""
        from scipy.optimize import linprog
        from scipy.sparse import hstack

        if self._new:
            self._matrix = hstack([self._matrix, self._cut(self._new)], format="csc")
            self._new = []
        pods, fleet = len(self._kind), self._goal.fleet
        price = np.zeros(self._matrix.shape[1])
        if fleet is None:
            price[:pods] = -self._goal.gain[self._kind]
        else:
            price[pods] = 1.0
        equal = np.zeros(self._rows, np.bool_)
        equal[self._by_kind : self._by_kind + self._kinds] = self._goal.forced
        rows: Any = self._matrix.tocsr()  # the stubs of linprog do not know that it takes sparse ones
        found = linprog(
            price,
            A_ub=rows[~equal],
            b_ub=self._limit[~equal],
            A_eq=rows[equal] if equal.any() else None,
            b_eq=self._limit[equal] if equal.any() else None,
            method="highs-ipm",
        )
        if found.status == _INFEASIBLE:
            return None
        if found.status or found.x is None or found.fun is None:
            raise SolverError(f"the solver gave up: {found.message}")
        dual = np.zeros(self._rows)
        dual[~equal] = -found.ineqlin.marginals
        return self._solution(float(found.fun), np.asarray(found.x[:pods]), dual)

    def _solution(self, price: float, amounts: Floats, dual: Floats) -> Solution:
        classes = self._classes
        by_class = dual[: 3 * classes].reshape(3, classes) / self._scale
        part = dual[3 * classes : self._by_kind].reshape(classes, self._sizes)
        prices = Prices(by_class[CPU], by_class[MEMORY], by_class[CARDS], part)
        served: Floats = np.zeros(self._kinds)
        np.add.at(served, self._kind, amounts)
        fleet = self._goal.fleet
        return Solution(-price if fleet is None else price, served, prices, float(dual[-1]) if fleet else 0.0)

    def _pods(self) -> csc_array:
        """A column for each kind in each class that it fits, and one for the unit."""
        problem, kind, of_class = self._problem, self._kind, self._class
        column = np.arange(len(kind))
        entries = [
            (row * self._classes + of_class, column, problem.asked[row, kind] / self._scale[row, of_class])
            for row in (CPU, MEMORY, CARDS)
        ]
        shared = problem.size[kind] >= 0
        part = 3 * self._classes + of_class[shared] * self._sizes + problem.size[kind[shared]]
        entries += [(part, column[shared], np.ones(len(part))), (self._by_kind + kind, column, np.ones(len(kind)))]
        fleet = self._goal.fleet
        if fleet is not None:
            rows = np.arange(3 * self._classes)
            entries.append((np.full(len(kind), self._rows - 1), column, -fleet.gain[kind]))
            entries.append((rows, np.full(len(rows), len(kind)), -(fleet.unit / self._scale).ravel()))
        return self._columns(entries, len(kind) + (fleet is not None))

    def _cut(self, patterns: Sequence[tuple[int, Pattern]]) -> csc_array:
        """A column for each pattern of a class: it takes a card and gives parts."""
        parts = np.array([pattern for _, pattern in patterns], np.float64)
        of_class = np.array([number for number, _ in patterns])
        column, size = np.nonzero(parts)
        entries = [
            (2 * self._classes + of_class, np.arange(len(patterns)), np.ones(len(patterns))),
            (3 * self._classes + of_class[column] * self._sizes + size, column, -parts[column, size]),
        ]
        return self._columns(entries, len(patterns))

    def _columns(self, entries: Sequence[tuple[Ints, Ints, Floats]], count: int) -> csc_array:
        from scipy.sparse import coo_array

        row, column, value = (np.concatenate(each) for each in zip(*entries, strict=True))
        return coo_array((value, (row, column)), shape=(self._rows, count)).tocsc()

    def _limits(self) -> Floats:
        limit = np.zeros(self._rows)
        limit[: 3 * self._classes] = (self._problem.capacity / self._scale).ravel()
        limit[self._by_kind : self._by_kind + self._kinds] = self._problem.pods
        if self._goal.fleet is not None:
            limit[-1] = -self._goal.fleet.needed
        return limit

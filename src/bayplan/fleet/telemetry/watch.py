"""For which nodes one condition holds, and when that will change by time alone."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.fleet.telemetry.model import FALLING, RISING, Condition, Operator
from bayplan.fleet.telemetry.nano import Nano
from bayplan.fleet.telemetry.readings import EMPTY, Reduction, Table
from bayplan.fleet.telemetry.spans import NEVER, due_at


class Watch:
    """A condition over all nodes. `holds` are the nodes for which it is true, `stale` those whose value is too old.

    Nodes that are in neither and have a value in `table`: it is false; nodes without one: not known. What is not known
    is forgotten: windows of time begin anew with the next fresh value.
    """

    __slots__ = ("_begins", "_ends", "condition", "holds", "next_at", "stale", "table")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.table = EMPTY
        self.holds: frozenset[str] = frozenset()
        self.stale: frozenset[str] = frozenset()
        self.next_at = NEVER
        self._begins: dict[str, float] = {}
        self._ends: dict[str, float] = {}

    def look(self, table: Table, now: float) -> None:
        """Take the newest samples into account, and the time."""
        condition = self.condition
        self.table = table
        self.stale, self.next_at = table.stale(condition.max_age_s, now)
        met = matching(table, condition, condition.target) - self.stale
        if condition.remembers:
            self._remember(met, now)
        else:
            self.holds = frozenset(met)

    def since(self, node: str) -> float | None:
        """Since when a change is under way that has not lasted long enough yet."""
        return self._begins.get(node, self._ends.get(node))

    def _remember(self, met: set[str], now: float) -> None:
        condition, table = self.condition, self.table
        stays = met if condition.release is None else matching(table, condition, condition.release) - self.stale
        held = {name for name in self.holds if name in table.ats and name not in self.stale}
        ats = table.ats
        begins = {name: self._begins.get(name, ats[name]) for name in met - held}
        ends = {name: self._ends.get(name, ats[name]) for name in held - stays}
        begun = {name for name, at in begins.items() if due_at(at, condition.for_s) <= now}
        ended = {name for name, at in ends.items() if due_at(at, condition.release_for_s) <= now}
        self.holds = frozenset((held | begun) - ended)
        self._begins = {name: at for name, at in begins.items() if name not in begun}
        self._ends = {name: at for name, at in ends.items() if name not in ended}
        waits = [due_at(min(self._begins.values()), condition.for_s)] if self._begins else []
        waits += [due_at(min(self._ends.values()), condition.release_for_s)] if self._ends else []
        self.next_at = min(self.next_at, *waits) if waits else self.next_at


def reduction_of(condition: Condition) -> Reduction | None:
    """Which of a node's parts decides; None: no single one does."""
    operator, aggregate = condition.operator, condition.aggregate
    if aggregate in ("", "max", "min"):
        return aggregate
    if operator in RISING:
        return "max" if aggregate == "any" else "min"
    if operator in FALLING:
        return "min" if aggregate == "any" else "max"
    return None


def matching(table: Table, condition: Condition, target: Nano) -> set[str]:
    """The nodes whose values, however old, satisfy the operator against a target."""
    reduction = reduction_of(condition)
    if reduction is not None:
        return compared(table.values(reduction), condition.operator, target)
    parts = table.all_parts()
    if (condition.operator == "Equals") == (condition.aggregate == "any"):
        equal = {name for name, values in parts.items() if target in values}  # some part is equal
    else:
        equal = {name for name, values in parts.items() if values.count(target) == len(values)}  # all parts are
    return equal if condition.operator == "Equals" else set(parts) - equal


def compared(values: Mapping[str, Nano], operator: Operator, target: Nano) -> set[str]:
    """The nodes whose values satisfy an operator. Spelled out: this is what a poll of all nodes costs."""
    items = values.items()
    if operator == "GreaterThan":
        return {name for name, value in items if value > target}
    if operator == "LessThan":
        return {name for name, value in items if value < target}
    if operator == "GreaterThanOrEqual":
        return {name for name, value in items if value >= target}
    if operator == "LessThanOrEqual":
        return {name for name, value in items if value <= target}
    if operator == "Equals":
        return {name for name, value in items if value == target}
    return {name for name, value in items if value != target}

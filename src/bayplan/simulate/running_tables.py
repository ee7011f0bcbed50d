"""Pods that run, from a table.

Columns: `node,pod`, and what may be left out: `cpu_milli` 0, `memory_mib` 0, `cards` (numbers with '|' between them)
none, `milli` (of each card) 1000, `models` ('|' between them) any, `movable` true, `cost` worked out from prices.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.errors import InputError
from bayplan.fleet.cards.model import WHOLE, CardRequest
from bayplan.fleet.cards.repack.model import COST_UNIT
from bayplan.fleet.cards.repack.running import Prices, Told, parse_cards
from bayplan.simulate.node_tables import MIB, checked_name
from bayplan.simulate.rows import in_row, positions, read_table, seconds, whole

REQUIRED = ("node", "pod")
OPTIONAL = ("cpu_milli", "memory_mib", "cards", "milli", "models", "movable", "cost")
MOST_COST = 1e9
_YES, _NO = ("", "true", "yes", "1"), ("false", "no", "0")


def read_running(lines: Iterable[str], prices: Prices) -> tuple[Told, ...]:
    """The pods of a table, in its order. Raises `InputError` with row and column."""
    table = read_table(lines)
    at = positions(table.columns, REQUIRED, OPTIONAL, strict=True)
    told = []
    for number, row in table.rows:
        row.append("")  # what a column that is absent, at -1, has
        try:
            told.append(_pod([row[i].strip() for i in at], prices))
        except InputError as error:
            raise in_row(error, number) from error
    if not told:
        raise InputError("no pods", expected="a row for each pod")
    return tuple(told)


def _pod(cells: list[str], prices: Prices) -> Told:
    node, pod, cpu, memory, card_text, milli, models, movable, cost = cells
    cards = parse_cards(card_text, "column cards") if card_text else ()
    if movable.lower() not in _YES + _NO:
        raise InputError("neither true nor false", place="column movable", value=movable)
    request = CardRequest(
        cpu_milli=whole(cpu, "cpu_milli", 0),
        memory_bytes=whole(memory, "memory_mib", 0) * MIB,
        cards=len(cards),
        milli=whole(milli, "milli", WHOLE if cards else 0),
        models=tuple(sorted({name.strip() for name in models.split("|") if name.strip()})),
    )
    price = seconds(cost, "cost", -1.0)
    if cost and not 0 <= price <= MOST_COST:
        raise InputError("out of range", place="column cost", value=cost, expected=f"0 to {MOST_COST:g}")
    return Told(
        name=checked_name(pod, "pod"),
        request=request,
        node=checked_name(node, "node"),
        cards=cards,
        fixed="" if movable.lower() in _YES else "the table says that it is not movable",
        cost=round(COST_UNIT * price) if cost else prices.cost(request),
    )

"""Simulations as a picture: allocation, fragmentation and power against load, policies as lines (the extra `charts`).

The line is the mean over the seeds, the band around it the least and the most. The same runs give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bayplan.errors import InputError
from bayplan.report.plain import plain
from bayplan.simulate.result import RunResult
from bayplan.simulate.summary import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = (
    ("allocation_percent", "allocated, % of all cards"),
    ("fragmentation_percent", "fragmented, % of all cards"),
    ("power_kw", "power, kW"),
)
# Okabe and Ito's colours, which people who see colours differently can tell apart.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "bayplan",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#e0e0e0",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": False,
}
_INCHES = (12.0, 3.8)
_FULL = 100
_BEFORE_FULL = 75
"""Up to here, policies differ little in what they allocate: nearly all that comes finds a place."""


def check() -> None:
    """Raises `InputError` where no picture can be drawn here."""
    if find_spec("matplotlib") is None:
        raise InputError("a picture needs matplotlib", expected="pip install 'bayplan[charts]', or -o table")


def as_svg(runs: Sequence[RunResult]) -> str:
    """The picture. Raises `InputError` where matplotlib is not installed."""
    check()
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    picture = io.StringIO()
    with mpl.rc_context(rc={**mpl.rcParamsDefault, **_SETTINGS}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(1, len(_PANELS))
        for axes, (field, label) in zip(panels, _PANELS, strict=True):
            _panel(axes, runs, field, label)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
        figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    return picture.getvalue()


def _panel(axes: Axes, runs: Sequence[RunResult], field: str, label: str) -> None:
    first = _first_load(runs, field)
    for i, (policy, mean) in enumerate(summary(runs).mean.items()):
        values: dict[str, float] = getattr(mean, field)
        loads = [load for load in values if int(load) >= first]
        at = [int(load) for load in loads]
        colour, style = _COLOURS[i % len(_COLOURS)], _STYLES[i // len(_COLOURS) % len(_STYLES)]
        shown = plain(policy).replace("$", r"\$")
        axes.plot(at, [values[load] for load in loads], style, color=colour, linewidth=1.4, label=shown)
        if len(mean.seeds) > 1:
            own = [getattr(run, field) for run in runs if run.policy == policy]
            least = [min(each[load] for each in own if load in each) for load in loads]
            most = [max(each[load] for each in own if load in each) for load in loads]
            axes.fill_between(at, least, most, color=colour, alpha=0.2, linewidth=0)
    if field == _PANELS[0][0]:
        _bounds(axes, runs, first)
    axes.set_xlabel("load: what has come, % of all cards")
    axes.set_ylabel(label)


def _bounds(axes: Axes, runs: Sequence[RunResult], first: int) -> None:
    """What no policy can pass, as dots."""
    found = next(iter(summary(runs).mean.values())).bound_percent or {}
    shown = {int(load): percent for load, percent in found.items() if int(load) >= first}
    if shown:
        axes.plot(list(shown), list(shown.values()), "o", color="#000000", markersize=3, label="no policy above")


def _first_load(runs: Sequence[RunResult], field: str) -> int:
    """From which load on a curve tells something: where the load passes all cards, allocation only near them."""
    highest = max((int(load) for run in runs for load in run.allocation_percent), default=0)
    return _BEFORE_FULL if field == _PANELS[0][0] and highest > _FULL else 0

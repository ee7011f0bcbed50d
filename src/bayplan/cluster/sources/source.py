"""What a source of values is, for whoever polls it: asked for one metric, it answers for all nodes, or says why not."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bayplan.cluster.sources.nodes import ClusterNodes
from bayplan.errors import BayplanError
from bayplan.fleet.telemetry.model import MetricKey, NodeSamples


class SourceError(BayplanError):
    """No values. `is_down`: the source as a whole does not work, and other metrics of it would fare no better."""

    def __init__(self, why: str, *, is_down: bool = False) -> None:
        self.why = why
        self.is_down = is_down
        super().__init__(why)


class LateError(SourceError):
    """No answer in time; whether the metric or the source is to blame is not known."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What of an answer did not become a sample, in numbers of series, and what was strange about it.

    foreign:     of no node that is known.
    valueless:   without a finite number (NaN, infinite, a histogram), or beyond 63 bits.
    undated:     whose time could not be found.
    partless:    without the label that tells the parts of a node apart.
    unreadable:  malformed (custom metrics).
    duplicates:  more than one of a node (or of a part of it); they were taken together, none was left out.
    examples:    a few of them in words; warnings: what the server said.
    """

    foreign: int = 0
    valueless: int = 0
    undated: int = 0
    partless: int = 0
    unreadable: int = 0
    duplicates: int = 0
    examples: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Which of the numbers are not zero: when this changes, somebody should be told."""
        counts = (self.foreign, self.valueless, self.undated, self.partless, self.unreadable, self.duplicates)
        return (*(count > 0 for count in counts), bool(self.warnings))

    def __str__(self) -> str:
        """`3 series of no known node (instance=10.0.0.9:9100); 1 without a value`; empty where nothing is."""
        words = (
            (self.foreign, "of no known node"),
            (self.valueless, "without a finite value"),
            (self.undated, "without a time"),
            (self.partless, "without the label of a part"),
            (self.unreadable, "unreadable"),
            (self.duplicates, "more than one per node"),
        )
        told = [f"{count} series {what}" for count, what in words if count]
        return "; ".join((*told, *self.examples, *self.warnings))


NOTHING_LEFT_OUT = LeftOut()


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """The samples of one poll of one metric."""

    samples: NodeSamples
    left_out: LeftOut = NOTHING_LEFT_OUT


class Source(Protocol):
    """Where values come from."""

    @property
    def name(self) -> str:
        """What it is called in settings, messages and metrics."""
        ...

    def serves(self, metric: MetricKey) -> bool:
        """Whether it could have such a metric at all."""
        ...

    async def poll(self, metric: MetricKey, nodes: ClusterNodes) -> Polled:
        """The newest values of all nodes. Raises `SourceError` or `InputError`; may be cancelled at any time."""
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...

"""What is told of metrics and nodes on request: ages, and a policy's rules at one node with all numbers."""

from __future__ import annotations

import msgspec

from bayplan.fleet.telemetry.model import MetricKey, PolicyKey
from bayplan.fleet.telemetry.reasons import RuleState


class MetricAge(msgspec.Struct, frozen=True, kw_only=True):
    """How fresh a metric is: ages in seconds of its oldest and newest value and of its last good poll (None: none).

    `failing`: why the newest poll brought nothing; empty: it did.
    """

    metric: MetricKey
    nodes: int
    oldest_s: float | None = None
    newest_s: float | None = None
    polled_s: float | None = None
    failing: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says of one node, rule by rule.

    `refused` None: it may be used. `score` None: the policy orders no nodes; `millionths` is the score before rounding,
    `place` counts from 1 among the nodes with values.
    """

    policy: PolicyKey
    refused: str | None
    rules: tuple[RuleState, ...] = ()
    score: int | None = None
    millionths: int | None = None
    place: int | None = None

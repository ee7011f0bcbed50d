"""Which nodes cannot be asked, and whether that refuses them: they tell nothing, or too long ago, or are not kept up.

Every doubt is a reason in words; what is to be done about it is configured.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from bayplan.fleet.published.books import NodeBooks

Doubt = Literal["skip", "refuse"]


class ZoneSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What to do with a node that does not tell, told too long ago, or whose numbers nobody keeps up.

    `missing` and `stale`: skip the check, or refuse the node. `stale_after_s` is for documents with a heartbeat.
    `unowned`: a NodeResourceTopology that was written by hand; its numbers never fall, so it is refused by default.
    """

    missing: Doubt = "skip"
    stale: Doubt = "skip"
    stale_after_s: float = 120.0
    unowned: Doubt = "refuse"


class Doubtful(NamedTuple):
    """Why a node's hub cannot be asked, and whether that refuses it."""

    reason: str
    refused: bool


def doubt_about(books: NodeBooks | None, settings: ZoneSettings, now: float) -> Doubtful | None:
    """What speaks against asking a node; None: nothing."""
    source = None if books is None else books.source
    if source is None:
        reason = books.problem if books is not None and books.problem else "the node does not tell its zones"
        return Doubtful(reason, settings.missing == "refuse")
    if source.heartbeat is not None and now - source.heartbeat > settings.stale_after_s:
        age = f"{now - source.heartbeat:.0f} s"
        reason = f"what the node told is {age} old (more than {settings.stale_after_s:g} s)"
        return Doubtful(reason, settings.stale == "refuse")
    if source.heartbeat is None and source.by_pod:
        return Doubtful("the node's layout has no heartbeat", settings.stale == "refuse")
    if source.topology is not None and source.topology.by_hand:
        who = source.topology.by_hand
        reason = f"nobody keeps up this NodeResourceTopology (written with {who}); its numbers do not fall"
        return Doubtful(reason, settings.unowned == "refuse")
    return None

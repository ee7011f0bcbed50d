"""What a role has to allow: one verb on one resource, and what it is for.

Each program lists all the calls that it makes in this form (`access.py`); the manifests in `deploy/` are held against
the lists, so that a role never allows less than is used nor more.
"""

from __future__ import annotations

import msgspec


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """A verb on a resource, and what it is for. `own_namespace`: only where the program runs."""

    group: str
    resource: str
    verb: str
    why: str
    own_namespace: bool = False


def rights(group: str, resource: str, verbs: str, why: str, *, own_namespace: bool = False) -> list[Right]:
    """Several verbs on one resource, for one purpose."""
    return [
        Right(group=group, resource=resource, verb=verb, why=why, own_namespace=own_namespace) for verb in verbs.split()
    ]

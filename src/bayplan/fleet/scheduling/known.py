"""The newest event about each thing: what a recording that begins now has to begin with."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.fleet.scheduling.events import (
    Assumed,
    Event,
    Measured,
    NodeChanged,
    NodeGone,
    NotMeasured,
    ObjectChanged,
    ObjectGone,
    PodChanged,
    PodGone,
    Unassumed,
)

Key = tuple[str, ...]
# Policies first: what is measured is of no use to a check that knows of no policy that needs it.
_ORDER = ("object", "node", "pod", "assumed", "measured", "not-measured")


class Known:
    """Told of every event with its time; gives those that still matter, which make up the same state."""

    def __init__(self) -> None:
        self._events: dict[str, dict[Key, tuple[float, Event]]] = {kind: {} for kind in _ORDER}

    def apply(self, event: Event, now: float) -> None:
        """Something happened."""
        match event:
            case NodeChanged():
                self._events["node"][(event.node.name,)] = now, event
            case NodeGone():
                self._events["node"].pop((event.name,), None)
            case PodChanged():
                uid = event.pod.metadata.uid or ""
                self._events["pod"][(uid,)] = now, event
                if event.pod.spec.node_name:
                    self._events["assumed"].pop((uid,), None)
            case PodGone():
                self._events["pod"].pop((event.uid,), None)
                self._events["assumed"].pop((event.uid,), None)
            case ObjectChanged():
                self._events["object"][_object_key(event)] = now, event
            case ObjectGone():
                self._events["object"].pop((event.kind, event.namespace, event.name), None)
            case Measured():
                key = (event.metric.name, event.metric.promql, event.metric.part)
                self._events["measured"][key] = now, event
                self._events["not-measured"].pop(key, None)
            case NotMeasured():
                self._events["not-measured"][event.metric.name, event.metric.promql, event.metric.part] = now, event
            case Assumed():
                self._events["assumed"][(event.pod.metadata.uid or "",)] = now, event
            case Unassumed():
                self._events["assumed"].pop((event.uid,), None)

    def __iter__(self) -> Iterator[tuple[float, Event]]:
        """Events and their times, in an order in which they can be put in again."""
        for kind in _ORDER:
            yield from self._events[kind].values()


def _object_key(event: ObjectChanged) -> Key:
    group = str(event.object.get("apiVersion", "")).partition("/")[0]
    metadata = event.object.get("metadata") or {}
    return f"{event.object.get('kind', '')}.{group}", metadata.get("namespace") or "", metadata.get("name") or ""

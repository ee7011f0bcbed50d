"""The full Node objects of a request, as slices of its body: named, and echoed, without building one of them.

A scheduler that is not `nodeCacheCapable` sends every node whole, 7 KB each, and wants those that pass back, whole.
Only their names are ever read. Five thousand nodes are 37 MB: a copy of them costs more than deciding.

Of a node with two `metadata`, or two names in one, the first counts if the node begins as kube-scheduler begins one,
else the last. The scheduler never writes such; who sends one is answered with the bytes that it sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from bayplan.errors import InputError
from bayplan.protocols.extender.bounds import Body, check_count, check_name

# How kube-scheduler begins a Node: Go writes the fields in the order of the struct, `metadata` first, its `name` first
# (before them `kind` and `apiVersion`, if they are set). A name has no character that JSON would escape.
_BEGINNING = re.compile(rb'\{(?:"kind":"Node",)?(?:"apiVersion":"v1",)?"metadata":\{"name":"([-a-z0-9.]{1,253})"[,}]')


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


_named = msgspec.json.Decoder(_Named).decode


class NodeList:
    """The nodes of one request in their order. Holds the body: use it before the body's memory is used again.

    `items` are msgspec's raw values out of `body`. Raises `InputError` for one without a name.
    """

    def __init__(self, body: Body, items: Sequence[msgspec.Raw]) -> None:
        check_count(len(items), "Nodes.items")
        self._body = memoryview(body)
        self._items = items
        self._starts = _starts(self._body, items)
        self.names: list[str] = self._read_names()

    def __len__(self) -> int:
        """How many nodes."""
        return len(self._items)

    def echo(self, passes: Callable[[str], bool]) -> list[Body]:
        """The JSON array of the nodes whose name passes, in pieces; nodes side by side in the body are one piece."""
        chosen = [passes(name) for name in self.names]
        if self._starts is None:
            own = [memoryview(item) for item, chose in zip(self._items, chosen, strict=True) if chose]
            return [b"[", *_with_commas(own), b"]"]
        return [b"[", *_with_commas(self._runs(self._starts, chosen)), b"]"]

    def _runs(self, starts: list[int], chosen: list[bool]) -> list[memoryview]:
        """Slices of the body, each with the commas inside it."""
        runs, first = [], -1
        for i, chose in enumerate(chosen):
            if chose and first < 0:
                first = i
            elif not chose and first >= 0:
                runs.append(self._body[starts[first] : starts[i] - 1])
                first = -1
        if first >= 0:
            runs.append(self._body[starts[first] : starts[-1] - 1])
        return runs

    def _read_names(self) -> list[str]:
        if self._starts is None:
            return [_name(item, i) for i, item in enumerate(self._items)]
        match, body, names = _BEGINNING.match, self._body, []
        for i, start in enumerate(self._starts[:-1]):
            found = match(body, start)
            names.append(found[1].decode() if found else _name(self._items[i], i))
        return names


def _starts(body: memoryview, items: Sequence[msgspec.Raw]) -> list[int] | None:
    """Where each item begins in the body, and where one after the last would; None: more than commas between them.

    Every two items have at least a comma between them. If first and last are as far apart as their lengths and one
    byte each between them make, there is exactly that.
    """
    if not items:
        return [0]
    start = _address(items[0]) - _address(body)
    starts = [start]
    for item in items:
        start += len(memoryview(item)) + 1
        starts.append(start)
    lie_close = starts[-2] == _address(items[-1]) - _address(body)
    return starts if lie_close and starts[0] > 0 and starts[-1] <= len(body) else None


def _address(data: msgspec.Raw | memoryview) -> int:
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def _name(item: msgspec.Raw, position: int) -> str:
    """A node's name, however it is written."""
    place = f"Nodes.items[{position}]"
    try:
        name = _named(item).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a Node with a name: {error}", place=place) from error
    check_name(name, f"{place}.metadata.name")
    return name


def _with_commas(pieces: list[memoryview]) -> list[Body]:
    spaced: list[Body] = []
    for piece in pieces:
        spaced += (piece, b",")
    return spaced[:-1]

"""Builds plain values from YAML, safely and fast.

libyaml's events are folded here without recursion, so that neither deep nesting nor repeated aliases can hurt: depth,
and nodes gained through aliases, are bounded. PyYAML's own constructors are not used: they build Python objects from
tags, take the last of two equal keys in silence, and recurse. Scalars: see `yaml_scalars`.

Values that an alias repeats are shared, not copied: readers must not change what they are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from bayplan.errors import InputError
from bayplan.workload.yaml_scalars import key_text, resolve, resolve_tagged

MAX_DEPTH = 200
MAX_ALIASED_NODES = 1_000_000
MAX_DOCUMENTS = 1_000_000
MAX_PROBLEM_TEXT = 200
_PLAIN_CONTAINERS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MERGE = "<<"


class _Anchored(NamedTuple):
    """What an alias stands for. `nodes` is its size when written out."""

    value: Any
    nodes: int


class _Frame:
    """A mapping or sequence that is being filled."""

    __slots__ = ("anchor", "explicit", "key", "merges", "nodes_before", "value", "waits_for_key")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, nodes_before: int) -> None:
        self.value = value
        self.anchor = anchor
        self.nodes_before = nodes_before
        self.waits_for_key = isinstance(value, dict)
        self.key = ""
        self.merges: list[Any] | None = None


class _MergeKey(str):
    """The key `<<` written plain, which is an instruction; `"<<"` in quotes is an ordinary key."""

    __slots__ = ()


_MERGE_KEY = _MergeKey(_MERGE)


def load_all(text: str) -> Iterator[Any]:
    """The documents of a YAML stream, in order, empty ones as None.

    Raises `InputError` whose `place` is `line L, column C`.
    """
    try:
        # Without libyaml PyYAML reads as it does with it, only slowly; and its constructor already looks at the text.
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        yield from _documents(loader.get_event)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(
            "a character that YAML does not allow",
            place=f"line {line}",
            value=chr(error.character) if isinstance(error.character, int) else error.character,
        ) from error


def _documents(get_event: Any) -> Iterator[Any]:
    scalars: dict[str, Any] = {"": None, _MERGE: _MERGE_KEY}
    count = 0
    while True:
        event = get_event()
        if isinstance(event, yaml.StreamEndEvent):
            return
        if not isinstance(event, yaml.DocumentStartEvent):
            continue
        count += 1
        if count > MAX_DOCUMENTS:
            raise InputError("too many documents", place=_mark(event.start_mark), expected=f"at most {MAX_DOCUMENTS}")
        yield _Builder(get_event, scalars).build()


class _Builder:
    """Folds the events of one document into its value. `scalars` remembers what plain scalars mean."""

    def __init__(self, get_event: Any, scalars: dict[str, Any]) -> None:
        self._get_event = get_event
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._scalars = scalars
        self._nodes = 0
        self._aliased = 0
        self._root: Any = None

    def build(self) -> Any:
        """Read events up to the end of the document and return its value."""
        while True:
            event = self._get_event()
            kind = type(event)
            try:
                if kind is yaml.ScalarEvent:
                    self._scalar(event)
                elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                    self._end()
                elif kind is yaml.MappingStartEvent:
                    self._start(event, {})
                elif kind is yaml.SequenceStartEvent:
                    self._start(event, [])
                elif kind is yaml.AliasEvent:
                    self._alias(event.anchor)
                elif kind is yaml.DocumentEndEvent:
                    return self._root
            except InputError as error:
                raise error.within(place=_mark(event.start_mark)) from error

    def _scalar(self, event: Any) -> None:
        self._nodes += 1
        text = event.value
        if event.tag is not None:
            value = resolve_tagged(text, event.tag)
        elif not event.implicit[0]:
            value = text
        else:
            try:
                value = self._scalars[text]
            except KeyError:
                value = self._scalars[text] = resolve(text)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1)
        self._put(value)

    def _start(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        if event.tag not in _PLAIN_CONTAINERS:
            raise InputError("unknown YAML tag", value=event.tag, expected="plain values, without tags")
        if len(self._frames) >= MAX_DEPTH:
            raise InputError("nested too deeply", expected=f"at most {MAX_DEPTH} levels")
        if self._frames and self._frames[-1].waits_for_key:
            raise InputError("a mapping key must be text or a number")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._frames.append(_Frame(value, event.anchor, self._nodes))
        self._nodes += 1

    def _end(self) -> None:
        frame = self._frames.pop()
        if frame.merges:
            assert isinstance(frame.value, dict)
            _merge(frame.value, frame.merges)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = _Anchored(frame.value, self._nodes - frame.nodes_before)
        self._put(frame.value)

    def _alias(self, name: str) -> None:
        if name not in self._anchors:
            raise InputError("alias to an anchor that is not there", value=name)
        target = self._anchors[name]
        if target is None:
            raise InputError("an anchor that contains itself", value=name)
        self._nodes += target.nodes
        self._aliased += target.nodes
        if self._aliased > MAX_ALIASED_NODES:
            raise InputError("aliases expand to too much", expected=f"at most {MAX_ALIASED_NODES} repeated nodes")
        self._put(target.value)

    def _put(self, value: Any) -> None:
        """Give a finished value to the container that waits for it."""
        if not self._frames:
            self._root = str(value) if type(value) is _MergeKey else value
            return
        frame = self._frames[-1]
        into = frame.value
        if frame.waits_for_key:
            self._put_key(frame, value)
            return
        if type(value) is _MergeKey:
            value = _MERGE
        if isinstance(into, list):
            into.append(value)
            return
        frame.waits_for_key = True
        if frame.key is _MERGE_KEY:
            frame.merges = [*(frame.merges or ()), *(value if isinstance(value, list) else [value])]
        else:
            into[frame.key] = value

    def _put_key(self, frame: _Frame, value: Any) -> None:
        key = value if type(value) is str or value is _MERGE_KEY else key_text(value)
        if key in frame.value and key is not _MERGE_KEY:
            raise InputError("key given twice", value=key)
        frame.key = key
        frame.waits_for_key = False


def _merge(into: dict[str, Any], merges: list[Any]) -> None:
    """`<<`: keys of the merged mappings that are not written out; of several mappings the first wins."""
    for source in merges:
        if not isinstance(source, dict):
            raise InputError("<< needs a mapping or a list of mappings", value=type(source).__name__)
        for key, value in source.items():
            into.setdefault(key, value)


def _mark(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""


def _syntax_error(error: yaml.MarkedYAMLError) -> InputError:
    said = ", ".join(part for part in (error.context, error.problem) if part) or "cannot be parsed"
    return InputError(
        f"not YAML: {said[:MAX_PROBLEM_TEXT]}",
        place=_mark(error.problem_mark or error.context_mark),
    )

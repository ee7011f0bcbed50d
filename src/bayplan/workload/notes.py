"""What a reader noticed that is no error: skipped kinds, misspelt fields, wishes that are not considered.

The same thing in many documents is one note with a count, so that ten thousand pods do not make ten thousand notes.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable

import msgspec

MAX_NOTES = 500
_LONGEST_TYPO = 64
_LONGEST_MESSAGE = 300


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One thing noticed. `name` is stable (`kind-skipped`), `place` is that of the first of `count` occurrences."""

    name: str
    message: str
    place: str = ""
    count: int = 1

    def __str__(self) -> str:
        """`place: message (and N more like it)`."""
        more = f" (and {self.count - 1} more like it)" if self.count > 1 else ""
        return f"{self.place}: {self.message}{more}" if self.place else f"{self.message}{more}"


class Notes:
    """Gathers notes while something is read. `place` is where the reader is now; new notes get it."""

    def __init__(self) -> None:
        self.place = ""
        self._notes: dict[Hashable, tuple[str, str, str]] = {}
        self._counts: dict[Hashable, int] = {}
        self._left_out = 0

    def add(self, name: str, message: str) -> None:
        """Note something; the same name and message again only counts. What it quotes may be anything: it is cut."""
        message = printable(message, _LONGEST_MESSAGE)
        key = (name, message)
        if key in self._counts:
            self._counts[key] += 1
        elif len(self._counts) < MAX_NOTES:
            self._counts[key] = 1
            self._notes[key] = (name, message, self.place)
        else:
            self._left_out += 1

    def unknown_fields(self, given: Iterable[str], known: frozenset[str], level: str) -> None:
        """Note the given fields that are not known; `level` says in what (`container`)."""
        for field in given:
            if field in known:
                continue
            if len(self._counts) >= MAX_NOTES:
                self._left_out += 1
                continue
            self.add("unknown-field", f"unknown field {printable(field)} in {level} is ignored{nearest(field, known)}")

    def all(self) -> tuple[Note, ...]:
        """The notes in the order of their first occurrence."""
        notes = [
            Note(name=name, message=message, place=place, count=self._counts[key])
            for key, (name, message, place) in self._notes.items()
        ]
        if self._left_out:
            notes.append(Note(name="notes-left-out", message=f"{self._left_out} more notes are left out"))
        return tuple(notes)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean replicas?`, or nothing where no known name is near."""
    if len(name) > _LONGEST_TYPO:
        return ""
    folded = {word.lower(): word for word in sorted(known)}
    found = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.75)
    return f"; did you mean {folded[found[0]]}?" if found else ""


def printable(text: str, longest: int = _LONGEST_TYPO) -> str:
    """Text that others wrote, cut to a length, with `?` for what cannot be shown."""
    cut = text if len(text) <= longest else f"{text[:longest]}..."
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)

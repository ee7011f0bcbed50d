"""Text that others wrote, made safe to show.

Names and messages come from manifests and machines, which may be hostile: control characters, terminal escapes, marks
that turn the direction of writing, names of ten thousand letters. Every picture passes them through `plain` before
anything else; only then are they escaped for XML or set in a terminal. What is taken out is shown as a backslash
form, so that two names that differ keep differing. Never used on text of the project's own.

Which characters count as printable is Unicode's general category (Python's `str.isprintable`); widths follow UAX #11,
directions UAX #9.
"""

from __future__ import annotations

import unicodedata

# A Kubernetes name has at most 253 characters; a kubelet's message with a long device list stays below this.
NAME_LIMIT = 253
MESSAGE_LIMIT = 2000

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def plain(text: str, limit: int = NAME_LIMIT, *, unicode: bool = True) -> str:
    """`text` in one line of printable, left-to-right characters, at most `limit` columns.

    Longer text loses its middle, since the ends are what tells names apart. `unicode=False`: ASCII only.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    short = text if len(text) <= limit * 2 else text[: limit + limit // 2] + text[-(limit // 2) :]
    safe = "".join(c if _harmless(c, unicode) else _spelled(c) for c in short)
    return cut(safe, limit, unicode=unicode) if len(text) <= limit * 2 else _without_middle(safe, limit, unicode)


def cut(text: str, limit: int, *, unicode: bool = True) -> str:
    """Safe text within `limit` columns; an ellipsis takes the place of its middle where it is longer."""
    return text if columns(text) <= limit else _without_middle(text, limit, unicode)


def columns(text: str) -> int:
    """Terminal columns that safe text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _without_middle(text: str, limit: int, unicode: bool) -> str:
    dots = "…" if unicode else ".."
    room = limit - len(dots)
    if room < 2:
        return _head(text, limit)
    tail = _head(text[::-1], room // 3)[::-1]
    return _head(text, room - columns(tail)) + dots + tail


def _head(text: str, limit: int) -> str:
    if text.isascii():
        return text[: max(limit, 0)]
    end, used = 0, 0
    for c in text:
        used += columns(c)
        if used > limit:
            break
        end += 1
    return text[:end]


def _harmless(c: str, unicode: bool) -> bool:
    if c.isascii():
        return c.isprintable()
    if not unicode or not c.isprintable():
        return False
    # A combining mark draws over its neighbours, letters of a right-to-left script turn what stands beside them.
    return unicodedata.category(c)[0] != "M" and unicodedata.bidirectional(c) not in _RIGHT_TO_LEFT


def _spelled(c: str) -> str:
    code = ord(c)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

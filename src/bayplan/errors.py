"""What can be wrong with an input, as types that carry the facts.

Every reader raises `InputError` (or a subclass) and nothing else for bad input: the place, the value and what was
expected are fields, the text is made from them. The command line turns one into one message and exit status 2.
"""

from __future__ import annotations

MAX_SHOWN_VALUE = 80


class BayplanError(Exception):
    """Anything Bayplan raises on purpose."""


class InputError(BayplanError):
    """An input that cannot be used.

    `source` names the file (or `-`, or `preset:x`), `place` the document and field in it
    (`document 2, spec.containers[0].resources.limits.cpu`), `problem` what is wrong with it, `expected` what would
    have been right. `value` is shown shortened; pass `...` (the default) where there is none to show.
    """

    def __init__(
        self, problem: str, *, source: str = "", place: str = "", value: object = ..., expected: str = ""
    ) -> None:
        self.problem = problem
        self.source = source
        self.place = place
        self.value = value
        self.expected = expected
        super().__init__(problem)

    def __str__(self) -> str:
        """`source: place: problem: value (expected ...)`, leaving out what is not known; one line, and printable."""
        head = ": ".join(part for part in (self.source, self.place, self.problem) if part)
        shown = "" if self.value is ... else f": {shorten(self.value)}"
        tail = f" (expected {self.expected})" if self.expected else ""
        return _escaped(f"{head}{shown}{tail}")

    def within(self, *, source: str = "", place: str = "") -> InputError:
        """The same error seen from outside: `place` goes before the place it has, `source` fills an empty one."""
        joined = f"{place}{'' if self.place.startswith('[') or not self.place or not place else '.'}{self.place}"
        return self._moved(self.source or source, joined)

    def in_document(self, *, source: str, document: str) -> InputError:
        """The same error seen from outside a document of `source`: `document 2 (Pod default/web): spec: problem`."""
        return self._moved(source, f"{document}: {self.place}" if self.place else document)

    def _moved(self, source: str, place: str) -> InputError:
        error = type(self)(self.problem, source=source, place=place, value=self.value, expected=self.expected)
        error.__cause__ = self.__cause__
        return error


def shorten(value: object) -> str:
    """`repr` of a value, one line, cut to a length that fits in a message."""
    try:
        text = repr(value)
    except ValueError:  # an int of more than 4300 digits refuses to be printed
        text = f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    text = _escaped(text)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[: MAX_SHOWN_VALUE - 3]}..."


def _escaped(text: str) -> str:
    """No line ends and no terminal escapes: names of fields and files come from the input too."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)

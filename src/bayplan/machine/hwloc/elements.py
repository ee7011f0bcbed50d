"""XML text to a plain tree of elements, within bounds.

hwloc writes a DOCTYPE that names its DTD; that is let through and never fetched. Entity declarations are refused
(defusedxml), and so are trees that are too large or too deep, while they are read and not afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from bayplan.errors import InputError

MAX_BYTES = 64 * 2**20
MAX_ELEMENTS = 500_000
MAX_DEPTH = 128


class Element:
    """An element with its attributes, children, text (of its own) and line in the file."""

    __slots__ = ("attributes", "children", "line", "tag", "texts")

    def __init__(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element] = []
        self.texts: list[str] = []
        self.line = line

    @property
    def text(self) -> str:
        """The text directly in this element."""
        return "".join(self.texts)

    def named(self, tag: str) -> Iterator[Element]:
        """The children with this tag."""
        return (child for child in self.children if child.tag == tag)

    def bad(self, problem: str, value: object = ..., expected: str = "") -> NoReturn:
        """Raise an `InputError` that names the line."""
        raise InputError(problem, place=f"line {self.line}, {self.tag}", value=value, expected=expected)

    def number(self, name: str, default: int | None, smallest: int = 0, largest: int = 2**63 - 1) -> int:
        """An attribute as a whole number; `default` where it is missing (None: it must be there)."""
        text = self.attributes.get(name)
        if text is None:
            if default is None:
                self.bad(f"no {name}", expected="a whole number")
            return default
        digits = text.strip().removeprefix("-")
        value = int(text) if len(digits) <= 20 and digits.isascii() and digits.isdigit() else None
        if value is None or not smallest <= value <= largest:
            self.bad(f"{name} is wrong", value=text, expected=f"a whole number {smallest}..{largest}")
        return value


class _Builder:
    """What the parser calls; keeps the bounds."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self.expat: Any = None
        self._open: list[Element] = []
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._count += 1
        element = Element(tag, attributes, self.expat.CurrentLineNumber)
        if self._count > MAX_ELEMENTS:
            element.bad("too many elements", expected=f"at most {MAX_ELEMENTS}")
        if len(self._open) >= MAX_DEPTH:
            element.bad("nested too deep", expected=f"at most {MAX_DEPTH} levels")
        if self._open:
            self._open[-1].children.append(element)
        elif self.root is None:
            self.root = element
        self._open.append(element)

    def end(self, tag: str) -> None:
        """An element ends; the parser has checked that it is the open one."""
        self._open.pop()

    def data(self, text: str) -> None:
        """Text in the open element."""
        if self._open:
            self._open[-1].texts.append(text)


def parse(text: str | bytes) -> Element:
    """The root element. Raises `InputError` for anything that is not small, plain, well-formed XML."""
    if len(text) > MAX_BYTES:
        raise InputError("too large", value=len(text), expected=f"at most {MAX_BYTES} bytes")
    builder = _Builder()
    parser = DefusedXMLParser(target=builder, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    builder.expat = parser.parser
    try:
        parser.feed(text)
        parser.close()
    except ParseError as error:
        raise InputError("not XML", place=f"line {error.position[0]}", value=str(error)) from error
    except DefusedXmlException as error:
        place = f"line {builder.expat.CurrentLineNumber}"
        raise InputError("XML with entities of its own", place=place, expected="none") from error
    except (ValueError, LookupError) as error:  # unknown encodings, lone surrogates
        raise InputError("not XML", value=str(error)) from error
    if builder.root is None:
        raise InputError("not XML", expected="an hwloc topology")
    return builder.root

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.report.plain import columns, cut, plain


@given(st.text(), st.integers(min_value=4, max_value=300), st.booleans())
def test_any_text_becomes_one_short_printable_line(text: str, limit: int, unicode: bool) -> None:
    shown = plain(text, limit, unicode=unicode)
    assert columns(shown) <= limit
    assert shown.isprintable()
    assert unicode or shown.isascii()


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=20), st.text(max_size=20))
def test_short_names_that_differ_are_shown_differently(one: str, other: str) -> None:
    if "\\" not in one + other and one != other:
        assert plain(one) != plain(other)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-0", "web-0"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("x\u202egnp", "x\\u202egnp"),
        ("\u05d0", "\\u05d0"),
        ("e\u0301", "e\\u0301"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("größe", "größe"),
    ],
)
def test_what_could_harm_is_spelled_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_long_names_keep_both_ends() -> None:
    shown = plain("a" * 5000 + "-tail", 30)
    assert shown.startswith("aaaa")
    assert shown.endswith("-tail")
    assert len(shown) == 30
    assert cut("short", 30) == "short"

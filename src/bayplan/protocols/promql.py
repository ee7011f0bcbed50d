"""As much of PromQL as it takes to learn how old a value is: which selectors an expression reads.

An instant query answers with the moment at which it was evaluated, not with the moment at which a series was measured,
and a series that nobody feeds any more is still served for five minutes. Only `timestamp()` of a plain selector tells
the truth, so the selectors are taken out of an expression and asked for beside it, in the same query, at the same
moment. An expression is never checked for sense here: that is the server's work. Facts: prometheus.io querying/basics
and querying/operators, promql/parser/lex.go, promql/engine.go (`timestamp` is special for vector selectors).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bayplan.errors import InputError

LONGEST_QUERY = 16_384
MOST_SELECTORS = 32
PART = "bayplan_part"
"""The label that tells apart what one query asks for: `value`, or a time."""
VALUE = "value"
TIME = "at"
"""A time of every single series; what follows it (`at0`, `at1`) numbers the times of an expression's inputs."""

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
      | (?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+\.)(?:[a-z]+[0-9]*)*)
      | (?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
      | (?P<mark>[-+*/%^=!<>~(){}\[\],.@:])""",
    re.VERBOSE | re.ASCII,
)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_OPERATORS = frozenset({"and", "or", "unless", "atan2", "bool", "offset", "inf", "nan", "smoothed", "anchored"})
_LABEL_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_GROUPED = frozenset({"by", "without"})


class _Token(NamedTuple):
    kind: str
    text: str


def is_metric_name(name: str) -> bool:
    """Whether a name may stand in PromQL as it is."""
    return _NAME.fullmatch(name) is not None


def is_label_name(name: str) -> bool:
    """Whether a name may stand in PromQL as the name of a label."""
    return _LABEL.fullmatch(name) is not None


def selector_of(name: str) -> str:
    """The selector of all series of a metric, whatever its name: `node_load1`, `{__name__="node-load"}`."""
    if is_metric_name(name) and name.lower() not in _OPERATORS | _LABEL_LISTS:
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{__name__="{escaped}"}}'


def selectors(query: str) -> tuple[str, ...]:
    """Every vector selector that an expression reads, once, without ranges, `offset` and `@`. Raises `InputError`."""
    return tuple(dict.fromkeys(_selectors(_tokens(query))))


def is_selector(query: str) -> bool:
    """Whether an expression is one plain vector selector and nothing else: the one whose samples have a time."""
    tokens = _tokens(query)
    found = list(_selectors(tokens))
    return len(found) == 1 and "".join(token.text for token in tokens) == found[0]


def with_times(query: str, times: Sequence[str]) -> str:
    """One query for values and for times, evaluated at the same moment; the label `PART` of each series tells which.

    No `times`: `query` is a plain selector and every one of its series brings its own time. Otherwise each is an
    expression whose values are seconds since 1970.
    """
    parts = {VALUE: query, TIME: f"timestamp({query}\n)"} if not times else {VALUE: query}
    parts |= {f"{TIME}{number}": time for number, time in enumerate(times)}
    return " or ".join(f'label_replace(({text}\n), "{PART}", "{part}", "{PART}", ".*")' for part, text in parts.items())


def oldest_inputs(query: str, labels: Iterable[str]) -> tuple[str, ...]:
    """For each selector of an expression, an expression for the time of its oldest series, by the given labels."""
    grouping = ", ".join(labels)
    return tuple(f"min by ({grouping}) (timestamp({selector}))" for selector in selectors(query))


def _tokens(query: str) -> list[_Token]:
    if len(query) > LONGEST_QUERY:
        raise InputError("PromQL too long", value=query, expected=f"at most {LONGEST_QUERY} characters")
    tokens: list[_Token] = []
    at = 0
    while at < len(query):
        found = _TOKEN.match(query, at)
        if found is None:
            raise InputError("not PromQL", place=f"character {at + 1}", value=query[at:])
        kind = found.lastgroup or ""
        if kind != "space":
            tokens.append(_Token(kind, found.group()))
        at = found.end()
    return tokens


def _selectors(tokens: Sequence[_Token]) -> Iterator[str]:
    at = count = 0
    while at < len(tokens):
        text, at = _next_selector(tokens, at)
        if text:
            count += 1
            if count > MOST_SELECTORS:
                raise InputError("PromQL reads too many series", expected=f"at most {MOST_SELECTORS} selectors")
            yield text


def _next_selector(tokens: Sequence[_Token], at: int) -> tuple[str, int]:
    """The selector that starts at a token, or "", and where to go on."""
    token = tokens[at]
    following = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if token.text == "[":
        return "", _closing(tokens, at, "]")
    if token.text == "{":
        end = _closing(tokens, at, "}")
        return _joined(tokens[at:end]), end
    if token.kind != "word":
        return "", at + 1
    word = token.text.lower()
    if word in _LABEL_LISTS:
        return "", _closing(tokens, at + 1, ")") if following == "(" else at + 1
    if following == "{":
        end = _closing(tokens, at + 1, "}")
        return _joined(tokens[at:end]), end
    if word in _OPERATORS or following == "(" or following.lower() in _GROUPED:
        return "", at + 1
    return token.text, at + 1


def _joined(tokens: Iterable[_Token]) -> str:
    return "".join(token.text for token in tokens)


def _closing(tokens: Sequence[_Token], at: int, mark: str) -> int:
    """The place behind the mark that closes what is opened at a token. None of these three can be nested."""
    for place in range(at, len(tokens)):
        if tokens[place].text == mark:
            return place + 1
    raise InputError("not PromQL", place="at its end", expected=f"a closing {mark}")

"""Kubernetes quantities, `1500m`, `1.5`, `2Gi`, `1e3`, and of which resources they are bytes.

Grammar and rounding as in k8s.io/apimachinery/pkg/api/resource/quantity.go: a request is rounded up, to a whole
millicore for CPU (`MilliValue`) and to a whole byte or piece otherwise (`Value`). Numbers that do not fit in 63 bits
are refused here (Kubernetes caps them), because nothing real is that large.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from bayplan.errors import InputError

LARGEST = 2**63 - 1
HUGEPAGES = "hugepages-"
_GRAMMAR = re.compile(
    r"([+-]?)(\d{1,60}(?:\.\d{0,60})?|\.\d{1,60})(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII
)
_SCALE: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(10 ** (3 * (i + 1))) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTPE")},
}
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def parse_quantity(value: object) -> Fraction:
    """The exact number that a quantity (text, int or float from YAML) stands for. Raises `InputError`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError("not a quantity", value=value, expected="like 500m, 2 or 1Gi")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError("not a quantity", value=value, expected="a finite number")
        number = Fraction(Decimal(repr(value)))
    elif isinstance(value, int):
        number = Fraction(value)
    else:
        number = _parse_text(value)
    if abs(number) > LARGEST:
        raise InputError("quantity too large", value=value, expected=f"at most {LARGEST}")
    return number


def parse_cpu_milli(value: object) -> int:
    """A CPU quantity in millicores, rounded up; not negative."""
    return _whole(value, parse_quantity(value) * 1000)


def parse_count(value: object) -> int:
    """Bytes or pieces, rounded up; not negative."""
    return _whole(value, parse_quantity(value))


def format_bytes(count: int) -> str:
    """A byte count with the largest binary suffix that leaves it whole: `1Gi`, `1536Mi`, `1000`."""
    for power, suffix in zip(range(6, 0, -1), _BINARY, strict=True):
        unit = 1024**power
        if count and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)


def format_size(count: int) -> str:
    """A byte count for people, to three digits or so: `62.5 GiB`, `512 MiB`, `0 B`."""
    amount, unit = float(count), 0
    while abs(amount) >= 1023.5 and unit < len(_BINARY):
        amount, unit = amount / 1024, unit + 1
    text = f"{amount:.0f}" if abs(amount) >= 100 or amount == int(amount) else f"{amount:.1f}".removesuffix(".0")
    return f"{text} {_BINARY[-unit]}B" if unit else f"{text} B"


def hugepages_resource(page_bytes: int) -> str:
    """The resource under which huge pages of a size are counted, in bytes: `hugepages-2Mi`."""
    return f"{HUGEPAGES}{format_bytes(page_bytes)}"


def is_in_bytes(resource: str) -> bool:
    """Whether amounts of a resource are bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith(HUGEPAGES)


def format_cpu(milli: int) -> str:
    """Millicores as a quantity: `2`, `1500m`."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def _parse_text(text: str) -> Fraction:
    found = _GRAMMAR.fullmatch(text)
    if found is None:
        raise InputError("not a quantity", value=text, expected="like 500m, 2 or 1Gi")
    sign, digits, suffix, exponent = found.groups()
    whole, _, part = digits.partition(".")
    number = Fraction(int((whole or "0") + part), 10 ** len(part))
    if suffix:
        number *= _SCALE[suffix]
    elif exponent:
        power = int(exponent)
        number = number * 10**power if power >= 0 else number / 10**-power
    return -number if sign == "-" else number


def _whole(value: object, number: Fraction) -> int:
    if number < 0:
        raise InputError("negative quantity", value=value, expected="zero or more")
    count = math.ceil(number)
    if count > LARGEST:
        raise InputError("quantity too large", value=value, expected=f"at most {LARGEST}")
    return count

"""Which names Kubernetes allows.

Facts: k8s.io/apimachinery/pkg/util/validation (RFC 1123 labels and subdomains, qualified names, label values).
"""

from __future__ import annotations

import re

from bayplan.errors import InputError
from bayplan.workload.fields import shown

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
MAX_SUBDOMAIN = 253


def is_subdomain(name: str) -> bool:
    """Whether it is a DNS-1123 subdomain: `web-1.example`."""
    # The pattern's nested repeats are harmless only because the length is checked first.
    return len(name) <= MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def is_qualified(name: str) -> bool:
    """Whether it is a qualified name: `zone` or `example.com/zone`."""
    prefix, slash, rest = name.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return _NAME_PART.fullmatch(rest) is not None


def check_label(name: str, path: str) -> None:
    """A DNS-1123 label (containers, namespaces). Raises `InputError`."""
    if _LABEL.fullmatch(name) is None:
        raise InputError(
            "not a valid name", place=path, value=shown(name), expected="at most 63 of a-z, 0-9 and -, like web-1"
        )


def check_subdomain(name: str, path: str) -> None:
    """A DNS-1123 subdomain (pods, controllers, nodes). Raises `InputError`."""
    if not is_subdomain(name):
        raise InputError(
            "not a valid name", place=path, value=shown(name), expected="at most 253 of a-z, 0-9, - and ., like web-1"
        )


def check_qualified(name: str, path: str) -> None:
    """A label key or resource name. Raises `InputError`."""
    if not is_qualified(name):
        raise InputError("not a valid key", place=path, value=shown(name), expected="like zone or example.com/zone")


def check_label_value(value: str, path: str) -> None:
    """A label's value: empty, or at most 63 of letters, digits, `-`, `_` and `.`. Raises `InputError`."""
    if value and _NAME_PART.fullmatch(value) is None:
        raise InputError(
            "not a valid label value", place=path, value=shown(value), expected="at most 63 letters, digits, -, _ or ."
        )

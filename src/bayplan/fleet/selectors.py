"""Does a label meet a requirement, does a toleration bear a taint: the rules, on single values.

Facts: k8s.io/apimachinery/pkg/labels (`Requirement.Matches`: NotIn and DoesNotExist hold where the label is missing;
Gt and Lt compare whole numbers of 64 bits and fail on anything else), k8s.io/api/core/v1/toleration.go, Kubernetes
1.36 with its default feature gates (tolerations know Equal and Exists).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bayplan.fleet.node_fields import Taint
from bayplan.workload.model import Selector, Toleration

_INTEGER = re.compile(r"[+-]?[0-9]{1,25}")


def meets(requirement: Selector, value: str | None) -> bool:
    """Whether a label's value (None: the node has no such label) meets the requirement."""
    operator, values = requirement.operator, requirement.values
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator not in ("Gt", "Lt") or value is None or len(values) != 1:
        return False
    own, bound = _int64(value), _int64(values[0])
    if own is None or bound is None:
        return False
    return own > bound if operator == "Gt" else own < bound


def node_meets(requirements: Sequence[Selector], name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node meets all of a term's requirements. A term without any holds for no node."""
    return bool(requirements) and all(meets(r, name if r.field else labels.get(r.key)) for r in requirements)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration bears one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration], effects: Sequence[str]) -> list[Taint]:
    """The taints with one of these effects that no toleration bears, in order."""
    return [t for t in taints if t.effect in effects and not any(tolerates(tol, t) for tol in tolerations)]


def _int64(text: str) -> int | None:
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None

"""Which nodes a pod may go to and would rather go to: node selectors, node affinity, tolerations.

Facts: k8s.io/component-helpers/scheduling/corev1/nodeaffinity (an empty term matches no node; an empty preference is
no preference), pkg/apis/core/validation (`ValidateNodeSelectorRequirement`, `ValidateTolerations`).
"""

from __future__ import annotations

from bayplan.errors import InputError
from bayplan.workload.fields import Fields, join
from bayplan.workload.model import Preference, Selector, Toleration
from bayplan.workload.names import check_label_value, check_qualified
from bayplan.workload.notes import Notes

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT = 100
_AFFINITY_FIELDS = frozenset({"nodeAffinity", "podAffinity", "podAntiAffinity"})
_NODE_AFFINITY_FIELDS = frozenset({_REQUIRED, _PREFERRED})
_TERM_FIELDS = frozenset({"matchExpressions", "matchFields"})
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
# How many values each operator takes; None: at least one.
_VALUES: dict[str, tuple[int, int | None]] = {
    "In": (1, None),
    "NotIn": (1, None),
    "Exists": (0, 0),
    "DoesNotExist": (0, 0),
    "Gt": (1, 1),
    "Lt": (1, 1),
}


def read_node_affinity(
    spec: Fields, notes: Notes
) -> tuple[tuple[tuple[Selector, ...], ...] | None, tuple[Preference, ...]]:
    """Required terms (None: nothing required; an empty tuple: no node will do) and preferences."""
    affinity = spec.optional("affinity")
    if affinity is None:
        return None, ()
    notes.unknown_fields(affinity.value, _AFFINITY_FIELDS, "affinity")
    for other in ("podAffinity", "podAntiAffinity"):
        if affinity.mapping(other).value:
            notes.add("not-considered", f"{other} is not considered")
    node = affinity.mapping("nodeAffinity")
    notes.unknown_fields(node.value, _NODE_AFFINITY_FIELDS, "nodeAffinity")
    return _read_required(node, notes), _read_preferred(node, notes)


def read_tolerations(spec: Fields) -> tuple[Toleration, ...]:
    """`spec.tolerations`, checked."""
    return tuple(_read_toleration(entry) for entry in spec.entries("tolerations"))


def read_node_selector(spec: Fields) -> dict[str, str]:
    """`spec.nodeSelector`, checked."""
    selector = spec.text_map("nodeSelector")
    path = spec.at("nodeSelector")
    for key, value in selector.items():
        check_qualified(key, path)
        check_label_value(value, join(path, key))
    return selector


def read_label_selector(selector: Fields, *, numbers: bool = False) -> tuple[Selector, ...]:
    """A label selector, `matchLabels` and `matchExpressions`, as requirements that must all hold.

    None at all: it holds for everything. `numbers`: Gt and Lt are known too, as they are where nodes are selected.
    Raises `InputError`.
    """
    for field in selector.value:
        if field not in ("matchLabels", "matchExpressions"):
            raise selector.error(field, "unknown field", expected="matchLabels or matchExpressions")
    same = selector.text_map("matchLabels")
    path = selector.at("matchLabels")
    for key, value in same.items():
        check_qualified(key, path)
        check_label_value(value, join(path, key))
    requirements = [Selector(key=key, operator="In", values=(value,)) for key, value in same.items()]
    for entry in selector.entries("matchExpressions"):
        requirement = _read_requirement(entry)
        if requirement.operator in ("Gt", "Lt") and not numbers:
            raise entry.error(
                "operator", "unknown operator", value=requirement.operator, expected=", ".join(_LABEL_OPERATORS)
            )
        requirements.append(requirement)
    return tuple(requirements)


def _read_required(node: Fields, notes: Notes) -> tuple[tuple[Selector, ...], ...] | None:
    required = node.optional(_REQUIRED)
    if required is None:
        return None
    notes.unknown_fields(required.value, frozenset({"nodeSelectorTerms"}), _REQUIRED)
    terms = required.entries("nodeSelectorTerms")
    if not terms:
        raise required.error("nodeSelectorTerms", "missing", expected="at least one term")
    read = (_read_term(term, notes) for term in terms)
    return tuple(term for term in read if term)


def _read_preferred(node: Fields, notes: Notes) -> tuple[Preference, ...]:
    preferences = []
    for entry in node.entries(_PREFERRED):
        weight = entry.integer("weight", 1, _MAX_WEIGHT)
        if weight is None:
            raise entry.error("weight", "missing", expected="1..100")
        requirements = _read_term(entry.mapping("preference"), notes)
        if requirements:
            preferences.append(Preference(weight=weight, requirements=requirements))
    return tuple(preferences)


def _read_term(term: Fields, notes: Notes) -> tuple[Selector, ...]:
    notes.unknown_fields(term.value, _TERM_FIELDS, "a node selector term")
    labels = [_read_requirement(entry) for entry in term.entries("matchExpressions")]
    fields = [_read_field_requirement(entry) for entry in term.entries("matchFields")]
    return (*labels, *fields)


def _read_requirement(entry: Fields) -> Selector:
    key, operator, values = entry.required_text("key"), entry.required_text("operator"), entry.texts("values")
    check_qualified(key, entry.at("key"))
    if operator not in _VALUES:
        raise entry.error("operator", "unknown operator", value=operator, expected=", ".join(_VALUES))
    least, most = _VALUES[operator]
    if len(values) < least or (most is not None and len(values) > most):
        raise entry.error(
            "values",
            f"{len(values)} values for {operator}",
            expected={(1, None): "at least one", (0, 0): "none", (1, 1): "exactly one"}[least, most],
        )
    return Selector(key=key, operator=operator, values=values)


def _read_field_requirement(entry: Fields) -> Selector:
    key, operator, values = entry.required_text("key"), entry.required_text("operator"), entry.texts("values")
    if key != "metadata.name":
        raise entry.error("key", "not a field that can be selected on", value=key, expected="metadata.name")
    if operator not in ("In", "NotIn"):
        raise entry.error("operator", "unknown operator", value=operator, expected="In or NotIn")
    if len(values) != 1:
        raise entry.error("values", f"{len(values)} values", expected="exactly one")
    return Selector(key=key, operator=operator, values=values, field=True)


def _read_toleration(entry: Fields) -> Toleration:
    key, value, effect = entry.text("key"), entry.text("value"), entry.text("effect")
    operator = entry.text("operator") or "Equal"
    if key:
        check_qualified(key, entry.at("key"))
    if operator not in ("Equal", "Exists"):
        raise entry.error("operator", "unknown operator", value=operator, expected="Equal or Exists")
    if operator == "Exists" and value:
        raise entry.error("value", "a value beside the operator Exists", value=value, expected="none")
    if operator == "Equal":
        _check_equal(entry, key, value)
    if effect and effect not in EFFECTS:
        raise entry.error("effect", "unknown effect", value=effect, expected=", ".join(EFFECTS))
    return Toleration(key=key, operator=operator, value=value, effect=effect)


def _check_equal(entry: Fields, key: str, value: str) -> None:
    if not key:
        raise InputError("no key", place=entry.at("operator"), expected="the operator Exists where the key is empty")
    check_label_value(value, entry.at("value"))

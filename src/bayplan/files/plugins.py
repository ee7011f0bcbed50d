"""Finds policies and kinds of resources, in-tree and anyone else's, through Python's entry points.

Groups: `bayplan.policies` (classes called with a Machine and a NodeSetup, see `policies.policy`),
`bayplan.resources` (classes called with nothing, see `resources.plugin`) and `bayplan.card_policies` (classes called
with a PolicySetup, see `fleet.cards.policy`; case, `-` and `_` in their names do not matter). Facts: the entry points
specification of packaging.python.org. Asking for one name imports that one only, so that a command starts fast; a
plugin that fails to import never takes others down with it, and is never passed over in silence.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from bayplan.errors import InputError
from bayplan.policies.policy import ENTRY_POINTS as POLICIES
from bayplan.policies.policy import Policy
from bayplan.resources.plugin import ENTRY_POINTS as RESOURCES
from bayplan.resources.plugin import ResourcePlugin

if TYPE_CHECKING:  # their arrays bring numpy along, for which a plan of one node need not wait
    from bayplan.fleet.cards.policy import CardPolicy, PolicySetup

CARD_POLICIES = "bayplan.card_policies"
_POLICY_CALLS = ("begin", "admit", "resize", "started", "release", "remedies", "restore")
_CARD_POLICY_CALLS = ("seen", "place", "scores")
_RESOURCE_CALLS = ("empty", "free", "take", "give_back", "effects")


class LoadedPolicies(NamedTuple):
    """All policies that could be loaded, by name, and what went wrong with the others."""

    found: dict[str, type[Policy]]
    problems: tuple[InputError, ...]


class LoadedResources(NamedTuple):
    """All kinds of resources that could be loaded, sorted by name, and what went wrong with the others."""

    found: tuple[ResourcePlugin, ...]
    problems: tuple[InputError, ...]


def policy_names() -> tuple[str, ...]:
    """The names of all installed policies, sorted; nothing is imported."""
    return tuple(sorted(_points(POLICIES)))


def resource_names() -> tuple[str, ...]:
    """The names of all installed kinds of resources, sorted; nothing is imported."""
    return tuple(sorted(_points(RESOURCES)))


def folded_name(name: str) -> str:
    """The name of a card policy as it is looked for: `Best-Fit`, `best_fit` and `bestfit` are one."""
    return name.lower().replace("-", "").replace("_", "")


def card_policy_names() -> tuple[str, ...]:
    """The names of all installed card policies, sorted; nothing is imported."""
    return tuple(sorted(_points(CARD_POLICIES, folded_name)))


def load_policy(name: str) -> type[Policy]:
    """One policy's class. Raises `InputError` for a name that is none (naming others), or if it does not load."""
    return cast("type[Policy]", _load(_point(POLICIES, name, "policy"), "policy", _POLICY_CALLS))


def load_card_policy(name: str) -> Callable[[PolicySetup], CardPolicy]:
    """One card policy's class. Raises `InputError` for a name that is none, or if it does not load."""
    point = _point(CARD_POLICIES, name, "card policy", folded_name)
    return cast("Callable[[PolicySetup], CardPolicy]", _load(point, "card policy", _CARD_POLICY_CALLS))


def card_policy_source(name: str) -> bytes:
    """What the module of a card policy consists of, as far as it is Python; to tell whether it changed."""
    module = importlib.import_module(_point(CARD_POLICIES, name, "card policy", folded_name).module)
    try:
        return inspect.getsource(module).encode()
    except (OSError, TypeError):  # compiled, or made at run time
        return repr(module).encode()


def load_resource(name: str) -> ResourcePlugin:
    """One kind of resource. Raises `InputError` for a name that is none, or if it does not load."""
    return _resource(_point(RESOURCES, name, "kind of resource"))


def load_policies() -> LoadedPolicies:
    """Every policy that loads, and one `InputError` for each that does not."""
    found: dict[str, type[Policy]] = {}
    problems = []
    for name in policy_names():
        try:
            found[name] = load_policy(name)
        except InputError as error:
            problems.append(error)
    return LoadedPolicies(found, tuple(problems))


def load_resources() -> LoadedResources:
    """Every kind of resource that loads, and one `InputError` for each that does not."""
    found = []
    problems = []
    for name in resource_names():
        try:
            found.append(load_resource(name))
        except InputError as error:
            problems.append(error)
    return LoadedResources(tuple(found), tuple(problems))


def _points(group: str, form: Callable[[str], str] = str) -> dict[str, list[metadata.EntryPoint]]:
    """Name -> the different objects that are installed under it."""
    by_name: dict[str, list[metadata.EntryPoint]] = {}
    for point in metadata.entry_points(group=group):
        same = by_name.setdefault(form(point.name), [])
        if all(other.value != point.value for other in same):
            same.append(point)
    return by_name


def _point(group: str, name: str, what: str, form: Callable[[str], str] = str) -> metadata.EntryPoint:
    points, wanted = _points(group, form), form(name)
    if wanted not in points:
        near = difflib.get_close_matches(wanted, sorted(points), n=3, cutoff=0.4)
        told = near + [other for other in sorted(points) if other not in near]
        expected = " or ".join(told) or f"a plugin in group {group}"
        raise InputError(f"unknown {what}", value=name, expected=expected)
    first, *others = points[wanted]
    if others:
        values = " and ".join(sorted(point.value for point in points[wanted]))
        raise InputError(f"two plugins are called {name}", source=f"{group}:{name}", value=values, expected="one")
    return first


def _load(point: metadata.EntryPoint, what: str, calls: Iterable[str]) -> Any:
    source = f"{point.group}:{point.name}"
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # whatever a foreign module does at import is a fault of that plugin
        problem = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
        raise InputError(problem, source=source, expected=f"a {what} that can be imported") from error
    missing = [call for call in calls if not callable(getattr(loaded, call, None))]
    if not callable(loaded) or missing:
        raise InputError(f"{point.value} is no {what}", source=source, expected=f"a class with {', '.join(calls)}")
    return loaded


def _resource(point: metadata.EntryPoint) -> ResourcePlugin:
    made = _load(point, "kind of resource", _RESOURCE_CALLS)
    try:
        return cast("ResourcePlugin", made())
    except (Exception, SystemExit) as error:  # as above: making it is the plugin's own code
        problem = f"{point.value} cannot be made: {type(error).__name__}: {error}"
        raise InputError(
            problem, source=f"{point.group}:{point.name}", expected="a class called with nothing"
        ) from error

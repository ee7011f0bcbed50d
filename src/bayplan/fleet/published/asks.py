"""What a pod asks of classes and power, and whether a node that publishes them has it.

A node that publishes nothing of a kind is not judged by it. Annotations of a pod:

* `class.bayplan.dev/RESOURCE: CLASS`, for all containers (`class.bayplan.dev/l3: gold`); and the runtimes' own,
  `rdt.resources.beta.kubernetes.io/pod` and `/container.NAME` (resource l3), `blockio.resources.beta.kubernetes.io/...`
  (resource blockio); a container's own goes before the pod's. Each container is one user of its class.
* `bayplan.dev/power-profile: PROFILE`, for all whole CPUs that the pod has to itself.
* `bayplan.dev/watts: "150"`: what it will draw at most, as its owner says. Watts that were measured and shared out
  among pods are no bound for anything and are not looked at.

Facts: goresctrl's annotations as containerd and CRI-O read them.
"""

from __future__ import annotations

import math

import msgspec

from bayplan.errors import InputError
from bayplan.fleet.published.layout import Offers
from bayplan.policies.kubelet.cpus import whole_cpus
from bayplan.quantity import parse_quantity
from bayplan.workload.model import Pod

CLASS_PREFIX = "class.bayplan.dev/"
PROFILE_ANNOTATION = "bayplan.dev/power-profile"
WATTS_ANNOTATION = "bayplan.dev/watts"
_RUNTIME = {"rdt.resources.beta.kubernetes.io/": "l3", "blockio.resources.beta.kubernetes.io/": "blockio"}
_TOP_SCORE = 10


class Asks(msgspec.Struct, frozen=True, kw_only=True):
    """`classes`: (resource, class) -> users. `profile` for so many `profile_cpus`. `problem`: what cannot be read."""

    classes: dict[tuple[str, str], int] = {}
    profile: str = ""
    profile_cpus: int = 0
    watts: float = 0.0
    problem: str = ""

    @property
    def anything(self) -> bool:
        """Whether there is anything to judge."""
        return bool(self.classes or self.profile or self.watts or self.problem)


NOTHING = Asks()


def asks_of(pod: Pod) -> Asks:
    """What the annotations of a pod ask."""
    notes = pod.annotations
    if not notes or not any("/" in key and _ours(key) for key in notes):
        return NOTHING
    profile = notes.get(PROFILE_ANNOTATION, "")
    watts, problem = 0.0, ""
    if WATTS_ANNOTATION in notes:
        try:
            watts = float(parse_quantity(notes[WATTS_ANNOTATION]))
            problem = f"annotation {WATTS_ANNOTATION}: negative" if watts < 0 else ""
        except InputError as error:
            problem = f"annotation {WATTS_ANNOTATION}: {error}"
    cpus = pod.peak([whole_cpus(pod, c) for c in pod.all_containers]) if profile else 0
    return Asks(classes=_classes(pod), profile=profile, profile_cpus=cpus, watts=max(0.0, watts), problem=problem)


def left(offers: Offers, taken: tuple[Asks, ...]) -> Offers:
    """What is left once these have taken what they ask."""
    if not taken:
        return offers
    classes = {resource: dict(own) for resource, own in offers.classes.items()}
    profiles, headroom = dict(offers.profiles), offers.watts_headroom
    for asks in taken:
        for (resource, name), users in asks.classes.items():
            free = classes.get(resource, {}).get(name)
            if free is not None:
                classes[resource][name] = free - users
        if asks.profile in profiles:
            profiles[asks.profile] -= asks.profile_cpus
        headroom = None if headroom is None else headroom - asks.watts
    return Offers(classes=classes, profiles=profiles, watts_headroom=headroom)


def objection(offers: Offers, asks: Asks) -> str:
    """Why a node with these offers will not do, with numbers; empty: it will."""
    if asks.problem:
        return asks.problem
    for (resource, name), users in asks.classes.items():
        there = offers.classes.get(resource)
        if there is None:
            continue
        if name not in there:
            return f"class {resource}/{name}: not offered"
        free = there[name]
        if free is not None and users > free:
            return f"class {resource}/{name}: {users} users asked, {max(0, free)} free"
    if asks.profile and offers.profiles:
        if asks.profile not in offers.profiles:
            return f"power profile {asks.profile}: not offered"
        if asks.profile_cpus > offers.profiles[asks.profile]:
            free_cpus = max(0, offers.profiles[asks.profile])
            return f"power profile {asks.profile}: {asks.profile_cpus} CPUs asked, {free_cpus} free"
    if asks.watts and offers.watts_headroom is not None and asks.watts > offers.watts_headroom:
        return f"power: {asks.watts:g} W asked, {max(0.0, offers.watts_headroom):g} W below the node's budget"
    return ""


def score(offers: Offers, asks: Asks) -> int | None:
    """0 to 10, by how much of what is asked is left afterwards; None: nothing that is asked is published in numbers."""
    parts = []
    for (resource, name), users in asks.classes.items():
        free = offers.classes.get(resource, {}).get(name)
        if free:
            parts.append((free - users) / free)
    free_cpus = offers.profiles.get(asks.profile, 0)
    if asks.profile_cpus and free_cpus:
        parts.append((free_cpus - asks.profile_cpus) / free_cpus)
    if asks.watts and offers.watts_headroom:
        parts.append((offers.watts_headroom - asks.watts) / offers.watts_headroom)
    if not parts:
        return None
    return math.floor(_TOP_SCORE * max(0.0, min(parts)))


def _ours(key: str) -> bool:
    return key.startswith((CLASS_PREFIX, *_RUNTIME)) or key in (PROFILE_ANNOTATION, WATTS_ANNOTATION)


def _classes(pod: Pod) -> dict[tuple[str, str], int]:
    wanted: dict[tuple[str, str], int] = {}
    for resource, by_container in _wishes(pod).items():
        for container in pod.all_containers:
            name = by_container.get(container.name, by_container.get("", ""))
            if name:
                wanted[resource, name] = wanted.get((resource, name), 0) + 1
    return wanted


def _wishes(pod: Pod) -> dict[str, dict[str, str]]:
    """Resource -> container (empty: all of them) -> class."""
    wishes: dict[str, dict[str, str]] = {}
    for prefix, resource in _RUNTIME.items():
        for key, value in pod.annotations.items():
            if key == f"{prefix}pod":
                wishes.setdefault(resource, {})[""] = value
            elif key.startswith(f"{prefix}container."):
                wishes.setdefault(resource, {})[key.removeprefix(f"{prefix}container.")] = value
    for key, value in pod.annotations.items():
        if key.startswith(CLASS_PREFIX):
            wishes.setdefault(key.removeprefix(CLASS_PREFIX), {})[""] = value
    return wishes

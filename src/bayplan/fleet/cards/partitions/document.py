"""A layout as a person writes it, and as those that come with Bayplan are written (`layouts/*.yaml`).

apiVersion: bayplan.dev/v1alpha1
kind: CardLayout
name: a30-24gb
compute: 4                   # compute slices of the card
memory: 4                    # memory slices
media: 1                     # media engines that an instance can take (default 0)
uniform: false               # true: all instances of a card are of one profile
resource: nvidia.com/gpu     # asked for where a node has one profile only
profiles:
- {name: 2g.12gb, compute: 2, memory: 2, starts: [0, 2], media: 0, resource: nvidia.com/mig-2g.12gb}
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.errors import InputError
from bayplan.fleet.cards.partitions.layout import MOST_PROFILES, MOST_SLICES, Layout, Profile
from bayplan.fleet.node_fields import refuse_unknown
from bayplan.machine.document import API_VERSION
from bayplan.workload.documents import Document
from bayplan.workload.fields import Fields, as_fields
from bayplan.workload.names import check_qualified

KIND = "CardLayout"
LONGEST_NAME = 63
_FIELDS = frozenset(
    {"apiVersion", "kind", "name", "title", "compute", "memory", "media", "uniform", "resource", "profiles"}
)
_PROFILE_FIELDS = frozenset({"name", "compute", "memory", "starts", "media", "resource"})


def read_layouts(documents: Iterable[Document]) -> tuple[Layout, ...]:
    """The layouts of all documents. Raises `InputError` for one that no card can have, two of one name, and none."""
    layouts: dict[str, Layout] = {}
    source = ""
    for document in documents:
        source = document.source
        try:
            layout = _layout(as_fields(document.value, ""))
            if layout.name in layouts:
                raise InputError("two layouts of one name", place="name", value=layout.name)
        except InputError as error:
            raise error.in_document(source=source, document=document.place) from error
        layouts[layout.name] = layout
    if not layouts:
        raise InputError("no layout", source=source, expected=f"a {KIND}")
    return tuple(layouts.values())


def _layout(fields: Fields) -> Layout:
    for name, right in (("kind", KIND), ("apiVersion", API_VERSION)):
        if fields.text(name) != right:
            raise fields.error(name, "wrong", value=fields.text(name) or ..., expected=right)
    refuse_unknown(fields, _FIELDS)
    compute, memory = _count(fields, "compute", 1, MOST_SLICES), _count(fields, "memory", 1, MOST_SLICES)
    media = fields.integer("media", 0, MOST_SLICES) or 0
    entries = fields.entries("profiles")
    if not 1 <= len(entries) <= MOST_PROFILES:
        raise fields.error("profiles", "not a number of profiles", expected=f"1 to {MOST_PROFILES}")
    profiles = tuple(_profile(entry, compute, memory, media) for entry in entries)
    _nothing_twice(entries, profiles)
    return Layout(
        name=_name(fields),
        title=fields.text("title"),
        compute=compute,
        memory=memory,
        media=media,
        uniform=fields.boolean("uniform"),
        resource=_resource(fields),
        profiles=profiles,
    )


def _profile(entry: Fields, compute: int, memory: int, media: int) -> Profile:
    refuse_unknown(entry, _PROFILE_FIELDS)
    size = _count(entry, "memory", 1, memory)
    starts = entry.sequence("starts")
    for i, start in enumerate(starts):
        place = f"{entry.at('starts')}[{i}]"
        if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start <= memory - size:
            expected = f"0 to {memory - size}, where {size} of {memory} slices fit"
            raise InputError("not a position", place=place, value=start, expected=expected)
    if not starts or len(set(starts)) < len(starts):
        raise entry.error("starts", "none, or one twice", expected="each position once")
    return Profile(
        name=_name(entry),
        compute=_count(entry, "compute", 0, compute),
        memory=size,
        starts=tuple(sorted(starts)),
        media=entry.integer("media", 0, media) or 0,
        resource=_resource(entry),
    )


def _nothing_twice(entries: list[Fields], profiles: tuple[Profile, ...]) -> None:
    names: set[str] = set()
    for entry, profile in zip(entries, profiles, strict=True):
        for field, value in (("name", profile.name), ("resource", profile.resource)):
            if value and f"{field} {value}" in names:
                raise entry.error(field, "in two profiles", value=value)
            names.add(f"{field} {value}")


def _count(fields: Fields, name: str, least: int, most: int) -> int:
    count = fields.integer(name, least, most)
    if count is None:
        raise fields.error(name, "missing", expected=f"{least} to {most}")
    return count


def _name(fields: Fields) -> str:
    name = fields.required_text("name")
    if len(name) > LONGEST_NAME or not name.isascii() or not name.isprintable() or " " in name or "=" in name:
        raise fields.error("name", "not a name", value=name, expected="printable ASCII without spaces and =")
    return name


def _resource(fields: Fields) -> str:
    resource = fields.text("resource")
    if resource:
        check_qualified(resource, fields.at("resource"))
    return resource

"""The layouts of cards that come with Bayplan (`bayplan/fleet/cards/partitions/layouts/*.yaml`), and those in files."""

from __future__ import annotations

import os
from functools import cache

from bayplan.errors import InputError
from bayplan.files.documents import open_documents
from bayplan.files.packaged import packaged_bytes, packaged_names, unknown_name
from bayplan.fleet.cards.partitions.document import read_layouts
from bayplan.fleet.cards.partitions.layout import Layout
from bayplan.workload.documents import read_documents

_WHERE = ("bayplan.fleet.cards.partitions", "layouts")


@cache
def layout_names() -> tuple[str, ...]:
    """The names of those that come with Bayplan, sorted."""
    return packaged_names(*_WHERE)


def open_layout(named: str) -> Layout:
    """A layout by its name, or of a file that holds one. Raises `InputError` naming the closest others."""
    if named in layout_names():
        return read_layouts(read_documents(packaged_bytes(*_WHERE, named), named))[0]
    if not os.path.lexists(named):
        raise unknown_name("no such card, and no such file", named, layout_names())
    layouts = read_layouts(open_documents([named]))
    if len(layouts) > 1:
        raise InputError("several layouts", source=named, value=len(layouts), expected="one")
    return layouts[0]

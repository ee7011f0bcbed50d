"""The layouts of cards that come with Bayplan (`bayplan/fleet/cards/partitions/layouts/*.yaml`), and those in files."""

from __future__ import annotations

import difflib
import os
from functools import cache
from importlib import resources

from bayplan.errors import InputError
from bayplan.files.documents import open_documents
from bayplan.fleet.cards.partitions.document import read_layouts
from bayplan.fleet.cards.partitions.layout import Layout
from bayplan.workload.documents import read_documents

_SUFFIX = ".yaml"


@cache
def layout_names() -> tuple[str, ...]:
    """The names of those that come with Bayplan, sorted."""
    folder = resources.files("bayplan.fleet.cards.partitions") / "layouts"
    return tuple(sorted(f.name.removesuffix(_SUFFIX) for f in folder.iterdir() if f.name.endswith(_SUFFIX)))


def open_layout(named: str) -> Layout:
    """A layout by its name, or of a file that holds one. Raises `InputError` naming the closest others."""
    if named in layout_names():
        file = resources.files("bayplan.fleet.cards.partitions") / "layouts" / f"{named}{_SUFFIX}"
        return read_layouts(read_documents(file.read_bytes(), named))[0]
    if not os.path.lexists(named):
        near = difflib.get_close_matches(named, layout_names(), n=3, cutoff=0.4) or layout_names()
        raise InputError("no such card, and no such file", value=named, expected=" or ".join(near))
    layouts = read_layouts(open_documents([named]))
    if len(layouts) > 1:
        raise InputError("several layouts", source=named, value=len(layouts), expected="one")
    return layouts[0]

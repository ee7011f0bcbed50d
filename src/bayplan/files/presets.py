"""The machines that come with Bayplan, `bayplan/machine/presets/*.yaml`, found inside the installed package."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources

from bayplan.errors import InputError
from bayplan.machine import description, document, preset
from bayplan.machine.description import Description
from bayplan.machine.model import Machine

_SUFFIX = ".yaml"


@cache
def preset_names() -> tuple[str, ...]:
    """The names of all presets, sorted."""
    folder = resources.files("bayplan.machine") / "presets"
    return tuple(sorted(f.name.removesuffix(_SUFFIX) for f in folder.iterdir() if f.name.endswith(_SUFFIX)))


def preset_description(name: str) -> Description:
    """The description of a preset, with the sources of its figures. Raises `InputError` naming the closest others."""
    if name not in preset_names():
        near = difflib.get_close_matches(name, preset_names(), n=3, cutoff=0.4) or preset_names()
        raise InputError("unknown preset", value=name, expected=" or ".join(near))
    file = resources.files("bayplan.machine") / "presets" / f"{name}{_SUFFIX}"
    source = f"preset:{name}"
    return description.read(document.parse(file.read_text(encoding="utf-8"), source=source), source=source)


@cache
def load_preset(name: str) -> Machine:
    """A preset as a Machine. Raises `InputError` for a name that is none."""
    return preset.expand(preset_description(name), name=name, source=f"preset:{name}")

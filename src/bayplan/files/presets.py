"""The machines that come with Bayplan, `bayplan/machine/presets/*.yaml`, found inside the installed package."""

from __future__ import annotations

from functools import cache

from bayplan.files.packaged import packaged_bytes, packaged_names, unknown_name
from bayplan.machine import description, document, preset
from bayplan.machine.description import Description
from bayplan.machine.model import Machine

_WHERE = ("bayplan.machine", "presets")


@cache
def preset_names() -> tuple[str, ...]:
    """The names of all presets, sorted."""
    return packaged_names(*_WHERE)


def preset_description(name: str) -> Description:
    """The description of a preset, with the sources of its figures. Raises `InputError` naming the closest others."""
    if name not in preset_names():
        raise unknown_name("unknown preset", name, preset_names())
    source = f"preset:{name}"
    return description.read(document.parse(packaged_bytes(*_WHERE, name), source=source), source=source)


@cache
def load_preset(name: str) -> Machine:
    """A preset as a Machine. Raises `InputError` for a name that is none."""
    return preset.expand(preset_description(name), name=name, source=f"preset:{name}")

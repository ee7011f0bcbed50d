"""A machine by the words that a person types: `preset:dgx-h100`, `hwloc:x.xml`, `sysfs:capture.tar.gz`, a path, `live`.

A path without a prefix is told by what it holds: a folder or an archive is a capture of `/sys`, `<` starts hwloc XML,
anything else is a machine file or a description, JSON or YAML. Reads at most a fixed number of bytes of any file.
"""

from __future__ import annotations

import os
from pathlib import Path

from bayplan.errors import InputError
from bayplan.files.documents import read_bytes
from bayplan.files.presets import load_preset, preset_names
from bayplan.machine import description, document, preset, saved
from bayplan.machine.model import Machine

LIVE = "live"
_ARCHIVE_MAGIC = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_TAR_MAGIC_AT = 257


def open_machine(source: str = LIVE) -> Machine:
    """The machine that `source` names; nothing or `live` is this machine. Raises `InputError`."""
    kind, colon, rest = source.partition(":")
    if source in ("", LIVE):
        return read_tree("/", name=LIVE, source=LIVE)
    if not colon or kind not in ("preset", "hwloc", "sysfs"):
        return _open_path(source)
    if not rest:
        raise InputError("nothing named", source=source, expected=f"{kind}:NAME")
    if kind == "preset":
        return load_preset(rest)
    if kind == "sysfs":
        return read_tree(rest, name=_name(rest), source=source)
    return _read_hwloc(_content(rest, source), _name(rest), source)


def read_tree(path: str, *, name: str, source: str) -> Machine:
    """The machine in a root folder, or an archive of one."""
    # Imported here, so that a preset or a saved machine is there without them.
    from bayplan.files import open_tree
    from bayplan.machine import sysfs

    return sysfs.read(open_tree(path), name=name, source=source)


def _open_path(source: str) -> Machine:
    if os.path.isdir(source):  # and not Path.is_dir, which raises for what may not be looked at
        return read_tree(source, name=_name(source), source=source)
    if not os.path.lexists(source) and source in preset_names():
        raise InputError("no such file", source=source, expected=f"preset:{source} for the preset of that name")
    content = _content(source, source)
    if content.startswith(_ARCHIVE_MAGIC) or content[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        return read_tree(source, name=_name(source), source=source)
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return _read_hwloc(content, _name(source), source)
    values = document.parse(content, source=source)
    if values.get("kind") == description.KIND:
        return preset.expand(description.read(values, source=source), name=_name(source), source=source)
    return saved.from_document(values, source=source)


def _read_hwloc(content: bytes, name: str, source: str) -> Machine:
    from bayplan.machine import hwloc

    return hwloc.read(content, name=name, source=source)


def _content(path: str, source: str) -> bytes:
    try:
        return read_bytes(path)
    except InputError as error:
        error.source = source
        raise


def _name(path: str) -> str:
    """The name of a file without its endings: `cluster/a.tar.gz` is `a`."""
    name = Path(path).resolve().name
    return name.split(".")[0] or name or path

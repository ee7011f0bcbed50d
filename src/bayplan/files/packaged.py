"""Files that come with Bayplan: the YAML files of a folder inside the installed package, by their names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import resources

from bayplan.errors import InputError

_SUFFIX = ".yaml"


def packaged_names(package: str, folder: str) -> tuple[str, ...]:
    """The names of all, sorted."""
    files = (resources.files(package) / folder).iterdir()
    return tuple(sorted(f.name.removesuffix(_SUFFIX) for f in files if f.name.endswith(_SUFFIX)))


def packaged_bytes(package: str, folder: str, name: str) -> bytes:
    """The content of one of them."""
    return (resources.files(package) / folder / f"{name}{_SUFFIX}").read_bytes()


def unknown_name(problem: str, name: str, names: Sequence[str]) -> InputError:
    """That a name is none of these, with the closest of them."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names
    return InputError(problem, value=name, expected=" or ".join(near))

"""The last plan made, kept so that `bayplan explain POD` can follow `bayplan plan`.

One file in the user's cache folder (XDG Base Directory Specification), replaced whole. Plans of very many pods are
not kept: they are for `-o json` and a file of the user's choice.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bayplan.errors import InputError
from bayplan.fleet.plan import Plan

MAX_PODS = 2_000
NO_HOME = "this user has no home folder; set XDG_CACHE_HOME"


def place() -> Path | None:
    """Where the last plan is kept; nowhere for a user without a home, like the numbered ones in a container."""
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(cache) if cache else Path.home() / ".cache") / "bayplan" / "last-plan.json"
    except RuntimeError:  # no HOME, and nobody of this user id in the password database
        return None


def keep(plan: Plan) -> str:
    """Keep a plan. Gives a note for the user where that is not possible; a plan is worth showing all the same."""
    from bayplan.report.document import plan_json

    if len(plan.placements) > MAX_PODS:
        return ""
    path = place()
    if path is None:
        return f"the plan is not kept for `bayplan explain`: {NO_HOME}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            try:
                file.write(plan_json(plan))
                file.close()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        return f"the plan is not kept for `bayplan explain`: {path}: {error.strerror}"
    return ""


def last_plan() -> Plan:
    """The last plan that was kept. Raises `InputError` where there is none."""
    from bayplan.report.document import read_plan

    path = place()
    if path is None:
        raise InputError(f"no last plan: {NO_HOME}", expected="a plan file")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("no last plan", source=str(path), expected="`bayplan plan` before, or a plan file") from error
    return read_plan(text, source=str(path))

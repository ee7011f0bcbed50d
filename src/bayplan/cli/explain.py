"""`bayplan explain`: the trace of a decision in words, from a plan that was saved or from the last one made."""

from __future__ import annotations

import os
import sys

from bayplan.cli import OK
from bayplan.errors import InputError


def explain(what: list[str]) -> int:
    """Explain one pod or container, or (a plan file alone) all of them."""
    from bayplan.cli.last_plan import last_plan
    from bayplan.files.documents import read_bytes
    from bayplan.report.document import read_plan
    from bayplan.report.explain import explain as explained

    if len(what) > 2:
        raise InputError("too much to explain", value=" ".join(what), expected="[PLANFILE] [NAME]")
    from_file = len(what) == 2 or what[0] == "-" or os.path.isfile(what[0])
    if from_file:
        try:
            text = read_bytes(what[0]).decode()
        except UnicodeDecodeError as error:
            raise InputError("not text", source=what[0], expected="a plan written with -o json or yaml") from error
        plan = read_plan(text, source=what[0])
        names = what[1:] or [p.pod.full_name for p in plan.placements]
    else:
        plan, names = last_plan(), what
    sys.stdout.write("\n".join(explained(plan, name) for name in names))
    return OK

"""What Bayplan's own card policy can do besides, by name: `values:power,learning`."""

from __future__ import annotations

import msgspec

from bayplan.errors import InputError


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    """All off by default.

    `power`: of choices that are nearly as good, one that draws less. `learning`: the mix is learnt from what comes
    (also without this mode where nothing is known at the start). `admission`: a pod that takes more from the fleet
    than it brings is refused although there is room for it.
    """

    power: bool = False
    learning: bool = False
    admission: bool = False


def modes(option: str) -> Modes:
    """From what follows the colon. Anything else, or one named twice, raises `InputError`."""
    known = sorted(Modes.__struct_fields__)
    names = option.split(",") if option else []
    for name in names:
        if name not in known or names.count(name) > 1:
            raise InputError("no mode of the policy", place="values", value=option, expected=", ".join(known))
    return Modes(**dict.fromkeys(names, True))

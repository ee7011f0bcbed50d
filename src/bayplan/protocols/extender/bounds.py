"""What a request may hold, so that reading one costs no more than a few times its own size.

A body is decoded into one small object for each of its values. Of the densest body, 100 MB of `0,0,0`, those would be
3 GB. No body of kube-scheduler is dense: a node has 40 bytes for each comma in it, a list of names has 13.
"""

from __future__ import annotations

import numpy as np

from bayplan.errors import InputError

Body = bytes | bytearray | memoryview

# A body up to this size is read whatever is in it.
SMALL_BYTES = 4 << 20
LEAST_BYTES_A_VALUE = 16
# An object that the API server takes is smaller.
MOST_POD_BYTES = 4 << 20
# Far more than there are in any cluster.
MOST_NODES = 1 << 17
LONGEST_NAME = 253
_AT_ONCE = 1 << 18
_COMMA = ord(",")


def check_density(body: Body) -> None:
    """Raise `InputError` for a large body that is made of many tiny values. Costs a sixth of decoding it."""
    size = len(body)
    if size <= SMALL_BYTES:
        return
    data = np.frombuffer(body, np.uint8)
    commas = sum(int(np.count_nonzero(data[i : i + _AT_ONCE] == _COMMA)) for i in range(0, size, _AT_ONCE))
    if commas * LEAST_BYTES_A_VALUE > size:
        raise InputError(
            f"{commas} values in {size} bytes",
            expected=f"{LEAST_BYTES_A_VALUE} bytes or more for each value in a body of more than {SMALL_BYTES} bytes",
        )


def check_count(count: int, place: str) -> None:
    """Raise `InputError` for more nodes than there can be."""
    if count > MOST_NODES:
        raise InputError("too many nodes", place=place, value=count, expected=f"at most {MOST_NODES}")


def check_name(name: str, place: str) -> None:
    """Raise `InputError` for what cannot be the name of an object."""
    if not 0 < len(name) <= LONGEST_NAME:
        raise InputError("not a name", place=place, value=name, expected=f"1 to {LONGEST_NAME} characters")

"""The words a person types."""

from __future__ import annotations

import io
import os
import sys

OK, BAD_INPUT, REFUSED, INTERRUPTED = 0, 2, 3, 130


class ReaderGoneError(Exception):
    """Whoever read our output has enough of it. No OSError: click would end with 1 and say nothing."""


def main() -> None:
    """The `bayplan` command: 0 all placed, 3 something refused, 2 bad input or usage, 130 interrupted."""
    from bayplan.errors import BayplanError

    _never_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the locale has no letters for is spelled out; a drawing must not end in a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        from bayplan.cli.app import run

        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BayplanError as error:
        print(f"bayplan: {error}", file=sys.stderr)
        status = BAD_INPUT
    except KeyboardInterrupt:
        print("bayplan: interrupted", file=sys.stderr)
        status = INTERRUPTED
    except (BrokenPipeError, ReaderGoneError):
        # Python would complain again when it closes standard output.
        _give_up_output()
        status = OK
    except OSError as error:
        # What is read names itself in an `InputError`; what is left is standard output, on a full disk for one.
        print(f"bayplan: cannot go on: {error.strerror or error}", file=sys.stderr)
        _give_up_output()
        status = BAD_INPUT
    sys.exit(status)


def _never_closed() -> None:
    """Python has `None` for a standard stream that was closed before the start (`>&-`)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (open until the process ends)


def _give_up_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""Results of finished runs in a folder, so that what was cut off can go on where it stopped.

A file for each run, under a digest of all that the result follows from: the trace, the policy, the seed, the version
and the code that decides and measures. It appears whole or not at all. One that is damaged, or says that it is
something else than its name does, is told and the run made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from bayplan import __version__
from bayplan.errors import InputError
from bayplan.files.plugins import card_policy_source
from bayplan.files.whole import write_whole
from bayplan.simulate.result import RunResult
from bayplan.simulate.run import Run
from bayplan.simulate.trace import Trace

FORMAT = 1
MAX_FILE_BYTES = 64 << 20


class _File(msgspec.Struct, frozen=True):
    """What a file holds. `check` is the digest of the encoded result."""

    key: str
    check: str
    result: RunResult


class Kept:
    """The results in `folder`, which is made where it is not there. `tell` is told of files that are no use.

    Raises `InputError` where the folder cannot be made or written to.
    """

    def __init__(self, folder: str, tell: Callable[[str], None]) -> None:
        self._folder = Path(folder)
        self._tell = tell
        self._last: tuple[Trace, str] | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot be made ({error.strerror or error})", source=folder, expected="a folder"
            ) from error

    def find(self, trace: Trace, run: Run) -> RunResult | None:
        """The result of a run, or None where it has to be made."""
        key = self._key(trace, run)
        path = self._path(key)
        try:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES)
            kept = msgspec.json.decode(content, type=_File)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            self._tell(f"{path}: cannot be used, the run is made again ({error})")
            return None
        if kept.key != key or kept.check != _check(kept.result):
            self._tell(f"{path}: is not what its name says, the run is made again")
            return None
        return kept.result

    def keep(self, trace: Trace, run: Run, result: RunResult) -> None:
        """Keep a result. Raises `InputError` where it cannot be written."""
        key = self._key(trace, run)
        content = msgspec.json.encode(_File(key, _check(result), result))
        try:
            write_whole(self._path(key), content)
        except OSError as error:
            problem = f"cannot be written ({error.strerror or error})"
            raise InputError(problem, source=str(self._path(key))) from error

    def _path(self, key: str) -> Path:
        return self._folder / f"run-{key[:32]}.json"

    def _key(self, trace: Trace, run: Run) -> str:
        if self._last is None or self._last[0] is not trace:
            self._last = (trace, trace_digest(trace))
        what = (
            FORMAT,
            __version__,
            _code_digest(run.policy.name),
            self._last[1],
            str(run.policy),
            run.seed,
            run.informed,
        )
        return hashlib.sha256(msgspec.json.encode(what)).hexdigest()


def trace_digest(trace: Trace) -> str:
    """A digest of all that a replay reads of a trace, and of the names of its pods."""
    digest = hashlib.sha256()
    counts = sorted(trace.counts.items())
    digest.update(msgspec.json.encode((trace.nodes, trace.requests, [(*kind, count) for kind, count in counts])))
    digest.update("\n".join(trace.names).encode("utf-8", "backslashreplace"))
    for column in (trace.arrivals, trace.arrives_s, trace.leaves_s):
        digest.update(b"none" if column is None else column.astype(column.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _check(result: RunResult) -> str:
    return hashlib.sha256(msgspec.json.encode(result)).hexdigest()


def _code_digest(policy: str) -> str:
    """A digest of the code that decides and measures: a newer one may come to other results."""
    digest = hashlib.sha256(card_policy_source(policy))
    for package in ("bayplan.fleet.cards", "bayplan.simulate"):
        for name, content in sorted(_sources(resources.files(package), package)):
            digest.update(name.encode() + content)
    return digest.hexdigest()


def _sources(folder: Traversable, name: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _sources(entry, f"{name}.{entry.name}")
        elif entry.name.endswith(".py"):
            found.append((f"{name}.{entry.name}", entry.read_bytes()))
    return found

"""Programs that a test starts beside itself: they die with it, and what they said is kept in a file.

Must never be used to start a program from a thread that ends before the tests do: the kernel kills a child when the
thread that started it is gone (prctl(2), PR_SET_PDEATHSIG, which setpriv sets here).
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
TAIL_LINES = 30


def wait_for(what: str, condition: Callable[[], T | None], seconds: float = PATIENCE_SECONDS) -> T:
    """The first true answer of `condition`; AssertionError naming `what` if there is none for `seconds`."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(POLL_SECONDS)
    return answer


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now; all are held while they are looked for, so that none comes twice."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, whatever is in it."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


class Process:
    """One program, started when made and killed by `stop`; all that it writes goes to the end of `log`."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        """Of the program itself: setpriv has become it."""
        return self._popen.pid

    def wait_ready(self, ready: Callable[[], bool]) -> None:
        """Until `ready`; RuntimeError with the end of the log where the program has ended or is never ready."""

        def settled() -> bool:
            if self._popen.poll() is not None:
                raise RuntimeError(f"{self.log.stem} ended with {self._popen.returncode}:\n{tail(self.log)}")
            return ready()

        try:
            wait_for(f"{self.log.stem} is ready", settled)
        except AssertionError as error:
            raise RuntimeError(f"{error}\n{tail(self.log)}") from error

    def stop(self) -> None:
        """Kill it, as a crash would: nothing that it holds is worth keeping. Does nothing the second time."""
        self._popen.kill()
        self._popen.wait()


@contextlib.contextmanager
def running(argv: Sequence[str], log: Path) -> Iterator[Process]:
    """The program while the block runs."""
    process = Process(argv, log)
    try:
        yield process
    finally:
        process.stop()

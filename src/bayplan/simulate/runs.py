"""Runs of several policies and seeds: one after the other or in processes beside each other, with equal results.

A run is a trace, a policy and a seed, and comes out the same wherever it runs; results are given in the order of the
runs, whichever ends first. What is kept of finished runs is for `kept`.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from bayplan.errors import BayplanError
from bayplan.files.plugins import load_card_policy
from bayplan.simulate.kept import Kept
from bayplan.simulate.result import RunResult
from bayplan.simulate.run import Advance, Run, Save, run_one
from bayplan.simulate.trace import Trace

TraceOf = Callable[[int], Trace]


class RunStoppedError(BayplanError):
    """A process that made a run has ended without a result: killed, or out of memory."""


def run_all(
    runs: Sequence[Run],
    trace_of: TraceOf,
    *,
    jobs: int = 1,
    kept: Kept | None = None,
    save: Save | None = None,
    advance: Advance | None = None,
) -> tuple[RunResult, ...]:
    """Make all runs, each on the trace of its seed; those that are kept are not made again.

    Raises `InputError`, and `RunStoppedError` where a process was killed.
    """
    for policy in {run.policy.name: None for run in runs}:
        load_card_policy(policy)  # a misspelt one is told before hours of work
    todo = _Todo(runs, trace_of, kept, save)
    results: dict[int, RunResult] = {}
    made = _one_by_one(todo, results, advance) if jobs == 1 else _beside(todo, results, jobs, advance)
    for i, trace, found in made:
        results[i] = found
        if kept is not None:
            kept.keep(trace, runs[i], found)
    return tuple(results[i] for i in range(len(runs)))


class _Todo:
    """The runs that have to be made. Puts the kept results of the others in `results`."""

    def __init__(self, runs: Sequence[Run], trace_of: TraceOf, kept: Kept | None, save: Save | None) -> None:
        self._runs, self._trace_of, self._kept, self.save = runs, trace_of, kept, save

    def traces(self, results: dict[int, RunResult], advance: Advance | None) -> Iterator[tuple[int, Run, Trace]]:
        """Position, run and trace; the trace of a seed is made once where its runs follow each other."""
        seed: int | None = None
        by_seed = sorted(range(len(self._runs)), key=lambda i: self._runs[i].seed)
        for i in by_seed:
            run = self._runs[i]
            if seed != run.seed:
                seed, trace = run.seed, self._trace_of(run.seed)
            found = None if self._kept is None else self._kept.find(trace, run)
            if found is not None and not self._unsaved(run):
                results[i] = found
                if advance is not None:
                    advance(1.0)
                continue
            yield i, run, trace

    def _unsaved(self, run: Run) -> bool:
        if self.save is None:
            return False
        from bayplan.simulate.records import record_path

        return not record_path(self.save.folder, str(run), self.save.form).exists()


_Made = Iterator[tuple[int, Trace, RunResult]]


def _one_by_one(todo: _Todo, results: dict[int, RunResult], advance: Advance | None) -> _Made:
    for i, run, trace in todo.traces(results, advance):
        yield i, trace, run_one(trace, run, todo.save, advance)


def _beside(todo: _Todo, results: dict[int, RunResult], jobs: int, advance: Advance | None) -> _Made:
    """At most one run for each process waits, so that few traces are in memory at a time."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin)
    running: dict[Future[RunResult], tuple[int, Trace]] = {}
    try:
        for i, run, trace in todo.traces(results, advance):
            running[pool.submit(run_one, trace, run, todo.save)] = (i, trace)
            if len(running) > jobs:
                yield from _ended(running, advance)
        while running:
            yield from _ended(running, advance)
    except BrokenProcessPool as error:
        raise RunStoppedError("a run was stopped: its process was killed, or had no memory left") from error
    finally:
        if running:  # interrupted, or one has failed: nobody wants what the others are at
            for process in multiprocessing.active_children():
                process.terminate()
        pool.shutdown(cancel_futures=True)


def _ended(running: dict[Future[RunResult], tuple[int, Trace]], advance: Advance | None) -> _Made:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        i, trace = running.pop(future)
        found = future.result()
        if advance is not None:
            advance(1.0)
        yield i, trace, found


def _begin() -> None:
    """An interrupt ends the process at once and without a word; the one that started it says what is to be said."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

"""A second process that works beside this one.

Python runs one thread at a time and loads one library at a time, and a small audit spends most of its time in
short calls. So jobs that nobody waits for yet go to a second process: functions of this package with
arguments that can be pickled. Nothing depends on it: where it cannot be started or fails, a job is done in
this process, with the same result. It ends with the block that started it, and when its input is closed,
however this process ends.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import numpy as np

from leakscope.disk.memory import collect_rarely, reuse_memory
from leakscope.disk.scratch import divide_threads

MOST_BYTES = 1 << 26
"""Arrays that are sent to it, at most."""
_PROCESSES = 2
_SOON = 0.03  # seconds; a job that waits is sent when the one before it is answered
_LAST_PICKLE = 5
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = tuple[Any] | None
"""The result in a tuple; None: the second process gave none."""


class _SecondProcess:
    """A running process, which does one job after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.thread = process, ThreadPoolExecutor(1)

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Answer]:
        """Sends a job when those before it are done."""
        return self.thread.submit(self.answer, function, arguments)

    def answer(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Answer:
        """Sends a job, and waits for its result; on the thread that submits."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        try:
            job = pickle.dumps((function, arguments), _LAST_PICKLE)
            stdin.write(job)
            stdin.flush()
            is_done, result = pickle.load(stdout)
        except Exception:  # whatever an object raises that is pickled, or half of an answer
            return None
        return (result,) if is_done else None

    def end(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.thread.shutdown(cancel_futures=True)
        self.process.communicate()


_RUNNING: ContextVar[_SecondProcess | None] = ContextVar("second process", default=None)


class Job(Generic[Result]):
    """Work whose result is needed later; a second process does it meanwhile, where there is one."""

    def __init__(self, function: Callable[..., Result], *arguments: Any) -> None:
        self._function, self._arguments, second = function, arguments, _RUNNING.get()
        is_sent = second is not None and are_small(*arguments)
        self._beside = second.submit(function, arguments) if second is not None and is_sent else None

    def result(self) -> Result:
        """Waits for it, or does it now."""
        if self._beside is not None:
            try:
                answer = self._beside.result()
            except CancelledError:  # the process has ended
                answer = None
            if answer is not None:
                return answer[0]  # type: ignore[no-any-return]
        return self._function(*self._arguments)

    def result_now(self) -> Result:
        """The same, but waits for no other job: what the second process has not begun is done here."""
        if self._beside is not None and self._beside.cancel():
            self._beside = None
        return self.result()


@contextmanager
def second_process(
    modules: Sequence[str], when_idle: Sequence[str] = (), is_needed: bool = True
) -> Iterator[None]:
    """Starts it; within the block, jobs go to it.

    Args:
        modules: what it loads at once.
        when_idle: what it loads, one after the other, whenever no job is waiting.
        is_needed: false: nothing is started.
    """
    process = _started(when_idle) if is_needed and _cores() > 1 else None
    second = None if process is None else _SecondProcess(process)
    token = _RUNNING.set(second)
    try:
        if second is not None:
            second.submit(load, (modules,))
        yield
    finally:
        _RUNNING.reset(token)
        if second is not None:
            second.end()


def is_running() -> bool:
    """Whether there is a second process."""
    return _RUNNING.get() is not None


def are_small(*arguments: object) -> bool:
    """Whether the arrays among the arguments, or in tuples, are small enough for another process."""
    flat = (item for a in arguments for item in (a if isinstance(a, tuple) else (a,)))
    return sum(item.nbytes for item in flat if isinstance(item, np.ndarray)) <= MOST_BYTES


def shared_out(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The result for each item, in order; whichever process is free takes the next, the first item first."""
    second = _RUNNING.get()
    if second is None:
        return [function(item) for item in items]
    waiting, results = deque(enumerate(items)), dict[int, Result]()

    def next_item() -> tuple[int, Item] | None:
        try:
            return waiting.popleft()
        except IndexError:
            return None

    def beside() -> None:
        while (one := next_item()) is not None:
            answer = second.answer(function, one[1:])
            if answer is None:
                return  # it is done here
            results[one[0]] = answer[0]

    theirs = second.thread.submit(beside)
    try:
        with divide_threads(_PROCESSES):
            while (one := next_item()) is not None:
                results[one[0]] = function(one[1])
    finally:
        waiting.clear()
    if not theirs.cancel():  # it has begun
        theirs.result()
    return [results[at] if at in results else function(item) for at, item in enumerate(items)]


def load(modules: Sequence[str]) -> None:
    """Loads what jobs will need; a module that is not installed is none of them."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def serve(when_idle: Sequence[str] = ()) -> None:
    """What the second process does: one job after the other, until its input ends.

    Args:
        when_idle: modules to load while no job is waiting.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    reuse_memory()
    not_loaded = deque(when_idle)
    with collect_rarely(), divide_threads(_PROCESSES):
        while True:
            while not_loaded and not _has_job():
                load([not_loaded.popleft()])
            try:
                function, arguments = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                answer = True, function(*arguments)
            except Exception:  # raised again where the job is done again
                answer = False, None
            pickle.dump(answer, answers, _LAST_PICKLE)
            answers.flush()


def _has_job() -> bool:
    """Whether a job comes soon, or the input has ended; jobs come one by one, so none is in a buffer."""
    try:
        return bool(select.select([sys.stdin], [], [], _SOON)[0])
    except OSError:  # Windows can ask sockets only
        return False


def _started(when_idle: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """A Python with this one's search path, out of reach of Ctrl-C, which is for this process to handle."""
    names = tuple(when_idle)
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({names!r})"
    n_threads = str(max(1, _cores() // _PROCESSES))
    given = {name: os.environ.get(name, n_threads) for name in _THREAD_VARIABLES}
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **given},
        )
    except (OSError, ValueError):  # no such program, no memory for it, or not allowed
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Kills a process at every single write of a bank, without any chance to clean up, and lets another go on.

Run as a script in a process of its own, because it forks: `python -m tests.faults.kill_points FOLDER`
prints the number of deaths survived for each moment of dying.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bank.small_bank import complete, contents, flip

_KILLED = 9


def die_at_rename(n: int, is_done: bool) -> None:
    """The n-th rename is the last thing that happens, or the first that does not."""
    original, count = Path.replace, itertools.count()

    def replace(self: Path, target: Path) -> Path:
        is_last = next(count) == n
        if is_last and not is_done:
            os._exit(_KILLED)
        renamed = original(self, target)
        if is_last:
            os._exit(_KILLED)
        return renamed

    Path.replace = replace  # type: ignore[method-assign]


def die_while_writing(n: int) -> None:
    """The n-th file is half on disk."""
    original, count = os.fsync, itertools.count()

    def fsync(number: int) -> None:
        if next(count) == n:
            os.ftruncate(number, os.fstat(number).st_size // 2)
            os._exit(_KILLED)
        original(number)

    os.fsync = fsync


def die_while_removing(n: int) -> None:
    """The n-th file has just been removed."""
    original, count = os.unlink, itertools.count()

    def unlink(path: str, *, dir_fd: int | None = None) -> None:
        original(path, dir_fd=dir_fd)
        if next(count) == n:
            os._exit(_KILLED)

    os.unlink = unlink


MOMENTS: dict[str, Callable[[int], None]] = {
    "before a rename": lambda n: die_at_rename(n, is_done=False),
    "after a rename": lambda n: die_at_rename(n, is_done=True),
    "while writing": die_while_writing,
    "while removing": die_while_removing,
}


def new_bank(folder: Path) -> None:
    del folder


def damaged_bank(folder: Path) -> None:
    """Finished, then something happens to one block and one header."""
    complete(folder)
    flip(folder / "signals" / "loss.npy", -1)
    flip(folder / "signals" / "logits.npy", 30)


def deaths_survived(root: Path, prepare: Callable[[Path], None], die: Callable[[int], None]) -> int:
    """Dies at the first write, the second and so on, until there are no more; checks each time."""
    expected = root / "expected"
    complete(expected)
    for n in itertools.count():
        folder = root / str(n)
        prepare(folder)
        child = os.fork()
        if child == 0:
            die(n)
            complete(folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, _KILLED), f"the run itself failed with {code}"
        complete(folder)
        assert contents(folder).keys() >= contents(expected).keys()
        rests = contents(folder).keys() - contents(expected).keys()
        assert all(name.startswith("blocks/") for name in rests), f"left behind: {rests}"
        same = {name: content for name, content in contents(folder).items() if name not in rests}
        assert same == contents(expected), f"death {n} changed the bank"
        if code == 0:
            return n
    raise AssertionError("unreachable")


def main(root: Path) -> None:
    os.fsync = lambda number: None  # a killed process, unlike a power cut, loses nothing it has written
    found = {
        f"{prepare.__name__}, {moment}": deaths_survived(root / prepare.__name__ / moment, prepare, die)
        for prepare in (new_bank, damaged_bank)
        for moment, die in MOMENTS.items()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

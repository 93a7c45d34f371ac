"""What is fuzzed: for each kind of input how to make a hostile one and how leakscope reads it.

The rule for all: it is read, or one of leakscope's own errors says what is wrong. Nothing else may be raised,
take long, run code, or write outside the folder it was given.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from leakscope.errors import LeakscopeError
from tests.fuzz import arrays, documents, pictures

CPU_SECONDS, SECONDS = 20, 300


class TooSlow(BaseException):
    """A reader that does not come back."""


class Example(NamedTuple):
    """One hostile input on disk, how it is read, and what may appear beside it."""

    path: Path
    read: Callable[[], object]
    beside: tuple[str, ...] = ()


Maker = Callable[[Random, Path], Example]


def _file(folder: Path, name: str, content: bytes, read: Callable[[Path], object]) -> Example:
    path = folder / name
    path.write_bytes(content)
    return Example(path, lambda: read(path))


def _read_records(rng: Random, path: Path) -> object:
    from leakscope.data.files import read_table
    from leakscope.data.standardise import standardised

    is_npz = path.suffix == ".npz"
    label = rng.choice((None, "labels", "y") if is_npz else ("label",) * 8 + ("a",))
    id_column = rng.choice((None, "ids" if is_npz else "id"))
    groups = rng.choice(((), ("group",)))
    task = rng.choice(("auto", "classification", "regression"))
    records = standardised(read_table(path, label, id_column, groups, task=task))
    return records.digest, len(np.unique(records.duplicate_of))


def _read_predictions(path: Path) -> object:
    from leakscope.data.predictions import read_predictions

    return read_predictions(path, membership="required").ids


def record_npz(rng: Random, folder: Path) -> Example:
    return _file(folder, "x.npz", arrays.record_npz(rng), lambda path: _read_records(rng, path))


def record_csv(rng: Random, folder: Path) -> Example:
    content = arrays.csv_file(rng, arrays.RECORD_COLUMNS)
    return _file(folder, "x.csv", content, lambda path: _read_records(rng, path))


def record_parquet(rng: Random, folder: Path) -> Example:
    content = arrays.parquet_file(rng, arrays.RECORD_COLUMNS)
    return _file(folder, "x.parquet", content, lambda path: _read_records(rng, path))


def predictions(rng: Random, folder: Path) -> Example:
    suffix = rng.choice(("npz", "npz", "csv", "parquet"))
    if suffix == "npz":
        content = arrays.prediction_npz(rng)
    else:
        make = arrays.csv_file if suffix == "csv" else arrays.parquet_file
        content = make(rng, arrays.prediction_columns(rng))
    return _file(folder, f"x.{suffix}", content, _read_predictions)


def config(rng: Random, folder: Path) -> Example:
    """Read and checked; what it names is not imported, which a config may ask for by its nature."""
    from leakscope.audits.config import read_config

    return _file(folder, "x.toml", documents.config_file(rng), read_config)


def safetensors(rng: Random, folder: Path) -> Example:
    from leakscope.models.weights import read_state

    return _file(folder, "x.safetensors", documents.safetensors_file(rng), read_state)


def torch_weights(rng: Random, folder: Path) -> Example:
    from leakscope.models.weights import read_state

    return _file(folder, "x.pt", documents.torch_file(rng, str(folder / "evil")), read_state)


def run_folder(rng: Random, folder: Path) -> Example:
    """Verified, opened, merged and run again; the last is what writes."""
    from leakscope.bank.bank import Bank
    from leakscope.bank.merge import plan_merge, write_merge
    from leakscope.runs.verification import verify_run
    from tests.fuzz.runs import answers_into, template

    run = folder / "run"
    shutil.copytree(template(), run)
    documents.spoil_run(rng, run)
    use = rng.randrange(4)

    def read() -> object:
        if use == 0:
            return verify_run(run).problems
        if use == 1:
            return Bank.open(run).signals().last("log_odds").tobytes()
        if use == 2:
            return write_merge(plan_merge([run, template()]), folder / "merged")
        return answers_into(run)

    return Example(run, read, ("merged",))


def report(rng: Random, folder: Path) -> Example:
    """An audit or a comparison whose report is written again, or which is compared with a whole one."""
    from leakscope.compare.compare import compare
    from leakscope.disclosure import Disclosure
    from leakscope.runs.kinds import rebuild_report
    from tests.fuzz.runs import template_of

    kind = rng.choice(("answers", "audit", "pictures", "compare"))
    run = _spoiled(rng, folder, kind)
    disclosure = rng.choice((Disclosure(), Disclosure(redacted=True), Disclosure(with_membership=True)))
    runs = [run, template_of(kind) / "run"]
    rng.shuffle(runs)
    if kind != "compare" and rng.random() < 0.5:
        return Example(run, lambda: compare(runs, folder / "compared"), ("compared",))
    return Example(run, lambda: rebuild_report(run, disclosure), ("first", "second"))


def study_folder(rng: Random, folder: Path) -> Example:
    """A study, or an attack on one model: verified, or its report written again."""
    from leakscope.runs.kinds import rebuild_report
    from leakscope.runs.verification import verify_run

    run = _spoiled(rng, folder, rng.choice(("attack", "dynamics", "ensemble", "leakage", "scaling")))
    use = rng.choice((verify_run, rebuild_report))
    return Example(run, lambda: use(run), ("public.npz", "private.npz"))


def _spoiled(rng: Random, folder: Path, kind: str) -> Path:
    """A copy of one template, spoiled."""
    from tests.fuzz.runs import template_of

    shutil.copytree(template_of(kind), folder, dirs_exist_ok=True)
    documents.spoil_run(rng, folder / "run")
    return folder / "run"


def records_folder(rng: Random, folder: Path) -> Example:
    """Pictures in a folder a class, or arrays as files."""
    from leakscope.data.files import read_table
    from leakscope.data.standardise import standardised

    given = folder / "x"
    given.mkdir()
    rng.choice((pictures.picture_folder, pictures.array_folder))(rng, given)
    label, groups = rng.choice((None, None, None, "labels", "y")), rng.choice(((), (), ("side",)))

    def read() -> object:
        records = standardised(read_table(given, label, None, groups))
        return records.digest, len(np.unique(records.duplicate_of))

    return Example(given, read)


KINDS: dict[str, Maker] = {
    "config": config,
    "csv": record_csv,
    "npz": record_npz,
    "parquet": record_parquet,
    "predictions": predictions,
    "records folder": records_folder,
    "report": report,
    "run folder": run_folder,
    "safetensors": safetensors,
    "study folder": study_folder,
    "torch": torch_weights,
}


@contextmanager
def time_limit() -> Iterator[None]:
    def too_slow(number: int, frame: object) -> None:
        raise TooSlow

    timers = {
        signal.SIGPROF: (signal.ITIMER_PROF, CPU_SECONDS),
        signal.SIGALRM: (signal.ITIMER_REAL, SECONDS),
    }
    before = {number: signal.signal(number, too_slow) for number in timers}
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def try_one(kind: str, rng: Random, folder: Path) -> str:
    """Reads one hostile input in the empty `folder`; "read" or the error's name. Raises on any fault."""
    inside = folder / "given"
    inside.mkdir()
    (folder / "outside.txt").write_text("not yours")
    example = KINDS[kind](rng, inside)
    try:
        with time_limit():
            example.read()
        ended = "read"
    except LeakscopeError as error:
        said = str(error)
        assert said.strip(), "an error without words"
        assert len(said) < 20_000, f"an error of {len(said)} characters"
        said.encode()  # it must be possible to print it
        ended = type(error).__name__
    assert not (inside / "evil").exists(), "the input ran code"
    assert sorted(path.name for path in folder.iterdir()) == ["given", "outside.txt"], "wrote outside"
    written = {path.name for path in inside.iterdir()} - {example.path.name, *example.beside}
    assert example.path == inside or not written, f"wrote outside: {sorted(written)}"
    assert (folder / "outside.txt").read_text() == "not yours"
    return ended

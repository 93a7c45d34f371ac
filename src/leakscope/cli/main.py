"""`leakscope`: registers the commands, and turns errors into one line and an exit code."""

from __future__ import annotations

import codecs
import errno
import io
import sys
import traceback
from contextlib import suppress
from typing import Annotated, Any

import typer

from leakscope import __version__
from leakscope.cli import (
    advise,
    attack,
    audit,
    bank,
    config,
    data,
    defences,
    doctor,
    init,
    plan,
    runs,
    studies,
    track,
    waiting,
)
from leakscope.cli.app import App
from leakscope.disk.memory import collect_rarely
from leakscope.errors import (
    ExitCode,
    InputError,
    LeakscopeError,
    StorageError,
    first_line,
    missing_extra,
    printable,
)

_EXIT_CODES = "\n\n".join(["Exit codes:", *(f"{code.value:3}  {code.meaning}" for code in ExitCode)])
_SHOWN_OF_PATH = 60
_LEAST_ADDRESS_SPACE = 2_000_000_000
_SIGNS_OF_NO_MEMORY = (
    "failed to map segment",
    "annot allocate memory",
    "can't allocate memory",
    "bad_alloc",
    "can't start new thread",
    "Unable to allocate",
)

app = App(
    help="Measure what a trained model reveals about who was in its training set.",
    epilog=_EXIT_CODES,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(audit.demo)
app.command("init")(init.init)
app.command("audit")(audit.audit)
app.command("plan")(plan.plan)
app.command("judge")(audit.judge)
app.command("advise")(advise.advise)
app.command("attack")(attack.attack)
app.command("attacks")(attack.attacks)
app.command("defences")(defences.defences)
app.add_typer(studies.app, name="study")
app.command("report")(runs.report)
app.command("open")(runs.open_)
app.command("verify")(runs.verify)
app.command("compare")(runs.compare)
app.command("track")(track.track)
app.command("card")(track.card)
app.command("schema")(runs.schema)
app.add_typer(bank.app, name="bank")
app.add_typer(data.app, name="data")
app.add_typer(config.app, name="config")
app.command("doctor")(doctor.doctor)


def _show_version(value: bool) -> None:
    if value:
        print(f"leakscope {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure what a trained model reveals about who was in its training set."""


class _Unread(io.FileIO):
    """A standard stream whose reader may leave, as `| head` does: the run and its exit code are the same.

    A stream that cannot be written ends the command with one line: what a pipeline reads would be incomplete.
    """

    is_lost = False

    def write(self, content: Any) -> int:
        if self.is_lost:  # Python flushes what is left when it ends, and must not fail again
            return len(content)
        try:
            return super().write(content) or 0
        except BrokenPipeError:
            return len(content)
        except OSError as error:
            self.is_lost = True
            name = "standard output" if self.fileno() == 1 else "standard error"
            raise StorageError(
                f"{name} cannot be written ({error.strerror}); free space there, or redirect it elsewhere"
            ) from error


def _flush() -> None:
    """Writes what is left on standard output while an error still becomes an exit code."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _outlive_readers() -> None:
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is not None and stream is getattr(sys, f"__{name}__"):
            stream.flush()
            buffer = io.BufferedWriter(_Unread(number, "w", closefd=False))
            is_live = name == "stderr" or stream.isatty()
            is_utf8 = codecs.lookup(stream.encoding).name == "utf-8"
            # A run must not fail for want of a ± in the encoding of a terminal or a log.
            errors = "replace" if name == "stdout" and not is_utf8 else stream.errors
            setattr(sys, name, io.TextIOWrapper(buffer, stream.encoding, errors, line_buffering=is_live))


def _require_address_space() -> None:
    """Refuses a limit (`ulimit -v`) under which libraries end the process while they are loaded."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= limit < _LEAST_ADDRESS_SPACE:
        raise InputError(
            f"not enough memory: this shell limits it to {limit / 1e9:.1f} GB, and its libraries take "
            f"{_LEAST_ADDRESS_SPACE / 1e9:.0f} GB of addresses; raise the limit with `ulimit -v`"
        )


def _is_out_of_memory(error: BaseException | None) -> bool:
    """True where memory ran out, or a library could not be loaded for lack of it."""
    return error is not None and (
        isinstance(error, MemoryError)
        or getattr(error, "errno", None) == errno.ENOMEM
        or any(sign in str(error) for sign in _SIGNS_OF_NO_MEMORY)
        or _is_out_of_memory(error.__cause__)
    )


def main() -> None:
    """Entry point; ends with an `ExitCode`."""
    _outlive_readers()
    waiting.choose_waiting()
    try:
        _require_address_space()
        with collect_rarely():
            _run_and_flush()
    except LeakscopeError as error:
        with suppress(StorageError):  # standard error may be what cannot be written
            _say(" ".join(str(error).splitlines()))
        sys.exit(error.exit_code)
    except Exception as error:
        sys.exit(_explained(error))
    except SystemExit as end:
        _refuse_foreign_end(end)
        raise


def _run_and_flush() -> None:
    try:
        app()
    finally:
        _flush()


def _say(what: str) -> None:
    print(f"leakscope: {what}", file=sys.stderr)


def _explained(error: Exception) -> ExitCode:
    """Says what went wrong and, where no user caused it, shows where; called while the error is handled."""
    if isinstance(error, ModuleNotFoundError) and missing_extra(error.name):
        _say(missing_extra(error.name))
        return ExitCode.INPUT_WRONG
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        _say(f"{printable(str(error.filename))[:_SHOWN_OF_PATH]}... is longer than a path may be")
        return ExitCode.INPUT_WRONG
    if _is_out_of_memory(error):
        remedy = "free some, raise the limit (`ulimit -v`), or audit fewer records or models"
        _say(f"not enough memory ({printable(first_line(error))}); {remedy}")
    else:  # a bug
        traceback.print_exc()
    return ExitCode.RUN_FAILED  # Python's own exit code would be 1, which says that the gate failed


def _refuse_foreign_end(end: SystemExit) -> None:
    """Ends with another code where a user's function ended the process with that of a failed gate.

    After Ctrl-C, it says how to resume.
    """
    if end.code == ExitCode.INTERRUPTED:  # how typer ends after Ctrl-C
        without = ", without --fresh," if "--fresh" in sys.argv else ""  # which would start over
        _say(f"interrupted; run the same command again{without} to resume")
    if end.code == ExitCode.GATE_FAILED and not isinstance(end.__context__, typer.Exit):
        _say("the run was ended from within, by sys.exit or the end of an input")
        sys.exit(ExitCode.RUN_FAILED)

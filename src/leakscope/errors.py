"""Errors and exit codes. A user's mistake ends with one clear line; a bug shows its traceback."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from enum import IntEnum
from importlib.util import find_spec

_LONGEST_MESSAGE = 2000


class ExitCode(IntEnum):
    """How a command ends; `meaning` is what `leakscope --help` and docs/exit_codes.md say."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        """A member with its meaning."""
        member = int.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    SUCCESS = 0, "success; the gate, if any, passed, and the claim, if any, was not refuted"
    GATE_FAILED = (
        1,
        "the gate failed: a limit is broken, a claim is refuted, or a run leaks more than the baseline of "
        "`compare`",
    )
    INPUT_WRONG = 2, "the input is wrong: an option, a config, a file"
    RUN_FAILED = 3, "the run failed or its folder is in use; the same command may succeed later"
    INCONCLUSIVE = (
        4,
        "inconclusive: a check of the audit failed, the gate or the claim could not be decided, or `verify` "
        "computes other numbers than the version of leakscope that made the run",
    )
    INTERRUPTED = 130, "interrupted by Ctrl-C; the same command resumes"


class LeakscopeError(Exception):
    """Base of all errors that leakscope raises on purpose. `exit_code` is that of the command line.

    Messages quote the input, which may be anything: they are shortened, and characters that a terminal would
    obey or cannot display are escaped.
    """

    exit_code = ExitCode.RUN_FAILED

    def __str__(self) -> str:
        message = super().__str__()
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE - 500]} … {message[-400:]}"
        return printable(message)


class InputError(LeakscopeError):
    """The user's input is wrong; the message names the value and the remedy."""

    exit_code = ExitCode.INPUT_WRONG


class MissingExtraError(InputError):
    """A package that only some commands need is not installed; the message says how to install it."""


class DataMissingError(InputError):
    """A dataset's files are not where they should be; the message says what to put where."""


class BankMismatchError(InputError):
    """A run folder holds a bank of other records, design, recipe or seed."""


class CorruptBankError(LeakscopeError):
    """A file of a run folder is damaged, or does not match its checksum."""


class OtherVersionError(LeakscopeError):
    """Undamaged results differ from what this version computes, and another version computed them."""

    exit_code = ExitCode.INCONCLUSIVE


class StorageError(LeakscopeError):
    """The run folder cannot be written: disk full, read-only, no permission."""


class UnusablePathError(StorageError):
    """Nothing can ever be written under this name, so the input is wrong."""

    exit_code = ExitCode.INPUT_WRONG


class FolderInUseError(LeakscopeError):
    """Another run is using the folder; the same command may succeed later, so the input is not wrong."""


class TrainingError(LeakscopeError):
    """Models of a run could not be trained."""


class UntrainableError(TrainingError):
    """They never can be: training is seeded, so the same command would end in the same way."""

    exit_code = ExitCode.INPUT_WRONG


_OF_TRAIN = {
    "torch": "training",
    "safetensors": "reading weights",
    "dp_accounting": "the accounting of differential privacy",
}
"""Packages of the extra `train` -> what needs them."""


def require_train() -> None:
    """Raises MissingExtraError where torch, which the extra `train` brings, is not installed."""
    try:
        is_installed = find_spec("torch") is not None
    except (ValueError, ModuleNotFoundError):  # somebody has marked it as missing
        is_installed = False
    if not is_installed:
        raise MissingExtraError(missing_extra("torch"))


def missing_extra(package: str | None) -> str:
    """What a package of the extra `train` is for, and how to install it; empty for any other package."""
    name = (package or "").partition(".")[0]
    if name not in _OF_TRAIN:
        return ""
    return f"{_OF_TRAIN[name]} needs {name.replace('_', '-')}: pip install 'leakscope[train]'"


def printable(text: str) -> str:
    """Text with the characters escaped that a terminal would obey or cannot display; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def did_you_mean(name: str, known: Iterable[str], before: str = "", after: str = "") -> str:
    """The closest of the known names as a question between two texts; empty where none is close."""
    near = get_close_matches(name, list(known), n=1)
    return f"{before}did you mean {near[0]!r}?{after}" if near else ""


def choose_from(name: str, known: Collection[str]) -> str:
    """What to give instead of an unknown name: the closest of the known ones, if any, and all of them."""
    return f"{did_you_mean(name, known, after=' ')}choose from {', '.join(known)}"


def first_line(error: BaseException) -> str:
    """The first line of another library's message; the name of its type where there is none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

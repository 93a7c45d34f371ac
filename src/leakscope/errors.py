"""One small tree of errors. A user's mistake ends as one clear line; a bug keeps its traceback.

The exit codes are the command line's contract: 0 fine, 1 the gate failed, 2 the input is wrong,
3 the run failed.
"""

_LONGEST_MESSAGE = 2000


class LeakscopeError(Exception):
    """Anything leakscope says on purpose. `exit_code` is what the command line ends with.

    Messages quote the input, which may be anything: they are shortened, and what a terminal would obey or
    cannot show is written as an escape.
    """

    exit_code = 3

    def __str__(self) -> str:
        said = super().__str__()
        if len(said) > _LONGEST_MESSAGE:
            said = f"{said[: _LONGEST_MESSAGE - 500]} … {said[-400:]}"
        if said.isprintable():
            return said
        return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in said)


class InputError(LeakscopeError):
    """The user's input is wrong; the message names the value and the remedy."""

    exit_code = 2


class DataMissingError(InputError):
    """A dataset's files are not where they should be; the message says what to put where."""


class BankMismatchError(InputError):
    """A run folder holds a bank of other records, design, recipe or seed."""


class CorruptBankError(LeakscopeError):
    """A file of a run folder does not match its checksum."""


class StorageError(LeakscopeError):
    """The run folder cannot be written: disk full, read-only, no permission."""


class FolderInUseError(LeakscopeError):
    """Another run is at work in the folder; the same command may succeed later, so the input is not wrong."""


class TrainingError(LeakscopeError):
    """No model of a run could be trained."""

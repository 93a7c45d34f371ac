"""One small tree of errors. A user's mistake ends as one clear line; a bug keeps its traceback.

The exit codes are the command line's contract: 0 fine, 1 the gate failed, 2 the input is wrong,
3 the run failed.
"""


class LeakscopeError(Exception):
    """Anything leakscope says on purpose. `exit_code` is what the command line ends with."""

    exit_code = 3


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


class TrainingError(LeakscopeError):
    """No model of a run could be trained."""

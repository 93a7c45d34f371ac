"""A file becomes a fitted scikit-learn estimator.

Joblib files and pickles run code when they are loaded, so they are loaded only on the user's word. A skops
file runs no code, but its types must be known to be safe; skops names those that are not.
"""

from __future__ import annotations

import pickle
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

from leakscope.disk.storage import user_file
from leakscope.errors import InputError, first_line

PICKLES = (".joblib", ".pkl", ".pickle")
SUFFIXES = (".skops", *PICKLES)

_UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, AssertionError,
               ArithmeticError, MemoryError, ImportError, RecursionError, NotImplementedError, RuntimeError,
               zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError,
               pickle.UnpicklingError)  # fmt: skip
"""What loading a damaged file ends in, or one whose classes are not installed here."""


IN_PYTHON = "trust=True"
"""How a caller in Python says that it trusts a file."""


def load_estimator(path: Path, trust: bool | tuple[str, ...], to_trust: str) -> Any:
    """The estimator in a .skops, .joblib, .pkl or .pickle file; arguments as in `FittedEstimator`.

    Raises:
        InputError: the file is not trusted, cannot be read or holds no such estimator.
    """
    path = user_file(path, SUFFIXES, "an estimator as")
    load = _load_skops if path.suffix.lower() == ".skops" else _load_pickle
    return check_estimator(load(path, trust, to_trust), str(path))


def check_estimator(estimator: Any, name: str) -> Any:
    """The estimator itself, if it is fitted and a classifier with probabilities, or a regressor."""
    kind = type(estimator).__name__
    if not (hasattr(estimator, "predict_proba") or predicts_numbers(estimator)):
        raise InputError(
            f"{name} holds {kind}, which has no predict_proba; give a classifier with probabilities or a "
            "regressor, or wrap it in a function and give that"
        )
    if not (_is_fitted(estimator) if predicts_numbers(estimator) else hasattr(estimator, "classes_")):
        raise InputError(f"{name} holds {kind}, which is not fitted; fit it before saving it")
    return estimator


def predicts_numbers(estimator: Any) -> bool:
    """Whether the estimator is a regressor."""
    from sklearn.base import is_regressor

    try:
        return bool(is_regressor(estimator))
    except (AttributeError, TypeError):  # it is no estimator at all
        return False


def _is_fitted(estimator: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def _load_skops(path: Path, trust: bool | tuple[str, ...], to_trust: str) -> Any:
    try:
        from skops import io
    except ImportError as error:
        raise InputError(f"{path}: reading .skops files needs `pip install 'leakscope[skops]'`") from error
    try:
        untrusted = io.get_untrusted_types(file=path)
        allowed = untrusted if trust is True else [name for name in untrusted if name in (trust or ())]
        refused = [name for name in untrusted if name not in allowed]
        if not refused:
            return io.load(path, trusted=allowed)
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot be read as skops ({first_line(error)})") from error
    names = ", or name these types in trust" if to_trust == IN_PYTHON else ""
    raise InputError(
        f"{path} holds types that skops does not trust: {', '.join(refused)}; if you trust whoever made "
        f"it, allow them with {to_trust}{names}"
    )


def _load_pickle(path: Path, trust: bool | tuple[str, ...], to_trust: str) -> Any:
    import joblib

    if trust is not True:
        raise InputError(
            f"{path}: loading a {path.suffix} file runs whatever code is in it; if you trust whoever made "
            f"it, allow it with {to_trust}, or save the estimator as .skops"
        )
    try:
        return joblib.load(path)
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot be loaded ({first_line(error)})") from error

"""UCI Adult (Kohavi 1996): 48,842 people of the 1994 US census; does one earn more than $50K?

`adult.test` starts with a comment line and ends its labels in a dot; both files end in an empty line.
A few people appear twice (24 exact repeats in adult.data, 5 in adult.test): they stay, because they
were published, and an audit reports them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray, FloatArray
from leakscope.data.published import require
from leakscope.errors import InputError
from leakscope.types import Records

Encoding = Literal["onehot", "integer"]
ENCODINGS = ("onehot", "integer")
FILES = {"adult.data": 32_561, "adult.test": 16_281}
COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
NUMERIC = frozenset({"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"})
CLASS_NAMES = ("<=50K", ">50K")


def adult(folder: Path, encoding: Encoding = "onehot") -> Records:
    """The people of adult.data, then those of adult.test; groups sex, race and split.

    Args:
        folder: where the two files lie.
        encoding: "onehot" standardises the numeric columns and gives every category its own 0/1 column
            (108 features); "integer" turns categories into integer codes in alphabetical order, then
            centres and scales all 14 columns. An unknown value, "?", is a category of its own.

    Returns:
        float32 features; ids are the file and its line, `adult.data:17` being line 17.
    """
    if encoding not in ENCODINGS:
        raise InputError(f"encoding={encoding!r} must be one of {', '.join(ENCODINGS)}")
    paths = require("adult", folder, list(FILES))
    files = [_read_rows(path, n_records) for path, n_records in zip(paths, FILES.values(), strict=True)]
    by_column = zip(*(row for rows in files for row in rows), strict=True)
    columns = {name: np.array(values) for name, values in zip(("id", *COLUMNS), by_column, strict=True)}
    features = _features(columns, encoding)
    return Records(
        features=np.column_stack(list(features.values())).astype(np.float32),
        labels=(columns["income"] == CLASS_NAMES[1]).astype(np.int64),
        ids=columns["id"],
        name="adult",
        groups={
            "sex": columns["sex"],
            "race": columns["race"],
            "split": np.repeat(np.array(["train", "test"]), [len(rows) for rows in files]),
        },
        class_names=CLASS_NAMES,
        feature_names=tuple(features),
    )


def _read_rows(path: Path, expected_records: int) -> list[list[str]]:
    """The id and the fields of each person."""
    lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    rows = [
        _parse_line(path, number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("|")
    ]
    if len(rows) != expected_records:
        raise InputError(
            f"{path} is truncated or damaged: it has {len(rows):,} records, expected {expected_records:,}; "
            "delete it and fetch it again"
        )
    return rows


def _parse_line(path: Path, number: int, line: str) -> list[str]:
    fields = [field.strip() for field in line.split(",")]
    fields[-1] = fields[-1].removesuffix(".")
    if len(fields) != len(COLUMNS) or fields[-1] not in CLASS_NAMES:
        raise InputError(
            f"{path} is truncated or damaged: line {number} has {len(fields)} fields, expected "
            f"{len(COLUMNS)} ending in an income of {' or '.join(CLASS_NAMES)}; delete it and fetch it again"
        )
    return [f"{path.name}:{number}", *fields]


def _features(columns: dict[str, npt.NDArray[np.str_]], encoding: Encoding) -> dict[str, AnyArray]:
    """The 14 attributes as numbers (records,); "sex=Female" where a category has a column of its own."""
    features: dict[str, AnyArray] = {}
    for name in COLUMNS[:-1]:
        categories, codes = np.unique(columns[name], return_inverse=True)
        if name in NUMERIC:
            features[name] = _standardised(_numbers(name, columns[name]))
        elif encoding == "onehot":
            features |= {f"{name}={text}": codes == code for code, text in enumerate(categories)}
        else:
            features[name] = _standardised(codes.astype(np.float64))
    return features


def _numbers(name: str, texts: npt.NDArray[np.str_]) -> FloatArray:
    try:
        return texts.astype(np.float64)
    except ValueError as error:
        raise InputError(f"adult: column {name} must be numeric: {error}; fetch the files again") from error


def _standardised(values: FloatArray) -> FloatArray:
    """Mean 0 and standard deviation 1; a constant column becomes 0."""
    spread = float(values.std())
    return (values - float(values.mean())) / (spread if spread > 0 else 1.0)

"""Documents as people keep them: a jsonl, csv or parquet file, a folder of text files, or texts in memory.

A document that is empty, is no text, or cannot be written as UTF-8 is refused with its place: dropping it
silently would leave somebody out of the audit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leakscope.array_types import AnyArray
from leakscope.data.column_file import column_file, group_of, label_values, texts_of
from leakscope.data.columns import encode_labels, listed, require_names, unique_ids
from leakscope.disk.storage import open_regular
from leakscope.disk.string_arrays import numbered_ids
from leakscope.errors import InputError, first_line
from leakscope.frames.text import Documents
from leakscope.types import DOCUMENT_CLASS

if TYPE_CHECKING:
    import polars as pl

TEXT_SUFFIXES = (".jsonl", ".csv", ".parquet")
_DOCUMENT_SUFFIXES = (".txt", ".md")
FOLDER = "folder"
"""What `label` and `groups` call the folder of a text file."""
_LONGEST_LINE = 1 << 28  # bytes of one JSON object
_TO_UTF8 = "save it as UTF-8, for example with `iconv -f latin1 -t utf-8`"


class TextRoles(NamedTuple):
    """What the columns of documents are for; None: there is none."""

    text: str | None = None
    label: str | None = None
    id: str | None = None
    groups: tuple[str, ...] = ()


class RawDocuments(NamedTuple):
    """Documents before they are tokenized; arrays are (documents,)."""

    name: str
    documents: Documents
    ids: npt.NDArray[np.str_]
    labels: AnyArray
    class_names: tuple[str, ...]
    groups: Mapping[str, npt.NDArray[np.str_]]


def is_text_folder(folder: Path) -> bool:
    """True when the folder, or one within it, holds text files."""
    return next(_files(folder), None) is not None


def read_documents(path: Path, roles: TextRoles) -> RawDocuments:
    """The documents of a file or folder.

    Raises:
        InputError: says what is wrong with which row, line or file, and what to do; without the path.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        return _of_folder(path, roles)
    if suffix not in TEXT_SUFFIXES:
        raise InputError(
            f"unknown extension {path.suffix!r}; give a file that ends in {', '.join(TEXT_SUFFIXES)}, or a "
            "folder of .txt and .md files"
        )
    if not path.is_file():
        raise InputError("does not exist or is not a file; check the path")
    return _of_jsonl(path, roles) if suffix == ".jsonl" else _of_columns(path, roles)


def given_documents(
    texts: Any, label: Any | None, ids: Any | None, groups: Mapping[str, Any] | None
) -> RawDocuments:
    """Texts in memory; `label`, `ids` and each of the groups have one value per text."""
    documents = _documents(_listed(texts, "texts"), "text", "row-{}".format)
    given = {
        "label": label,
        "id": ids,
        **{f"group {name}": values for name, values in (groups or {}).items()},
    }
    columns = {}
    for what, values in given.items():
        if values is not None:
            columns[what] = _series(what, _listed(values, what))
            if len(columns[what]) != len(documents):
                raise InputError(
                    f"{what} has {len(columns[what]):,} values, but there are {len(documents):,} texts"
                )
    grouping = tuple(f"group {name}" for name in groups or {})
    roles = TextRoles(
        None, "label" if "label" in columns else None, "id" if "id" in columns else None, grouping
    )
    raw = _raw("documents", documents, columns, roles)
    return raw._replace(groups={name.removeprefix("group "): values for name, values in raw.groups.items()})


def _listed(values: Any, what: str) -> list[Any]:
    """A list, Series or array of one axis as a list."""
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or not hasattr(values, "__iter__"):
        raise InputError(f"{what} is {type(values).__name__}; give a list of one value per document")
    if getattr(values, "ndim", 1) != 1:
        raise InputError(f"{what} has {values.ndim} axes; give one value per document")
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    if not plain:
        raise InputError(f"{what} is empty; give at least two documents")
    return plain


def _of_columns(path: Path, roles: TextRoles) -> RawDocuments:
    if roles.text is None:
        raise InputError("text is not given; name the column that holds the documents")
    as_text = tuple(name for name in (roles.text, roles.id) if name is not None)
    with column_file(path, as_text) as file:
        require_names("text column", [roles.text], file.names)
        wanted = [name for name in (roles.label, roles.id, *roles.groups) if name is not None]
        require_names("column", wanted, file.names)
        documents = _documents(_strings(file.column(roles.text)), roles.text, "row-{}".format)
        return _raw(path.stem, documents, {name: file.column(name) for name in wanted}, roles)


def _strings(series: pl.Series) -> list[str | None]:
    import polars as pl

    if isinstance(series.dtype, pl.Null):
        return [None] * len(series)
    if not isinstance(series.dtype, (pl.String, pl.Categorical, pl.Enum)):
        raise InputError(
            f"text column {series.name!r} has type {series.dtype}, expected text; is it the right column?"
        )
    return series.cast(pl.String).to_list()


def _of_jsonl(path: Path, roles: TextRoles) -> RawDocuments:
    text = roles.text or "text"
    wanted = [name for name in (roles.label, roles.id, *roles.groups) if name is not None]
    lines, texts, columns = list[int](), list[object](), {name: list[object]() for name in wanted}
    for number, row in json_objects(path):
        if text not in row:
            raise InputError(
                f"line {number:,} has no {text!r}, only: {listed(sorted(row)) or 'nothing'}; "
                "name the field that holds the documents in text"
            )
        lines.append(number)
        texts.append(row[text])
        for name, values in columns.items():
            values.append(row.get(name))
    if not texts:
        raise InputError("has no documents; give one JSON object per line")
    series = {name: _series(name, values) for name, values in columns.items()}
    for name, column in series.items():
        if column.null_count() == len(column):
            raise InputError(f"no line has {name!r}; check its name")
    documents = _documents(texts, text, lambda at: f"line {lines[at]:,}")
    return _raw(path.stem, documents, series, roles)


def json_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the object of each line that is not empty."""
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                _refuse_other_encodings(line)
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise InputError(f"is not UTF-8 text (line {number:,}); {_TO_UTF8}") from error
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"line {number:,} is not JSON ({first_line(error)}); write one object per line"
                ) from error
            if not isinstance(row, dict):
                raise InputError(f"line {number:,} is {_json_kind(row)}; write one object per line")
            yield number, row


def _json_kind(value: object) -> str:
    return {list: "a list", str: "a text", type(None): "null"}.get(type(value), "a number")


def _of_folder(folder: Path, roles: TextRoles) -> RawDocuments:
    if roles.text or roles.id or {roles.label, *roles.groups} - {None, FOLDER}:
        raise InputError(
            "text and id are for files with columns, and label and groups of a folder of texts can only be "
            f'"{FOLDER}", the folder that a text lies in; ids are the paths'
        )
    paths = sorted(_files(folder))
    if not paths:
        raise InputError(f"has no {' or '.join(_DOCUMENT_SUFFIXES)} files; give a folder that has some")
    names = [path.relative_to(folder).as_posix() for path in paths]
    for name in names:
        if not name.isprintable():
            raise InputError(f"{name!r} has a name that cannot be written down as an id; rename the file")
    documents = Documents.of(_file_text(path, name) for path, name in zip(paths, names, strict=True))
    parents = _series(FOLDER, [name.rpartition("/")[0] or "." for name in names])
    return _raw(folder.resolve().name, documents, {FOLDER: parents}, roles, np.array(names, dtype=np.str_))


def _files(folder: Path) -> Iterator[Path]:
    """Text files at any depth; neither hidden ones nor what links lead to."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.suffix.lower() in _DOCUMENT_SUFFIXES and path.is_file():
            yield path


def _file_text(path: Path, name: str) -> str:
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"{name} cannot be read ({error.strerror})") from error
    try:
        _refuse_other_encodings(content)
        text = content.decode("utf-8-sig")
    except (InputError, UnicodeDecodeError) as error:
        reason = error if isinstance(error, InputError) else f"is not UTF-8 text; {_TO_UTF8}"
        raise InputError(f"{name} {reason}") from error
    problem = _problem(text)
    if problem:
        raise InputError(f"{name} {problem}; repair or remove the file")
    return text


def _refuse_other_encodings(start: bytes) -> None:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16 text; save it as UTF-8, for example with `iconv -f utf-16 -t utf-8`")


def _documents(texts: Sequence[object], column: str, place: Callable[[int], str]) -> Documents:
    """The documents of a column; all that cannot be used are counted, and the place of the first is named."""
    bad = [(at, problem) for at, text in enumerate(texts) if (problem := _problem(text))]
    if bad:
        at, problem = bad[0]
        others = f" ({len(bad):,} documents cannot be used in all)" if len(bad) > 1 else ""
        raise InputError(f"{column!r} {problem} in {place(at)}{others}; repair or drop such rows")
    return Documents.of(text for text in texts if isinstance(text, str))


def _problem(text: object) -> str:
    """Why a value is no document; empty: it is one."""
    if text is None:
        return "has no value"
    if not isinstance(text, str):
        return f"is {type(text).__name__}, not text,"
    if not text.strip():
        return "is empty"
    if "\0" in text:
        return "holds a NUL character, which no text has,"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is no character,"
    return ""


def _series(name: str, values: Sequence[object]) -> pl.Series:
    import polars as pl

    try:
        return pl.Series(name, values, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{name!r} mixes values of different types; write all as text") from error


def _raw(
    name: str,
    documents: Documents,
    columns: Mapping[str, pl.Series],
    roles: TextRoles,
    ids: npt.NDArray[np.str_] | None = None,
) -> RawDocuments:
    labels: AnyArray = np.zeros(len(documents), dtype=np.int64)
    class_names: tuple[str, ...] = DOCUMENT_CLASS
    if roles.label is not None:
        values = label_values(columns[roles.label])
        labels, class_names = encode_labels(values, roles.label, "classification")
    if roles.id is not None:
        missing = columns[roles.id].is_null()
        if missing.any():
            raise InputError(f"id {roles.id!r} has no value in row-{missing.arg_max()}; give every row an id")
        ids = unique_ids(texts_of(columns[roles.id]), roles.id)
    return RawDocuments(
        name,
        documents,
        numbered_ids("row-", len(documents)) if ids is None else ids,
        labels,
        class_names,
        {group: group_of(columns[group]) for group in roles.groups},
    )

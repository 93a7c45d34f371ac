"""The table `[data]` of a config file, and the records that it names."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from leakscope.audits.toml_tables import Toml
from leakscope.errors import InputError
from leakscope.types import Records
from leakscope.user_code import import_object, names_code

if TYPE_CHECKING:
    from leakscope.data.tokens import LocalTokenizer

OF_A_FILE = (
    "label", "id", "groups", "features", "task", "standardise", "text", "length", "long", "tokenizer",
)  # fmt: skip
"""Settings that a dataset does not have."""
_OF_TEXT = ("text", "length", "long", "tokenizer")


@dataclass(frozen=True)
class DataSection:
    """Which records: a dataset, or a file or folder of your own.

    Attributes:
        dataset: one of `leakscope data list`, or "package.module:function" for your own reader.
        file: a csv, parquet, npz or jsonl file, or a folder of images, arrays or text files; relative to the
            config file.
        label: column (npz: array) of labels; needed for csv and parquet, unless `text` is given.
        id: column (npz: array) of unique ids; without one, records are numbered by row.
        groups: columns (npz: arrays) to report risk for; they are not features unless `features` lists them.
        features: columns to use, in this order; by default all that have no other role.
        task: "classification" or "regression"; "auto" takes a label with fractions as a regression.
        standardise: encode the columns of a table as numbers, and scale each to mean 0 and standard deviation
            1. True by default, except for an estimator, which gets the columns as they are.
        text: column of documents, whose tokens are the features; of a jsonl file "text" by default.
        length: most tokens of a record of text; 256 by default.
        long: what becomes of a document of more tokens. "cut": only the first ones are used. "windows": it
            becomes several records; set `population.unit` to "document" to keep them together.
        tokenizer: folder of the tokenizer; by default that of `model.base`.
        options: arguments of the function that reads `dataset`.
    """

    dataset: str | None = None
    file: Path | None = None
    label: str | None = None
    id: str | None = None
    groups: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    task: Literal["auto", "classification", "regression"] = "auto"
    standardise: bool | None = None
    text: str | None = None
    length: int | None = None
    long: Literal["cut", "windows"] | None = None
    tokenizer: Path | None = None
    options: Toml = field(default_factory=dict)


class Surroundings(NamedTuple):
    """What records depend on besides `[data]`.

    Attributes:
        folder: of the config file; paths are relative to it.
        data_dir: the data folder of published datasets.
        unit: `population.unit`, a column that is read as a group.
        base: `model.base`, whose folder has a tokenizer.
        fits_estimators: whether estimators are trained, which get the columns of a table as they are.
        given_estimator: whether the target is a fitted estimator.
    """

    folder: Path
    data_dir: Path | None = None
    unit: str | None = None
    base: str | None = None
    fits_estimators: bool = False
    given_estimator: bool = False


def read_data(data: DataSection, around: Surroundings) -> Records:
    """The records of `[data]`."""
    from leakscope.data.registry import load

    if data.file is None:
        assert data.dataset is not None, "one of the two is given"
        if names_code(data.dataset):  # makes a module beside the config file importable
            import_object("data.dataset", data.dataset, "my_package.data:load", around.folder)
        return load(data.dataset, around.data_dir, **data.options)
    path = around.folder / data.file.expanduser()
    if not path.exists():
        raise InputError(f"{path} does not exist; check data.file")
    if _holds_text(data, path, around.base):
        return _read_text(data, path, around)
    unused = [name for name in _OF_TEXT if getattr(data, name) is not None]
    if unused:
        raise InputError(
            f"{path}: data.{', data.'.join(unused)} would do nothing: only for documents; "
            "name their column in data.text"
        )
    return _read_folder(data, path, around) if path.is_dir() else _read_table(data, path, around)


def _holds_text(data: DataSection, path: Path, base: str | None) -> bool:
    """Whether a file or folder holds documents; a readme among pictures is none."""
    from leakscope.data.array_records import is_array_folder
    from leakscope.data.image_folder import is_picture_folder
    from leakscope.data.text_sources import is_text_folder

    if path.is_dir():
        means_text = base is not None or any(getattr(data, name) is not None for name in _OF_TEXT)
        is_other = is_array_folder(path) or (is_picture_folder(path) and not means_text)
        return not is_other and is_text_folder(path)
    return path.suffix.lower() == ".jsonl" or data.text is not None


def _read_folder(data: DataSection, path: Path, around: Surroundings) -> Records:
    from leakscope.data.files import read_table

    if data.standardise:
        raise InputError(f"{path}: standardise=true is for tables; the features of a folder stay as they are")
    return read_table(path, data.label, data.id, _groups(data, path, around.unit), data.features, data.task)


def _read_table(data: DataSection, path: Path, around: Surroundings) -> Records:
    """The records of one file: for estimators as they are, for others encoded and scaled."""
    from leakscope.data.columns import Roles
    from leakscope.data.file_table import read_file_table
    from leakscope.data.files import read_table
    from leakscope.data.standardise import standardised

    is_fitted = around.fits_estimators
    scales = not is_fitted if data.standardise is None else data.standardise
    roles = (data.label, data.id, _groups(data, path, around.unit), data.features, data.task)
    is_table = path.suffix.lower() in (".csv", ".parquet")
    if is_table and (is_fitted or around.given_estimator) and not (is_fitted and scales):
        records = read_file_table(path, Roles(*roles))
    else:
        records = read_table(path, *roles)
    return standardised(records) if scales else records


def _groups(data: DataSection, path: Path, unit: str | None) -> tuple[str, ...]:
    """The columns to read beside features and labels: the groups, and whose record it is."""
    if unit is None or unit in data.groups or (path.is_dir() and not data.groups):
        return data.groups  # a folder of arrays has its groups read without being asked
    return (*data.groups, unit)


def _read_text(data: DataSection, path: Path, around: Surroundings) -> Records:
    from leakscope.data.text_records import DEFAULT_LENGTH, DOCUMENT, read_text

    _refuse_settings_of_tables(data, path)
    long = data.long or "cut"
    wanted = () if around.unit is None or (long == "windows" and around.unit == DOCUMENT) else (around.unit,)
    groups = tuple(dict.fromkeys((*data.groups, *wanted)))
    length = DEFAULT_LENGTH if data.length is None else data.length
    records = read_text(path, _tokenizer(data, around), data.text, data.label, data.id, groups, length, long)
    return records if around.unit is not None else _with_note_on_windows(records)


def _refuse_settings_of_tables(data: DataSection, path: Path) -> None:
    given = {"features": data.features is not None, "standardise": data.standardise is not None}
    unused = [name for name, is_given in given.items() if is_given]
    if unused:
        raise InputError(f"{path}: data.{', data.'.join(unused)} would do nothing: only for tables")
    if data.task == "regression":
        raise InputError(f'{path}: data.task = "regression" is for tables; documents have classes, or none')


def _tokenizer(data: DataSection, around: Surroundings) -> LocalTokenizer:
    """The tokenizer of the records; a message names the setting that it comes from."""
    from leakscope.data.tokens import load_tokenizer

    if data.tokenizer is not None:
        return load_tokenizer(around.folder / data.tokenizer.expanduser(), "data.tokenizer")
    if around.base is None:
        raise InputError(
            "documents need a tokenizer: name the folder of the base model in model.base, or that of a "
            "tokenizer in data.tokenizer"
        )
    beside = around.folder / Path(around.base).expanduser()
    return load_tokenizer(beside if beside.exists() else around.base, "model.base")


def _with_note_on_windows(records: Records) -> Records:
    """Says that windows of one document are drawn one by one, which is rarely meant."""
    reading = None if records.text is None else records.text.reading
    if records.text is None or reading is None or reading.records == reading.documents:
        return records
    note = (
        "the windows of a document are members independently of each other; to keep them together, set "
        'population.unit = "document"'
    )
    noted = replace(reading, warnings=(*reading.warnings, note))
    return replace(records, text=replace(records.text, reading=noted))

"""From a file of records to a config file that runs: `leakscope init`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from inspect import isclass
from pathlib import Path
from typing import NamedTuple

from leakscope.audits.config import parse_config
from leakscope.audits.config_schema import config_schema
from leakscope.audits.initial.config_text import (
    SCHEMA_FILE,
    Lines,
    config_text,
    documents_text,
    path_from,
)
from leakscope.audits.initial.documents import (
    DocumentRoles,
    are_documents,
    documents_lines,
    guess_roles,
    most_tokens,
)
from leakscope.audits.initial.guess import Guess, guess, guess_unit
from leakscope.audits.initial.look import Look, look_at
from leakscope.data.files import SUFFIXES, read_table
from leakscope.data.prediction_roles import MEMBERS
from leakscope.disk.storage import atomic_file, storage_errors, unknown_extension
from leakscope.errors import InputError
from leakscope.types import Records
from leakscope.user_code import import_object, names_code

_EXAMPLE = "sklearn.ensemble:RandomForestClassifier"
_READ_WHOLE = 2_000_000  # cells; a larger file is looked at, and read when it is audited


@dataclass(frozen=True)
class Answers:
    """What the user wants; None: guess.

    Attributes:
        label: column of labels.
        id: column of ids.
        net: a network.
        estimator: a scikit-learn estimator, "package.module:Class".
        base: of documents: the language model to fine-tune, a folder or its name on the hub.
        text: of documents: the field that holds them.
        is_numbered: records have no ids, whatever columns look like ids.
        unit: column that says whose record it is.
        is_by_record: every record is its own, whatever columns look like ids of people.
        schema: write the JSON schema beside the config file, and name it there.
    """

    label: str | None = None
    id: str | None = None
    net: str | None = None
    estimator: str | None = None
    schema: bool = True
    is_numbered: bool = False
    unit: str | None = None
    is_by_record: bool = False
    base: str | None = None
    text: str | None = None


class Written(NamedTuple):
    """What was written, and the reasons for it as sentences."""

    path: Path
    reasons: tuple[str, ...]


def default_out(file: Path) -> Path:
    """Where the config file goes: in the current folder, called as the file."""
    return Path(f"{file.stem or 'audit'}.toml")


def refuse_existing(out: Path) -> None:
    """Never overwrites: a config file holds somebody's work."""
    with storage_errors(out):
        is_taken = out.exists() or out.is_symlink()
    if is_taken:
        raise InputError(f"{out} exists; choose another name with --out, or remove it")


def look_at_table(file: Path) -> Look | None:
    """What a table looks like; None for arrays and images, which name their own roles.

    Raises:
        InputError: the file is missing, of another kind, or holds predictions.
    """
    if not file.exists():
        raise InputError(f"{file} does not exist; check the path")
    suffix = file.suffix.lower()
    if file.is_dir() or are_documents(file):
        return None
    if suffix not in SUFFIXES:
        raise InputError(f"{file}: {unknown_extension(file, (*SUFFIXES, '.jsonl'))}")
    look = None if suffix == ".npz" else look_at(file)
    if look is not None:
        _refuse_predictions(look)
    return look


def write_config(file: Path, out: Path, answers: Answers) -> Written:
    """Looks at the records, and writes a config file that audits them.

    Raises:
        InputError: a column is missing, the records cannot be audited, or `out` exists. Nothing is written.
    """
    refuse_existing(out)
    if answers.net is not None and answers.estimator is not None:
        raise InputError("--net and --estimator exclude each other; give one")
    look = look_at_table(file)
    if look is None and are_documents(file):
        text, reasons = _of_documents(file, out, answers)
        return _write(text, out, answers.schema, reasons)
    for option in ("base", "text"):
        if getattr(answers, option) is not None:
            raise InputError(f"--{option} is for documents: a jsonl file, or a folder of .txt and .md files")
    found = None if look is None else _guessed(look, answers)
    records = _records(file, answers, found)
    data, reasons = _data(file, out, found, records)
    if found is not None and _needs_encoding(answers, found, out):
        why = "text one-hot, dates as days; without it the estimator gets the columns as they are"
        data = data._replace(settings=(*data.settings, ("standardise", True, why)))
    net = answers.net or ("cnn" if records is not None and records.features.ndim == 4 else "mlp")
    _check_model(answers, found, records, out)
    n_records = found.look.n_rows if found is not None else len(records or ())
    unit = answers.unit if found is None else found.unit
    text = config_text(out, data, (net, answers.estimator), n_records, answers.schema, unit)
    parse_config(text, out)
    return _write(text, out, answers.schema, reasons)


def _write(text: str, out: Path, schema: bool, reasons: tuple[str, ...]) -> Written:
    if schema:
        _write_schema(out.parent / SCHEMA_FILE)
    with atomic_file(out, option="--out") as stream:
        stream.write(text.encode())
    return Written(out, reasons)


def _of_documents(file: Path, out: Path, answers: Answers) -> tuple[str, tuple[str, ...]]:
    """The config file, which was read as an audit reads it, and the reasons for it."""
    if answers.net is not None or answers.estimator is not None:
        raise InputError("--net and --estimator are not for documents; name the language model with --base")
    if answers.base is None:
        raise InputError(
            f"{file} holds documents; name the language model to fine-tune with --base, a folder or its name "
            "on the Hugging Face hub"
        )
    given = DocumentRoles(answers.text, answers.label, answers.id, answers.unit)
    roles, reasons = guess_roles(file, given, answers.is_numbered, answers.is_by_record)
    base = path_from(out, Path(answers.base)) if Path(answers.base).exists() else answers.base
    length = most_tokens(Path(answers.base))
    text = documents_text(
        out, documents_lines(path_from(out, file), roles, length), base, answers.schema, roles.unit
    )
    records = parse_config(text, out).records(None)
    return text, (f"{file.name} has {len(records):,} documents.", *reasons)


def _guessed(look: Look, answers: Answers) -> Guess:
    unit = answers.unit
    if unit is None and not answers.is_by_record:
        unit = guess_unit(look, answers.label, answers.id)
    return guess(look, answers.label, answers.id, answers.is_numbered, unit)


def _records(file: Path, answers: Answers, found: Guess | None) -> Records | None:
    """The records, read as an audit reads them, so that what is written runs; None: they are too many."""
    if found is None:
        return read_table(file, answers.label, answers.id, () if answers.unit is None else (answers.unit,))
    if found.look.n_rows * len(found.look.names) > _READ_WHOLE:
        return None
    features = found.features if found.left_out else None
    whose = () if found.unit is None else (found.unit,)
    return read_table(file, found.label, found.id, whose, features, found.task)


def _data(
    file: Path, out: Path, found: Guess | None, records: Records | None
) -> tuple[Lines, tuple[str, ...]]:
    where = path_from(out, file)
    if found is None:
        assert records is not None, "arrays and images are always read"
        what = f"{len(records):,} records of shape {tuple(records.features.shape[1:])}"
        return Lines("data", (("file", where, what),)), (f"The file holds {what}.",)
    size = f"{found.look.n_rows:,} records, {len(found.look.names)} columns"
    settings: list[tuple[str, object, str]] = [
        ("file", where, size),
        ("label", found.label, f"chosen because {found.label_reason}"),
        ("task", found.task, found.task_reason),
    ]
    if found.id is not None:
        settings.append(("id", found.id, f"chosen because {found.id_reason}"))
    if found.left_out:
        without = f"all columns but {', '.join(map(repr, found.left_out))}, {found.left_out_reason}"
        settings.append(("features", found.features, without))
    return Lines("data", tuple(settings)), _reasons(found, records)


def _reasons(found: Guess, records: Records | None) -> tuple[str, ...]:
    look = found.look
    lines = [
        f"{look.path.name} has {look.n_rows:,} records and {len(look.names)} columns.",
        f"Label: {found.label!r}, because {found.label_reason}.",
        f"Task: {found.task} ({found.task_reason}).",
        _ids_reason(found),
    ]
    if found.unit is not None:
        lines.append(f"Unit: {found.unit!r}; all records of one are in a training set, or none is.")
    if found.left_out:
        lines.append(f"Left out: {', '.join(map(repr, found.left_out))}, {found.left_out_reason}.")
    if records is not None and records.reading is not None:
        lines += [f"Check: {warning}." for warning in records.reading.warnings]
    if records is None:
        lines.append("The file is large, so only its first rows and these columns were looked at.")
    return tuple(lines)


def _needs_encoding(answers: Answers, found: Guess, out: Path) -> bool:
    """Whether an estimator would fail on the columns as they are; a function may make a Pipeline."""
    if answers.estimator is None:
        return False
    make = import_object("--estimator", answers.estimator, _EXAMPLE, out.parent)
    features = (found.look.column(name) for name in found.features)
    return isclass(make) and any(column.kind in ("text", "other") for column in features)


def _ids_reason(found: Guess) -> str:
    if found.id is None:
        return f"Ids: none; {found.id_reason}."
    return f"Ids: {repr(found.id) if found.id else 'the column without a name'}, because {found.id_reason}."


def _check_model(answers: Answers, found: Guess | None, records: Records | None, out: Path) -> None:
    """Refuses a model that cannot be imported, or one for the other task, before anything is written."""
    if answers.net is not None and names_code(answers.net):
        import_object("--net", answers.net, "my_package.nets:build", out.parent)
    elif answers.net is not None:
        from leakscope.models.registry import factory

        factory(answers.net)
    if answers.estimator is None:
        return
    make = import_object("--estimator", answers.estimator, _EXAMPLE, out.parent)
    are_classes = bool(records and records.is_classification) if found is None else found.task != "regression"
    wrong, labels = ("Regressor", "classes") if are_classes else ("Classifier", "numbers")
    if str(getattr(make, "__name__", "")).endswith(wrong):
        raise InputError(f"--estimator={answers.estimator} is a {wrong.lower()}, but the labels are {labels}")


def _write_schema(path: Path) -> None:
    """The schema beside the config file; a file of somebody else's stays as it is."""
    text = json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
    if path.exists():
        try:
            is_ours = json.loads(path.read_text()).get("$id") == config_schema()["$id"]
        except (OSError, ValueError, AttributeError):
            is_ours = False
        if not is_ours:
            raise InputError(f"{path} exists and is not a schema of leakscope; add --no-schema")
    with atomic_file(path, option="--out") as stream:
        stream.write(text.encode())


def _refuse_predictions(look: Look) -> None:
    names = [name.lower() for name in look.names]
    if any(name.startswith(("prob_", "logit_")) for name in names) and set(names) & set(MEMBERS):
        raise InputError(
            f"{look.path} looks like saved predictions; audit them with "
            f"`leakscope audit --predictions {look.path}`, which needs no config file"
        )

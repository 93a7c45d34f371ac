"""What a file or folder of documents looks like, for a first config file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from leakscope.audits.initial.config_text import Lines
from leakscope.audits.units import are_people
from leakscope.data.image_folder import is_picture_folder
from leakscope.data.text_records import DEFAULT_LENGTH
from leakscope.data.text_sources import is_text_folder, json_objects
from leakscope.errors import InputError

_FIRST_LINES = 20_000
_TEXTS = ("text", "body", "content", "document", "message")
_IDS = ("id", "uid", "uuid", "key")
_CONTEXTS = ("n_positions", "max_position_embeddings", "n_ctx")


class DocumentRoles(NamedTuple):
    """What the fields of documents are for; None: there is none, or it is not known yet."""

    text: str | None
    label: str | None
    id: str | None
    unit: str | None


def are_documents(file: Path) -> bool:
    """True for a jsonl file, and for a folder of texts that has neither pictures nor arrays."""
    if not file.is_dir():
        return file.suffix.lower() == ".jsonl"
    return is_text_folder(file) and not is_picture_folder(file) and not any(file.glob("*.npy"))


def guess_roles(
    file: Path, given: DocumentRoles, is_numbered: bool, is_by_record: bool
) -> tuple[DocumentRoles, tuple[str, ...]]:
    """The roles, with guesses for what is not given, and the reasons for them as sentences."""
    if file.is_dir():
        return given, ("Ids: the paths of the files.",)
    fields, n_rows = _fields(file)
    text, why = (given.text, "you said so") if given.text else _text_field(file, fields)
    others = {name: values for name, values in fields.items() if name not in (text, given.label)}
    id_field = given.id or (None if is_numbered else _id_field(others, n_rows))
    people = [name for name, values in others.items() if are_people(name, len(set(values)), n_rows)]
    whole = [name for name in people if name != id_field and len(others[name]) == n_rows]
    unit = given.unit or (None if is_by_record else next(iter(whole), None))
    reasons = [f"Text: {text!r}, because {why}."]
    ids = "none; documents are numbered by line" if id_field is None else f"{id_field!r}"
    reasons.append(f"Ids: {ids}.")
    if unit is not None:
        reasons.append(f"Unit: {unit!r}; all documents of one are in a training set, or none is.")
    return DocumentRoles(text, given.label, id_field, unit), tuple(reasons)


def documents_lines(where: str, roles: DocumentRoles, length: int) -> Lines:
    """The table `[data]`."""
    settings: list[tuple[str, object, str]] = [("file", where, "")]
    for name, value, why in (
        ("text", roles.text, "the field that holds the documents"),
        ("label", roles.label, "a classifier is fine-tuned; without a label, the next token is predicted"),
        ("id", roles.id, ""),
    ):
        settings += [] if value is None else [(name, value, why)]
    settings.append(("length", length, 'tokens; longer documents are cut, or split with long = "windows"'))
    return Lines("data", tuple(settings))


def most_tokens(base: Path) -> int:
    """The usual length of a record, or what the base can read at once where that is less."""
    try:
        config = json.loads((base / "config.json").read_text())
    except (OSError, ValueError):
        return DEFAULT_LENGTH
    contexts = [config.get(name) for name in _CONTEXTS] if isinstance(config, dict) else []
    return min([DEFAULT_LENGTH, *(n for n in contexts if isinstance(n, int) and n > 0)])


def _fields(file: Path) -> tuple[dict[str, list[object]], int]:
    """The values of each field in the first lines that have it, and the number of these lines."""
    fields: dict[str, list[object]] = {}
    n_rows = 0
    try:
        for _, row in islice(json_objects(file), _FIRST_LINES):
            n_rows += 1
            for name, value in row.items():
                if isinstance(value, str | int | float):
                    fields.setdefault(name, []).append(value)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    if n_rows == 0:
        raise InputError(f"{file}: has no documents; give one JSON object per line")
    return fields, n_rows


def _text_field(file: Path, fields: Mapping[str, Sequence[object]]) -> tuple[str, str]:
    by_name = {name.strip().lower(): name for name in fields}
    for name in _TEXTS:
        if name in by_name:
            return by_name[name], "of its name"
    texts = {
        name: mean(len(value) for value in values if isinstance(value, str))
        for name, values in fields.items()
        if any(isinstance(value, str) for value in values)
    }
    if not texts:
        raise InputError(f"{file}: no field holds texts; name it with --text")
    return max(texts, key=lambda name: texts[name]), "its texts are the longest"


def _id_field(fields: Mapping[str, Sequence[object]], n_rows: int) -> str | None:
    """A field called so whose values are unique, in the first lines at least."""
    for name, values in fields.items():
        is_named = name.lower() in _IDS or name.lower().endswith(("_id", "-id"))
        if is_named and len(set(values)) == n_rows:
            return name
    return None

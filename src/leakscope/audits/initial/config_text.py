"""The text of a first config file: settings that run, and comments that say why they are so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from leakscope.disk.toml_text import toml_value
from leakscope.errors import printable

SCHEMA_FILE = "leakscope-schema.json"
_LONGEST_COMMENT = 160
_FINE_TUNES = 16  # two blocks of adapters would take twice the time


class Lines(NamedTuple):
    """Settings of a table: name, value, and a comment, empty where none is needed."""

    table: str
    settings: tuple[tuple[str, object, str], ...]

    def __str__(self) -> str:
        lines = [f"[{self.table}]"]
        for name, value, why in self.settings:
            line = f"{name} = {toml_value(value)}"
            lines += [f"{line}  # {_comment(why)}" if why and len(line) < 60 else line]
            if why and len(line) >= 60:
                lines.insert(-1, f"# {_comment(why)}")
        return "\n".join(lines)


class Size(NamedTuple):
    """How much to train for so many records, so that a first audit takes minutes and not days."""

    models: int
    epochs: int
    batch_size: int

    @classmethod
    def of(cls, n_records: int) -> Size:
        """Fewer models and longer batches for more records."""
        if n_records <= 20_000:
            return cls(64, 30, 64)
        return cls(32, 20, 256) if n_records <= 200_000 else cls(16, 10, 1024)


def config_text(
    out: Path,
    data: Lines,
    model: tuple[str | None, str | None],
    n_records: int,
    schema: bool,
    unit: str | None,
) -> str:
    """The whole file, which reads the records of `data` and trains `model`, a network or an estimator."""
    size = Size.of(n_records)
    return _whole(out, [data, *_model(*model, size), _population(size.models, unit)], schema)


def documents_text(out: Path, data: Lines, base: str, schema: bool, unit: str | None) -> str:
    """The whole file, which reads the documents of `data` and fine-tunes the language model `base`."""
    why = "its weights stay as they are; every model has adapters of its own"
    lora = (("rank", 8, ""), ("alpha", 16, "as yours: a larger rank fits the members more closely"))
    training = (
        ("lr", 0.0002, ""),
        ("batch_size", 8, ""),
        ("epochs", 3, "more epochs fit the members more closely, and usually leak more"),
    )
    parts = [
        data,
        Lines("model", (("base", base, why),)),
        Lines("model.lora", lora),
        Lines("training", training),
    ]
    return _whole(out, [*parts, _population(_FINE_TUNES, unit)], schema)


def _whole(out: Path, parts: Sequence[Lines], schema: bool) -> str:
    head = [f"#:schema ./{SCHEMA_FILE}"] if schema else []
    head += [
        f"# leakscope audit {_comment(out.name)}",
        "# Written by `leakscope init`. `leakscope config reference` lists every setting.",
    ]
    return "\n\n".join(["\n".join(head), *map(str, parts), _GATE]) + "\n"


def path_from(out: Path, file: Path) -> str:
    """The path of a file as a config file at `out` writes it."""
    whole = file.expanduser().resolve()
    try:
        return Path(os.path.relpath(whole, out.expanduser().resolve().parent)).as_posix()
    except ValueError:  # on another drive
        return whole.as_posix()


def _model(net: str | None, estimator: str | None, size: Size) -> list[Lines]:
    if estimator is not None:
        why = "options = { ... } are its arguments"
        return [Lines("model", (("estimator", estimator, why),))]
    why = "replace this with your own model: a network, an estimator or a training function"
    training = (
        ("optimizer", "adam", ""),
        ("lr", 0.001, ""),
        ("batch_size", size.batch_size, ""),
        ("epochs", size.epochs, "more epochs fit the members more closely, and usually leak more"),
    )
    return [Lines("model", (("net", net, why),)), Lines("training", training)]


def _population(n_models: int, unit: str | None) -> Lines:
    whose = "all records of one are in a training set, or none is: a person is a member as a whole"
    units = () if unit is None else (("unit", unit, whose),)
    why = "each is trained on a random half and is the target in turn; `leakscope plan` estimates the time"
    return Lines("population", (("models", n_models, why), *units, ("seed", 0, "")))


def _comment(text: str) -> str:
    """One line of at most a few words, whatever a column or a class is called."""
    one = printable(" ".join(text.split()))
    return one if len(one) <= _LONGEST_COMMENT else f"{one[:_LONGEST_COMMENT]} ..."


_GATE = """\
# Limits that the audit must stay within; a broken one ends the command with exit code 1.
# [gate]
# max_auc = 0.6
# max_tpr = [{ fpr = 0.01, tpr = 0.05 }]"""

"""Options of commands that read saved predictions: which columns hold what, and limits to stay within."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.output import split_names
from leakscope.errors import InputError

if TYPE_CHECKING:
    from leakscope.data.prediction_roles import PredictionColumns
    from leakscope.evaluate.gate import Gate, TprLimit

_PANEL = "Columns of saved predictions"
_LIMITS = "Limits of the gate"


def _column(text: str, *names: str, metavar: str = "COLUMN") -> Any:
    return typer.Option(*names, help=text, rich_help_panel=_PANEL, metavar=metavar)


Predictions = Annotated[
    Path | None, typer.Option(help="Saved predictions to audit (npz, csv, parquet); nothing is trained.")
]
Label = Annotated[str | None, _column("True classes, or true numbers of a regression (default: label).")]
Id = Annotated[str | None, _column("Ids of the records (default: id, if there is one).", "--id")]
Member = Annotated[
    str | None,
    _column("Who is a member: true or false, 1 or 0, train or test (default: is_member)."),
]
Prob = Annotated[
    str | None,
    _column("Probabilities, one column per class, or one alone (default: prob_CLASS).", metavar="COLUMN,..."),
]
Logit = Annotated[
    str | None,
    _column("Logits, one column per class, or one alone (default: logit_CLASS).", metavar="COLUMN,..."),
]
Prediction = Annotated[str | None, _column("Numbers that a regression predicts (default: output).")]
Classes = Annotated[
    str | None,
    _column("Classes of the columns in --prob or --logit, in the same order.",
            metavar="CLASS,..."),
]  # fmt: skip
ModelColumn = Annotated[
    str | None, _column("Model of each row, if there is one row per model and record (default: model).")
]
Target = Annotated[
    str | None,
    _column("The audited model in the column of models (default: target).", metavar="MODEL"),
]
MaxAuc = Annotated[
    float | None, typer.Option(help="Fail if the AUC of an attack is above this.", rich_help_panel=_LIMITS)
]
MaxAdvantage = Annotated[
    float | None,
    typer.Option(help="Fail if the advantage of an attack is above this.", rich_help_panel=_LIMITS),
]
MaxTpr = Annotated[
    str | None,
    typer.Option(
        metavar="FPR:TPR,...",
        help="Fail if the TPR of an attack at this FPR is above this, such as 0.01:0.05.",
        rich_help_panel=_LIMITS,
    ),
]


def prediction_columns(**given: str | None) -> PredictionColumns:
    """The columns that the options name."""
    from leakscope.data.prediction_roles import PredictionColumns

    several = {name: split_names(given.pop(name, None)) or () for name in ("prob", "logit", "classes")}
    try:
        return PredictionColumns(**given, **several)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"--{error}") from error


def refuse_columns(columns: PredictionColumns, config: Path) -> None:
    """Refuses options about columns beside a config file, which names them itself."""
    if columns.given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in columns.given)
        raise InputError(f"{options} would do nothing: they belong to --predictions; set them in {config}")


def with_limits(
    gate: Gate | None, max_auc: float | None, max_advantage: float | None, max_tpr: str | None
) -> Gate | None:
    """The gate of a config file, with the limits of the command line in place of its own."""
    from leakscope.evaluate.gate import Gate

    if max_auc is None and max_advantage is None and max_tpr is None:
        return gate
    tpr_limits = None if max_tpr is None else _tpr_limits(max_tpr)
    if gate is None:
        return Gate(max_auc, max_advantage, tpr_limits or ())
    return replace(
        gate,
        max_auc=gate.max_auc if max_auc is None else max_auc,
        max_advantage=gate.max_advantage if max_advantage is None else max_advantage,
        max_tpr=gate.max_tpr if tpr_limits is None else tpr_limits,
    )


def _tpr_limits(text: str) -> tuple[TprLimit, ...]:
    from leakscope.evaluate.gate import TprLimit

    try:
        pairs = [[float(rate) for rate in pair.split(":")] for pair in text.split(",")]
        return tuple(TprLimit(fpr, tpr) for fpr, tpr in pairs)
    except ValueError as error:
        raise InputError(f"max_tpr={text!r}: give FPR and TPR with a colon, like 0.01:0.05") from error

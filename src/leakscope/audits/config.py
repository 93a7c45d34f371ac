"""Config files: TOML in, the settings and the source of an audit out.

The sections are read into the dataclasses that the rest of the package uses: `[training]` is a `Recipe`,
`[gate]` a `Gate`, `[claim]` a `Claim`, `[canaries]` are `Canaries`, `[population]` and `[attacks]` are
`AuditSettings`. Nothing is defined twice, and all problems of a file are reported at once.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from leakscope.attacks.spec import resolve_all
from leakscope.audits.config_data import OF_A_FILE, DataSection, Surroundings, read_data
from leakscope.audits.config_model import ModelSection, recipe_of, training_defaults, unused_model_settings
from leakscope.audits.settings import TRAINING, UNITS, AuditSettings
from leakscope.audits.source import Source
from leakscope.audits.toml_tables import Problems, Toml, in_one_line, made, note_unknown, table_values
from leakscope.data.canaries import Canaries
from leakscope.data.prediction_roles import PredictionColumns
from leakscope.disk.storage import open_regular
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate
from leakscope.privacy.claim import Claim
from leakscope.privacy.settings import Privacy
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.signals.output_filter import NO_FILTER, OutputFilter
from leakscope.types import Records
from leakscope.user_code import import_object, names_code

_TARGET_KINDS = ("weights", "estimator", "predict", "folder")
_OF_MODELS = ("data", "model", "training", "population", "canaries", "target", "outputs")
SECTIONS = (*_OF_MODELS, "attacks", "gate", "claim", "predictions")
_LARGEST = 10**6
"""Bytes of a config file."""


@dataclass(frozen=True)
class TargetSection:
    """A given model: its weights, an estimator, a function or a folder, and a file with its members' ids.

    Attributes:
        members: file with the ids of its members, one per line.
        weights: a .safetensors file, or a state dict saved by torch, of `net`.
        net: network that the weights fit; by default that of `[model]`.
        options: arguments of that network; by default those of `[model]`.
        pixel_mean: mean of pixels / 255 per channel, with which images were standardized for the target.
        pixel_std: their standard deviation per channel.
        estimator: fitted scikit-learn model, .skops, .joblib or .pkl.
        trust: load a .joblib or .pkl file, which can run code.
        predict: "package.module:function": `predict(features)` returns logits, probabilities or numbers.
        folder: a fine-tuned language model: the folder of a model of transformers, or of an adapter that PEFT
            trained on `model.base`.
    """

    members: Path
    weights: Path | None = None
    net: str | None = None
    options: Toml | None = None
    pixel_mean: tuple[float, ...] | None = None
    pixel_std: tuple[float, ...] | None = None
    estimator: Path | None = None
    trust: bool = False
    predict: str | None = None
    folder: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PredictionsSection(PredictionColumns):
    """Saved predictions to audit without training.

    Attributes:
        file: an npz, csv or parquet file; all other settings are for csv and parquet.
    """

    file: Path


@dataclass(frozen=True)
class AuditConfig:
    """A config file.

    Attributes:
        path: of the file; relative paths in it are looked up beside it.
        settings: what to ask, and how to train.
        data: which records; None for saved predictions.
        model: how models are made.
        training: how networks are trained.
        target: a given model; None: the population itself is audited.
        predictions: saved predictions; None where records are given.
        outputs: what queries return.
    """

    path: Path
    settings: AuditSettings
    data: DataSection | None
    model: ModelSection
    training: Recipe
    target: TargetSection | None
    predictions: PredictionsSection | None
    outputs: OutputFilter = NO_FILTER

    def source(self, data_dir: Path | None) -> Source:
        """What to audit; reads the records or the predictions."""
        from leakscope.audits.given import GivenTarget, read_members
        from leakscope.audits.population import TrainedPopulation
        from leakscope.audits.predictions import SavedPredictions

        if self.predictions is not None:
            return SavedPredictions(self._beside(self.predictions.file), self.predictions)
        records, recipe = self.records(data_dir), self.recipe()
        if self.target is None:
            return TrainedPopulation(records, recipe, self.outputs)
        members = read_members(
            self._beside(self.target.members), records, self.data.id if self.data else None
        )
        return GivenTarget(records, self._given_model(self.target), members, recipe, self.outputs)

    def records(self, data_dir: Path | None) -> Records:
        """The records of `[data]`."""
        assert self.data is not None, "a config without predictions has data"
        around = Surroundings(
            self.path.parent,
            data_dir,
            self.settings.unit,
            self.model.base,
            fits_estimators=self.model.estimator is not None,
            given_estimator=self.target is not None and self.target.estimator is not None,
        )
        return read_data(self.data, around)

    def recipe(self) -> AnyRecipe:
        """How one model is trained."""
        return recipe_of(self.model, self.training, self.path.parent)

    def _given_model(self, target: TargetSection) -> Any:
        from leakscope.models.fine_tuned import FineTuned
        from leakscope.models.given import FittedEstimator, NetWeights, PredictFunction

        if target.folder is not None:
            return FineTuned(self._beside(target.folder), device=self.settings.device or "auto")
        if target.predict is not None:
            example = "my_package.serving:predict"
            return PredictFunction(import_object("target.predict", target.predict, example, self.path.parent))
        if target.estimator is not None:
            return FittedEstimator(
                self._beside(target.estimator), target.trust, "`trust = true` under [target]"
            )
        assert target.weights is not None, "one of the four is given"
        options = self.model.options if target.options is None else target.options
        return NetWeights(
            self._beside(target.weights),
            target.net or self.model.net,
            options,
            target.pixel_mean,
            target.pixel_std,
            self.settings.device or "auto",
        )

    def _beside(self, path: Path) -> Path:
        """A path of the config file, which may be relative to it."""
        return self.path.parent / path.expanduser()


def read_config(path: Path) -> AuditConfig:
    """The config in a TOML file; every problem in it is named, in one error."""
    return parse_config(_text(path), path)


def parse_config(text: str, path: Path) -> AuditConfig:
    """The config that a text holds, as if it were the file at `path`."""
    try:
        content = tomllib.loads(text)
    except ValueError as error:  # also a number of more digits than Python reads
        remedy = "" if path.suffix.lower() == ".toml" else "; give the path of a TOML file"
        raise InputError(f"{path} is not TOML: {error}{remedy}{_for_records(path)}") from error
    except RecursionError as error:
        raise InputError(f"{path} is not a config: lists and tables are nested too deeply") from error
    problems: Problems = []
    config = _config(path, content, text, problems)
    if config is None or problems:
        raise InputError(f"{path}: {in_one_line(problems)}")
    return config


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; give the path of a TOML file{_for_records()}")
        with open_regular(path) as file:  # a pipe or a device might never end
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise InputError(f"{path} is larger than 1 MB, as no config is; give the path of a TOML file")
        text = content.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give the path of a TOML file") from error
    except (OSError, UnicodeDecodeError) as error:
        remedy = f"give the path of a TOML file in UTF-8{_for_records(path)}"
        raise InputError(f"{path} cannot be read ({error}); {remedy}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _for_records(path: Path | None = None) -> str:
    """A hint for those who give their records where a config file belongs."""
    is_toml = path is not None and path.suffix.lower() == ".toml"
    return "" if is_toml else "; `leakscope init` writes one for your records"


def _config(path: Path, content: Toml, text: str, problems: Problems) -> AuditConfig | None:
    for name in content:
        if name not in SECTIONS:
            note_unknown(name, SECTIONS, problems)
    tables = {name: table if isinstance(table, dict) else {} for name, table in content.items()}
    _check_sections(tables, problems)
    _check_unused(tables, problems)
    data = _section(DataSection, content, "data", problems)
    target = _section(TargetSection, content, "target", problems)
    predictions = _section(PredictionsSection, content, "predictions", problems)
    model = _section(ModelSection, content, "model", problems) or ModelSection()
    names = [field.name for field in fields(Recipe) if field.name not in ("net", "net_options")]
    of_training = table_values(_without_privacy(content), "training", Recipe, problems, names)
    of_training |= _privacy(tables.get("training", {}), problems)
    of_training = training_defaults(tables.get("model", {})) | of_training
    training = made(Recipe, of_training, "training", problems)
    outputs = _section(OutputFilter, content, "outputs", problems) or NO_FILTER
    settings = _settings(path, content, text, problems)
    if training is None or settings is None:
        return None
    return AuditConfig(path, settings, data, model, training, target, predictions, outputs)


def _without_privacy(content: Toml) -> Toml:
    """The file without `[training.privacy]`, a table of its own."""
    training = content.get("training")
    if not isinstance(training, dict):
        return content
    return {**content, "training": {k: v for k, v in training.items() if k != "privacy"}}


def _privacy(training: Toml, problems: Problems) -> Toml:
    """`[training.privacy]` as an argument of the recipe."""
    name, before = "training.privacy", len(problems)
    if "privacy" not in training:
        return {}
    values = table_values({name: training["privacy"]}, name, Privacy, problems)
    privacy = made(Privacy, values, name, problems) if len(problems) == before else None
    return {"privacy": privacy}


def _section(cls: type[Any], content: Toml, name: str, problems: Problems) -> Any:
    if name not in content:
        return None
    before = len(problems)
    values = table_values(content, name, cls, problems)
    return made(cls, values, name, problems) if len(problems) == before else None


def _settings(path: Path, content: Toml, text: str, problems: Problems) -> AuditSettings | None:
    given = table_values(content, "population", AuditSettings, problems, sorted(TRAINING | UNITS))
    of_attacks = table_values(content, "attacks", AttacksSection, problems)
    if "gate" in content:
        of_gate = table_values(content, "gate", Gate, problems)
        if of_gate or not content["gate"]:  # a table whose every value was refused is not one without limits
            given["gate"] = made(Gate, of_gate, "gate", problems)
    if "claim" in content:
        given["claim"] = _section(Claim, content, "claim", problems)
    if "canaries" in content:
        given["canaries"] = _section(Canaries, content, "canaries", problems)
    try:
        for name in filter(names_code, given.get("signals") or ()):
            # Makes a module beside the config file importable.
            import_object("population.signals", name, "my_package.signals:my_signal", path.parent)
        if "names" in of_attacks:
            given["attacks"] = resolve_all(of_attacks["names"], path.parent)
    except InputError as error:
        problems.append(f"attacks.names: {error}")
    try:
        return AuditSettings(**given, fpr=of_attacks.get("fpr"), config_text=text)
    except InputError as error:
        problems.append(str(error))
        return None


@dataclass(frozen=True)
class AttacksSection:
    """Which attacks, at which false positive rates.

    Attributes:
        names: attacks by name, as text with options such as "lira(online=false)", as tables such as
            { name = "lira", online = false }, or your own, "package.module:Class"; by default those that the
            source allows.
        fpr: false positive rates at which the true positive rate is reported; by default 0.1, 0.01, 0.001
            and 0.0001.
    """

    names: tuple[str | Toml, ...] | None = None
    fpr: tuple[float, ...] | None = None


def _check_sections(content: Toml, problems: Problems) -> None:
    """Notes sections that are missing or would do nothing, and settings that exclude each other."""
    data, model, target = (content.get(name, {}) for name in ("data", "model", "target"))
    if "predictions" in content:
        unused = [name for name in _OF_MODELS if name in content]
        if unused:
            problems.append(
                f"{', '.join(unused)} would do nothing: saved predictions are audited without training"
            )
    elif "data" not in content:
        problems.append("data is missing: name a dataset or a file, or saved predictions in [predictions]")
    elif ("dataset" in data) == ("file" in data):
        problems.append("data: give either `dataset` or `file`")
    if "target" in content and sum(name in target for name in _TARGET_KINDS) != 1:
        problems.append("target: give one of `weights`, `estimator`, `predict` or `folder`")
    if "training" in content and "estimator" in model:
        problems.append("training would do nothing: the settings of an estimator are model.options")
    elif "training" in content and "train" in model:
        problems.append("training would do nothing: model.train has its own training settings")


def _check_unused(content: Toml, problems: Problems) -> None:
    """Notes settings that would do nothing."""
    data, target, gate = (content.get(name, {}) for name in ("data", "target", "gate"))
    problems += unused_model_settings(content.get("model", {}))
    kinds = [name for name in _TARGET_KINDS if name in target]
    of_weights = ("net", "options", "pixel_mean", "pixel_std")
    for section, applies, names, why in (
        ("data", "dataset" in data, OF_A_FILE, "only for `file`"),
        ("data", "file" in data and "dataset" not in data, ("options",), "only for `dataset`"),
        ("target", kinds in (["estimator"], ["predict"], ["folder"]), of_weights, "only for `weights`"),
        ("target", kinds in (["weights"], ["predict"], ["folder"]), ("trust",), "only for `estimator`"),
        ("gate", "max_epsilon" not in gate, ("delta", "confidence"), "they belong to `max_epsilon`"),
    ):
        given = [name for name in names if name in content.get(section, {})]
        if applies and given:
            problems.append(f"{section}: {', '.join(given)} would do nothing: {why}")

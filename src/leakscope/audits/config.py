"""Config files: TOML checked by pydantic, all problems at once.

Only this edge knows pydantic; what comes out are the plain nouns of the rest of the package.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from leakscope.attacks.registry import attack_classes
from leakscope.audits.population import DEFAULT_ATTACKS, DEFAULT_FPR_BUDGETS
from leakscope.errors import InputError
from leakscope.evaluate.gate import DEFAULT_CONFIDENCE, DEFAULT_DELTA, Gate, TprLimit
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.types import Records

_OF_A_FILE = {"label", "id", "groups", "features", "task", "standardise"}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSection(_Section):
    """Which records: a known dataset, or a file or folder of your own."""

    dataset: str | None = None
    file: Path | None = None
    label: str | None = None
    id: str | None = None
    groups: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    task: Literal["auto", "classification", "regression"] = "auto"
    standardise: bool = True
    options: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_source(self) -> DataSection:
        if (self.dataset is None) == (self.file is None):
            raise ValueError("give either `dataset` or `file`")
        of_the_other = {"options"} if self.dataset is None else _OF_A_FILE
        _refuse_unused(self, of_the_other, f"only for `{'dataset' if self.file else 'file'}`")
        return self


class ModelSection(_Section):
    """One of: a network (`net`), a scikit-learn estimator (`estimator`), a training function (`train`).

    `options` are the network's or the estimator's.
    """

    net: str = "mlp"
    estimator: str | None = None
    train: str | None = None
    options: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> ModelSection:
        if self.estimator is not None:
            _refuse_unused(self, {"net", "train"}, "give either `net` or `estimator` or `train`")
        if self.train is not None:
            _refuse_unused(self, {"net", "options"}, "`train` is a whole training function")
        return self


class TrainingSection(_Section):
    """How a network is trained; field by field as in `leakscope.recipe.Recipe`."""

    optimizer: Literal["sgd", "adam", "adamw"] = "adam"
    lr: float = Field(default=0.001, gt=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False
    sam_rho: float = Field(default=0.0, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["constant", "cosine", "step"] = "constant"
    step_epochs: tuple[int, ...] = ()
    step_factor: float = Field(default=0.1, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    flips: bool = False
    crop: int = Field(default=0, ge=0)
    precision: Literal["float32", "bfloat16"] = "float32"
    batch_size: int = Field(default=64, ge=1)
    epochs: int = Field(default=30, ge=1)
    checkpoints: tuple[int, ...] = ()
    trainer: Literal["auto", "stacked", "serial"] = "auto"

    @model_validator(mode="after")
    def _makes_a_recipe(self) -> TrainingSection:
        try:
            Recipe(**self.model_dump())
        except InputError as error:
            raise ValueError(str(error)) from error
        return self


class PopulationSection(_Section):
    """How many models, and who is in them."""

    models: int = Field(default=64, ge=2)
    design: Literal["balanced", "bernoulli", "pairs"] = "balanced"
    seed: int = Field(default=0, ge=0)
    signals: tuple[str, ...] = ()
    device: str = "auto"
    engine: Literal["local", "ray"] = "local"
    address: str | None = None

    @model_validator(mode="after")
    def _halves(self) -> PopulationSection:
        if self.models % 2 and self.design != "bernoulli":
            raise ValueError(f"models={self.models}: a {self.design} design needs an even number of models")
        return self


class AttackSection(_Section):
    """Which attacks, judged where."""

    names: tuple[str, ...] = DEFAULT_ATTACKS
    fpr: tuple[Annotated[float, Field(ge=0, le=1)], ...] = DEFAULT_FPR_BUDGETS

    @model_validator(mode="after")
    def _known_attacks(self) -> AttackSection:
        unknown = [name for name in self.names if name not in attack_classes()]
        if unknown or not self.names:
            raise ValueError(f"names={list(self.names)}: choose from {', '.join(sorted(attack_classes()))}")
        return self


class TprLimitSection(_Section):
    """One entry of `max_tpr`."""

    fpr: float
    tpr: float


class GateSection(_Section):
    """Limits; field by field as in `leakscope.evaluate.gate.Gate`."""

    max_auc: float | None = None
    max_advantage: float | None = None
    max_tpr: tuple[TprLimitSection, ...] = ()
    max_epsilon: float | None = None
    max_exposed_share: float | None = None
    delta: float = DEFAULT_DELTA
    confidence: float = DEFAULT_CONFIDENCE

    @model_validator(mode="after")
    def _makes_a_gate(self) -> GateSection:
        try:
            self.gate()
        except InputError as error:
            raise ValueError(str(error).removeprefix("gate: ")) from error
        if self.max_epsilon is None:
            _refuse_unused(self, {"delta", "confidence"}, "they belong to `max_epsilon`")
        return self

    def gate(self) -> Gate:
        """The limits."""
        limits = tuple(TprLimit(limit.fpr, limit.tpr) for limit in self.max_tpr)
        return Gate(**{**dict(self), "max_tpr": limits})


class TargetSection(_Section):
    """A given, trained network: its weights, and a file with its members' ids, one a line."""

    weights: Path
    members: Path


class AuditConfig(_Section):
    """A whole audit."""

    data: DataSection
    model: ModelSection = ModelSection()
    training: TrainingSection = TrainingSection()
    population: PopulationSection = PopulationSection()
    attacks: AttackSection = AttackSection()
    gate: GateSection | None = None
    target: TargetSection | None = None

    @model_validator(mode="after")
    def _nothing_unused(self) -> AuditConfig:
        if self.target is not None and (self.model.estimator or self.model.train):
            raise ValueError("[target] has a network's weights; give model.net, the network they belong to")
        if self.model.estimator is not None:
            _refuse_unused(self, {"training"}, "an estimator's settings are model.options")
        if self.model.train is not None:
            _refuse_unused(self, {"training"}, "model.train trains as it likes")
        return self

    def records(self, data_dir: Path | None, base: Path) -> Records:
        """The records; a relative `file` is looked up beside the config file."""
        from leakscope.data.files import read_table
        from leakscope.data.registry import load
        from leakscope.data.standardise import standardised

        if self.data.dataset is not None:
            return load(self.data.dataset, data_dir, **self.data.options)
        d = self.data
        assert d.file is not None, "the validator lets no such config through"
        path = base / d.file.expanduser()
        read = read_table(path, d.label, d.id, d.groups, d.features, d.task)
        if not path.is_dir():
            return standardised(read) if d.standardise else read
        if "standardise" in d.model_fields_set and d.standardise:
            raise InputError(f"{path}: standardise=true is for tables; a folder's features stay as they are")
        return read

    def recipe(self) -> AnyRecipe:
        """How one model is trained."""
        if self.model.estimator is not None:
            return EstimatorRecipe(_estimator(self.model.estimator, self.model.options))
        if self.model.train is not None:
            return FunctionRecipe(_imported("model.train", self.model.train, "my_package.module:train"))
        return Recipe(
            net=self.model.net, net_options=tuple(self.model.options.items()), **self.training.model_dump()
        )


def read_config(path: Path) -> AuditConfig:
    """The config in a TOML file; every problem in it is named, in one error."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} is not there; give the path of a TOML file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path} is not a config: lists and tables lie too deep in each other") from error
    try:
        return AuditConfig.model_validate(content)
    except ValidationError as error:
        problems = "; ".join(_in_words(e) for e in error.errors())
        raise InputError(f"{path}: {problems}") from error


def _refuse_unused(section: BaseModel, names: set[str], why: str) -> None:
    """A setting that would silently do nothing is a mistake."""
    unused = sorted(names & section.model_fields_set)
    if unused:
        raise ValueError(f"{', '.join(unused)} would do nothing: {why}")


def _in_words(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{where} is not a known setting"
    if problem["type"] == "missing":
        return f"{where} is missing"
    message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    given = problem["input"]
    shown = "" if isinstance(given, dict) else f"={given!r}"
    return f"{where}{shown}: {message}" if where else message


def _estimator(path: str, options: dict[str, Any]) -> Any:
    found = _imported("model.estimator", path, "sklearn.ensemble:RandomForestClassifier")
    try:
        return found(**options)
    except TypeError as error:
        raise InputError(f"model.options: {error}") from error


def _imported(setting: str, path: str, example: str) -> Any:
    """What "package.module:name" means."""
    import importlib

    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{setting}={path!r} cannot be imported ({error}); write for example {example!r}"
        ) from error

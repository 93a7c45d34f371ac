"""The table `[model]` of a config file, and the recipe that it makes with `[training]`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from leakscope.adapter_recipe import AdapterRecipe, Lora
from leakscope.audits.toml_tables import Toml
from leakscope.errors import InputError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.user_code import check_arguments, import_object, names_code, user_errors

OF_A_BASE = ("lora", "full", "gradient_checkpointing", "accumulation")
"""Settings that only a language model has."""


@dataclass(frozen=True)
class ModelSection:
    """How models are made: a network, an estimator, a training function or a fine-tuned language model.

    Attributes:
        net: a shipped network ("linear", "mlp", "cnn", "deep_cnn", "resnet18", "wide_resnet") or your own,
            "package.module:factory": a function `factory(input_shape, n_classes, **options)`.
        estimator: a scikit-learn classifier or regressor, "package.module:Class".
        train: your own training function, "package.module:function": `train(records, indices, seed)` returns
            a function `predict(features)`.
        options: arguments of the network or the estimator.
        base: a language model to fine-tune on text: the folder of a model of transformers, relative to the
            config file, or its name on the Hugging Face hub. `[training]` then has other defaults:
            `optimizer = "adamw"`, `lr = 0.0002`, `batch_size = 8` and `epochs = 3`.
        lora: the adapters that are trained beside the frozen base.
        full: train all weights of the base instead of adapters, one model after the other.
        gradient_checkpointing: compute activations of the base again in the backward pass instead of storing
            them.
        accumulation: parts that a batch of documents is divided into, one after the other, to need less
            memory.
    """

    net: str = "mlp"
    estimator: str | None = None
    train: str | None = None
    options: Toml = field(default_factory=dict)
    base: str | None = None
    lora: Lora | None = None
    full: bool = False
    gradient_checkpointing: bool = False
    accumulation: int = 1


def training_defaults(model: Toml) -> Toml:
    """What `[training]` has where it says nothing, for models that differ from networks in that."""
    if "base" not in model:
        return {}
    own, usual = fields(AdapterRecipe), {f.name: f.default for f in fields(Recipe)}
    names = [f.name for f in own if f.name in usual and f.default != usual[f.name] and f.name != "net"]
    return {f.name: f.default for f in own if f.name in names}


def recipe_of(model: ModelSection, training: Recipe, folder: Path) -> AnyRecipe:
    """How one model is trained; `folder` is that of the config file."""
    if model.estimator is not None:
        example = "sklearn.ensemble:RandomForestClassifier"
        make = import_object("model.estimator", model.estimator, example, folder)
        check_arguments(f"model.estimator={model.estimator!r}", make, model.options)
        with user_errors(f"model.estimator={model.estimator!r} with model.options={model.options}"):
            return EstimatorRecipe(make(**model.options))
    if model.train is not None:
        train = import_object("model.train", model.train, "my_package.module:train", folder)
        if not callable(train):
            raise InputError(f"model.train={model.train!r} is {type(train).__name__}, not a function")
        return FunctionRecipe(train)
    if model.base is not None:
        return _language_recipe(model, training, folder)
    if names_code(model.net):
        import_object("model.net", model.net, "my_package.nets:build", folder)
    return replace(training, net=model.net, net_options=tuple(model.options.items()))


def _language_recipe(model: ModelSection, training: Recipe, folder: Path) -> AdapterRecipe:
    assert model.base is not None
    beside = folder / Path(model.base).expanduser()
    names = [f.name for f in fields(Recipe) if f.name not in ("net", "net_options")]
    return AdapterRecipe(
        base=str(beside) if beside.exists() else model.base,
        lora=model.lora or Lora(),
        full=model.full,
        gradient_checkpointing=model.gradient_checkpointing,
        accumulation=model.accumulation,
        **{name: getattr(training, name) for name in names},
    )


def unused_model_settings(model: Toml) -> list[str]:
    """Settings of `[model]` that would do nothing, in words."""
    problems, either = [], "give either `net` or `estimator` or `train` or `base`"
    for applies, names, why in (
        ("estimator" in model, ("net", "train", "base"), either),
        ("train" in model, ("net", "options", "base"), "`train` is a whole training function"),
        ("base" in model, ("net", "options"), "`base` is a whole model"),
        ("base" not in model, OF_A_BASE, "only for `base`"),
        (bool(model.get("full")), ("lora",), "full fine-tuning has no adapters"),
    ):
        given = [name for name in names if name in model]
        if applies and given:
            problems.append(f"model: {', '.join(given)} would do nothing: {why}")
    return problems

"""What to do about the findings of an audit: each remedy with its finding, a ready table or command, a cost.

Every remedy rests on a figure of the results. An audit without findings has none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import scipy

from leakscope.disclosure import FEWEST_RECORDS
from leakscope.disk.toml_text import toml_table
from leakscope.evaluate.exposure import models_needed
from leakscope.evaluate.hygiene.models import LEAST_MODELS
from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.rating_sentences import rating_sentence
from leakscope.evaluate.results import AuditResults, GroupFigures

Finding = Literal["leakage", "duplicates", "late epochs", "overfitting", "overconfidence", "groups", "models"]

LARGE_GAP = 0.05
"""Accuracy on members minus accuracy on non-members that counts as a large gap."""
OVERCONFIDENCE = 0.05
"""Confidence minus accuracy, on non-members, that counts as overconfidence."""
LOST_ACCURACY = 0.005
"""An earlier checkpoint may be this much less accurate than the last."""
_LEVEL = 0.95
CALLS_FOR_A_DEFENCE = ("moderate", "high", "severe")
_WEIGHT_DECAY = 0.01
_STEPS_OF_LEAVES = (5, 10, 20, 50)
_UNKNOWN_COST = "Unknown before it is measured: accuracy on new records may fall, or rise."


@dataclass(frozen=True)
class Remedy:
    """Something to do.

    Attributes:
        finding: what kind of finding it answers.
        found: the finding with its figure.
        advice: what to do.
        code: a table for the config file, or commands; empty where there is none.
        cost: what it costs.
    """

    finding: Finding
    found: str
    advice: str
    code: str
    cost: str


def remedies(results: AuditResults) -> tuple[Remedy, ...]:
    """What to do, the surest first; empty where nothing was found.

    After a failed check only what does not rest on the figures of attacks and models.
    """
    triggers = (_duplicates, _models) if undermining(results.hygiene) else _TRIGGERS
    return tuple(remedy for trigger in triggers for remedy in trigger(results))


def _leakage(results: AuditResults) -> Iterator[Remedy]:
    """Defences can be tried on models that leakscope trains."""
    if results.rating.level not in CALLS_FOR_A_DEFENCE or results.config.source.kind != "population":
        return
    yield Remedy(
        "leakage",
        rating_sentence(results),
        "Try the defences that apply to this model. The command ranks them by what they gain and cost, and "
        "writes a config with the best one.",
        _advise(results),
        "The minutes that you give it, and the loss of accuracy that you accept.",
    )


def _duplicates(results: AuditResults) -> Iterator[Remedy]:
    check = next((check for check in results.hygiene if check.name == "duplicates"), None)
    n_copies = int(check.numbers.get("records_with_a_copy", 0)) if check else 0
    if not n_copies:
        return
    n_records = results.population.rows or results.population.records
    yield Remedy(
        "duplicates",
        f"{n_copies:,} records have an exact copy among the records.",
        "Train on one copy of each record. A record that occurs twice is memorized more, and removing one "
        "copy does not remove the person. Audit what is left.",
        "records = records.take(numpy.unique(records.duplicate_of))  # keeps the first of each",
        f"At most {n_copies:,} of {n_records:,} records, all of them copies of records that remain.",
    )


def _late_epochs(results: AuditResults) -> Iterator[Remedy]:
    """The earliest checkpoint that is as accurate as the last and leaks less, beyond both intervals."""
    bits = {at.epoch: at.bits for at in results.leakage.checkpoints}
    fits = results.fit
    if len(fits) < 2 or len(bits) != len(fits) or bits[fits[-1].epoch].these_low is None:
        return
    last, least = fits[-1], bits[fits[-1].epoch].these_low or 0.0
    for fit in fits[:-1]:
        earlier = bits[fit.epoch]
        high = earlier.these_high
        if high is None or high >= least or last.nonmembers - fit.nonmembers > LOST_ACCURACY:
            continue
        schedule = results.population.recipe.get("schedule", "constant")
        caution = (
            ""
            if schedule == "constant"
            else f" The learning rate follows a {schedule} schedule, which then ends sooner; audit again."
        )
        yield Remedy(
            "late epochs",
            f"After epoch {fit.epoch}, leakage grows from {max(earlier.value or 0, 0):.3f} to "
            f"{bits[last.epoch].value or 0:.3f} bits per {results.config.noun.one}, and accuracy on "
            f"non-members goes from {fit.nonmembers:.1%} to {last.nonmembers:.1%}.",
            f"Stop after epoch {fit.epoch}.{caution}",
            _training_table(results, {"epochs": fit.epoch, "checkpoints": None}),
            f"Accuracy on non-members changes by {100 * (fit.nonmembers - last.nonmembers):+.1f} points; "
            f"training takes {fit.epoch / last.epoch:.0%} of the time.",
        )
        return


def _overfitting(results: AuditResults) -> Iterator[Remedy]:
    accuracy = results.accuracy
    if accuracy is None or accuracy.members.low is None or accuracy.nonmembers.high is None:
        return
    if accuracy.members.low - accuracy.nonmembers.high < LARGE_GAP:
        return
    members, others = accuracy.members.value or 0.0, accuracy.nonmembers.value or 0.0
    advice, code = _regularized(results)
    yield Remedy(
        "overfitting",
        f"Models are right about {members:.1%} of their members and {others:.1%} of the other records, "
        f"{100 * (members - others):.1f} points fewer.",
        f"{advice}{_measure(results)}",
        code,
        _UNKNOWN_COST,
    )


def _overconfidence(results: AuditResults) -> Iterator[Remedy]:
    fit = results.fit[-1] if results.fit else None
    if fit is None or fit.confidence is None or fit.confidence - fit.nonmembers < OVERCONFIDENCE:
        return
    advice, code = _regularized(results)
    yield Remedy(
        "overconfidence",
        f"On non-members, models give their predictions a probability of at least {fit.confidence:.1%} on "
        f"average, and {fit.nonmembers:.1%} of them are right.",
        f"Aim at less extreme outputs: {advice[0].lower()}{advice[1:]} Rescaling the outputs after training "
        "corrects the probabilities but hides no member from an attacker with reference models."
        f"{_measure(results)}",
        code,
        _UNKNOWN_COST,
    )


def groups_above(results: AuditResults) -> list[tuple[str, GroupFigures]] | None:
    """Groups, by column, whose AUC lies above that of all records; None where that cannot be tested.

    Intervals are widened for the number of groups. Groups of fewer than `FEWEST_RECORDS` are not tested.
    """
    strongest = results.attacks[results.strongest_attack]
    groups = [(column, group) for column, groups in strongest.groups.items() for group in groups]
    top = strongest.auc.high
    if top is None or not any(g.records >= FEWEST_RECORDS and g.auc.low is not None for _, g in groups):
        return None
    widening = float(
        scipy.special.ndtri(1 - (1 - _LEVEL) / 2 / len(groups)) / scipy.special.ndtri((1 + _LEVEL) / 2)
    )
    return [(c, g) for c, g in groups if g.records >= FEWEST_RECORDS and _low(g, widening) > top]


def _groups(results: AuditResults) -> Iterator[Remedy]:
    strongest, above = results.attacks[results.strongest_attack], groups_above(results)
    noun = results.config.noun
    if not above:
        return
    named = "; ".join(
        f"{column} {group.group!r} ({group.records:,} {noun.many}): AUC {group.auc.value or 0:.3f}"
        for column, group in sorted(above, key=lambda one: -(one[1].auc.value or 0))[:5]
    )
    column, group = max(above, key=lambda one: one[1].auc.value or 0.0)
    yield Remedy(
        "groups",
        f"Some groups are more exposed than the {noun.many} as a whole (AUC {strongest.auc.value or 0:.3f}): "
        f"{named}.",
        f"Protect the group, not the average: look at its most exposed {noun.many}, and add {noun.many} of "
        "the group or, if the model can do without it, leave it out. Judge every remedy by the group's own "
        "figures.",
        "r = leakscope.open_run(RUN).records\n"
        f'r.filter(r[{column!r}] == {group.group!r}).sort("advantage", descending=True)',
        "Records of a small group are hard to replace: leaving them out costs accuracy on the group.",
    )


def _models(results: AuditResults) -> Iterator[Remedy]:
    if results.is_of_one_model:
        return
    n_models, exposed = results.population.models, results.exposed
    is_blind = exposed is not None and exposed.records is None
    needed = models_needed(exposed.tested) if exposed is not None and is_blind else 0
    needed = max(needed, LEAST_MODELS if n_models < LEAST_MODELS else 0)
    if needed <= n_models:
        return
    found = f"{n_models} models are too few"
    if exposed is not None and is_blind:
        found = f"Exposed {results.config.noun.many}: {exposed.reason}"
    yield Remedy(
        "models",
        f"{found}.",
        "Extend the audit; it keeps the models it has.",
        _audit_with(results, needed),
        f"{needed - n_models} more models, {(needed - n_models) / n_models:.1f} times the training so far.",
    )


_TRIGGERS: tuple[Callable[[AuditResults], Iterator[Remedy]], ...] = (
    _leakage,
    _duplicates,
    _late_epochs,
    _overfitting,
    _overconfidence,
    _groups,
    _models,
)


def _has_config(results: AuditResults) -> bool:
    """Whether a config file started the audit; the demo and audits in Python have none."""
    return results.config.source.toml is not None


def _advise(results: AuditResults) -> str:
    """How to have defences tried on models of a population."""
    if _has_config(results):
        return "leakscope advise CONFIG.toml --minutes 10"
    return "leakscope.advise(records, recipe, minutes=10)  # in Python, as no config file started this audit"


def _audit_with(results: AuditResults, n_models: int) -> str:
    """How to extend the audit to so many models."""
    if _has_config(results):
        return f"leakscope audit CONFIG.toml --models {n_models}"
    return f"leakscope.audit(records, recipe, out=RUN, models={n_models})  # in Python"


def _measure(results: AuditResults) -> str:
    """Where the gain and cost of a change can be measured; empty where leakscope did not train the models."""
    if results.config.source.kind != "population":
        return ""
    name = "leakscope advise" if _has_config(results) else "leakscope.advise"
    return f" `{name}` measures what this and other changes gain and cost for this model."


def _low(group: GroupFigures, widening: float) -> float:
    """Lower end of the AUC of one of many groups; 0 where it is unknown."""
    auc = group.auc
    return 0.0 if auc.value is None or auc.low is None else auc.value - widening * (auc.value - auc.low)


def _regularized(results: AuditResults) -> tuple[str, str]:
    """How to fit members less closely: in words, and as a table where there is one."""
    recipe = results.population.recipe
    if "net" in recipe:
        decay = _stronger_decay(results)
        return "Train with more weight decay.", _training_table(results, {"weight_decay": decay})
    parameters = recipe.get("parameters")
    if not isinstance(parameters, Mapping):
        return "Train with stronger regularization.", ""
    if isinstance(leaf := parameters.get("min_samples_leaf"), int):
        larger = next((step for step in _STEPS_OF_LEAVES if step > leaf), 2 * leaf)
        return "Require more records in every leaf.", _options_table(results, {"min_samples_leaf": larger})
    for name, factor in (("C", 0.1), ("alpha", 10.0)):
        value = _number(parameters.get(name))
        if value:
            table = _options_table(results, {name: float(f"{value * factor:g}")})
            return "Regularize more strongly.", table
    return "Regularize more strongly.", ""


def _number(described: object) -> float | None:
    """A parameter of an estimator as its recipe describes it: floats are text there."""
    if isinstance(described, bool) or not isinstance(described, int | float | str):
        return None
    try:
        return float(described)
    except ValueError:
        return None


def _stronger_decay(results: AuditResults) -> float:
    present = float(results.population.recipe.get("weight_decay") or 0.0)
    return max(_WEIGHT_DECAY, float(f"{3 * present:g}"))


def _training_table(results: AuditResults, changed: Mapping[str, Any]) -> str:
    """The whole `[training]` table of the config file with some settings changed; None removes one."""
    return toml_table("training", {**_table(results, "training"), **changed})


def _options_table(results: AuditResults, changed: Mapping[str, Any]) -> str:
    """The whole `[model]` table of the config file with some options of the estimator changed."""
    model = _table(results, "model") or {"estimator": results.population.recipe.get("estimator")}
    return toml_table("model", {**model, "options": {**model.get("options", {}), **changed}})


def _table(results: AuditResults, name: str) -> dict[str, Any]:
    """A table of the config file of the audit; empty where there is none."""
    try:
        table = tomllib.loads(results.config.source.toml or "").get(name, {})
    except (ValueError, RecursionError):
        return {}
    return dict(table) if isinstance(table, dict) else {}

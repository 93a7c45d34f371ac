"""The settings of an audit: one frozen object, whatever is audited and wherever the settings were written.

A setting that is None was not given, and its default applies. That is how a setting that would do nothing is
noticed: each source of an audit names the settings it uses (`Source.uses`), and any other that was given is
an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal

from leakscope.attacks.base import Attack
from leakscope.attacks.queries import SeveralQueries
from leakscope.attacks.registry import PER_RECORD, attack_classes
from leakscope.attacks.spec import AttackSpec, resolve, resolve_all, spec_of
from leakscope.data.canaries import Canaries
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.presets import with_preset
from leakscope.privacy.claim import Claim
from leakscope.signals.registry import CLASSIFICATION, LANGUAGE, QUERY_LOG_ODDS, REGRESSION, Task

DEFAULT_MODELS, DEFAULT_SEED = 64, 0
DEFAULT_FPR_BUDGETS = (0.1, 0.01, 0.001, 0.0001)

JUDGING = frozenset({"attacks", "fpr", "gate", "claim"})
"""Settings of the evaluation, which every audit uses."""
TRAINING = frozenset({"models", "design", "seed", "signals", "queries", "device", "engine", "address"})
"""Settings of the population that is trained."""
UNITS = frozenset({"unit"})
"""Who is a member."""
PLANTED = frozenset({"canaries"})
"""What is planted among the records, before models are trained on them."""
STORED = frozenset({"reuse", "fresh"})
"""What to do with models that the run folder holds already."""

_TYPES: dict[str, tuple[type[Any], str]] = {
    "gate": (Gate, "leakscope.Gate(max_auc=0.6) or leakscope.Gate(preset='release')"),
    "claim": (Claim, "leakscope.dp.Claim(epsilon=8)"),
    "canaries": (Canaries, "leakscope.Canaries(number=50)"),
    "models": (Integral, "64"),
    "design": (str, "'balanced'"),
    "unit": (str, "'patient'"),
    "seed": (Integral, "0"),
    "queries": (Integral, "4"),
    "device": (str, "'cpu'"),
    "engine": (str, "'local'"),
    "address": (str, "'auto'"),
    "disclosure": (Disclosure, "Disclosure(redacted=True)"),
}
_LISTS: dict[str, tuple[type[Any], str]] = {
    "attacks": (object, "['eb_lira', 'rmia']"),
    "fpr": (Real, "[0.01, 0.001]"),
    "signals": (str, "['logits']"),
}


@dataclass(frozen=True)
class AuditSettings:
    """What to ask, and how to train the population that answers it.

    Attributes:
        attacks: attacks by name, as text with options, or as objects; by default those the source allows.
        fpr: false positive rates at which the true positive rate is reported.
        gate: limits; `Verdict.outcome` says whether they hold.
        claim: a claim of differential privacy about the training, to be put to the test.
        canaries: records to plant among the others, which get figures of their own; by default none.
        models: number of models to train, 64 by default; every model is the target in turn.
        design: "balanced" (the default), "bernoulli" (the default with a claim) or "pairs".
        unit: who is a member: the column that says whose record it is, such as "patient". All records of a
            unit are in a training set, or none is, and figures are about units. By default single records.
        seed: all randomness derives from it; 0 by default.
        signals: signals to store in the bank beside those the attacks need.
        queries: number of queries per record. With 2 or more, the bank stores their log-odds, which attacks
            with `queries="all"` read.
        device: "auto" (the default), "cpu", "cuda" or "cuda:N".
        engine: training backend, "local" (the default) or "ray".
        address: address of the Ray cluster, "auto" or "HOST:PORT".
        reuse: use the models in the run folder although the code that trained them has changed, or cannot be
            compared: you know that it trains the same models.
        fresh: start over: remove what the run folder holds.
        disclosure: what report.html may say about single records.
        config_text: the config file the settings were read from, for the report.
    """

    attacks: Sequence[AttackSpec] | None = None
    fpr: Sequence[float] | None = None
    gate: Gate | None = None
    claim: Claim | None = None
    canaries: Canaries | None = None
    models: int | None = None
    design: Literal["balanced", "bernoulli", "pairs"] | None = None
    unit: str | None = None
    seed: int | None = None
    signals: Sequence[str] | None = None
    queries: int | None = None
    device: str | None = None
    engine: Literal["local", "ray"] | None = None
    address: str | None = None
    reuse: bool | None = None
    fresh: bool | None = None
    disclosure: Disclosure = DEFAULT_DISCLOSURE
    config_text: str | None = None

    def __post_init__(self) -> None:
        problems = _type_problems(self) or _problems(self)
        if problems:
            raise InputError("; ".join(problems))
        if self.attacks is not None:
            object.__setattr__(self, "attacks", resolve_all(self.attacks))

    @property
    def given(self) -> frozenset[str]:
        """The settings that were given and whose effect depends on the source."""
        return frozenset(f.name for f in fields(self) if getattr(self, f.name) is not None) & (
            JUDGING | TRAINING | STORED | PLANTED
        )

    def resolve(
        self, defaults: Sequence[Attack], fpr_defaults: Sequence[float], uses: frozenset[str], task: Task
    ) -> ResolvedSettings:
        """Every setting with its default in place.

        Raises:
            InputError: a setting is not in `uses`, or an attack is not for models of this task.
        """
        unused = sorted(self.given - uses)
        if unused == ["canaries"] and uses & TRAINING:
            raise InputError("canaries cannot be planted into a trained model; remove them")
        if unused:
            why = "nothing is trained" if not uses & TRAINING else "this audit does not use them"
            raise InputError(f"{', '.join(unused)} would do nothing: {why}; remove them")
        attacks = self._attacks(defaults, task)
        _check_task(attacks, task)
        for attack in attacks:
            _check_written_as_text(attack)
        fpr_budgets = tuple(fpr_defaults if self.fpr is None else self.fpr)
        gate = None if self.gate is None else with_preset(self.gate)
        of_gate = [limit.fpr for limit in gate.max_tpr] if gate else []
        of_claim = PER_RECORD.reads(task) if self.claim else ()
        return ResolvedSettings(
            attacks=attacks,
            fpr_budgets=tuple(dict.fromkeys([*fpr_budgets, *of_gate])),
            gate=gate,
            claim=self.claim,
            canaries=self.canaries,
            models=DEFAULT_MODELS if self.models is None else self.models,
            design=self.design or ("bernoulli" if self.claim and uses & PLANTED else "balanced"),
            unit=self.unit,
            seed=DEFAULT_SEED if self.seed is None else self.seed,
            signals=self._signals(attacks, task, {*of_claim}, uses),
            queries=self.queries or 1,
            device=self.device or "auto",
            engine=self.engine or "local",
            address=self.address,
            reuse=bool(self.reuse),
            config_text=self.config_text,
        )

    @property
    def _asks_again(self) -> bool:
        """Whether every record is queried several times."""
        return (self.queries or 1) > 1

    def _attacks(self, defaults: Sequence[Attack], task: Task) -> tuple[Attack, ...]:
        """Those chosen; by default those of the source, with several queries also those that read them."""
        if self.attacks is not None:
            return resolve_all(self.attacks)
        if not self._asks_again:
            return tuple(defaults)
        if task != CLASSIFICATION:
            raise InputError(f"queries={self.queries}: several queries per record are for classifiers only")
        several = [a.with_all_queries() for a in defaults if isinstance(a, SeveralQueries)]
        return (*defaults, *several)

    def _signals(
        self, attacks: Sequence[Attack], task: Task, more: set[str], uses: frozenset[str]
    ) -> tuple[str, ...]:
        """The signals to store; several queries must have a number, and be read or stored on request."""
        names = {*(self.signals or ()), *(name for a in attacks for name in a.reads(task)), *more}
        readers = [attack.label for attack in attacks if QUERY_LOG_ODDS in attack.reads(task)]
        if QUERY_LOG_ODDS in names and not self._asks_again and "queries" in uses:
            what = f"attacks={readers} read" if readers else f"signals={QUERY_LOG_ODDS!r} is of"
            raise InputError(f"{what} several queries per record; say how many, for example queries=4")
        if self._asks_again and QUERY_LOG_ODDS not in names:
            raise InputError(
                f"queries={self.queries} would do nothing: no attack reads them; choose one that does, "
                f"such as eb_lira(queries=all), or store them with signals={[QUERY_LOG_ODDS]}"
            )
        return tuple(sorted(names))


@dataclass(frozen=True)
class ResolvedSettings:
    """Settings of an audit with every default in place; see `AuditSettings`.

    Attributes:
        fpr_budgets: those of the settings, then those of the gate.
        signals: names of all signals the attacks and the user need.
    """

    attacks: tuple[Attack, ...]
    fpr_budgets: tuple[float, ...]
    gate: Gate | None
    claim: Claim | None
    canaries: Canaries | None
    models: int
    design: str
    unit: str | None
    seed: int
    signals: tuple[str, ...]
    queries: int
    device: str
    engine: Literal["local", "ray"]
    address: str | None
    reuse: bool
    config_text: str | None

    @property
    def attack_specs(self) -> tuple[str, ...]:
        """The attacks as text, for results.json."""
        return tuple(spec_of(attack) for attack in self.attacks)


def _check_task(attacks: Sequence[Attack], task: Task) -> None:
    """Refuses attacks that models of this task cannot be attacked with."""
    refused = [attack.label for attack in attacks if not attack.reads(task)]
    if refused:
        known = sorted(name for name, cls in attack_classes().items() if cls().reads(task))
        why = {
            CLASSIFICATION: "not for classifiers, and the labels are classes",
            REGRESSION: "not for regression models, and the labels are numbers",
            LANGUAGE: "not for language models, and the records are documents",
        }[task]
        raise InputError(f"attacks={refused}: {why}; choose from {', '.join(known)}")


def _check_written_as_text(attack: Attack) -> None:
    """Refuses an attack that results.json could not name, before anything is trained for it."""
    text = spec_of(attack)
    try:
        is_same = resolve(text) == attack
    except InputError as error:
        raise InputError(f"attacks: {text} cannot be read back from results.json ({error})") from error
    if not is_same:
        raise InputError(
            f"attacks: {text} cannot be read back from results.json; give its options numbers, text, true, "
            "false or none"
        )


def _type_problems(settings: AuditSettings) -> list[str]:
    """Settings whose values have the wrong type, in words."""
    problems = []
    for name, (cls, example) in _TYPES.items():
        value = getattr(settings, name)
        if value is not None and (not isinstance(value, cls) or isinstance(value, bool)):
            problems.append(f"{name}={value!r}: write for example {name}={example}")
    for name in sorted(STORED):
        if not isinstance(getattr(settings, name), bool | None):
            problems.append(f"{name}={getattr(settings, name)!r}: write {name}=True")
    for name, (cls, example) in _LISTS.items():
        values = getattr(settings, name)
        if values is not None and not _is_list_of(cls, values):
            problems.append(f"{name}={values!r}: expected a list, for example {name}={example}")
    return problems


def _is_list_of(cls: type[Any], values: Any) -> bool:
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return is_list and all(isinstance(value, cls) and not isinstance(value, bool) for value in values)


def _problems(settings: AuditSettings) -> list[str]:
    """Everything wrong with the settings, in words."""
    problems = list(_number_problems(settings))
    for name, known in (("design", ("balanced", "bernoulli", "pairs")), ("engine", ("local", "ray"))):
        if getattr(settings, name) not in (None, *known):
            problems.append(f"{name}={getattr(settings, name)!r}: choose one of {', '.join(known)}")
    if settings.unit is not None and settings.claim is not None:
        problems.append(
            f"unit={settings.unit!r}: a claim is about one record, and a unit may have several; remove one"
        )
    if settings.reuse and settings.fresh:
        problems.append("reuse and fresh exclude each other: fresh removes what reuse would use")
    wrong = [rate for rate in settings.fpr or () if not 0 < rate <= 1]
    if wrong:
        problems.append(f"fpr={wrong}: must be rates above 0 and at most 1, like 0.01")
    if settings.address is not None and settings.engine != "ray":
        problems.append(f"address={settings.address!r} would do nothing: it belongs to engine='ray'")
    return problems


def _number_problems(settings: AuditSettings) -> Iterator[str]:
    if settings.models is not None and settings.models < 1:
        yield (
            f"models={settings.models}: must be at least 2, or 1 for a single reference of a given model; to "
            "audit a model without references, save its predictions (docs/predictions.md)"
        )
    elif settings.models not in (None, 1) and settings.models % 2 and settings.design != "bernoulli":
        design = settings.design or "balanced"
        yield (
            f"models={settings.models}: a {design} design needs an even number of models "
            f"(try {settings.models + 1})"
        )
    if settings.queries is not None and settings.queries < 1:
        yield f"queries={settings.queries}: must be at least 1"
    if settings.seed is not None and settings.seed < 0:
        yield f"seed={settings.seed}: must be 0 or more"

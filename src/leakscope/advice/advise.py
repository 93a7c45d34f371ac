"""Tries the defences that apply to a model within a stated time, and says which to take.

    advice = leakscope.advise("my.toml", minutes=10)
    print(advice)

Every defence is trained on the same records with the same design and seed as the models without one, so that
differences are between pairs of models. `recommended.toml` in the run folder is the user's config with the
recommended defence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leakscope.advice.candidates import Candidates, Schedule, candidates, defended, schedule
from leakscope.advice.config_file import moved, named_code, with_settings
from leakscope.advice.judge import bank_folder, results_of
from leakscope.advice.results import AdviceConfig, AdviceResults
from leakscope.advice.sentences import summary
from leakscope.advice.tables import trade_table
from leakscope.attacks.label_only import LabelOnlyLira
from leakscope.attacks.registry import PER_RECORD
from leakscope.attacks.spec import spec_of
from leakscope.audits.config import AuditConfig, parse_config, read_config
from leakscope.audits.population import TrainedPopulation, check_recipe_checkpoints
from leakscope.audits.run import KIND as AUDIT
from leakscope.audits.run import audit_settings, prepare
from leakscope.audits.settings import DEFAULT_MODELS, AuditSettings, ResolvedSettings
from leakscope.audits.source import Progress
from leakscope.audits.units import units_of
from leakscope.bank.results import read_results, write_results
from leakscope.bank.run_folder import RUN, locked_run_folder, parse_as, read_run, to_jsonable
from leakscope.defences.registry import resolve_defence
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, stay_redacted
from leakscope.disk.storage import write_bytes
from leakscope.disk.toml_text import toml_text
from leakscope.errors import CorruptBankError, InputError, printable
from leakscope.evaluate.limits import why_approximate
from leakscope.evaluate.results import AuditResults
from leakscope.evaluate.utility import utility_of
from leakscope.recipe import AnyRecipe
from leakscope.report.notebook import summary_and_table
from leakscope.report.page import pages_to_write
from leakscope.signals.registry import Task
from leakscope.types import Records

KIND = "advise"
RESULTS_TYPE = AdviceResults
RECOMMENDED = "recommended.toml"
_JUDGED_TWICE = 2  # once for its rating, once for its differences
Announce = Callable[[AdviceConfig, float | None], None]


@dataclass(frozen=True)
class Advice:
    """The outcome of advice. `print(advice)` prints its summary; a notebook also displays a table.

    Attributes:
        results: the content of results.json.
        folder: the run folder.
    """

    results: AdviceResults
    folder: Path

    @property
    def recommended(self) -> str | None:
        """The recommended defence as text; None: no defence leaks less at an acceptable cost."""
        return self.results.recommended

    def summary(self) -> list[str]:
        """The advice in plain sentences."""
        return summary(self.results)

    def __str__(self) -> str:
        return printable("\n".join(self.summary()))

    def _repr_html_(self) -> str:
        table = trade_table(self.results)
        return summary_and_table(self.summary(), table.head, table.rows)


@dataclass(frozen=True)
class AdviceOptions:
    """How long advice may take, what it may cost, and what is reported.

    Attributes:
        minutes: time for the whole run.
        accepted_loss: loss of accuracy on non-members that you accept, as a share: 0.02 is two points. In a
            regression, of R².
        data_dir: the data folder, for datasets by name.
        disclosure: whether the report is redacted; it says nothing about single records either way.
        announce: called with what will be tried, and with the seconds that will take (None on resume).
    """

    minutes: float = 10.0
    accepted_loss: float = 0.02
    data_dir: Path | None = None
    disclosure: Disclosure = DEFAULT_DISCLOSURE
    announce: Announce = lambda _config, _seconds: None

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise InputError(f"minutes={self.minutes}: must be above 0")
        if not 0 <= self.accepted_loss < 1:
            raise InputError(f"accepted_loss={self.accepted_loss}: must be at least 0 and below 1, like 0.02")


@dataclass(frozen=True, eq=False)
class _Subject:
    """The model in question: its population, settings, and config file where there is one."""

    source: TrainedPopulation
    settings: AuditSettings
    config: AuditConfig | None

    @property
    def toml(self) -> str | None:
        return None if self.config is None else self.settings.config_text

    def recipe_with(self, tables: str) -> AnyRecipe:
        """The recipe of the config file with these tables in it."""
        assert self.config is not None and self.toml is not None
        return parse_config(with_settings(self.toml, tables), self.config.path).recipe()


def advise(
    source: Path | str | Records,
    recipe: AnyRecipe | None = None,
    out: Path | str = "runs/advise",
    options: AdviceOptions | None = None,
    progress: Progress = lambda _: None,
    **settings: Any,
) -> Advice:
    """Measures what each defence that applies gains and costs for a model, and recommends one.

    Args:
        source: a config file, the run folder of an audit that was started from one, or records.
        recipe: how one model is trained, where `source` are records.
        out: run folder; an interrupted run resumes.
        options: time, acceptable loss of accuracy or R²; `AdviceOptions()` by default.
        progress: called with the models' worth of training that is done.
        **settings: fields of `AuditSettings`, such as `seed=1` or `device="cuda"`, and `minutes` and
            `accepted_loss` of `AdviceOptions`.

    Raises:
        InputError: no defence applies, or the time is too short to try one.
    """
    options = options or AdviceOptions(
        **{name: settings.pop(name) for name in ("minutes", "accepted_loss") if name in settings}
    )
    if "://" in str(out):
        raise InputError(f"out={str(out)!r}: advice needs a folder on this machine")
    subject = _subject(source, recipe, options, audit_settings(settings))
    folder = Path(out)
    config, seconds = _stored_config(folder, subject, options) or _new_config(subject, options)
    options.announce(config, seconds)
    with locked_run_folder(folder, KIND, asdict(config)):
        stay_redacted(folder, options.disclosure)
        _train(folder, subject, config, options, progress)
        results = write_results(folder, results_of(folder, config))
        _write_recommended(folder, results, subject)
        for page in pages_to_write(folder, options.disclosure):
            write_reports(folder, results, page)
    return Advice(results, folder)


def recompute(folder: Path, config: AdviceConfig) -> AdviceResults:
    """The results from the banks alone; `leakscope verify` compares them with the stored ones."""
    return results_of(folder, config)


def write_reports(folder: Path, results: AdviceResults, disclosure: Disclosure) -> None:
    """Writes one of the reports; none says anything about a single record."""
    from leakscope.advice.page import write_report

    write_report(results, folder, disclosure.redacted is True)


def _subject(
    source: Path | str | Records, recipe: AnyRecipe | None, options: AdviceOptions, given: AuditSettings
) -> _Subject:
    own = {name: value for name, value in vars(given).items() if name in given.given}
    if isinstance(source, Records):
        if recipe is None:
            raise InputError("recipe is missing: records need one, for example leakscope.Recipe(net='mlp')")
        subject = _Subject(TrainedPopulation(source, recipe), given, None)
    else:
        config = _config(Path(source))
        population = config.source(options.data_dir)
        if not isinstance(population, TrainedPopulation):
            raise InputError(
                f"{source} has a given model or saved predictions, and a defence changes how models are "
                "trained; give a config with [data] and [model] alone"
            )
        subject = _Subject(population, replace(config.settings, **own), config)
    utility_of(subject.source.records)  # raises where there is none
    return subject


def _config(path: Path) -> AuditConfig:
    """A config file, or the one that an audit was started from; its paths are relative to this folder."""
    if not (path / RUN).exists():
        return read_config(path)
    kind, _ = read_run(path)
    if kind != AUDIT:
        raise InputError(f"{path} is a run of kind {kind!r}; advise takes a config file or an audit")
    text = read_results(path, AuditResults).config.source.toml
    if text is None:
        raise InputError(f"{path} was not started from a config file; give advise a config, or records")
    return parse_config(text, Path("audit.toml"))


def _stored_config(
    folder: Path, subject: _Subject, options: AdviceOptions
) -> tuple[AdviceConfig, None] | None:
    """What an interrupted run was going to try; None where the folder holds no run of these inputs."""
    try:
        kind, content = read_run(folder)
        stored = parse_as(AdviceConfig, content, folder / RUN, "choose another folder with --out")
    except (InputError, CorruptBankError):
        return None
    wanted = _inputs(subject, options)
    is_same = kind == KIND and all(to_jsonable(getattr(stored, k)) == v for k, v in wanted.items())
    return (stored, None) if is_same else None


def _inputs(subject: _Subject, options: AdviceOptions) -> dict[str, Any]:
    """What the user gave, as JSON."""
    resolved = _resolved(subject)
    return {
        "toml": subject.toml,
        "records_sha256": subject.source.records.digest,
        "recipe": to_jsonable(subject.source.recipe.description()),
        "minutes": options.minutes,
        "accepted_loss": options.accepted_loss,
        "utility": utility_of(subject.source.records).name,
        "unit": resolved.unit,
        "seed": resolved.seed,
        "design": resolved.design,
    }


def _resolved(subject: _Subject) -> ResolvedSettings:
    source = subject.source
    return replace(subject.settings, gate=None, claim=None).resolve(
        source.default_attacks, source.default_fpr_budgets, source.uses, source.task
    )


def _new_config(subject: _Subject, options: AdviceOptions) -> tuple[AdviceConfig, float]:
    """What will be tried, and the seconds that will take."""
    source, resolved = subject.source, _resolved(subject)
    chosen = candidates(source, None if subject.config is None else subject.recipe_with)
    for defence in chosen.defences:  # before anything is trained: early stopping may leave one checkpoint
        check_recipe_checkpoints(resolved.attacks, defended(source, defence).recipe)
    planned = _schedule(subject, chosen, options)
    n_nonmembers = _n_units(source.records, resolved.unit) // 2
    fprs = [fpr for fpr in resolved.fpr_budgets if why_approximate(fpr, n_nonmembers) is None]
    tried = [defence.label for defence in chosen.defences[: planned.n_defences]]
    late = {defence.label: "the time is too short" for defence in chosen.defences[planned.n_defences :]}
    config = AdviceConfig(
        records=source.records.name,
        models=planned.models,
        attacks=_attacks(resolved, source.task),
        fpr=min(fprs, default=None),
        defences=tuple(tried),
        settings={label: chosen.settings[label] for label in tried},
        not_applicable={**late, **chosen.not_applicable},
        **_inputs(subject, options),
    )
    return config, planned.seconds


def _n_units(records: Records, unit: str | None) -> int:
    """Number of those whose membership is in question."""
    units = units_of(records, unit)
    return len(records) if units is None else len(np.unique(units))


def _attacks(resolved: ResolvedSettings, task: Task) -> tuple[str, ...]:
    """Those of the audit, and one that needs predicted classes alone: no filter of outputs hides from it."""
    own = [spec_of(attack) for attack in resolved.attacks if not attack.is_binary]
    return tuple(dict.fromkeys([*own, *([LabelOnlyLira.name] if LabelOnlyLira().reads(task) else [])]))


def _schedule(subject: _Subject, chosen: Candidates, options: AdviceOptions) -> Schedule:
    """From a short trial of the models without a defence."""
    from leakscope.audits.planning.plan import plan_audit

    models = min(subject.settings.models or DEFAULT_MODELS, 16)
    cost = plan_audit(_settings(subject, models), subject.source).cost
    assert cost is not None, "a population is trained"
    seconds = cost.time.training.expected + _JUDGED_TWICE * cost.time.judging.expected
    return schedule(
        seconds / models, len(chosen.defences), options.minutes, subject.settings.models or DEFAULT_MODELS
    )


def _settings(subject: _Subject, models: int) -> AuditSettings:
    """Those of the user; whatever the attacks read, utility and bits are measured as well."""
    source, own = subject.source, subject.settings.signals or ()
    read = {*PER_RECORD.reads(source.task), *LabelOnlyLira().reads(source.task)}
    signals = sorted({*own, *read, utility_of(source.records).signal})
    return replace(subject.settings, models=models, gate=None, claim=None, signals=signals)


def _train(
    folder: Path, subject: _Subject, config: AdviceConfig, options: AdviceOptions, progress: Progress
) -> None:
    """The models without a defence, then each defence in turn, until the time is up."""
    started, longest = time.perf_counter(), 0.0
    for n_before, label in enumerate((None, *config.defences)):
        begun = time.perf_counter()
        if n_before > 1 and begun - started + longest > 60 * options.minutes:
            return
        source = subject.source if label is None else defended(subject.source, resolve_defence(label))
        prepared = prepare(_settings(subject, config.models), source)
        prepared.collect(bank_folder(folder, config, label), progress)
        longest = max(longest, time.perf_counter() - begun)


def _write_recommended(folder: Path, results: AdviceResults, subject: _Subject) -> None:
    """The user's config with the recommended defence, for the run folder."""
    best = results.best
    if best is None or subject.config is None or subject.toml is None:
        return
    attacks = toml_text(
        {"attacks": {"names": list(results.config.attacks)}}
    )  # those that the promise is about
    settings = with_settings(best.settings, attacks)
    text = moved(with_settings(subject.toml, settings), subject.config.path.parent, folder)
    code = named_code(text)
    note = f"# Move this file to where {', '.join(code)} can be imported from.\n" if code else ""
    opening = f"# {subject.config.path.name} with {best.defence}, as `leakscope advise` recommends.\n"
    write_bytes(folder / RECOMMENDED, (opening + note + "\n" + text).encode())

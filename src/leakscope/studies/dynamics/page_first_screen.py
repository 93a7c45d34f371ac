"""The first screen of the dynamics study's page: the main result, what was run, what it does not cover."""

from __future__ import annotations

import math
from typing import Any

from leakscope.errors import InputError
from leakscope.report.gauge import Gauge
from leakscope.report.study_page import NO_COMMAND, Command, around, options
from leakscope.studies.dynamics.report import percent, sentences
from leakscope.studies.dynamics.results import DynamicsResults, RunResults
from leakscope.studies.dynamics.settings import PRESETS, DynamicsConfig, Setting, config_of


def headline(results: DynamicsResults) -> list[str]:
    """The main result with its interval."""
    if len(results.runs) == 1:
        (run,) = results.runs.values()
        population, _, *rest = sentences(run, results.published)
        return [_exposure_sentence(run), *rest, population]
    by_exposure = sorted(results.runs.items(), key=lambda pair: -_vulnerable_share(pair[1]))
    (most, first), (least, last) = by_exposure[0], by_exposure[-1]
    return [
        f"Of {len(by_exposure)} settings, {most} exposes the most records at the end, {_share_text(first)}, "
        f"and {least} the fewest, {_share_text(last)}.",
        *_difference_sentences(first, last),
        "A record is exposed in the vulnerable corner of the plane, where an attacker is usually right. Each "
        "setting is a population of models of its own; intervals come from leaving out groups of models.",
    ]


def command(config: DynamicsConfig) -> Command:
    """The command line that runs this study; empty where no preset with options gives exactly this config."""
    populations = 1 + max(setting.population for setting in config.settings)
    candidates = _presets(config, populations)
    if not candidates:
        return NO_COMMAND
    preset, changes = min(candidates, key=lambda pair: len(pair[1]))
    given = {"populations": populations, "attack": config.attack, "fpr": config.fpr}
    defaults = {"populations": 1, "attack": "lira", "fpr": None}
    stores_logits = changes.pop("store_logits", None)
    logits = [] if stores_logits is None else ["--logits" if stores_logits else "--no-logits"]
    more = options({**changes, **{k: v for k, v in given.items() if v != defaults[k]}})
    return Command(
        ("leakscope", "study", "dynamics", "--preset", preset, *more, *logits, "--out", "runs/again")
    )


def _presets(config: DynamicsConfig, populations: int) -> list[tuple[str, dict[str, Any]]]:
    """The presets that give this config, each with the options needed on top."""
    candidates = []
    for preset, settings in PRESETS.items():
        first = vars(settings[0])
        changes = {name: value for name, value in vars(config.settings[0]).items() if value != first[name]}
        try:
            made = config_of(preset, populations, config.attack, config.fpr, **changes)
        except InputError:  # the settings differ in something that this preset does not vary
            continue
        if made == config and None not in changes.values():  # an option cannot be None
            candidates.append((preset, changes))
    return candidates


def _exposure_sentence(run: RunResults) -> str:
    vulnerable = run.figures.vulnerable.last
    high = vulnerable.floor.high
    is_chance = high is not None and _vulnerable_share(run) <= high
    verdict = " The share is no larger than chance explains." if is_chance else ""
    return (
        f"At the end of training, {_share_text(run)} of the records are in the vulnerable corner, where an "
        f"attacker is usually right; chance alone puts {percent(vulnerable.floor.mean)} there.{verdict}"
    )


def _vulnerable_share(run: RunResults) -> float:
    return run.figures.vulnerable.last.value or 0.0


def _difference_sentences(most: RunResults, least: RunResults) -> list[str]:
    """The difference of two runs' shares; the runs are independent."""
    a, b = (run.figures.vulnerable.last for run in (most, least))
    if a.standard_error is None or b.standard_error is None:
        return []
    difference = _vulnerable_share(most) - _vulnerable_share(least)
    ends = around(difference, math.hypot(a.standard_error, b.standard_error), least=-1.0)
    low, high = (100 * end for end in ends or ())
    undecided = "" if low > 0 else ", so which of them exposes more is not decided"
    return [
        f"They differ by {100 * difference:.1f} percentage points (95% interval {low:.1f} to {high:.1f})"
        f"{undecided}."
    ]


def _share_text(run: RunResults) -> str:
    vulnerable = run.figures.vulnerable.last
    ends = around(_vulnerable_share(run), vulnerable.standard_error)
    interval = "" if ends is None else f" (95% interval {percent(ends[0])} to {percent(ends[1])})"
    return f"{percent(vulnerable.value)}{interval}"


def gauge(run: RunResults) -> Gauge:
    """The share of vulnerable records at the end, with the noise floor as reference."""
    vulnerable, value = run.figures.vulnerable.last, _vulnerable_share(run)
    low, high = around(value, vulnerable.standard_error) or (None, None)
    largest = max(value, vulnerable.floor.mean or 0.0, high or 0.0)
    end = min(1.0, max(0.05, math.ceil(25 * largest) / 20))
    return Gauge("Records in the vulnerable corner at the end", value, low, high, 0.0, end,
                 reference=vulnerable.floor.mean, reference_label="by chance", percent=True)  # fmt: skip


def facts(results: DynamicsResults) -> list[tuple[str, str]]:
    """What was run."""
    runs = list(results.runs.values())
    first, several = runs[0], len(runs) > 1
    records = f"{first.population.records:,} of {first.setting.dataset}"
    return [
        *([("Runs", ", ".join(results.runs))] if several else []),
        ("Records", records + (" (first run)" if several else "")),
        ("Models", f"{sum(run.population.models for run in runs)}, each on a random half"),
        ("Training", ", ".join(dict.fromkeys(_training_text(run.setting) for run in runs))),
        ("Checkpoints", f"{len(first.epochs)}, epochs {first.epochs[0]} to {first.epochs[-1]}"),
        ("Decisions by", results.conventions["decision"]),
    ]


def _training_text(setting: Setting) -> str:
    return f"{setting.net}, {setting.optimizer}, {setting.epochs} epochs, batch size {setting.batch_size}"


def limits(results: DynamicsResults) -> list[str]:
    """What the page does not cover."""
    n_in, side = next(iter(results.runs.values())).population.models // 2, results.config.side
    return [
        "The results hold for populations trained on random halves of these records; a model trained in "
        "another way may expose others.",
        f"A record's rates are shares of about {n_in} models, so the position of a single record is rough; "
        "compare with the noise floor.",
        f"One attack decides ({results.config.attack}); a stronger one may expose more.",
        f"The corner is a convention: a false positive rate (FPR) below {1 / side:.0%} and a true positive "
        f"rate (TPR) of at least {1 - 1 / side:.0%}.",
    ]

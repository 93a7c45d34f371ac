"""The first screen of the dynamics study's page: what was found, what was run, what it does not show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakscope.report.gauge import Gauge
from leakscope.report.study_page import NO_COMMAND, Command, around, options
from leakscope.studies.dynamics.report import words

if TYPE_CHECKING:
    from leakscope.studies.dynamics.settings import DynamicsConfig, Setting

Run = dict[str, Any]


def headline(results: dict[str, Any]) -> list[str]:
    """What was found, in plain words, with intervals."""
    runs = list(results["runs"].items())
    if len(runs) == 1:
        ((_, run),) = runs
        population, _, *rest = words(run, results["published"]["early_share"])
        return [_exposure_words(run), *rest, population]
    by_exposure = sorted(runs, key=lambda pair: -pair[1]["figures"]["vulnerable"]["value"][-1])
    (most, first), (least, last) = by_exposure[0], by_exposure[-1]
    return [
        f"Of {len(runs)} settings {most} exposes most records at the end, {_share_words(first)}, and {least} "
        f"fewest, {_share_words(last)}.",
        *_difference_words(first, last),
        "Exposed: in the vulnerable corner of the plane, where an attacker is mostly right. Each setting is "
        "a population of models of its own; intervals are from leaving models out.",
    ]


def command(config: dict[str, Any]) -> Command:
    """The command line that asks for this study; checked, so that it never asks for another."""
    from leakscope.studies.dynamics.study import config_from

    wanted = config_from(config)
    populations = 1 + max(setting.population for setting in wanted.settings)
    found = _presets(wanted, populations)
    if not found:
        return NO_COMMAND
    preset, given = min(found, key=lambda pair: len(pair[1]))
    asked = {"populations": populations, "attack": wanted.attack, "fpr": wanted.fpr}
    usual = {"populations": 1, "attack": "lira", "fpr": None}
    keeps = given.pop("keep_logits", None)
    logits = [] if keeps is None else ["--logits" if keeps else "--no-logits"]
    more = options({**given, **{k: v for k, v in asked.items() if v != usual[k]}})
    return Command(
        ("leakscope", "study", "dynamics", "--preset", preset, *more, *logits, "--out", "runs/again")
    )


def _presets(wanted: DynamicsConfig, populations: int) -> list[tuple[str, dict[str, Any]]]:
    """Presets that make the wanted study, each with what must be given on top."""
    from leakscope.errors import InputError
    from leakscope.studies.dynamics.settings import PRESETS, Setting, config_of

    first = wanted.settings[::populations]
    found = []
    for preset, changes in PRESETS.items():
        if len(changes) != len(first):
            continue
        given = _given([Setting(**changed) for changed in changes], first)
        try:
            made = config_of(preset, populations, wanted.attack, wanted.fpr, **given)
        except InputError:  # what the settings differ in is not what this preset varies
            continue
        if made == wanted and None not in given.values():  # an option cannot ask for None
            found.append((preset, given))
    return found


def _given(made: Sequence[Setting], wanted: Sequence[Setting]) -> dict[str, Any]:
    """What must be given on top of a preset's settings to make them the wanted ones, if anything can."""
    names = [name for name in type(made[0]).__dataclass_fields__ if name != "population"]
    pairs = list(zip(made, wanted, strict=True))
    differing = [name for name in names if any(getattr(a, name) != getattr(b, name) for a, b in pairs)]
    return {name: getattr(wanted[0], name) for name in differing}


def _exposure_words(run: Run) -> str:
    found = run["figures"]["vulnerable"]
    low, high = found["floor"]["low"][-1], found["floor"]["high"][-1]
    is_chance = low is not None and found["value"][-1] <= high
    verdict = " That is no more than chance gives." if is_chance else ""
    return (
        f"At the end of training {_share_words(run)} of the records are in the vulnerable corner, where an "
        f"attacker is mostly right; by chance {100 * found['floor']['mean'][-1]:.1f}% would be.{verdict}"
    )


def _difference_words(most: Run, least: Run) -> list[str]:
    """How far two runs' shares are apart, the runs taken as independent."""
    (a, b), errors = (
        [run["figures"]["vulnerable"][part][-1] for run in (most, least)]
        for part in ("value", "standard_error")
    )
    ends = None if None in errors else around(a - b, math.hypot(*errors), least=-1.0)
    if ends is None:
        return []
    low, high = (100 * end for end in ends)
    undecided = "" if low > 0 else ", so that which of them exposes more is not decided"
    return [f"They are {100 * (a - b):.1f} points apart (95% interval {low:.1f} to {high:.1f}){undecided}."]


def _share_words(run: Run) -> str:
    found = run["figures"]["vulnerable"]
    ends = around(found["value"][-1], found["standard_error"][-1])
    interval = "" if ends is None else f" (95% interval {100 * ends[0]:.1f}% to {100 * ends[1]:.1f}%)"
    return f"{100 * found['value'][-1]:.1f}%{interval}"


def gauge(run: Run) -> Gauge:
    """The share of vulnerable records at the end, beside what chance gives."""
    found = run["figures"]["vulnerable"]
    value, chance = found["value"][-1], found["floor"]["mean"][-1]
    ends = around(value, found["standard_error"][-1])
    low, high = (None, None) if ends is None else ends
    top = max(value, chance, high or 0.0)
    end = min(1.0, max(0.05, math.ceil(25 * top) / 20))
    return Gauge("Records in the vulnerable corner at the end", value, low, high, 0.0, end,
                 reference=chance, reference_label="by chance", percent=True)  # fmt: skip


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """What was run."""
    runs = list(results["runs"].values())
    first, population = runs[0]["setting"], runs[0]["population"]
    several = len(runs) > 1
    facts = [("Runs", ", ".join(results["runs"]))] if several else []
    return [
        *facts,
        ("Records", f"{population['records']:,} of {first['dataset']}" + (" (first run)" if several else "")),
        ("Models", f"{sum(run['population']['models'] for run in runs)}, each on a random half"),
        ("Training", ", ".join(dict.fromkeys(_recipe_words(run["setting"]) for run in runs))),
        (
            "Checkpoints",
            f"{len(runs[0]['epochs'])}, epochs {runs[0]['epochs'][0]} to {runs[0]['epochs'][-1]}",
        ),
        ("Decisions by", results["conventions"]["decision"]),
    ]


def _recipe_words(setting: dict[str, Any]) -> str:
    kind = f"{setting['net']}, {setting['optimizer']}"
    return f"{kind}, {setting['epochs']} epochs, batches of {setting['batch_size']}"


def limits(results: dict[str, Any]) -> list[str]:
    """What the page does not show."""
    config, run = results["config"], next(iter(results["runs"].values()))
    half = run["population"]["models"] // 2
    return [
        "It is about populations trained on random halves of these records; a model trained otherwise may "
        "expose others.",
        f"A record's rates are shares of about {half} models, so where a single record stands is rough; "
        "compare with the noise floor.",
        f"One attack decides ({config['attack']}); a stronger one may find more.",
        f"The corner is a convention: {results['conventions']['vulnerable']}.",
    ]

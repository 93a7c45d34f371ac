"""The report of a comparison of defences: the answer, the frontier to click, every setting."""

from __future__ import annotations

from pathlib import Path

from leakscope.evaluate.results import Figure
from leakscope.evaluate.utility import Utility, capitalized, utility_named
from leakscope.report.blocks import Body, Bullets, Code, Definitions, Heading, Raw, body_html
from leakscope.report.charts import Chart, Grid, PlotlyFigure, axis, colour, error_bars, label, symbol
from leakscope.report.page import Page, Section
from leakscope.report.study_page import NO_COMMAND, Command, conventions, folder_facts, options, reproduce
from leakscope.report.templates import template
from leakscope.studies.defences import sentences
from leakscope.studies.defences.config import NONE, DefencesConfig, chosen_defences, preset_named
from leakscope.studies.defences.results import DefencesResults, SettingResults

_CONVENTIONS = (
    "All settings share records, canaries, the members of each model, and seeds. Reference models have the "
    "same defence as their target, so every attack adapts to it.",
    "The AUC (area under the ROC curve) is that of the strongest attack on each set of records. The attack "
    "that is strongest on one half of the set's records and one half of the models is measured on the other "
    "halves, so the choice does not raise it. "
    "Among all records the AUC is the mean over models; within canaries and the most exposed records, models "
    "are pooled.",
    "Intervals are 95% intervals for these records: other models trained on random halves of them. "
    "Differences are paired: both settings leave out the same models in turn.",
    "The most exposed records are the most exposed 1%, at least 40, in a further population without "
    "defence that serves no other purpose, so the choice flatters no setting. A defence may expose others.",
    "The leakage of a setting is its highest AUC on canaries or the most exposed records. A setting is on "
    "the frontier if no other one has both a higher {utility} and a lower leakage.",
    "One setting dominates another if its AUC is lower on both sets, beyond the intervals, and its "
    "{utility} is at most 0.01 lower at the lower end of the interval.",
    "A setting looks safe and is not if its AUC is below 0.55 over all records and above 0.65 on canaries or "
    "the most exposed records, both beyond their intervals.",
)


def write_report(results: DefencesResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/*.png, or the redacted page."""
    page(results, folder, redacted).write(folder)


def page(results: DefencesResults, folder: Path, redacted: bool = False) -> Page:
    """The report; it says nothing about a single record."""
    utility = results.config.utility
    lead, *others = sentences.headline(results)
    left_out = [f"{one.label}: {one.reason}." for one in results.left_out]
    sections = [
        Section("frontier", f"{capitalized(utility)} against leakage", _frontier(results),
                f"Up is more leakage, right is more {utility}: the best settings lie at the lower right. "
                "Choose a point to see its figures and what to write into a config file."),
        Section("best", "What to take", [sentences.best_table(results), *_tables(results)]),
        Section("settings", "All settings", [sentences.settings_table(results)]),
        *([Section("left-out", "Not compared", [Bullets(left_out)])] if left_out else []),
        conventions([line.format(utility=utility) for line in _CONVENTIONS]),
        reproduce(command(results), results.config.seed, {}),
    ]  # fmt: skip
    return Page(
        f"Defences on {results.config.subject}: {utility} against leakage",
        [lead, *others],
        _facts(results),
        sections,
        _limits(results),
        folder_facts(folder),
        redacted=redacted,
        scripts=("frontier.js",),
    )


def command(results: DefencesResults) -> Command:
    """The command that repeats the comparison; empty where it was started from Python."""
    config = results.config
    if config.preset:
        preset = preset_named(config.preset)
        models, defences, of = preset.models, preset.defences, ("--preset", config.preset)
    elif config.config_file:
        models, defences, of = DefencesConfig.models, (), ("--config", config.config_file)
    else:
        return NO_COMMAND
    tried = [setting.label for setting in config.settings[1:]] + [one.label for one in config.inapplicable]
    is_usual = sorted(tried) == sorted(defence.label for defence in chosen_defences(defences))
    named = () if is_usual else (word for label in tried for word in ("--defence", label))
    changes = options(_changes(config, models))
    return Command(("leakscope", "study", "defences", *of, *changes, *named, "--out", "runs/again"))


def _changes(config: DefencesConfig, usual_models: int) -> dict[str, object]:
    """Options of the command that differ from their defaults."""
    canaries = config.canaries
    given: dict[str, object] = {"models": config.models, "seed": config.seed, "fpr": config.fpr}
    given |= (
        {"canaries": "none"}
        if canaries is None
        else {"canaries": canaries.kind, "canary_share": canaries.share}
    )
    usual = {"models": usual_models, "seed": 0, "fpr": 0.01, "canaries": "mislabelled", "canary_share": 0.05}
    return {name: value for name, value in given.items() if value != usual[name]}


def _frontier(results: DefencesResults) -> Body:
    charts = [_chart(results, name) for name in results.none.sets]
    choices = [(at, setting.label) for at, setting in enumerate(results.settings)]
    utility = utility_named(results.config.utility)
    panels = [(at, body_html(_details(setting, utility))) for at, setting in enumerate(results.settings)]
    return [Grid(charts, png="frontier"), Raw(template("frontier.html.j2", choices=choices, panels=panels))]


def _chart(results: DefencesResults, name: str) -> Chart:
    """One set of records: a line per defence, from weak to strong."""
    utility, where = utility_named(results.config.utility), sentences.SET_NAMES[name]
    defences = list(dict.fromkeys(setting.defence for setting in results.settings))
    traces = [_trace(results, defence, name, k) for k, defence in enumerate(defences)]
    figure = {
        "data": traces,
        "layout": {
            "xaxis": axis(
                f"{utility.name} on records not trained on", tickformat=".0%" if utility.is_rate else ""
            ),
            "yaxis": axis(f"AUC on {where}"),
            "hovermode": "closest",
            "showlegend": name == next(iter(results.none.sets)),
        },
    }
    alt = f"{capitalized(utility.name)} against the strongest attack's AUC on {where}, one line per defence."
    return Chart(f"frontier-{name}", figure, alt, title=where.capitalize(), height=440)


def _trace(results: DefencesResults, defence: str, name: str, hue: int) -> PlotlyFigure:
    own = [(at, s) for at, s in enumerate(results.settings) if s.defence == defence]
    utility, auc = [s.utility for _, s in own], [s.sets[name].auc for _, s in own]
    measure = utility_named(results.config.utility)
    shown = f"{measure.name} %{{x:{'.1%' if measure.is_rate else '.3f'}}}"
    shade = "var(--ink)" if defence == NONE else colour(hue - 1)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(defence),
        "x": [f.value for f in utility],
        "y": [f.value for f in auc],
        "error_x": error_bars(*_ends(utility), shade),
        "error_y": error_bars(*_ends(auc), shade),
        "line": {"color": shade, "width": 1, "dash": "dot"},
        "marker": {"color": shade, "size": 9, "symbol": symbol(hue - 1) if hue else "diamond"},
        "customdata": [at for at, _ in own],
        "text": [label(s.label) for _, s in own],
        "hovertemplate": f"%{{text}}<br>{shown}, AUC %{{y:.3f}}<extra></extra>",
    }


def _ends(
    figures: list[Figure],
) -> tuple[list[float | None], list[float | None], list[float | None]]:
    return [f.value for f in figures], [f.these_low for f in figures], [f.these_high for f in figures]


def _details(setting: SettingResults, utility: Utility) -> Body:
    """What the panel of a point shows."""
    difference, name = setting.utility_difference, capitalized(utility.name)
    change = "" if difference is None else f", {sentences.changed(difference, utility)}"
    of = sentences.percent_interval if utility.is_rate else sentences.interval
    pairs = [(name, f"{of(setting.utility)}{change}"), (f"{name} on members", of(setting.utility_members))]
    for name, one in setting.sets.items():
        change = "" if one.auc_difference is None else f", change {sentences.signed(one.auc_difference)}"
        pairs.append((
            f"AUC, {sentences.SET_NAMES[name]}",
            f"{sentences.interval(one.auc)}{change}; {one.attack}, {one.records:,} records",
        ))  # fmt: skip
    if setting.epsilon is not None:
        pairs.append(("Guarantee", f"epsilon = {setting.epsilon:g} for each record"))
    tables: Body = [Code(setting.tables)] if setting.tables else []
    return [Heading(setting.label), Definitions(pairs), *tables]


def _tables(results: DefencesResults) -> Body:
    """What to write into a config file for each setting that is named."""
    by_label = {setting.label: setting for setting in results.settings}
    body: list[Heading | Code] = []
    for name in dict.fromkeys(best.label for best in results.best):
        if by_label[name].tables:
            body += [Heading(name), Code(by_label[name].tables)]
    return body


def _facts(results: DefencesResults) -> list[tuple[str, str]]:
    config = results.config
    canaries = "none" if config.canaries is None else config.canaries.describe(results.records)
    return [
        ("Records", f"{results.records:,} of {config.subject}"),
        ("Canaries", canaries),
        ("Settings", f"{len(results.settings)}, with {config.models} models each, each on a random half"),
        ("Attacks", ", ".join(config.attacks)),
        ("What decides", f"highest AUC on {sentences.deciding_sets(results)}"),
    ]


def _limits(results: DefencesResults) -> list[str]:
    return [
        "The results hold for models of this recipe on these records. Each defence was tried at few "
        "strengths, and its other settings were not tuned.",
        "A stronger attack may exist. Only a guarantee of differential privacy holds against all of them.",
        "Canaries stand for the most unusual record that a training set may contain. Other kinds of "
        "canaries may leak more.",
    ]

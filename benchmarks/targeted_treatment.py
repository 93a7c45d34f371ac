"""Does it help to treat the members that are most exposed early in training? Against random and best choice.

Each population has the same records, design and seed, and differs only in its treatment:

- early: each model flags 5% of its own members by `leakscope.Monitor`, after a quarter of the epochs;
- random: 5% of the members of each model, drawn at random;
- oracle: the 5% of the records with the highest exposure in an audit of undefended models.

Flagged members are left out, or their loss counts a tenth. A flagged member still counts as a member. The
oracle's records, and the groups of records below, come from a population of their own with another seed, so
that no group owes its figures to being chosen by them.

    python benchmarks/targeted_treatment.py --setting digits --write docs/targeted_treatment.md

"fashion-mnist" needs its files in $LEAKSCOPE_DATA. Runs are stored under --work, and found again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import leakscope
from leakscope.array_types import IntArray
from leakscope.attacks.eb_lira import EbLira
from leakscope.compare.compare import compare
from leakscope.compare.results import DifferenceFigure, RunComparison
from leakscope.design import make_design
from leakscope.engine.local import TrainingRequest, complete_bank
from leakscope.evaluate.results import AuditResults, Figure
from leakscope.hardness.in_out_mean import side_mean
from leakscope.recipe import Distillation, Recipe, Treatment
from leakscope.types import Records

SHARE = 0.05
MOST, NEXT, OFTEN, OTHERS = "most exposed 5%", "next 5%", "most often flagged 5%", "others"
ATTACKS, FPR = ("eb_lira", "lira"), (0.01, 0.001)


class Setting(NamedTuple):
    """Records, how many of them, number of models, and the recipe without a defence."""

    dataset: str
    n_records: int
    n_models: int
    recipe: Recipe


def _mlp(width: int, epochs: int, lr: float) -> Recipe:
    return Recipe(net="mlp", net_options=(("width", width),), lr=lr, epochs=epochs)


SETTINGS = {
    "digits": Setting("digits", 1797, 64, _mlp(256, 60, 0.003)),
    "overlapping": Setting("overlapping", 2400, 64, _mlp(128, 40, 0.003)),
    "fashion-mnist": Setting("fashion-mnist", 2400, 48, _mlp(128, 24, 0.001)),
}


class Chosen(NamedTuple):
    """What a population of undefended models says about each record.

    Attributes:
        exposed: records by exposure, most exposed first.
        often: records by how often the models trained on them flag them, most often first.
        precision: share of flagged members that are among the most exposed 5% of the records.
    """

    exposed: IntArray
    often: IntArray
    precision: float


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setting", choices=sorted(SETTINGS), action="append")
    parser.add_argument("--work", type=Path, default=Path("runs/targeted"))
    parser.add_argument("--write", type=Path, help="write the tables into this page")
    options = parser.parse_args()
    for name in options.setting or ["digits"]:
        text = measured(SETTINGS[name], options.work / name)
        print(text)
        if options.write:
            options.write.write_text(inserted(options.write.read_text(), name, text))


def measured(setting: Setting, work: Path) -> str:
    """The tables of one setting."""
    records = leakscope.load(setting.dataset).take(np.arange(setting.n_records))
    chosen = choose(records, setting, work / "choice")
    grouped = replace(records, groups=groups_of(chosen, len(records)))
    audits: dict[str, AuditResults] = {}
    folders = []
    for label, recipe in populations(setting.recipe, chosen, len(records)).items():
        folders.append(work / label.replace(", ", "-").replace(" ", "-"))
        audits[label] = leakscope.audit(
            grouped, recipe, out=folders[-1], attacks=ATTACKS, fpr=FPR, models=setting.n_models, seed=0,
            signals=("correct",),
        ).results  # fmt: skip
        print(f"{setting.dataset}, {label}: {_figure(audits[label].attacks['eb_lira'].auc)}", flush=True)
    comparisons = compare(folders, work / "comparison").results.comparisons
    return tables(setting, chosen, audits, comparisons)


def populations(recipe: Recipe, chosen: Chosen, n_records: int) -> dict[str, Recipe]:
    """Every population by name, the undefended one first."""
    oracle = tuple(sorted(chosen.exposed[: round(SHARE * n_records)].tolist()))
    treatments = {
        f"{choice}, {how.replace('_', ' ')}": Treatment(
            how, choice=listed, share=SHARE, records=oracle if listed == "listed" else ()
        )
        for how in ("leave_out", "down_weight")
        for choice, listed in (("early", "early"), ("random", "random"), ("oracle", "listed"))
    }
    treatments["early, leave out, trained on"] = Treatment(share=SHARE, restart=False)
    return {
        "undefended": recipe,
        **{label: replace(recipe, treatment=treatment) for label, treatment in treatments.items()},
        "SELENA": replace(recipe, distillation=Distillation()),
    }


def choose(records: Records, setting: Setting, folder: Path) -> Chosen:
    """Exposure and flags of every record, in a population of undefended models with a seed of its own."""
    window = Treatment().window(setting.recipe.epochs)
    recipe = replace(setting.recipe, checkpoints=(*range(1, window + 1), setting.recipe.epochs))
    design = make_design("balanced", setting.n_models, len(records), seed=1)
    request = TrainingRequest(records, design, recipe, seed=1, signals=("log_odds", "loss"))
    signals, in_mask = complete_bank(folder, request).signals(), design.in_mask
    scores = EbLira()(signals, design, np.arange(design.n_models)).values
    exposure = side_mean(scores, in_mask) - side_mean(scores, ~in_mask)
    flagged = np.zeros(in_mask.shape, dtype=bool)
    for model, losses in enumerate(signals.arrays["loss"][:, :window].astype(np.float64)):
        members = np.flatnonzero(in_mask[model])
        monitor = leakscope.Monitor(len(members))
        for epoch in range(window):
            monitor.update(losses[epoch, members])
        flagged[model, members[monitor.top(SHARE)]] = True
    by_exposure = np.argsort(-exposure, kind="stable")
    frequency = flagged.sum(axis=0) / in_mask.sum(axis=0)
    is_most = np.isin(np.arange(len(records)), by_exposure[: round(SHARE * len(records))])
    precision = (flagged & is_most).sum() / flagged.sum()
    return Chosen(by_exposure, np.argsort(-frequency, kind="stable"), float(precision))


def groups_of(chosen: Chosen, n_records: int) -> dict[str, np.ndarray]:
    """The groups of the records by exposure, and by flags."""
    n = round(SHARE * n_records)
    exposure, flags = np.full((2, n_records), OTHERS, dtype="<U24")
    exposure[chosen.exposed[:n]] = MOST
    exposure[chosen.exposed[n : 2 * n]] = NEXT
    flags[chosen.often[:n]] = OFTEN
    return {"exposure": exposure, "flags": flags}


def tables(
    setting: Setting, chosen: Chosen, audits: dict[str, AuditResults], comparisons: tuple[RunComparison, ...]
) -> str:
    """Levels, differences from undefended models, and differences within groups of records."""
    changes = dict(zip(list(audits)[1:], comparisons, strict=True))
    recipe, n = setting.recipe, round(SHARE * setting.n_records)
    width = dict(recipe.net_options)["width"]
    lines = [
        f"{setting.n_models} models on halves of {setting.n_records:,} records, MLP of width {width}, "
        f"{recipe.epochs} epochs, early window {Treatment().window(recipe.epochs)} epochs. Of the members "
        f"that a model flags early, {chosen.precision:.0%} are among the oracle's {n} records.",
        "",
        "| treated | EB-LiRA AUC | TPR at 1% | TPR at 0.1% | LiRA AUC | TPR at 1% | TPR at 0.1% | accuracy |",
        "|---|---|---|---|---|---|---|---|",
        *(f"| {label} | {' | '.join(_levels(audit))} |" for label, audit in audits.items()),
        "",
        "Difference from undefended models:",
        "",
        "| treated | EB-LiRA AUC | TPR at 1% | LiRA AUC | TPR at 1% | accuracy | records exposed |",
        "|---|---|---|---|---|---|---|",
        *(f"| {label} | {' | '.join(_overall(change))} |" for label, change in changes.items()),
        "",
        "AUC within groups of records, and difference from undefended models:",
        "",
        f"| treated | {MOST} | {NEXT} | {OFTEN} | {OTHERS} |",
        "|---|---|---|---|---|",
        f"| undefended | {' | '.join(_group_levels(audits['undefended']))} |",
        *(f"| {label} | {' | '.join(_within(change))} |" for label, change in changes.items()),
    ]
    return "\n".join(lines)


def _levels(audit: AuditResults) -> list[str]:
    cells = []
    for attack in ATTACKS:
        figures = audit.attacks[attack]
        cells += [_figure(figures.auc), _figure(figures.tpr_at_fpr[0], 100)]
        cells.append(_figure(figures.calibrated[1].tpr, 100))
    assert audit.accuracy is not None, "the signal `correct` is stored"
    return [*cells, _figure(audit.accuracy.nonmembers, 100)]


def _overall(change: RunComparison) -> list[str]:
    cells = []
    for attack in ATTACKS:
        (tpr,) = (f for f in change.leakage if f.attack == attack and f.fpr == FPR[0])
        cells += [_difference(change.auc_of(attack)), _difference(tpr, 100)]
    assert change.accuracy is not None and change.records is not None, "both are stored"
    exposed = f"{change.records.exposed_baseline} → {change.records.exposed_other}"
    return [*cells, _difference(change.accuracy.nonmembers, 100), exposed]


def _group_levels(audit: AuditResults) -> list[str]:
    groups = audit.attacks["eb_lira"].groups
    named = {group.group: group for group in (*groups["flags"], *groups["exposure"])}
    return [_figure(named[name].auc) for name in (MOST, NEXT, OFTEN, OTHERS)]


def _within(change: RunComparison) -> list[str]:
    named = {group.group: group for group in (*change.groups["flags"], *change.groups["exposure"])}
    return [f"{named[name].other:.3f}: {_difference(named[name])}" for name in (MOST, NEXT, OFTEN, OTHERS)]


def _figure(figure: Figure, unit: float = 1) -> str:
    """A figure with its interval for these records; in percent where the unit is 100."""
    if figure.value is None or figure.these_low is None or figure.these_high is None:
        return "not measurable"
    digits, sign = (1, "%") if unit == 100 else (3, "")
    value, low, high = (unit * x for x in (figure.value, figure.these_low, figure.these_high))
    return f"{value:.{digits}f}{sign} [{low:.{digits}f}, {high:.{digits}f}]"


def _difference(figure: DifferenceFigure, unit: float = 1) -> str:
    """A difference with its interval; in percentage points where the unit is 100."""
    if figure.difference is None or figure.low is None or figure.high is None:
        return "not measurable"
    digits = 1 if unit == 100 else 3
    value, low, high = (unit * x for x in (figure.difference, figure.low, figure.high))
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def inserted(page: str, name: str, text: str) -> str:
    """The page with the tables of one setting between its marks."""
    before, mark, rest = page.partition(f"<!-- measured: {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not mark or not end:
        raise SystemExit(f"the page has no place for {name}: <!-- measured: {name} --> … <!-- end -->")
    return f"{before}{mark}{text}\n{end}{after}"


if __name__ == "__main__":
    main()

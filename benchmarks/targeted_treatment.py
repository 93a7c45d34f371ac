"""Does it help to treat the members that are most exposed early in training? Against random and best choice.

Each population has the same records, design and seed, and differs only in its treatment:

- early: each model flags 5% of its own members by `leakscope.Monitor`, after a quarter of the epochs;
- random: 5% of the members of each model, drawn at random;
- oracle: the 5% of the records with the highest exposure in an audit of undefended models.

Flagged members are left out, or their loss counts a tenth; "digits-private" has models trained with DP-SGD,
which clips the gradients of flagged members to a tenth of the norm of the others. A flagged member still
counts as a member. The oracle's records, and the groups of records below, come from a population of their
own with another seed, so that no group owes its figures to being chosen by them.

    python benchmarks/targeted_treatment.py --setting digits --write docs/targeted_treatment.md

"fashion-mnist" needs its files in $LEAKSCOPE_DATA. Banks are stored under --work, and used again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

import leakscope
from leakscope.array_types import IntArray
from leakscope.attacks.base import Attack
from leakscope.attacks.eb_lira import EbLira
from leakscope.attacks.lira import Lira
from leakscope.design import make_design
from leakscope.dynamics.jackknife import model_groups
from leakscope.engine.local import TrainingRequest, complete_bank
from leakscope.hardness.in_out_mean import side_mean
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Distillation, Recipe, Treatment
from leakscope.stats.differences import Replicated, jackknife_difference
from leakscope.stats.roc import auc_of_split, split_scores
from leakscope.stats.roc_summary import tpr_at_expected_fpr
from leakscope.types import Design, Records, Signals

SHARE = 0.05
N_GROUPS = 8
How = Literal["leave_out", "down_weight", "clip_more"]
ATTACKS: dict[str, Attack] = {"EB-LiRA": EbLira(), "LiRA": Lira()}
MOST, NEXT, OFTEN, OTHERS = "most exposed 5%", "next 5%", "most often flagged 5%", "other 90%"


class Setting(NamedTuple):
    """Records, how many of them, number of models, and the recipe without a defence."""

    dataset: str
    n_records: int
    n_models: int
    recipe: Recipe

    @property
    def how(self) -> tuple[How, ...]:
        """What may become of flagged members."""
        return ("leave_out", "down_weight") if self.recipe.privacy is None else ("clip_more",)


def _mlp(width: int, epochs: int, lr: float, **more: Any) -> Recipe:
    return Recipe(net="mlp", net_options=(("width", width),), lr=lr, epochs=epochs, **more)


SETTINGS = {
    "digits": Setting("digits", 1797, 48, _mlp(128, 40, 0.003)),
    "digits-private": Setting(
        "digits", 1797, 48, _mlp(128, 40, 0.02, batch_size=256, privacy=Privacy(epsilon=50.0))
    ),
    "fashion-mnist": Setting("fashion-mnist", 2000, 32, _mlp(64, 24, 0.002)),
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
    groups = groups_of(chosen, len(records))
    design = make_design("balanced", setting.n_models, len(records), seed=0)
    measures: dict[str, Replicated] = {}
    for label, recipe in populations(setting, chosen, len(records)).items():
        request = TrainingRequest(records, design, recipe, seed=0, signals=("correct", "log_odds"))
        bank = complete_bank(work / label.replace(", ", "-").replace(" ", "-"), request)
        measures[label] = replicated(bank.signals(), design, groups)
        print(f"{setting.dataset}, {label}: {levels(measures[label])[0]}", flush=True)
    return tables(setting, chosen, measures)


def populations(setting: Setting, chosen: Chosen, n_records: int) -> dict[str, Recipe]:
    """Every population by name, the one without a treatment first."""
    recipe = setting.recipe
    oracle = tuple(sorted(chosen.exposed[: round(SHARE * n_records)].tolist()))
    treatments: dict[str, Treatment] = {}
    for how in setting.how:
        words = how.replace("_", " ")
        treatments[f"early, {words}"] = Treatment(how, "early", SHARE)
        treatments[f"random, {words}"] = Treatment(how, "random", SHARE)
        treatments[f"oracle, {words}"] = Treatment(how, "listed", SHARE, records=oracle)
    first = setting.how[0]
    treatments[f"early, {first.replace('_', ' ')}, trained on"] = Treatment(first, share=SHARE, restart=False)
    treated = {label: replace(recipe, treatment=treatment) for label, treatment in treatments.items()}
    others = {} if recipe.privacy else {"SELENA": replace(recipe, distillation=Distillation())}
    return {"undefended": recipe, **treated, **others}


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


def groups_of(chosen: Chosen, n_records: int) -> dict[str, IntArray]:
    """Groups of records by exposure, and by flags."""
    n, by_exposure = round(SHARE * n_records), chosen.exposed
    return {
        MOST: by_exposure[:n],
        NEXT: by_exposure[n : 2 * n],
        OFTEN: chosen.often[:n],
        OTHERS: by_exposure[2 * n :],
    }


OVERALL = (
    *(f"{attack} {what}" for attack in ATTACKS for what in ("AUC", "TPR at 1%", "TPR at 0.1%")),
    "accuracy",
)
WITHIN = tuple(f"{what}, {group}" for group in (MOST, NEXT, OFTEN, OTHERS) for what in ("AUC", "TPR at 1%"))


def replicated(signals: Signals, design: Design, groups: dict[str, IntArray]) -> Replicated:
    """The figures `OVERALL` and `WITHIN`, and the same without each group of models."""
    left_out = model_groups(design.n_models, N_GROUPS)
    models = np.arange(design.n_models)
    samples = [models, *(np.delete(models, group) for group in left_out)]
    values = np.array([figures(signals.take(m), design.take(m), groups) for m in samples])
    return Replicated(values[0], values[1:])


def figures(signals: Signals, design: Design, groups: dict[str, IntArray]) -> list[float]:
    """One value for each of `OVERALL` and `WITHIN`.

    Scores of all targets are pooled: one threshold serves all models. Within a group of records, the
    threshold is the group's own.
    """
    in_mask, values, scores = design.in_mask, [], {}
    for name, attack in ATTACKS.items():
        scores[name] = attack(signals, design).values
        pooled = split_scores(scores[name].reshape(-1), in_mask.reshape(-1))
        values += [auc_of_split(pooled), *(tpr_at_expected_fpr(pooled, fpr) for fpr in (0.01, 0.001))]
    values.append(float(np.asarray(signals.last("correct"))[~in_mask].mean()))
    for rows in groups.values():
        pooled = split_scores(scores["EB-LiRA"][:, rows].reshape(-1), in_mask[:, rows].reshape(-1))
        values += [auc_of_split(pooled), tpr_at_expected_fpr(pooled, 0.01)]
    return values


def tables(setting: Setting, chosen: Chosen, measures: dict[str, Replicated]) -> str:
    """Levels and differences from undefended models, over all records and within groups of them."""
    recipe, n = setting.recipe, round(SHARE * setting.n_records)
    undefended, treated = measures["undefended"], dict(list(measures.items())[1:])
    lines = [
        f"{setting.n_models} models on halves of {setting.n_records:,} records, MLP of width "
        f"{dict(recipe.net_options)['width']}, {_training(recipe)}, early window of "
        f"{Treatment().window(recipe.epochs)} epochs. Of the members that a model flags early, "
        f"{chosen.precision:.0%} are among the oracle's {n} records.",
    ]
    for what, names, part in (
        ("All records", OVERALL, slice(0, len(OVERALL))),
        ("Groups of records, EB-LiRA", WITHIN, slice(len(OVERALL), None)),
    ):
        lines += ["", f"{what}:", "", f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
        lines += [f"| {label} | {' | '.join(levels(m)[part])} |" for label, m in measures.items()]
        lines += ["", f"{what}, difference from undefended models:", ""]
        lines += [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
        lines += [f"| {label} | {' | '.join(changes(undefended, m)[part])} |" for label, m in treated.items()]
        lines += ["", f"{what}, early choice minus another choice:", ""]
        lines += [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
        for how, other in product((h.replace("_", " ") for h in setting.how), ("random", "oracle")):
            cells = changes(measures[f"{other}, {how}"], measures[f"early, {how}"])[part]
            lines.append(f"| minus {other}, {how} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _training(recipe: Recipe) -> str:
    private = (
        "" if recipe.privacy is None else f" of DP-SGD with noise for epsilon = {recipe.privacy.epsilon:g}"
    )
    return f"{recipe.epochs} epochs{private}"


def levels(measure: Replicated) -> list[str]:
    """Each figure with its 95% interval: t, jackknife over groups of models."""
    half_widths = special.stdtrit(N_GROUPS - 1, 0.975) * np.sqrt(measure.variance)
    return [
        f"{shown(name, value)} ± {shown(name, half)}"
        for name, value, half in zip((*OVERALL, *WITHIN), measure.figures, half_widths, strict=True)
    ]


def changes(undefended: Replicated, measure: Replicated) -> list[str]:
    """Each difference with its 95% interval; the same models are left out in both populations."""
    cells = []
    differences = jackknife_difference(undefended, measure, is_paired=True)
    for name, (value, interval) in zip((*OVERALL, *WITHIN), differences, strict=True):
        half = (interval.high - interval.low) / 2
        mark = "**" if abs(value) > half else ""
        cells.append(
            f"{mark}{'+' if value > 0 else '−'}{shown(name, abs(value))}{mark} ± {shown(name, half)}"
        )
    return cells


def shown(name: str, value: float) -> str:
    """A rate in percent, an AUC as it is."""
    return f"{value:.3f}" if "AUC" in name else f"{100 * value:.1f}"


def inserted(page: str, name: str, text: str) -> str:
    """The page with the tables of one setting between its marks."""
    before, mark, rest = page.partition(f"<!-- measured: {name} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    if not mark or not end:
        raise SystemExit(f"the page has no place for {name}: <!-- measured: {name} --> … <!-- end -->")
    return f"{before}{mark}{text}\n{end}{after}"


if __name__ == "__main__":
    main()

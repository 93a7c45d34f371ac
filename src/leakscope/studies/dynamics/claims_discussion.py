"""What the page of claims says below its table: the runs, both readings of early exposure, what is noise."""

from __future__ import annotations

from collections.abc import Sequence

from leakscope.hardness.over_training import MONITOR_OF_ONE, SPREAD_OF_ONE
from leakscope.report.blocks import Body, Bullets, Code, Heading, Table
from leakscope.report.phrases import percent
from leakscope.studies.dynamics import report
from leakscope.studies.dynamics.evidence import Evidence, MissingResultsError, Run
from leakscope.studies.dynamics.failure_signatures import failure_signatures
from leakscope.studies.dynamics.results import DynamicsResults, Figure, Number
from leakscope.studies.dynamics.trained_banks import training_command

_RUNS = (
    "run", "models", "accuracy on members, non-members", "advantage", "in the corner",
    "net displacement", "path", "entropy change", "peak entry, of all", "peak entry, of those outside",
)  # fmt: skip
_RUNS_NOTE = (
    "Each value with its standard error and, in brackets, its noise floor. Advantage and records in the "
    "corner at the end of training; displacements in percent of the plane's side; entropy in bits."
)
_EARLY = (
    "epoch", "in the corner (by chance)", "precision", "ever there (by chance)", "precision of that",
)  # fmt: skip
_RULES = (
    "A published value is reproduced if our 95% interval (jackknife over models) contains it, or if both "
    "are equal as printed. It is noise if our interval reaches the largest value of the noise floor: the "
    "same figure with each record's memberships drawn again. The publication has no such floor.",
    'A share agrees with "over 70%" if its interval reaches 70%; it is noise if chance alone reaches it.',
    "A published ratio is known within the rounding of its two values. Ours is reproduced if its interval "
    "overlaps with that range, and has the same direction if the interval lies on the same side of 1. It is "
    "noise if either of its values is.",
    "A run that is smaller than the published one decides nothing about a claim that depends on its length: "
    "fewer epochs, fewer than 20 models or 20,000 records, or checkpoints of another spacing. Of claims "
    "without a published length, a smaller run can confirm one, but not deny it.",
    "Early is the published epoch 150 of 400, or the same share of a run of another length.",
    "A correlation is strong from 0.7 and weak below 0.3.",
    "Several runs of one setting are independent populations, on the same records. Their mean counts, and "
    "its interval includes what they differ by beyond the jackknife's errors. With two populations, that "
    "difference is itself uncertain.",
    "The publication does not say whether a peak entry is a share of all records or of those outside the "
    "corner. Both are given, and agreement of either counts. A probability of another size has no direction: "
    "it is not reproduced.",
    "Displacements are in percent of the plane's side, and the diagonal is 141 long. The publication gives "
    "no unit, so that another value is not testable here; ratios of displacements have no unit.",
)
_CONVENTION = (
    "Every model is judged by the others. The runs of 160 and 400 epochs leave the target out alone, as "
    "published: `lira(leave_out=one)`. In a balanced design the number of other models trained on a record "
    "then reveals whether the target was, so by default `lira` leaves a target out together with a partner "
    "of the other side. For the baseline this changes figures in the third digit. So does the variance of "
    "the Gaussians: ours leaves the target out, too. If only the means leave it out, 69.7% of the finally "
    "vulnerable records are in the corner at epoch 150, instead of 69.6%. "
    "`tests/studies/test_dynamics_by_hand.py` computes the baseline's figures without the package, in both "
    "ways."
)
_SHORT_RUNS = (
    "Runs of 40 epochs, a tenth of the published length, are in `docs/dynamics_40_epochs.md`. Their verdicts "
    "differ, because their models memorize only when the learning rate falls."
)
_EARLY_MEASURES = (
    "epistemic", "epistemic_dropout", "ensemble_variance", "epistemic_own_class", MONITOR_OF_ONE,
    SPREAD_OF_ONE,
)  # fmt: skip
_EARLY_NOTE = (
    "A measure at a checkpoint, correlated with the advantage of the records at the end of training. "
    "Intervals as above. Of runs whose outputs were not stored, means of bins are known at the end only."
)
_TRAINED_NOTE = (
    "The arguments of `--bank` are outputs of networks that were trained on a GPU machine, and are not in "
    "this repository. The comment before such a command says how to train them; the networks then agree up "
    "to the device's rounding. `--pack` and `--records` of that script carry the records to the machine."
)
_SHOWN_EPOCHS = (10, 50, 100, 150, 160, 200, 300, 400)


def discussion(all_results: Sequence[DynamicsResults]) -> Body:
    """What the page says below its table."""
    evidence = Evidence.of(all_results)
    firsts = evidence.where(lambda _: True)
    signs = [f"{own.label}: {line}" for own in firsts for line in failure_signatures(own.run)]
    spreads = [line for results in all_results for line in report.population_sentences(results)]
    blocks: list[object] = [
        Heading("How verdicts are reached"), Bullets(_RULES),
        Heading("The runs"), _RUNS_NOTE, Table(_RUNS, [_run_row(own) for own in firsts]),
        "The commands that ran or judged them:", Code("\n".join(map(_commands, all_results))), _TRAINED_NOTE,
        *([Heading("Signs of failure"), Bullets(signs)] if signs else []),
        *([Heading("Independent populations"), Bullets(spreads)] if spreads else []),
        *_of_baseline(evidence),
        *_of_early_predictors(firsts),
        Heading("Conventions"), _CONVENTION, _SHORT_RUNS,
    ]  # fmt: skip
    return blocks  # type: ignore[return-value]  # a list of blocks and strings


def _commands(results: DynamicsResults) -> str:
    """The command that judged the results; before it, where the networks come from."""
    trained = training_command(results.config.settings[0].bank)
    return f"{trained}\n{report.command(results.config)}" if trained else str(report.command(results.config))


def _run_row(own: Run) -> list[str]:
    figures, accuracy = own.run.figures, own.run.accuracy
    ends = [percent(series[-1]) for series in (accuracy.members, accuracy.nonmembers)]
    return [
        own.label,
        str(own.run.population.models),
        ", ".join(ends),
        _cell(figures.advantage.last, 1, 3),
        _cell(figures.vulnerable.last, 100, 1, "%"),
        _cell(figures.net_displacement, 1, 1, "%"),
        _cell(figures.path_length, 1, 1, "%"),
        _cell(figures.entropy_change, 1, 2),
        _cell(figures.peak_entry_of_all, 100, 1, "%"),
        _cell(figures.peak_entry, 100, 1, "%"),
    ]


def _cell(figure: Figure[Number], scale: float, digits: int, unit: str = "") -> str:
    """Value, standard error and, in brackets, the mean of the noise floor."""
    if figure.value is None:
        return "undefined"
    error = "" if figure.standard_error is None else f" ± {scale * figure.standard_error:.{digits}f}"
    floor = "" if figure.floor.mean is None else f" ({scale * figure.floor.mean:.{digits}f}{unit})"
    return f"{scale * figure.value:.{digits}f}{error}{unit}{floor}"


def _of_baseline(evidence: Evidence) -> list[object]:
    """Early exposure, entropy and hardness at the published protocol."""
    try:
        own = evidence.longest("cifar10", "wide_resnet", "adamw")
    except MissingResultsError:
        return []
    rows = [_early_row(own, k) for k, epoch in enumerate(own.run.epochs) if epoch in _SHOWN_EPOCHS]
    return [
        Heading("Early exposure at the published protocol, in both readings"),
        f"{own.protocol}. Of the finally vulnerable records, the share in the corner at a checkpoint, "
        "and the share that was there at that checkpoint or before; in brackets, the same under permuted "
        "memberships. Precision: of the records of that list, the share that is vulnerable at the end.",
        Table(_EARLY, rows),
        Heading("Spatial entropy by number of models and of cells"),
        f"{own.protocol}. The entropy depends on both: those of different studies cannot be compared.",
        Table(report.ENTROPY, report.entropy_rows(own.run)),
        Heading("Hardness at the end of training"),
        f"{own.protocol}. {report.HARDNESS_NOTE}",
        Table(report.HARDNESS, report.hardness_rows(own.run)),
    ]


def _early_row(own: Run, k: int) -> list[str]:
    figures = own.run.figures
    now, ever = (
        f"{percent(series.value[k])} ({percent(series.floor.mean[k])})"
        for series in (figures.recall, figures.ever_recall)
    )
    precisions = [percent(s.value[k]) for s in (figures.precision, figures.ever_precision)]
    return [str(own.run.epochs[k]), now, precisions[0], ever, precisions[1]]


def _of_early_predictors(runs: Sequence[Run]) -> list[object]:
    """Measures during training against the advantage at the end, for every run that has them."""
    rows = [[own.label, *row] for own in runs for row in report.early_rows(own.run, _EARLY_MEASURES)]
    if not rows:
        return []
    return [Heading("Hardness as an early predictor"), _EARLY_NOTE, Table(("run", *report.EARLY), rows)]

"""Signs that a run says nothing, which the publication lists: each is a sentence when it occurs.

Each rule compares a figure with its noise floor where it has one, because with few models chance alone puts
states off the diagonal and moves them.
"""

from __future__ import annotations

from leakscope.studies.dynamics.results import Figure, Number, RunResults

_FEW_ENTRIES = 0.01
_NO_CORRELATION = 0.1
_UNCERTAINTIES = ("epistemic", "epistemic_own_class", "ensemble_variance", "epistemic_dropout")


def failure_signatures(run: RunResults) -> list[str]:
    """What is wrong with a run, in words; empty where nothing is."""
    return [*_no_signal(run), *_no_transitions(run), *_no_correlation(run)]


def _no_signal(run: RunResults) -> list[str]:
    """The states are where guessing puts them."""
    advantage, vulnerable = run.figures.advantage.last, run.figures.vulnerable.last
    if not (_is_chance(advantage) and _is_chance(vulnerable)):
        return []
    fpr, tpr = run.figures.centre.value[-1]
    return [
        f"No signal: the mean state is (FPR {fpr:.2f}, TPR {tpr:.2f}), no further from the diagonal than "
        "chance puts it, and no more records are in the corner than by chance. Train longer, use more "
        "models, or decide by another attack."
    ]


def _no_transitions(run: RunResults) -> list[str]:
    """Hardly any record enters the corner."""
    entry = run.figures.peak_entry
    if entry.value is None or not (entry.value < _FEW_ENTRIES or _is_chance(entry)):
        return []
    return [
        f"No transitions: at most {entry.value:.1%} of the records outside the corner enter it between two "
        f"checkpoints, {entry.floor.mean or 0:.1%} by chance. The dataset is too easy or the attack too weak."
    ]


def _no_correlation(run: RunResults) -> list[str]:
    """No measure of uncertainty goes with the advantage."""
    ranks = [run.hardness[name].spearman.r for name in _UNCERTAINTIES if name in run.hardness]
    known = [abs(r) for r in ranks if r is not None]
    if not known or max(known) >= _NO_CORRELATION:
        return []
    return [
        "No correlation: the epistemic uncertainty of a record says nothing about its advantage (the largest "
        f"rank correlation is {max(known):.2f}). The uncertainty may be miscalibrated."
    ]


def _is_chance(figure: Figure[Number]) -> bool:
    """Whether a figure is no larger than the largest of its noise floor."""
    return figure.value is not None and figure.floor.high is not None and figure.value <= figure.floor.high

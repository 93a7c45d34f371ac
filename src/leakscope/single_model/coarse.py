"""An attack on a given model as its redacted page states it: figures that fit any number of members."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from leakscope.single_model.results import AttackFindings, Figures, ScoreSpread
from leakscope.stats.rounding import Rounding

FiguresT = TypeVar("FiguresT", bound=Figures)
FindingsT = TypeVar("FindingsT", bound=AttackFindings)


def coarse_findings(findings: FindingsT) -> FindingsT:
    """Rounds the figures of every attacker and the number of public members."""
    public = findings.public
    n_members = rounding_of(public.members, public.records - public.members).count(public.members)
    attackers = {}
    for name, one in findings.attackers.items():
        rounding = rounding_of(one.members, one.nonmembers)
        ties, private = coarse_figures(one.with_ties), _spread(one.private, rounding)
        attackers[name] = replace(coarse_figures(one), with_ties=ties, private=private)
    return replace(findings, public=replace(public, members=n_members), attackers=attackers)


def coarse_figures(figures: FiguresT) -> FiguresT:
    """Rounds AUC, TPR and the numbers of members and non-members."""
    rounding, tpr = rounding_of(figures.members, figures.nonmembers), figures.tpr_at_fpr
    reached = None if tpr.fpr_reached is None else rounding.nearest(tpr.fpr_reached)
    return replace(
        figures,
        auc=rounding.figure(figures.auc),
        # The threshold is the score of one record.
        tpr_at_fpr=replace(
            rounding.figure(tpr), fpr_reached=reached, threshold=None, reason=rounding.text(tpr.reason)
        ),
        members=rounding.count(figures.members),
        nonmembers=rounding.count(figures.nonmembers),
    )


def rounding_of(n_members: int, n_nonmembers: int) -> Rounding:
    """How figures of so many members and non-members are rounded."""
    return Rounding.of(n_members + n_nonmembers, min(n_members, n_nonmembers))


def _spread(scores: ScoreSpread, rounding: Rounding) -> ScoreSpread:
    low, high, mean, sd = map(rounding.nearest, (scores.low, scores.high, scores.mean, scores.sd))
    return ScoreSpread(low, high, mean, sd)

"""What the page of claims says below its table."""

from __future__ import annotations

from collections.abc import Sequence

from leakscope.report.blocks import Block, Body, Bullets, Code, Heading
from leakscope.studies.scaling.command import command
from leakscope.studies.scaling.evidence import sorted_evidence
from leakscope.studies.scaling.results import ScalingResults
from leakscope.studies.scaling.tables import (
    correlations_table,
    partial_table,
    predictor_tables,
    published_body,
    width_table,
)

_RULES = (
    "A cell of the published table is reproduced if the publication's own seeds give it within its rounding "
    "and one record of one repeat, or if it lies in the 95% range over initializations.",
    "A published correlation is reproduced if moving each width's mean by that tolerance can give it, or if "
    "it lies in the 95% range over initializations. Where that range contains 0, it is reproduced, but "
    "noise.",
    "A statement about the five widths is reproduced if it holds with the publication's seeds and in at "
    "least 97.5% of the initializations (that something is not significant: in at least half of them). If it "
    "holds with the publication's seeds but less often than that, it is reproduced, but noise. "
    "So is a success of the attack that other data do not give: all widths share one dataset.",
    "Other data: rises and gaps differ if their 95% intervals do not overlap. Larger datasets: reproduced if "
    "the gap is smaller at every common width and a wider model reaches the gap of few records; the same "
    "direction if it is smaller at some widths and larger at none.",
    "The two hypotheses: the same direction if both partial correlations of LiRA's AUC, of values and of "
    "ranks, have an interval above 0; not reproduced if neither has. The two are one comparison: where "
    "values and ranks disagree about one of them, or a partial correlation is undefined, neither is decided.",
    "More widths: reproduced if AUC is significantly correlated with the gap and with size in more of the "
    "initializations than over five widths, with 95% intervals of the two shares that do not overlap; the "
    "same direction if that holds for one of the two correlations.",
    "Dropout and weight decay: reproduced if both lower LiRA's AUC, averaged over the widths; the same "
    "direction if one of them does.",
    "At least as well as size: reproduced if no comparison favors size, refuted if most of them do and none "
    "favors the gap, and otherwise undecided, which is not testable here.",
    "Gap or size: a difference of two correlations favors one of them if its 95% interval excludes 0. Where "
    "coefficients or ranges of widths disagree, the question is undecided.",
)
_FIVE = (
    "The publication seeds torch before it builds and before it trains each model. With these seeds a plain "
    "PyTorch loop gives its table. Five widths and three repeats do not determine the correlations with AUC: "
    "other initial weights on the same records give nearly any value."
)
_WIDE = (
    "The published data, protocol and attack at more widths. All widths share one target dataset and its "
    "shadow models' datasets, so a significant correlation is one on these data."
)
_ROUNDING = (
    "The commands below give the results files, which are kept without line breaks. On the same processor, "
    "with the same versions, every number is the same. On another processor, or without the compiled code "
    "that trains small perceptrons, sums are rounded in another order. With torch in place of compiled code, "
    "the accuracy of a target of the published protocol changes by at most one record, the AUC of its "
    "shadow-model attack by at most 0.002, and the correlations of this run by less than 0.01."
)
_DECISIVE = (
    "Independent data for each repeat, and shadow models that have the target's class centers: three "
    "coefficients, over all widths and over the published ones."
)


def discussion_body(results: Sequence[ScalingResults]) -> Body:
    """Rules, tables of the published protocol, and the decisive study."""
    evidence = sorted_evidence(results)
    body: list[Block | str] = [Heading("Rules of the verdicts"), Bullets(_RULES)]
    if evidence.published is not None:
        body += [Heading("The published protocol"), _FIVE, *published_body(evidence.published)]
    if evidence.wide is not None:
        body += [Heading("More widths"), _WIDE, correlations_table(evidence.wide), width_table(evidence.wide)]
    if evidence.decisive is not None:
        decisive = evidence.decisive
        body += [Heading("Gap or size"), _DECISIVE]
        body.append(Bullets([f"{one.answer} {one.evidence}" for name, one in decisive.gap_or_size.items()
                             if name != "correctness"]))  # fmt: skip
        body += [*predictor_tables(decisive), partial_table(decisive), width_table(decisive)]
    commands = [str(command(one.config)) for one in results]
    return [*body, Heading("How to reproduce"), _ROUNDING, Code("\n".join(commands))]

"""The claims of the ensemble study's publication, settled by numbers.

The publication attacks one ResNet-18 whose data are undisclosed, so no figure of it can be expected again to
the digit. The rules:

- A rate is reproduced if the target is a ResNet-18 attacked with as many records and the rate lies in our 95%
  interval; it has the same direction if our interval excludes guessing, and is not reproduced otherwise. On
  another target an agreement would be a coincidence.
- The mean and standard deviation of an attacker's scores are reproduced if both lie within 0.02, on such a
  target.
- A feature's purpose is reproduced if the interval of its AUC, in the stated direction, lies above 0.5, and
  refuted if it lies below.
- A claim that one is best is reproduced if its interval lies above all others, has the same direction if only
  its value does, and is refuted if another's interval lies above its own.
- Isotonic calibration is better than sigmoid if the interval of the difference in TPR lies above 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leakscope.report.blocks import Block, Body, Bullets, Heading
from leakscope.single_model.report import auc_text, tpr_text
from leakscope.single_model.results import AucFigure, Setting, TprFigure
from leakscope.stats.estimate import Estimate
from leakscope.studies.claims import Outcome, Settled, StudyClaims, complete
from leakscope.studies.ensemble.claim_list import BY_KEY, CLAIMS, FEATURE_CLAIMS
from leakscope.studies.ensemble.feature_figures import LIKELIHOOD_RATIO
from leakscope.studies.ensemble.results import PUBLISHED, EnsembleResults
from leakscope.studies.ensemble.tables import comparison, feature_table, score_text, target_sentence

_PUBLISHED_SIZE = 20_000
_SCORE_TOLERANCE = 0.02
_SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    "forest": {"n_trees": 100, "max_depth": 15, "min_split": 5},
    "lightgbm": {"n_trees": 200, "max_depth": 15, "learning_rate": 0.05},
    "mlp": {"hidden": (64, 32), "max_iterations": 100},
}
_SPREADS = (
    "calibrated scores average to the share of members among the public records",
    "the better members are distinguished, the larger the standard deviation of the scores",
)
"""Why the mean, and why the standard deviation of scores differ."""
_NOT_TESTABLE = {
    "normalization": "the data are undisclosed",
    "seed": "it fixes the publication's attackers on its own data, which are undisclosed",
}


def settle(results: Sequence[EnsembleResults]) -> list[Settled]:
    """One entry per claim, by the results that are closest to the publication's case."""
    settled = {key: Settled(BY_KEY[key], Outcome.NOT_TESTABLE, why=why) for key, why in _NOT_TESTABLE.items()}
    if results:
        one = max(results, key=lambda r: (r.config.net == "resnet18", r.private.records))
        for entry in (
            *_setting(one),
            *_rates(one),
            *_scores(one),
            *_best_attacker(one),
            _ties(one),
            _features_together(one),
            *_calibrations(one),
            *_features(one),
        ):
            settled[entry.claim.key] = entry
    return complete(CLAIMS, settled)


def _protocol(results: EnsembleResults) -> str:
    config = results.config
    sizes = f"{results.public.records:,} public and {results.private.records:,} private records"
    return f"{config.net} on {config.dataset}, {sizes}, {config.epochs} epochs"


def _setting(results: EnsembleResults) -> Iterator[Settled]:
    """What the attack consists of."""
    protocol, is_same = _protocol(results), _is_comparable(results)
    yield Settled(
        BY_KEY["case"],
        Outcome.REPRODUCED if is_same else Outcome.NOT_TESTABLE,
        f"{results.config.net}; {results.public.records:,} and {results.private.records:,} records",
        protocol,
        "" if is_same else "this run has another target; use --preset full",
    )
    n_features = len(results.features) - 1
    is_eleven = n_features == 10 and LIKELIHOOD_RATIO in results.features
    yield Settled(
        BY_KEY["predictors"],
        Outcome.REPRODUCED if is_eleven else Outcome.NOT_REPRODUCED,
        f"{n_features} features and a global likelihood ratio; class probabilities are one column per class",
        protocol,
    )
    for name, theirs in _SETTINGS.items():
        if name in results.attackers:
            ours = results.attackers[name].settings
            shown = ", ".join(f"{key} {value}" for key, value in ours.items())
            same = all(ours.get(key) == value for key, value in theirs.items())
            agrees = Outcome.REPRODUCED if same else Outcome.NOT_REPRODUCED
            yield Settled(BY_KEY[f"settings_{name}"], agrees, shown, protocol)


def _rates(results: EnsembleResults) -> Iterator[Settled]:
    """AUC and TPR at 5% FPR, on validation records and on private ones."""
    for name, published in PUBLISHED.items():
        if name not in results.attackers:
            continue
        for part, figures, theirs in (
            ("validation", results.attackers[name], published.validation),
            ("leaderboard", results.private_truth[name], published.leaderboard),
        ):
            auc, tpr = figures.auc, figures.tpr_at_fpr
            outcome = rate_outcome(theirs.auc, auc.low, auc.high, guessing=0.5)
            yield _rate(results, f"auc_{part}_{name}", outcome, auc_text(auc))
            ours = tpr_text(tpr)
            if part == "validation":
                ours += f"; with ties {tpr_text(results.attackers[name].with_ties.tpr_at_fpr)}"
            yield _rate(results, f"tpr_{part}_{name}", _tpr_outcome(theirs.tpr_at_fpr, tpr), ours)


def _is_comparable(results: EnsembleResults) -> bool:
    """Whether the target is of the published kind and attacked with as many records."""
    sizes = (results.public.records, results.private.records)
    return results.config.net == "resnet18" and sizes == (_PUBLISHED_SIZE, _PUBLISHED_SIZE)


def _rate(results: EnsembleResults, key: str, outcome: Outcome, ours: str) -> Settled:
    why = "other data" if _is_comparable(results) else "other data and another target"
    if outcome is Outcome.REPRODUCED and _is_comparable(results):
        why = ""
    elif outcome is Outcome.REPRODUCED:
        outcome = Outcome.SAME_DIRECTION
    return Settled(BY_KEY[key], outcome, ours, _protocol(results), why)


def rate_outcome(published: float, low: float, high: float, guessing: float) -> Outcome:
    """The verdict on a published rate above guessing, from our interval."""
    if low <= published <= high:
        return Outcome.REPRODUCED
    return Outcome.SAME_DIRECTION if low > guessing else Outcome.NOT_REPRODUCED


def _tpr_outcome(published: float, tpr: TprFigure) -> Outcome:
    if tpr.low is None or tpr.high is None:
        return Outcome.NOT_TESTABLE
    return rate_outcome(published, tpr.low, tpr.high, guessing=tpr.fpr)


def _scores(results: EnsembleResults) -> Iterator[Settled]:
    """Mean, standard deviation and range of the private scores."""
    for name, published in PUBLISHED.items():
        if name not in results.attackers:
            continue
        ours, theirs = results.attackers[name].private, published.scores
        close = [abs(a - b) <= _SCORE_TOLERANCE for a, b in ((ours.mean, theirs.mean), (ours.sd, theirs.sd))]
        outcome = Outcome.REPRODUCED if all(close) else Outcome.NOT_REPRODUCED
        why = "; ".join(reason for is_close, reason in zip(close, _SPREADS, strict=True) if not is_close)
        if not _is_comparable(results):
            outcome, why = Outcome.NOT_TESTABLE, "this run has another target; use --preset full"
        yield Settled(BY_KEY[f"scores_{name}"], outcome, score_text(ours), _protocol(results), why)


def _ties(results: EnsembleResults) -> Settled:
    """Whether calibration preserves the order of scores."""
    distinct = [(one.distinct_calibrated, one.distinct_scores) for one in results.attackers.values()]
    ties = any(calibrated < scores for calibrated, scores in distinct)
    counts = ", ".join(f"{calibrated:,} of {scores:,}" for calibrated, scores in distinct)
    return Settled(
        BY_KEY["ordering"],
        Outcome.REFUTED if ties else Outcome.REPRODUCED,
        f"distinct calibrated scores of validation records: {counts} distinct ones with ties broken",
        _protocol(results),
        "isotonic calibration is a step function: it makes ties" if ties else "",
    )


def _features_together(results: EnsembleResults) -> Settled:
    """Whether all features separate better than the best predictor alone."""
    top = max(results.features.values(), key=lambda auc: auc.value)
    attacker, alike = results.private_truth[results.chosen].auc, results.feature_correlation
    adds = attacker.low > top.high
    overlaps = attacker.high >= top.low
    return Settled(
        BY_KEY["different_parts"],
        Outcome.REPRODUCED if adds else Outcome.NOT_REPRODUCED if overlaps else Outcome.REFUTED,
        f"{results.chosen} on all features: {auc_text(attacker)}; the best single predictor: {auc_text(top)}"
        + ("" if alike is None else f"; median rank correlation between two features {alike:.2f}"),
        _protocol(results),
        "" if adds else "together they separate no better than the best of them alone",
    )


def _best_attacker(results: EnsembleResults) -> Iterator[Settled]:
    """By AUC on validation records; by AUC and by TPR on private ones, as far as the publication says."""
    protocol = _protocol(results)
    validation = {name: one.auc for name, one in results.attackers.items()}
    private = {name: one.auc for name, one in results.private_truth.items()}
    rates = {name: one.tpr_at_fpr for name, one in results.private_truth.items()}
    shown = {name: f"{name} {auc_text(auc)}" for name, auc in validation.items()}
    if "forest" in validation and len(validation) > 1:
        outcome = best_outcome("forest", validation)
        yield Settled(BY_KEY["best_validation"], outcome, "; ".join(shown.values()), protocol)
    if "mlp" not in private or len(private) < 2 or any(rate.value is None for rate in rates.values()):
        return
    by_auc, by_tpr = best_outcome("mlp", private), best_outcome("mlp", rates)
    texts = (f"{name} {auc_text(private[name])}, {tpr_text(rates[name])}" for name in private)
    why = f"by AUC {by_auc}, by TPR {by_tpr}" if by_auc is not by_tpr else ""
    outcome = max(by_auc, by_tpr, key=_WORSE.index)
    yield Settled(BY_KEY["best_leaderboard"], outcome, "; ".join(texts), protocol, why)


_WORSE = (Outcome.REPRODUCED, Outcome.SAME_DIRECTION, Outcome.NOT_REPRODUCED, Outcome.REFUTED)


def _calibrations(results: EnsembleResults) -> Iterator[Settled]:
    """Isotonic against sigmoid calibration of the forest, at each false positive rate."""
    rates = results.calibrations
    if not rates:
        return
    shown = "; ".join(
        f"TPR at {one.isotonic.fpr:.0%} FPR: {tpr_text(one.isotonic)}, sigmoid {tpr_text(one.sigmoid)}, "
        f"difference {_points(one.difference)}"
        for one in rates
    )
    outcome = calibration_outcome([one.difference for one in rates])
    yield Settled(BY_KEY["low_fpr"], outcome, shown, f"{_protocol(results)}; random forest")


def calibration_outcome(differences: Sequence[Estimate]) -> Outcome:
    """The verdict on "isotonic is better", from its TPR minus that with sigmoid calibration."""
    above = [one.low is not None and one.low > 0 for one in differences]
    below = [one.high is not None and one.high < 0 for one in differences]
    if any(below):
        return Outcome.NOT_REPRODUCED if any(above) else Outcome.REFUTED
    if any(above):
        return Outcome.REPRODUCED if all(above) else Outcome.SAME_DIRECTION
    return Outcome.NOT_REPRODUCED


def _points(difference: Estimate) -> str:
    """A difference of rates in percentage points."""
    if difference.value is None or difference.low is None or difference.high is None:
        return "undefined"
    value, low, high = (100 * v for v in (difference.value, difference.low, difference.high))
    return f"{value:+.2f} points ({low:+.2f} to {high:+.2f})"


def best_outcome(best: str, figures: Mapping[str, AucFigure] | Mapping[str, TprFigure]) -> Outcome:
    """The verdict on "this one is best"; every figure is defined."""
    ends = {name: (one.low or 0.0, one.value or 0.0, one.high or 0.0) for name, one in figures.items()}
    low, value, high = ends.pop(best)
    if any(other_low > high for other_low, _, _ in ends.values()):
        return Outcome.REFUTED
    if any(other > value for _, other, _ in ends.values()):
        return Outcome.NOT_REPRODUCED
    is_apart = all(low > other_high for _, _, other_high in ends.values())
    return Outcome.REPRODUCED if is_apart else Outcome.SAME_DIRECTION


def _features(results: EnsembleResults) -> Iterator[Settled]:
    """The stated purpose of each feature."""
    for key, names in FEATURE_CLAIMS.items():
        name = next((one for one in names if one in results.features), None)
        if name is not None:
            auc = results.features[name]
            yield Settled(BY_KEY[key], purpose_outcome(auc), f"AUC {auc_text(auc)}", _protocol(results))
    true_prob = results.features["true_prob"]
    ten = {name: auc for name, auc in results.features.items() if name != LIKELIHOOD_RATIO}
    best = max(ten, key=lambda name: ten[name].value)
    yield Settled(
        BY_KEY["most_effective"],
        Outcome.REPRODUCED if true_prob.high >= ten[best].low else Outcome.NOT_REPRODUCED,
        f"AUC {auc_text(true_prob)}; the best of the ten features, {best}, has {auc_text(ten[best])}",
        _protocol(results),
    )


def purpose_outcome(auc: AucFigure) -> Outcome:
    """The verdict on a feature's stated direction."""
    if auc.low > 0.5:
        return Outcome.REPRODUCED
    return Outcome.REFUTED if auc.high < 0.5 else Outcome.NOT_REPRODUCED


_RULES = (
    "A rate is reproduced if the target is a ResNet-18 attacked with as many records and the rate lies in "
    "our 95% interval. It has the same direction if our interval excludes guessing, and is not reproduced "
    "otherwise. The publication's data are undisclosed, and on another target an agreement would be a "
    "coincidence.",
    "The mean and standard deviation of scores are reproduced if both lie within 0.02, on such a target.",
    "A feature's purpose is reproduced if the interval of its AUC in the stated direction lies above 0.5, "
    "and refuted if it lies below.",
    "A claim that one is best is reproduced if its interval lies above all others, has the same direction if "
    "only its value does, and is refuted if another's interval lies above its own. Where the publication "
    "says it of AUC and TPR, the less favorable verdict counts.",
    "The uncalibrated score breaks ties of our calibrated scores, in all rates but those of the comparison "
    "of calibrations. Beside a TPR on validation records, the table has that of the scores as they are "
    "calibrated, which the publication submits.",
    "Features are compared with each other; the global likelihood ratio is not one of the ten.",
    "Isotonic is better than sigmoid calibration: reproduced if the interval of the difference in TPR lies "
    "above 0 at both false positive rates, the same direction if at one, and refuted if it lies below 0 at "
    "one and above at none. Ties are not broken: the scores are those that the publication submits.",
)


def discussion(results: Sequence[EnsembleResults]) -> Body:
    """The rules, and the tables of every run."""
    body: list[Block | str] = [Heading("Rules of the verdicts"), Bullets(_RULES)]
    for one in results:
        body += [Heading(f"{one.config.net} on {one.config.dataset}"), target_sentence(one)]
        body += [comparison(one), feature_table(one)]
    return body


PUBLICATION = StudyClaims(
    study="ensemble",
    publication="TML Assignment 1 - MIA Report",
    results_type=EnsembleResults,
    claims=CLAIMS,
    settle=settle,
    discussion=discussion,
)

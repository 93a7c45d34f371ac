"""Everything the publication of the scaling study states, in its order."""

from __future__ import annotations

from leakscope.studies.claims import Claim
from leakscope.studies.scaling.published import FIGURES, PUBLISHED, PUBLISHED_CORRELATIONS

_FIVE = "5 widths, 3 repeats, one dataset, one initialization per model"
_CORRELATION = "Pearson over the means of 5 widths"
_NAMES = {
    "auc_vs_log_params": "Attack AUC correlates with log2 of the number of parameters.",
    "auc_vs_overfit_gap": "Attack AUC correlates with the overfitting gap.",
    "gap_vs_log_params": "The overfitting gap grows with log2 of the number of parameters.",
}


def _cells() -> list[Claim]:
    claims = []
    for width, row in PUBLISHED.items():
        count = f"An MLP of width {width} has this number of parameters."
        claims.append(Claim(f"n_params_{width}", count, f"{row.n_params:,}", "10 features, 5 classes"))
        claims += [
            Claim(f"{field}_{width}", f"Width {width}: {name}.", f"{getattr(row, field):.3f}", _FIVE)
            for field, name in FIGURES.items()
        ]
    return claims


def _correlations() -> list[Claim]:
    return [
        Claim(field, _NAMES[field], f"r = {theirs.r:.3f}, p = {theirs.p:.3f}", _CORRELATION)
        for field, theirs in PUBLISHED_CORRELATIONS.items()
    ]


CLAIMS: tuple[Claim, ...] = (
    *_correlations(),
    Claim("gap_ahead", "AUC is slightly more correlated with the gap than with the number of parameters.",
          "r = 0.782 against 0.743", _CORRELATION),
    Claim("both_nonsignificant", "Neither correlation with AUC is significant over five widths.",
          "p = 0.118 and 0.150", _CORRELATION),
    Claim("growth_strongest", "The strongest supported effect is that overfitting increases, sharply and "
          "significantly, with model size.", "r = 0.958, p = 0.010", _CORRELATION),
    Claim("protocol", "60 models train by the stated protocol: 5 clusters in 10 dimensions, 500 records (100 "
          "per class), half of them members, 50 epochs of Adam at 0.01, 3 shadow models, logistic regression "
          "on softmax vectors, 3 repeats.", "60 models", _FIVE),
    Claim("runtime", "The 60 models train in under a minute on a CPU (instructions: under 30 seconds).",
          "1 minute, 30 seconds", "CPU, not named"),
    Claim("capacity_hypothesis", "Larger models are more vulnerable because of their capacity.", ""),
    Claim("overfitting_hypothesis", "Larger models are more vulnerable because they overfit more.", ""),
    Claim("class_variance", "Samples of class k are drawn from N(mu_k, 1.5 I).", "variance 1.5"),
    Claim("regime", "Smaller models have not fully converged, larger ones have begun to memorize.",
          "train accuracy 0.901 to 1.000", _FIVE),
    Claim("same_distribution", "Shadow models train on independent data of the same distribution.", "",
          "3 shadow models per target"),
    *_cells(),
    Claim("auc_rises", "Attack AUC tends to increase with model size.", "0.516 to 0.544", _FIVE),
    Claim("not_monotone", "The rise is not monotone: width 128 is less vulnerable than width 64, despite a "
          "larger gap.", "AUC 0.527 against 0.541, gap 0.344 against 0.329", _FIVE),
    Claim("gap_monotone", "The gap rises with every step in width.", "0.235 to 0.355", _FIVE),
    Claim("auc_modest", "Attack AUC is modestly above the random baseline at every width.",
          "0.516 to 0.544", _FIVE),
    Claim("difficulty", "The modest AUC reflects the inherent difficulty of membership inference on small "
          "datasets.", "AUC at most 0.544", "logistic regression on softmax vectors"),
    Claim("gap_as_good", "Privacy risk tracks the gap at least as well as raw model size.", "", _FIVE),
    Claim("regularization", "Dropout and weight decay are plausible defenses.", "",
          "not tested by the publication"),
    Claim("augmentation", "Data augmentation is a plausible defense.", "", "not tested by the publication"),
    Claim("real_data", "Real datasets may yield different dynamics.", "", "not tested by the publication"),
    Claim("larger_data", "Larger datasets would require larger models to show similar gaps.", "",
          "500 records; not tested by the publication"),
    Claim("other_attacks", "Loss-based and label-only attacks may scale differently.", "",
          "not tested by the publication"),
    Claim("more_widths", "The correlations with AUC are not significant because there are only 5 widths; "
          "more widths would add power.", "p = 0.118 and 0.150 with 5 widths", _CORRELATION),
    Claim("unit_tests", "The publication's 26 unit tests pass.", "26 passed", "its own code, Python 3.10+"),
    Claim("files", "A run writes results.json, a report and 4 plots, and its validator passes.", "4 plots",
          "its own code"),
    Claim("deterministic", "The same command writes the same results.json.", "identical sha256",
          "its own code"),
)  # fmt: skip

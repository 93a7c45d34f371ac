"""Everything the publication of the ensemble study states, in its order."""

from __future__ import annotations

from leakscope.studies.claims import Claim
from leakscope.studies.ensemble.results import PUBLISHED

_NAMES = {"forest": "random forest", "lightgbm": "LightGBM", "mlp": "MLP"}
_VALIDATION = "held-out part of 20,000 public records of undisclosed data"
_PRIVATE = "20,000 private records of undisclosed data, scored by a leaderboard"

FEATURE_CLAIMS = {
    "purpose_softmax": ("max_prob",),
    "purpose_loss": ("loss",),
    "purpose_entropy": ("entropy",),
    "purpose_modified_entropy": ("modified_entropy", "adjusted_entropy"),
    "purpose_margin": ("top2_margin",),
    "purpose_true_prob": ("true_prob",),
    "purpose_correctness": ("correct",),
    "purpose_max_logit": ("max_logit",),
    "purpose_true_logit": ("true_logit",),
    "purpose_gradient": ("gradient_proxy",),
}
"""Claim about a feature's purpose -> the feature under either reading."""


def _feature_claims() -> list[Claim]:
    purposes = {
        "purpose_softmax": "The model is overconfident on members (class probabilities).",
        "purpose_loss": "Members have lower loss.",
        "purpose_entropy": "Members have lower entropy.",
        "purpose_modified_entropy": "Members have lower modified entropy.",
        "purpose_margin": "Members have a larger margin between the two highest probabilities.",
        "purpose_true_prob": "Members have a higher true-class probability.",
        "purpose_correctness": "The model is more accurate on members.",
        "purpose_max_logit": "Members have a higher largest logit.",
        "purpose_true_logit": "Members have a higher true-class logit.",
        "purpose_gradient": "The gradient proxy helps to detect members.",
    }
    return [Claim(key, statement, "", "no figure given") for key, statement in purposes.items()]


def _settings() -> list[Claim]:
    published = {
        "forest": "100 trees, depth 15, at least 5 records to split",
        "lightgbm": "200 trees, depth 15, rate 0.05",
        "mlp": "layers of 64 and 32 units, 100 iterations",
    }
    return [
        Claim(f"settings_{name}", f"Settings of the {_NAMES[name]}.", text)
        for name, text in published.items()
    ]


def _rate_claims(part: str, protocol: str) -> list[Claim]:
    claims = []
    for name, published in PUBLISHED.items():
        rates = getattr(published, part)
        where = "on its validation records" if part == "validation" else "on the leaderboard"
        who = _NAMES[name]
        claims += [
            Claim(f"auc_{part}_{name}", f"AUC of the {who} {where}.", f"{rates.auc:.4f}", protocol),
            Claim(f"tpr_{part}_{name}", f"TPR at 5% FPR of the {who} {where}.",
                  f"{100 * rates.tpr_at_fpr:.2f}%", protocol),
        ]  # fmt: skip
    return claims


def _score_claims() -> list[Claim]:
    claims = []
    for name, published in PUBLISHED.items():
        s = published.scores
        text = f"mean {s.mean:.4f}, sd {s.sd:.4f}, {s.low:.4f} to {s.high:.4f}"
        statement = f"Scores of the {_NAMES[name]} for the private records."
        claims.append(Claim(f"scores_{name}", statement, text, _PRIVATE))
    return claims


CLAIMS: tuple[Claim, ...] = (
    Claim("best_leaderboard", "The MLP gives the best results.", "AUC 0.6549, TPR at 5% FPR 14.5%", _PRIVATE),
    Claim("case", "A ResNet-18 is attacked with 20,000 public and 20,000 private records.",
          "20,000 and 20,000"),
    Claim("normalization", "The images are standardized with the given mean and standard deviation.",
          "mean 0.2980, 0.2962, 0.2987; std 0.2886, 0.2875, 0.2889"),
    Claim("different_parts", "Although some features may be highly correlated, they explain different parts "
          "of the data.",
          "", "no figure given"),
    *_feature_claims(),
    Claim("most_effective", "The true-class probability is one of the most effective features.",
          "", "no figure given"),
    Claim("predictors", "10 features and 1 LiRA score make 11 predictors.", "11"),
    *_settings(),
    Claim("seed", "All three attackers use the random state 42.", "42"),
    *_rate_claims("validation", _VALIDATION),
    Claim("best_validation", "On validation records, the random forest has the highest AUC.", "0.6715",
          _VALIDATION),
    *_score_claims(),
    *_rate_claims("leaderboard", _PRIVATE),
    Claim("ordering", "Isotonic calibration preserves the relative order of scores.", "", "no figure given"),
    Claim("low_fpr", "Isotonic calibration optimizes low false positive rates, better than sigmoid.", "",
          "no figure given"),
)  # fmt: skip
BY_KEY = {claim.key: claim for claim in CLAIMS}

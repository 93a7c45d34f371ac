"""What Farokhi and Kaafar (2020) state: every claim, in the publication's order."""

from __future__ import annotations

from leakscope.studies.claims import Claim

_FIGURE = "Adult, 5 principal components; boxes of the threshold adversary's advantage, line of leakage"
_THEOREM = "a theorem, with a proof"

CLAIMS = (
    Claim(
        "upper-limit-by-kl",
        "A quarter of rho_KL is at least rho_MI (Corollary 1).",
        "rho_MI <= rho_KL / 4",
        _THEOREM,
    ),
    Claim(
        "theorem-1",
        "The probability that any adversary is right is at most sqrt(rho_KL) / 2 (Theorem 1).",
        "P(correct) <= sqrt(rho_KL) / 2",
        _THEOREM,
    ),
    Claim("size", "Leakage is a decreasing function of the training-set size.", "", "from Theorem 2"),
    Claim("regularization", "Regularization reduces leakage.", "", "from Theorem 3"),
    Claim(
        "monotone",
        "Theorems 2 and 3 prove that leakage is a decreasing function of the training-set size and of the "
        "regularization weight.",
        "",
        "said to be proved",
    ),
    Claim(
        "more-if-sensitive",
        "The more sensitive the loss to the parameters, the more may leak.",
        "",
        "from Theorem 3",
    ),
    Claim(
        "complex-models",
        "Complex models, such as deep networks, leak more than simple ones.",
        "",
        "argued from Theorem 3",
    ),
    Claim(
        "noise-order",
        "Gaussian (epsilon, delta)-private noise reduces leakage in the order of "
        "sqrt(log(1/delta)) / epsilon (Corollary 2).",
        "rho - O(sqrt(log(1/delta)) / epsilon)",
        _THEOREM,
    ),
    Claim("overfit-by-size", "With more training data the model is less overfitted.", "", "argued"),
    Claim(
        "any-model",
        "Leakage falls with the training-set size for any model, from linear regression to deep "
        "networks, without convexity.",
        "",
        "from Theorem 2",
    ),
    Claim("overfit-by-ridge", "A heavier regularization reduces overfitting.", "", "argued"),
    Claim(
        "less-if-sensitive",
        "Less is leaked if the training is more sensitive (introduction); leakage is a "
        "decreasing function of the sensitivity (conclusions).",
        "",
        "said to be proved",
    ),
    Claim(
        "private-utility",
        "Differentially private learning costs much utility.",
        "",
        "cited from other publications",
    ),
    Claim(
        "equally-likely",
        "A training set drawn uniformly contains every record with the same probability.",
        "",
        "definition of the setting",
    ),
    Claim(
        "precision",
        "Parameters at finite precision reveal no more than exact ones (data processing).",
        "rho_MI(rounded) <= rho_MI(exact)",
        "an inequality",
    ),
    Claim(
        "distinct",
        "Attacks are more effective on records that are distinct from the others (Remark 1).",
        "",
        "cited from another publication",
    ),
    Claim(
        "outliers",
        "There are always outliers in the success of attacks: some records are far more exposed.",
        "",
        "boxes of figures 1 to 5",
    ),
    Claim(
        "order-infinity",
        "To investigate outliers, Renyi entropy of order infinity is needed; averages hide them.",
        "left as future work",
        "",
    ),
    Claim("prior-out", "A record is left out with probability n/N.", "P(z = 0) = n/N", "definition"),
    Claim(
        "mixture",
        "rho_MI is at most P(z=0) P(z=1) rho_KL, which is at most a quarter of rho_KL.",
        "rho_MI <= a0 a1 rho_KL <= rho_KL / 4",
        "an inequality, by convexity",
    ),
    Claim(
        "le-cam",
        "The smallest error probability of an adversary is 1 minus the total variation.",
        "inf P(wrong) = 1 - TV",
        "proof of Theorem 1, after Le Cam",
    ),
    Claim(
        "fitted-variation",
        "No adversary's advantage exceeds the total variation of the Gaussian approximations (proof of "
        "Theorem 1, with Remark 3).",
        "advantage <= TV",
        "not stated as such: what both passages say together",
    ),
    Claim(
        "pinsker",
        "Total variation is at most the root of half the smaller divergence, and hence at most "
        "sqrt(rho_KL) / 2.",
        "TV <= sqrt(min KL / 2) <= sqrt(rho_KL) / 2",
        "proof of Theorem 1, after Pinsker",
    ),
    Claim(
        "black-box",
        "Querying the model reveals no more than its parameters (Remark 2).",
        "I(output; z) <= I(theta; z)",
        "data processing",
    ),
    Claim(
        "weaker-adversaries",
        "What mitigates the strongest adversary also works against weaker ones (Remark 2).",
        "",
        "argued",
    ),
    Claim(
        "not-gaussian",
        "The distributions of parameters are often more complex than Gaussian (Remark 3).",
        "",
        "stated",
    ),
    Claim(
        "monte-carlo-error",
        "Near Gaussian, errors of the approximation fall with the root of the number of "
        "trainings (Remark 3).",
        "error ~ 1 / sqrt(K)",
        "stated",
    ),
    Claim(
        "gaussian-divergence",
        "The divergence of two Gaussians, as printed in Remark 3.",
        "trace(inv(S0) S0) - p + ...",
        "a formula",
    ),
    Claim(
        "kl-for-mi",
        "The Gaussian rho_KL is an approximation of rho_MI, and is used for it (Remark 3).",
        "",
        "stated",
    ),
    Claim(
        "inverse-size",
        "The success of attacks is inversely proportional to the training-set size.",
        "advantage ~ 1 / n",
        "stated before Theorem 2",
    ),
    Claim(
        "theorem-2",
        "As the training set grows, leakage at finite precision goes to 0 (Theorem 2).",
        "lim rho_MI = 0",
        _THEOREM,
    ),
    Claim(
        "discrete-training",
        "Theorem 2 also holds for training over a discrete set (Remark 4).",
        "",
        "stated, without a proof",
    ),
    Claim(
        "theorem-3-ridge",
        "As the regularization weight grows, leakage at finite precision goes to 0 (Theorem 3).",
        "lim rho_MI = 0",
        _THEOREM,
    ),
    Claim(
        "theorem-3-lipschitz",
        "As the Lipschitz constant of the loss goes to 0, so does leakage at finite precision (Theorem 3).",
        "lim rho_MI = 0",
        _THEOREM,
    ),
    Claim("lipschitz", "The Lipschitz constant of the loss is at most the sensitivity.", "L <= S", "stated"),
    Claim("theorem-4", "Leakage falls with Gaussian noise on the parameters (Theorem 4).", "", _THEOREM),
    Claim(
        "theorem-4-order",
        "Noise of standard deviation t removes a term linear in t (proof of Theorem 4).",
        "rho - c t + O(t^2)",
        "last step of the proof",
    ),
    Claim(
        "fisher-divergence",
        "The Fisher divergence that gives the derivative of the divergence of p1 from p0, as printed.",
        "mean over p0",
        "proof of Theorem 4",
    ),
    Claim(
        "privacy-works",
        "Differential privacy is a successful defense, if its budget is small enough.",
        "",
        "from Theorem 4",
    ),
    Claim(
        "neighbors",
        "Differential privacy compares training sets of n records that differ in at most one "
        "membership (Definition 3).",
        "at most one j with z_j != z'_j",
        "a definition",
    ),
    Claim(
        "classical-noise",
        "Noise of sqrt(2 log(1.25/delta)) times the sensitivity over epsilon makes the "
        "release (epsilon, delta)-private, at any epsilon (Proposition 1).",
        "(epsilon, delta)-private",
        "cited",
    ),
    Claim("records", "Adult has 48,842 records with 14 attributes.", "N = 48,842; 14", "UCI repository"),
    Claim("stability", "Principal components greatly improve the numerical stability.", "", "stated"),
    Claim(
        "figure-1-leakage", "Figure 1: leakage decreases rapidly with n.", "falls", f"regression; {_FIGURE}"
    ),
    Claim(
        "figure-1-advantage",
        "Figure 1: the advantage decreases rapidly with n.",
        "falls",
        f"regression; {_FIGURE}",
    ),
    Claim(
        "figure-2-leakage",
        "Figure 2: the same trend of leakage for a network.",
        "falls",
        f"five tanh layers of fifty; {_FIGURE}",
    ),
    Claim(
        "figure-2-advantage",
        "Figure 2: the same trend of the advantage for a network.",
        "falls",
        f"five tanh layers of fifty; {_FIGURE}",
    ),
    Claim(
        "figure-3-leakage",
        "Figure 3: leakage falls with the ridge weight.",
        "falls",
        f"regression, n = 10; {_FIGURE}",
    ),
    Claim(
        "figure-3-advantage",
        "Figure 3: the advantage falls with the ridge weight.",
        "falls",
        f"regression, n = 10; {_FIGURE}",
    ),
    Claim(
        "data-independent",
        "With a heavy penalty the model approaches one that is independent of the data.",
        "",
        "argued",
    ),
    Claim(
        "figure-4-leakage",
        "Figure 4: leakage rises with the number of features.",
        "rises",
        "regression, n = 10, weight 1e-6; Adult, principal components",
    ),
    Claim(
        "figure-4-advantage",
        "Figure 4: the advantage rises with the number of features.",
        "rises",
        "regression, n = 10, weight 1e-6; Adult, principal components",
    ),
    Claim("unique-entries", "More features leak more because they make records more unique.", "", "argued"),
    Claim(
        "figure-5-leakage",
        "Figure 5: leakage falls with noise on the parameters.",
        "falls",
        f"regression, n = 30; {_FIGURE}",
    ),
    Claim(
        "figure-5-advantage",
        "Figure 5: the advantage falls with noise on the parameters.",
        "falls",
        f"regression, n = 30; {_FIGURE}",
    ),
    Claim(
        "deep-networks",
        "Leakage and the success of attacks go together for more general models, such as deep networks.",
        "future work",
        "",
    ),
    Claim(
        "regularizer",
        "Leakage as a regularizer may combat membership inference effectively.",
        "future work",
        "",
    ),
)
"""Every claim."""

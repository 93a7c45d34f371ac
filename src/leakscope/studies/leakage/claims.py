"""The claims of Farokhi and Kaafar (2020) and how the leakage study settles them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakscope.report.blocks import Body, Heading
from leakscope.studies.claims import Outcome, Settled, StudyClaims, complete
from leakscope.studies.leakage import extension_rules as beyond
from leakscope.studies.leakage import record_rules, rules, theory_rules
from leakscope.studies.leakage.config import FIGURES
from leakscope.studies.leakage.page_extensions import (
    limits_body,
    network_body,
    privacy_body,
    regularizer_body,
)
from leakscope.studies.leakage.page_tables import figure_bodies
from leakscope.studies.leakage.page_words import output_words, setting_words
from leakscope.studies.leakage.published import CLAIMS
from leakscope.studies.leakage.results import LeakageResults

_RULES: Mapping[str, rules.Rule] = {
    "upper-limit-by-kl": rules.no_violation(
        lambda p: p.rho_mi_bits.beyond_quarter_rho_kl, "of the fitted Gaussians, at equal priors"
    ),
    "theorem-1": rules.theorem_1,
    "fitted-variation": rules.fitted_variation,
    "size": rules.size_trend,
    "regularization": rules.regularization,
    "more-if-sensitive": beyond.more_if_sensitive,
    "complex-models": rules.complex_models,
    "noise-order": beyond.noise_order,
    "overfit-by-size": rules.overfit(1),
    "any-model": rules.any_model,
    "overfit-by-ridge": rules.overfit(3),
    "less-if-sensitive": beyond.less_if_sensitive,
    "private-utility": beyond.private_utility,
    "equally-likely": theory_rules.equally_likely,
    "precision": rules.precision,
    "distinct": record_rules.distinct,
    "outliers": record_rules.outliers,
    "order-infinity": record_rules.order_infinity,
    "prior-out": theory_rules.prior_out,
    "mixture": rules.no_violation(
        lambda p: p.rho_mi_bits.at_sampling_prior.beyond_product, "of the fitted Gaussians, at the prior n/N"
    ),
    "le-cam": theory_rules.le_cam,
    "pinsker": rules.no_violation(
        lambda p: p.inequalities.total_variation_beyond + p.inequalities.tightest_beyond_farokhi_kaafar,
        "of the fitted Gaussians",
    ),
    "black-box": rules.no_violation(
        lambda p: p.output.beyond_parameters, "output against parameters, of the fitted Gaussians"
    ),
    "weaker-adversaries": beyond.weaker_adversaries,
    "not-gaussian": rules.not_gaussian,
    "monte-carlo-error": theory_rules.monte_carlo_error,
    "gaussian-divergence": theory_rules.gaussian_divergence,
    "kl-for-mi": rules.kl_for_mi,
    "inverse-size": rules.inverse_size,
    "theorem-2": rules.theorem_2,
    "theorem-3-ridge": beyond.theorem_3_ridge,
    "theorem-3-lipschitz": beyond.theorem_3_lipschitz,
    "lipschitz": theory_rules.lipschitz,
    "theorem-4": beyond.theorem_4,
    "theorem-4-order": theory_rules.theorem_4_order,
    "fisher-divergence": theory_rules.fisher_divergence,
    "monotone": theory_rules.monotone,
    "deep-networks": rules.deep_networks,
    "privacy-works": beyond.privacy_works,
    "neighbors": theory_rules.neighbors,
    "classical-noise": theory_rules.classical_noise,
    "records": rules.records,
    "data-independent": beyond.data_independent,
    "regularizer": beyond.regularizer,
    **{f"figure-{figure}-leakage": rules.trend(figure, of_advantage=False) for figure in FIGURES},
    **{f"figure-{figure}-advantage": rules.trend(figure, of_advantage=True) for figure in FIGURES},
}
"""Key of a claim -> its rule."""
_NOT_TESTABLE = {
    "discrete-training": "no proof is given, and training over a discrete set is not specified",
    "stability": "the publication names no measure of numerical stability",
    "unique-entries": "it is about a cause; the study varies the features, not how unique records are",
}
"""Key of a claim -> why nothing here can decide it."""


def settle(results: Sequence[LeakageResults]) -> list[Settled]:
    """Each claim by the first run that has what its rule needs."""
    by_key = {claim.key: claim for claim in CLAIMS}
    settled = {
        key: Settled(by_key[key], Outcome.NOT_TESTABLE, why=reason) for key, reason in _NOT_TESTABLE.items()
    }
    for key, rule in _RULES.items():
        found = next((finding for finding in map(rule, results) if finding is not None), None)
        if found is not None:
            settled[key] = Settled(by_key[key], *found)
    return complete(CLAIMS, settled)


def discussion(results: Sequence[LeakageResults]) -> Body:
    """What was run, the figures in numbers, and the extensions."""
    body: list[Body] = []
    for result in results:
        body.append([Heading("Setting"), setting_words(result), output_words(result)])
        body += figure_bodies(result)
        if result.limits:
            body.append([Heading("Sensitivity and the limits of Theorem 3"), *limits_body(result.limits)])
        if result.privacy:
            body.append([Heading("Differential privacy"), *privacy_body(result.privacy)])
        if result.regularizer:
            body.append([Heading("Leakage as a regularizer"), *regularizer_body(result.regularizer)])
        if result.network:
            body.append([Heading("Network beside regression"), *network_body(result)])
    return [block for part in body for block in part]


PUBLICATION = StudyClaims(
    study="leakage",
    publication="Modelling and Quantifying Membership Information Leakage in Machine Learning",
    results_type=LeakageResults,
    claims=CLAIMS,
    settle=settle,
    discussion=discussion,
)
"""The publication."""

"""Rules that settle claims by a formula evaluated where a number decides; see `rules` and `theory`."""

from __future__ import annotations

from itertools import pairwise

from leakscope.studies.claims import Outcome
from leakscope.studies.leakage.config import DELTA
from leakscope.studies.leakage.results import LeakageResults
from leakscope.studies.leakage.rules import Finding


def equally_likely(results: LeakageResults) -> Finding:
    """All sets of 3 of 10 records, counted."""
    share = results.theory.left_out_share
    outcome = Outcome.REPRODUCED if abs(share - 0.7) < 1e-12 else Outcome.REFUTED
    return Finding(outcome, f"a record is in {1 - share:.2g} of all sets of 3 of 10", "counted")


def prior_out(results: LeakageResults) -> Finding:
    """The same sets, against n / N."""
    theory = results.theory
    outcome = (
        Outcome.REPRODUCED if theory.left_out_share == theory.printed_left_out_share else Outcome.REFUTED
    )
    ours = f"{theory.left_out_share:.2g}, where n/N = {theory.printed_left_out_share:g}"
    return Finding(outcome, ours, "all sets of 3 of 10 records, counted", "it is 1 - n/N")


def le_cam(results: LeakageResults) -> Finding:
    """The smallest sum of both error rates, by search, against 1 - TV."""
    theory = results.theory
    half = theory.error_sum / 2
    outcome = Outcome.REPRODUCED if abs(half - theory.one_minus_variation) < 1e-3 else Outcome.REFUTED
    ours = f"inf P(wrong) = {half:.3f}, where 1 - TV = {theory.one_minus_variation:.3f}"
    why = f"Le Cam's lemma is about the sum of both error rates, {theory.error_sum:.3f}"
    return Finding(outcome, ours, "N(0, 1) against N(1, 1), equal priors, best threshold", why)


def monte_carlo_error(results: LeakageResults) -> Finding:
    """Four times the trainings must halve the error, within a fifth."""
    errors = results.theory.estimation_error
    ratios = [first / second for first, second in pairwise(errors)]
    good = all(1.6 <= ratio <= 2.4 for ratio in ratios)
    ours = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    why = "4 times the trainings halve the error if it is so; without leakage the error falls with K itself"
    outcome = Outcome.REPRODUCED if good else Outcome.NOT_REPRODUCED
    return Finding(outcome, f"error divided by {ours}", "simulated, K = 100, 400, 1,600, rho_KL = 1", why)


def gaussian_divergence(results: LeakageResults) -> Finding:
    """The printed formula against integration."""
    theory = results.theory
    wrong = abs(theory.printed_divergence - theory.exact_divergence) > 1e-6
    right = abs(theory.corrected_divergence - theory.exact_divergence) < 1e-6
    ours = f"printed {theory.printed_divergence:.3f}, exact {theory.exact_divergence:.3f} nats"
    corrected = "trace(inv(S0) S1) and a transpose correct it" if right else ""
    return Finding(
        Outcome.REFUTED if wrong else Outcome.REPRODUCED, ours, "N(0, 4) against N(0, 1)", corrected
    )


def lipschitz(results: LeakageResults) -> Finding:
    """The largest difference quotient that a search found, against S."""
    theory = results.theory
    outcome = (
        Outcome.REPRODUCED if theory.lipschitz_found <= theory.lipschitz_sensitivity else Outcome.REFUTED
    )
    ours = f"L at least {theory.lipschitz_found:.4g}, S = {theory.lipschitz_sensitivity:.4g}"
    return Finding(outcome, ours, "squared loss, clipped records, search over a ball", "on a ball, L = S")


def theorem_4_order(results: LeakageResults) -> Finding:
    """Halving t: 2 if linear, 4 if quadratic."""
    theory = results.theory
    ratios = (theory.kl_reduction_ratio, theory.mi_reduction_ratio)
    is_linear = all(abs(ratio - 2) < 0.5 for ratio in ratios)
    ours = f"halving t divides the reduction by {ratios[0]:.2f} (rho_KL) and {ratios[1]:.2f} (rho_MI)"
    why = (
        "de Bruijn's identity is a derivative in the variance, so c = 0 and the reduction is of order t^2; "
        "what the theorem itself says, rho - O(t), remains true"
    )
    protocol_words = "unit Gaussians one apart, t = 0.02 and 0.01, exact"
    return Finding(Outcome.REPRODUCED if is_linear else Outcome.REFUTED, ours, protocol_words, why)


def fisher_divergence(results: LeakageResults) -> Finding:
    """The slope by the printed Fisher divergence against that by finite differences."""
    theory = results.theory
    agrees = abs(theory.printed_slope - theory.exact_slope) < 1e-3
    ours = f"slope in the variance {theory.printed_slope:.3f} as printed, {theory.exact_slope:.3f} exact"
    why = "the mean of the squared gradient is over p1, and the gradient is with respect to the parameters"
    return Finding(
        Outcome.REPRODUCED if agrees else Outcome.REFUTED,
        ours,
        "N(0, 4) against N(0, 1), exact",
        "" if agrees else why,
    )


def monotone(results: LeakageResults) -> Finding:
    """A rounded mean whose leakage rises with the size and with the weight."""
    sizes, weights = results.theory.leakage_by_size, results.theory.leakage_by_weight
    rises = sizes[1] > sizes[0] or weights[1] > weights[0]
    ours = (
        f"rho_MI {sizes[0]:.4f} bits at n = 3 and {sizes[1]:.4f} at n = 4; at n = 4, {weights[0]:.4f} at "
        f"weight 0 and {weights[1]:.4f} at weight 0.5"
    )
    return Finding(
        Outcome.REFUTED if rises else Outcome.REPRODUCED,
        ours,
        "mean of n of 20 records, 18 of them 1 and 2 of them 0, rounded to 0 or 1.1; all sets counted",
        "the theorems are about limits, and their assumptions hold here" if rises else "",
    )


def neighbors(results: LeakageResults) -> Finding:
    """Pairs of sets of equal size that differ in one membership: there are none."""
    theory = results.theory
    outcome = Outcome.REFUTED if theory.neighbours_counted == 0 else Outcome.REPRODUCED
    ours = (
        f"{theory.neighbours_counted} such pairs of sets of 3 of 6 records, {theory.replaced_pairs} that "
        "differ in two"
    )
    why = "sets of equal size differ in an even number of memberships; replacing one record changes two"
    return Finding(outcome, ours, "counted", why)


def classical_noise(results: LeakageResults) -> Finding:
    """The exact delta of the classical rule below and above epsilon = 1."""
    theory = results.theory
    below, above = theory.classical_delta_below_one, theory.classical_delta_above_one
    holds = below <= DELTA and above <= DELTA
    ours = f"exact delta {below:.1e} at epsilon 0.5, {above:.1e} at 16, meant to be {DELTA:.0e}"
    why = "the cited theorem requires epsilon below 1, where it holds"
    return Finding(Outcome.REPRODUCED if holds else Outcome.REFUTED, ours, "Gaussian noise, exact", why)

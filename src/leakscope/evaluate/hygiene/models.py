"""Models: with too few of them, figures of a population say little."""

from __future__ import annotations

from leakscope.evaluate.hygiene.outcome import Outcome

NAME = "models"
LEAST_MODELS = 8
"""Each of fewer targets has at most three references per side, and an interval over so few is a guess."""


def check_models(n_models: int, n_targets: int) -> Outcome:
    """Counts the models of a population; one target is judged over its records instead."""
    numbers = {"models": float(n_models), "least": float(LEAST_MODELS)}
    if n_targets == 1:
        return Outcome(NAME, "ok", "One target is audited; its intervals are over records.", numbers)
    reason = too_few_models(n_models)
    if reason:
        return Outcome(NAME, "unreliable", f"{reason}.", numbers)
    return Outcome(NAME, "ok", f"{n_models:,} models are enough for intervals over targets.", numbers)


def too_few_models(n_models: int) -> str | None:
    """Why a population of so many models is unreliable; None where it is not."""
    if n_models >= LEAST_MODELS:
        return None
    return f"The figures of {n_models} models are unreliable: it takes at least {LEAST_MODELS} models"

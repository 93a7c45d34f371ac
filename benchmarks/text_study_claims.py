"""Published claims about fine-tuned language models, and the rules by which the text study settles them.

The rules were written before the models were trained, except for `LORA_BY_STRONGEST`, which was added when
the results were known: EZ-MIA, by which the publication compares, fails at an FPR of 0.1% here.
"""

from __future__ import annotations

from typing import Any

from leakscope.studies.claims import Claim, Outcome, Settled

Results = dict[str, Any]
Difference = list[float]  # value, low, high

LORA = Claim(
    "lora",
    "LoRA leaks far less than full fine-tuning, after as many epochs",
    "TPR of EZ-MIA at 0.1% FPR: 82.6% under full fine-tuning, 1.5% under LoRA, a factor of 55",
    "GPT-2, XSum, 128 tokens; Ilić et al. 2026, as quoted by a summary of the authors' blog",
)
LORA_BY_STRONGEST = Claim(
    "lora_by_strongest", "The same, by the strongest attack here", LORA.published, LORA.protocol
)
LORA_AT_EQUAL_LOSS = Claim(
    "lora_at_equal_loss",
    "LoRA leaks less than full fine-tuning at the same quality",
    "less memorization at a comparable performance on the task",
    "language models of several sizes, similarity of generated text; Wang and Li 2025",
)
MIN_K = Claim(
    "min_k",
    "Min-k%++ is on par with the attack that compares with another model",
    "the best attack without a reference model, on par with the one with a reference model (AUC, MIMIR)",
    "pretraining data, a smaller model of the same family as the reference; Zhang et al. 2025",
)
MIN_K_AMONG_FREE = Claim(
    "min_k_among_free",
    "Min-k%++ is better than loss, zlib and min-k%",
    "6.2 to 10.5 points of AUC above the runner-up on WikiMIA; better on MIMIR as well",
    "pretraining data; Zhang et al. 2025",
)
EZ = Claim(
    "ez",
    "EZ-MIA leads the attacks that train no reference model",
    "TPR at 1% FPR: 66.3% against 17.5% of the best earlier attack, a factor of 3.8",
    "GPT-2, WikiText, full fine-tuning; Ilić et al. 2026",
)
EZ_AGAINST_REFERENCES = Claim(
    "ez_against_references",
    "EZ-MIA detects more than attacks for which reference models are trained",
    "TPR at 0.1% FPR: 14.0% against 1.8% of the best earlier attack, without training a reference model",
    "GPT-2, WikiText, full fine-tuning; Ilić et al. 2026",
)
OF_FREE = ("loss", "zlib", "min_k")
OF_UNTRAINED = (*OF_FREE, "min_k_plus_plus", "base_model")
OTHER_DATA = "the claim is about pretraining data, which is not refuted by fine-tuning"
TPR_1, TPR_01 = 0, 1  # places among the ratios


def settle(results: Results) -> list[Settled]:
    """Every claim with its verdict."""
    if not any(row["population"] == "full" for row in results["populations"]):
        why = "full fine-tuning was not trained"
        claims = (
            LORA,
            LORA_BY_STRONGEST,
            LORA_AT_EQUAL_LOSS,
            MIN_K,
            MIN_K_AMONG_FREE,
            EZ,
            EZ_AGAINST_REFERENCES,
        )
        return [Settled(claim, Outcome.NOT_TESTABLE, why=why) for claim in claims]
    return [
        settle_lora(results, LORA, "ez_mia"),
        settle_lora(results, LORA_BY_STRONGEST, "eb_lira"),
        _lora_at_equal_loss(results),
        _min_k(results),
        _min_k_among_free(results),
        _ez(results),
        _ez_against_references(results),
    ]


def _sign(difference: Difference) -> int:
    """1 or -1 where the interval excludes 0."""
    return 1 if difference[1] > 0 else -1 if difference[2] < 0 else 0


def settle_lora(results: Results, claim: Claim, attack: str) -> Settled:
    """Reproduced if the interval of the factor contains 55; TPR at 0.1%, at the last epoch."""
    last = last_epoch(results)
    row = between(results, "lora-8", attack, f"epoch {last}")
    value, low, high = row["ratios"][TPR_01]
    outcome = _outcome(-_sign(row["tpr_01"]), agrees=low <= 55 <= high)
    ours = (
        f"{percent(row['full'][2])} under full fine-tuning, {percent(row['own'][2])} under LoRA, a factor of "
        f"{value:.2g} ({low:.2g} to {high:.2g})"
    )
    return Settled(claim, outcome, ours, f"{attack}, rank 8, epoch {last}, each with its own learning rate")


def _lora_at_equal_loss(results: Results) -> Settled:
    """By the AUC of EB-LiRA, at the lowest validation loss that both reach."""
    rows = [row for row in results["between_populations"] if row["when"].startswith("both")]
    row = next(row for row in rows if (row["population"], row["attack"]) == ("lora-8", "eb_lira"))
    ours = (
        f"AUC {row['own'][0]:.3f} under LoRA, {row['full'][0]:.3f} under full fine-tuning; difference "
        f"{signed(row['auc'])}"
    )
    protocol = f"rank 8, EB-LiRA, {row['when']}"
    return Settled(LORA_AT_EQUAL_LOSS, _outcome(-_sign(row["auc"])), ours, protocol)


def _min_k(results: Results) -> Settled:
    """Reproduced if the interval of the difference contains 0, in LoRA and in full fine-tuning."""
    rows = {name: pair(results, name, "min_k_plus_plus", "base_model") for name in ("lora-8", "full")}
    signs = {_sign(row["auc"]) for row in rows.values()}
    outcome = Outcome.SAME_DIRECTION if -1 not in signs else Outcome.NOT_REPRODUCED
    outcome = Outcome.REPRODUCED if signs == {0} else outcome
    ours = "; ".join(f"{label(name)}: AUC {signed(row['auc'])}" for name, row in rows.items())
    return Settled(MIN_K, outcome, f"Min-k%++ minus base_model: {ours}", lowest_loss(), OTHER_DATA)


def _min_k_among_free(results: Results) -> Settled:
    """Same direction if it is above all three in both populations, by more than noise."""
    parts, signs = [], set()
    for name in ("lora-8", "full"):
        rows = [pair(results, name, "min_k_plus_plus", other) for other in OF_FREE]
        nearest = min(rows, key=lambda row: float(row["auc"][0]))
        signs |= {_sign(row["auc"]) for row in rows}
        parts.append(f"{label(name)}: {signed(nearest['auc'])} ({nearest['second']})")
    outcome = Outcome.SAME_DIRECTION if signs == {1} else Outcome.NOT_REPRODUCED
    ours = f"AUC minus that of the best of the three: {'; '.join(parts)}"
    return Settled(MIN_K_AMONG_FREE, outcome, ours, lowest_loss(), OTHER_DATA)


def _ez(results: Results) -> Settled:
    """Decided by full fine-tuning at the last epoch, the nearest to the published protocol.

    Reproduced if the interval of the factor contains 3.8. The best rival is chosen by its TPR.
    """
    last, parts, outcome = last_epoch(results), [], Outcome.NOT_REPRODUCED
    for name in ("full", "lora-8"):
        for epoch in sorted({best_epoch(results, name), last}):
            rows = [pair(results, name, "ez_mia", other, epoch) for other in OF_UNTRAINED]
            row = min(rows, key=lambda row: float(row["tpr_1"][0]))
            value, low, high = row["ratios"][TPR_1]
            parts.append(
                f"{label(name)}, epoch {epoch}: a factor of {value:.2f} ({low:.2f} to {high:.2f}) "
                f"over {row['second']}"
            )
            if (name, epoch) == ("full", last):
                outcome = _outcome(_sign(row["tpr_1"]), agrees=low <= 3.8 <= high)
    why = f"decided by full fine-tuning at epoch {last}"
    return Settled(EZ, outcome, "; ".join(parts), "TPR at 1% FPR, five other attacks without training", why)


def _ez_against_references(results: Results) -> Settled:
    """Decided by full fine-tuning at the last epoch, against EB-LiRA with all other models as references."""
    last, parts, outcome = last_epoch(results), [], Outcome.NOT_REPRODUCED
    for name in ("full", "lora-8"):
        row = pair(results, name, "ez_mia", "eb_lira", last)
        parts.append(f"{label(name)}: {signed(row['tpr_01'], 100)} points")
        if name == "full":
            outcome = _outcome(_sign(row["tpr_01"]))
    n_references = results["shared_models"] - 1
    protocol = f"TPR at 0.1% FPR, EZ-MIA minus EB-LiRA with {n_references} references, epoch {last}"
    return Settled(EZ_AGAINST_REFERENCES, outcome, "; ".join(parts), protocol)


def _outcome(sign: int, agrees: bool = False) -> Outcome:
    """Of a claim that a figure is above another one."""
    if sign == 1 and agrees:
        return Outcome.REPRODUCED
    return {1: Outcome.SAME_DIRECTION, 0: Outcome.NOT_REPRODUCED, -1: Outcome.REFUTED}[sign]


def lowest_loss() -> str:
    """How epochs are chosen where nothing else is said."""
    return "each population at the epoch with its lowest validation loss"


def last_epoch(results: Results) -> int:
    """Of all populations."""
    return max(int(row["epoch"]) for row in results["populations"])


def best_epoch(results: Results, name: str) -> int:
    """The epoch with the lowest validation loss."""
    rows = [row for row in results["populations"] if row["population"] == name]
    return int(min(rows, key=lambda row: float(row["validation_loss"]))["epoch"])


def pair(results: Results, name: str, first: str, second: str, epoch: int | None = None) -> Results:
    """Two attacks on a population, at an epoch or where it generalizes best."""
    at = best_epoch(results, name) if epoch is None else epoch
    wanted = {"population": name, "epoch": at, "first": first, "second": second}
    return next(row for row in results["between_attacks"] if wanted.items() <= row.items())


def between(results: Results, name: str, attack: str, when: str) -> Results:
    """A population and full fine-tuning."""
    wanted = {"population": name, "attack": attack, "when": when}
    return next(row for row in results["between_populations"] if wanted.items() <= row.items())


def label(name: str) -> str:
    """Of a population."""
    kind, _, number = name.partition("-")
    return {"lora": f"LoRA, rank {number}", "dp": f"DP-LoRA, epsilon {number}", "full": "full fine-tuning"}[
        kind
    ]


def percent(value: float) -> str:
    """With two digits."""
    return f"{100 * value:.2g}%" if value < 0.995 else f"{100 * value:.0f}%"


def signed(difference: Difference, unit: float = 1.0) -> str:
    """A difference with its interval."""
    value, low, high = (unit * v for v in difference)
    digits = 3 if unit == 1 else 1
    return f"{value:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"

"""The findings of the text study in sentences, with the figures of its results."""

from __future__ import annotations

from text_study_claims import (
    AS_GOOD,
    OF_UNTRAINED,
    Results,
    as_good,
    best_epoch,
    between,
    last_epoch,
    leaks_more,
    percent,
    signed,
)


def row_at(results: Results, name: str, epoch: int) -> Results:
    """A population after an epoch."""
    wanted = {"population": name, "epoch": epoch}
    return next(row for row in results["populations"] if wanted.items() <= row.items())


def findings(results: Results) -> list[str]:
    """One paragraph each."""
    names = {row["population"] for row in results["populations"]}
    parts = [_references(results)]
    if "full" in names:
        parts += [_full(results), _error_zone(results)]
    if {"lora-1", "lora-64"} <= names:
        parts.append(_ranks(results))
    if "dp-8" in names:
        parts.append(_private(results))
    return parts


def _references(results: Results) -> str:
    epoch = best_epoch(results, "lora-8")
    rows = [row for row in results["references"] if row["epoch"] == epoch]
    known = {(row["attack"], row["references"]): row for row in rows}
    alone = max((known[name, 0] for name in (*OF_UNTRAINED, "ez_mia")), key=lambda row: float(row["auc"][0]))
    sizes = sorted(size for name, size in known if name == "eb_lira")
    curve = ", ".join(f"{known['eb_lira', size]['auc'][0]:.3f} with {size}" for size in sizes[1:])
    most, one = known["eb_lira", sizes[-1]], {name: known[name, 1]["auc"][0] for name in ("lira", "eb_lira")}
    return f"""**Reference models decide what is seen.** At the lowest validation loss of LoRA (rank 8, epoch
    {epoch}), the best attack without trained references, `{alone["attack"]}`, has an AUC of
    {alone["auc"][0]:.3f} and a TPR of {percent(alone["tpr_01"][0])} at 0.1% FPR. EB-LiRA has an AUC
    of {curve} references, and a TPR of {percent(most["tpr_01"][0])} with {sizes[-1]}. With a single
    reference, LiRA is better ({one["lira"]:.3f}, EB-LiRA {one["eb_lira"]:.3f}); EB-LiRA with one and
    two references was measured before it [learned from the target's outputs as
    well](eb_lira.md#one-or-two-references). A model that is stopped where it generalizes best still
    reveals most of its members to an attacker who can train others like it."""


def _full(results: Results) -> str:
    last = last_epoch(results)
    first, end = (between(results, "lora-8", "eb_lira", f"epoch {epoch}") for epoch in (1, last))
    equal, (own, full) = between(results, "lora-8", "eb_lira", AS_GOOD), as_good(results, "lora-8")
    verdict = {1: "it leaks more", 0: "it does not", -1: "as well"}[leaks_more(equal)]
    return f"""**After as many epochs, LoRA leaks less than full fine-tuning; at the same quality,
    {verdict}.** By EB-LiRA, the TPR at 0.1% FPR is {percent(first["own"][2])} under LoRA (rank 8) and
    {percent(first["full"][2])} under full fine-tuning after one epoch, {percent(end["own"][2])} and
    {percent(end["full"][2])} after {last}. But full fine-tuning learns faster. LoRA at its lowest validation
    loss, {own["validation_loss"]:.3f} (epoch {own["epoch"]}), has an AUC of {equal["own"][0]:.4f}. Full
    fine-tuning after epoch {full["epoch"]} has a lower validation loss, {full["validation_loss"]:.3f}, and an
    AUC of {equal["full"][0]:.4f}. The difference is {signed(equal["auc"], digits=4)}, and
    {signed(equal["tpr_01"], 100)} points in TPR at 0.1% FPR."""


def _error_zone(results: Results) -> str:
    last = last_epoch(results)
    end, best = row_at(results, "full", last), row_at(results, "full", best_epoch(results, "full"))
    ez, ez_best = end["attacks"]["ez_mia"], best["attacks"]["ez_mia"]
    members, others = end["highest_of_ez"]
    return f"""**EZ-MIA is the best attack without trained references, except at very low false positive
    rates and on models that overfit heavily.** On full fine-tuning, its TPR at 1% FPR is
    {percent(ez_best["tpr_1"][0])} after epoch {best["epoch"]} and {percent(ez["tpr_1"][0])} after
    epoch {last}; at 0.1% FPR it is {percent(ez_best["tpr_01"][0])} and {percent(ez["tpr_01"][0])}.
    A document has the highest score where none of the tokens that the model gets wrong became less
    likely. After epoch {last}, that holds for {percent(members)} of the members and
    {percent(others)} of the non-members. They cannot be ordered, so there is no threshold with an
    FPR of 0.1%."""


def _ranks(results: Results) -> str:
    parts = []
    for name, rank in (("lora-1", 1), ("lora-8", 8), ("lora-64", 64)):
        rows = [row_at(results, name, epoch) for epoch in (1, last_epoch(results))]
        aucs = " and ".join(f"{row['attacks']['eb_lira']['auc'][0]:.3f}" for row in rows)
        lowest = row_at(results, name, best_epoch(results, name))
        parts.append(f"rank {rank}: {aucs} (lowest validation loss {lowest['validation_loss']:.3f})")
    return f"""**Higher ranks leak more, and learn more.** AUC of EB-LiRA after one epoch and after
    {last_epoch(results)}: {"; ".join(parts)}."""


def _private(results: Results) -> str:
    base, plain = results["base"]["private_loss"], row_at(results, "lora-8", best_epoch(results, "lora-8"))
    parts = []
    for name, epsilon in (("dp-8", 8), ("dp-1", 1)):
        rows = [row for row in results["populations"] if row["population"] == name]
        if rows:
            end, lowest = rows[-1], min(float(row["validation_loss"]) for row in rows)
            own, kept = end["attacks"]["eb_lira"], (base - lowest) / (base - plain["validation_loss"])
            parts.append(
                f"At epsilon {epsilon}, the AUC of EB-LiRA is {own['auc'][0]:.3f} and the TPR at 0.1% FPR "
                f"{percent(own['tpr_01'][0])} at the end, and {percent(max(kept, 0.0))} of the gain in "
                "validation loss remains at its best epoch."
            )
    return f"**DP-LoRA protects, and costs most of what LoRA learns here.** {' '.join(parts)}"

"""A recipe in a few words, for the report and for the screen before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakscope.report.phrases import counted


def recipe_text(recipe: Mapping[str, Any]) -> str:
    """The settings a person looks for first."""
    if "saved" in recipe:
        return f"saved {recipe['saved']}"
    if "references" in recipe:  # how a given model was trained is unknown
        return recipe_text(recipe["references"])
    if "lora" in recipe:
        what = "all weights of the base" if recipe["full"] else f"LoRA of rank {recipe['lora']['rank']}"
    elif "net" not in recipe:
        return str(recipe.get("estimator") or recipe.get("train") or "a training function")
    else:
        options = "".join(f" {name} {value}" for name, value in recipe["net_options"].items())
        what = f"{recipe['net']}{options}"
    return (
        f"{what}, {recipe['optimizer']} with learning rate {recipe['lr']:g}, "
        f"{counted(recipe['epochs'], 'epoch')}, batch size {recipe['batch_size']}{_stages_text(recipe)}"
    )


def _stages_text(recipe: Mapping[str, Any]) -> str:
    """What early stages of the training are for; empty: there are none."""
    treatment, distillation = recipe.get("treatment"), recipe.get("distillation")
    if treatment:
        share = f"{100 * treatment['share']:g}% of each model's members"
        who = {
            "early": f"the {share} that were most exposed early in training",
            "random": f"{share}, drawn at random,",
            "listed": "the listed records",
        }[treatment["choice"]]
        what = {
            "leave_out": "left out of",
            "down_weight": f"given weight {treatment['weight']:g} in",
            "clip_more": f"clipped to {treatment['weight']:g} times the norm of the others in",
        }[treatment["how"]]
        return f"; {who} were {what} the training, and still count as members"
    if distillation:
        return (
            f"; trained on labels predicted by {distillation['models']} sub-models, of which "
            f"{distillation['left_out']} were not trained on the member (SELENA)"
        )
    return ""

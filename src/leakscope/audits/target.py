"""An audit of one given, trained network: a population of its recipe judges it.

The references are trained on random halves of the same records and kept in `references/` of the run
folder; the target's own answers come from its weights. It is then judged like saved predictions with
shadow predictions: as row 0 of a bank whose other rows are the references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from leakscope.array_types import BoolArray
from leakscope.audits.population import DEFAULT_FPR_BUDGETS, KIND
from leakscope.audits.predictions import audit_predictions
from leakscope.bank.object_store import working_copy
from leakscope.bank.run_folder import locked_run_folder
from leakscope.data.predictions import Predictions
from leakscope.design import make_design
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.errors import InputError
from leakscope.evaluate.gate import Gate
from leakscope.evaluate.verdict import Verdict
from leakscope.recipe import Recipe
from leakscope.types import Records


def audit_target(
    records: Records,
    recipe: Recipe,
    weights: Path | str,
    is_member: BoolArray,
    out: Path | str = "runs/target",
    models: int = 64,
    seed: int = 0,
    attacks: Sequence[str] | None = None,
    fpr_budgets: Sequence[float] = DEFAULT_FPR_BUDGETS,
    gate: Gate | None = None,
    device: str = "auto",
    progress: Callable[[float], None] = lambda _: None,
    disclosure: Disclosure = DEFAULT_DISCLOSURE,
    engine: str = "local",
    address: str | None = None,
) -> Verdict:
    """Measures what a given network gives away about its members.

    Args:
        records: members and others, as the network expects them.
        recipe: the network, and how the references are trained; as the target was, ideally.
        weights: the target's, as safetensors or a state dict saved by torch (read without unpickling).
        is_member: bool (records,), whom the target was trained on.
        out: run folder, or an address like s3://bucket/run; an interrupted run in it goes on.
        models: number of references; even.
        seed: all randomness derives from it.
        attacks: names of attacks; by default all that references allow.
        fpr_budgets: false positive rates at which the true positive rate is reported.
        gate: limits; `Verdict.gate_failed` says whether one was broken.
        device: "auto", "cpu" or "cuda".
        progress: called with models' worth of training done.
        disclosure: what report.html may tell about single records.
        engine: who trains the references: "local" (this machine) or "ray" (a cluster).
        address: of the Ray cluster: "auto" (the default) or "HOST:PORT".
    """
    from leakscope.engine.local import complete_bank
    from leakscope.engine.registry import engine_named
    from leakscope.models.weights import load_net, predict_logits

    if not records.is_classification:
        raise InputError("a given target must be a classifier; audit a regression by its population")
    net = load_net(
        weights, recipe.net, dict(recipe.net_options), records.features.shape[1:], records.n_classes
    )
    logits = predict_logits(net, records.features)
    design = make_design("balanced", models, len(records), seed)
    trainer = engine_named(engine, address)
    with working_copy(out) as folder, locked_run_folder(folder, KIND, {}):
        references = complete_bank(
            folder / "references", records, design, recipe, seed, ("logits",), device, progress, trainer
        )
        answers = Predictions(
            logits=logits,
            labels=records.labels,
            ids=records.ids,
            is_member=is_member,
            groups=records.groups,
            name=records.name,
            shadow_logits=np.array(references.signals().last("logits")),
            shadow_in_mask=design.in_mask,
        )
        return audit_predictions(
            answers, folder, attacks, fpr_budgets, gate, disclosure, records, source="given model"
        )


def read_members(path: Path, records: Records) -> BoolArray:
    """Who is a member: a text or csv file with one id a line (a heading `id` is passed over).

    Raises:
        InputError: the file is not there, or an id is not among the records.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"target.members={str(path)!r} cannot be read ({error}); give one id a line"
        ) from error
    listed = [line.split(",")[0].strip().strip('"') for line in lines if line.strip()]
    listed = listed[1:] if listed and listed[0].lower() in ("id", "ids") else listed
    unknown = sorted(set(listed) - set(records.ids.tolist()))
    if unknown:
        raise InputError(
            f"target.members={str(path)!r}: {len(unknown)} ids are not among the records "
            f"(first: {unknown[0]!r}; a record's id looks like {records.ids[0]!r})"
        )
    is_member: BoolArray = np.isin(records.ids, listed)
    return is_member

"""`checkpoints=all` where there is one checkpoint would be `eb_lira` under another name: it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from leakscope.advice.advise import advise
from leakscope.attacks import EbLira
from leakscope.audits.finished import FinishedRun
from leakscope.audits.given import GivenTarget
from leakscope.audits.predictions import SavedPredictions
from leakscope.audits.run import audit
from leakscope.data.predictions import Predictions
from leakscope.design import make_design
from leakscope.errors import InputError
from leakscope.models.given import FittedEstimator
from leakscope.recipe import EstimatorRecipe, Recipe
from leakscope.studies.defences.config import Subject
from leakscope.studies.defences.study import comparison_of
from leakscope.types import Signals
from tests.cli.command import run_command
from tests.engine.small_population import RECIPE, noise

ALL = "eb_lira(checkpoints=all)"
NEIGHBOURS = EstimatorRecipe(KNeighborsClassifier(3), processes=1)


def given(recipe: Any) -> GivenTarget:
    """A nearest neighbour, and how its references are trained."""
    records = noise()
    is_member = np.arange(len(records)) % 2 == 0
    fitted = KNeighborsClassifier(3).fit(records.features[is_member], records.labels[is_member])
    return GivenTarget(records, FittedEstimator(fitted), is_member, recipe)


def saved(n_references: int = 4) -> Predictions:
    records, rng = noise(), np.random.default_rng(0)
    in_mask = make_design("bernoulli", 1 + n_references, len(records), 0).in_mask
    logits = rng.normal(size=(1 + n_references, len(records), 3)).astype(np.float32)
    return Predictions(
        logits[0],
        records.labels,
        records.ids,
        in_mask[0],
        reference_logits=logits[1:],
        reference_in_mask=in_mask[1:],
    )


def test_the_attack_itself_refuses_one_checkpoint_and_takes_two() -> None:
    design, rng = make_design("balanced", 8, 60, 1), np.random.default_rng(0)
    values, labels = rng.normal(size=(8, 2, 60)), np.zeros(60, dtype=np.int64)
    one = Signals({"log_odds": values[:, 1:]}, (2,), labels)
    with pytest.raises(
        InputError, match=r"checkpoints=all would do nothing: this bank has one.*leave the op"
    ):
        EbLira(checkpoints="all")(one, design)
    EbLira(checkpoints="all")(Signals({"log_odds": values}, (1, 2), labels), design)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (given(NEIGHBOURS), "a given model has one checkpoint"),
        (SavedPredictions(saved()), "saved predictions have one checkpoint"),
    ],
)
def test_sources_with_one_checkpoint_say_so_before_anything_is_trained(
    tmp_path: Path, source: Any, message: str
) -> None:
    models = {"models": 4} if isinstance(source, GivenTarget) else {}
    with pytest.raises(InputError, match=f"checkpoints=all would do nothing: {message}"):
        audit(source, out=tmp_path / "run", attacks=["lira", ALL], **models)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            replace(RECIPE, checkpoints=()),
            "one checkpoint, epoch 4 of 4; name several by training.checkpoints",
        ),
        (replace(RECIPE, checkpoints=(2,)), "one checkpoint, epoch 2 of 4"),
        (NEIGHBOURS, "only networks have several checkpoints"),
    ],
)
def test_so_do_populations_with_one(tmp_path: Path, recipe: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"checkpoints=all would do nothing: .*{message}"):
        audit(noise(), recipe, tmp_path / "run", models=4, attacks=[ALL])
    assert not (tmp_path / "run").exists()


def test_a_population_with_two_checkpoints_is_attacked_with_both(tmp_path: Path) -> None:
    verdict = audit(noise(), RECIPE, tmp_path / "run", models=8, device="cpu", attacks=["eb_lira", ALL])
    assert set(verdict.results.attacks) == {"eb_lira", ALL}


def test_a_finished_run_with_one_checkpoint_is_not_judged_by_several(tmp_path: Path) -> None:
    audit(SavedPredictions(saved()), out=tmp_path / "saved", attacks=["lira"])
    audit(noise(), NEIGHBOURS, tmp_path / "trained", models=8, attacks=["lira"])
    for name, remedy in (("saved", "audit a population"), ("trained", "train again in another folder")):
        folder = tmp_path / name
        with pytest.raises(InputError, match=f"{name} stores one checkpoint; {remedy}"):
            audit(FinishedRun(folder), out=folder, attacks=[ALL])
        done = run_command("judge", folder, "--attacks", ALL)
        assert done.exit_code == 2 and "stores one checkpoint" in done.err


@pytest.mark.parametrize("checkpoints", [(2, 4), (2,)])
def test_references_of_a_given_model_are_read_at_the_end_of_training(
    tmp_path: Path, checkpoints: tuple[int, ...]
) -> None:
    """The last of (2,) is not the end: references would be half trained, and the target is not."""
    source = given(replace(RECIPE, checkpoints=checkpoints))
    with pytest.raises(
        InputError, match=r"training.checkpoints=\[2.*would do nothing.*end of their training"
    ):
        audit(source, out=tmp_path / "run", models=4)
    assert not (tmp_path / "run").exists()
    audit(given(replace(RECIPE, checkpoints=(4,))), out=tmp_path / "run", models=4, device="cpu")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "set training.checkpoints" not in page


def test_defences_that_leave_one_checkpoint_are_found_before_training(tmp_path: Path) -> None:
    """Early stopping keeps the checkpoints that it reaches."""
    records, recipe = noise(), Recipe(epochs=8, checkpoints=(4, 8), net_options=(("width", 4),))
    with pytest.raises(InputError, match="checkpoints=all would do nothing"):
        comparison_of(Subject(records, recipe), ["early_stopping(share=0.5)"], models=8, attacks=(ALL,))
    with pytest.raises(InputError, match="checkpoints=all would do nothing"):
        advise(records, recipe, tmp_path / "run", attacks=[ALL])

"""Audits of models whose queries return less than their outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import leakscope
from leakscope.attacks.registry import attack_classes
from leakscope.audits.config import read_config
from leakscope.bank.bank import Bank
from leakscope.engine.worker import Worker
from leakscope.errors import BankMismatchError, InputError
from leakscope.recipe import AnyRecipe, EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.runs.verification import verify_run
from leakscope.signals.output_filter import OutputFilter
from leakscope.signals.registry import CLASSIFICATION
from leakscope.train.queries import RANDOM_INPUTS, Drawn, random_inputs, returned
from leakscope.types import Records
from tests.engine import small_population
from tests.engine.small_population import RECIPE, noise, records, regression_records

LABEL_ONLY = OutputFilter(top_1=True)
FILTERS = [
    LABEL_ONLY,
    OutputFilter(digits=1),
    OutputFilter(temperature=8.0, digits=2),
    OutputFilter(random_values=True),
]


def small_audit(out: Path, outputs: OutputFilter, **changes: Any) -> leakscope.Verdict:
    given: dict[str, Any] = {"models": 8, "device": "cpu", **changes}
    source, recipe = given.pop("records", records()), given.pop("recipe", RECIPE)
    return leakscope.audit(source, recipe, out=out, outputs=outputs, **given)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", FILTERS, ids=str)
def test_every_attack_survives_answers_with_many_ties(tmp_path: Path, outputs: OutputFilter) -> None:
    attacks = [name for name, attack in attack_classes().items() if attack().reads(CLASSIFICATION)]
    verdict = small_audit(tmp_path, outputs, attacks=attacks)
    assert set(verdict.results.attacks) == set(attacks)
    for figures in verdict.results.attacks.values():
        assert 0 <= figures.auc.low <= figures.auc.value <= figures.auc.high <= 1
        assert np.isfinite(figures.advantage.value)
    assert str(outputs) in (tmp_path / "report.html").read_text()
    assert verify_run(tmp_path).problems == []


def test_a_label_shows_no_more_than_whether_it_is_right(tmp_path: Path) -> None:
    """A model that knows its members by heart: the best attack on labels is "the label is right"."""
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    verdict = small_audit(
        tmp_path,
        LABEL_ONLY,
        records=noise(),
        recipe=recipe,
        models=16,
        attacks=["correctness", "loss", "lira"],
    )
    correctness, loss = (verdict.results.attacks[name].auc.value for name in ("correctness", "loss"))
    assert loss == pytest.approx(correctness)
    odds = np.load(tmp_path / "signals" / "log_odds.npy")
    assert len(np.unique(odds)) == 2


def test_outputs_belong_to_the_identity_of_a_bank(tmp_path: Path) -> None:
    small_audit(tmp_path, LABEL_ONLY)
    with pytest.raises(BankMismatchError):
        small_audit(tmp_path, OutputFilter(digits=2))
    with pytest.raises(BankMismatchError):
        small_audit(tmp_path, OutputFilter())
    assert Bank.open(tmp_path).identity.recipe["outputs"]["top_1"] is True  # type: ignore[index]


def predict_by_neighbour(given: Records, members: Any, seed: int) -> Any:
    return KNeighborsClassifier(3).fit(given.features[members], given.labels[members]).predict_proba


@pytest.mark.parametrize(
    "recipe",
    [RECIPE, EstimatorRecipe(KNeighborsClassifier(3)), FunctionRecipe(predict_by_neighbour)],
    ids=["network", "estimator", "function"],
)
def test_random_values_depend_on_a_record_only_by_the_order_of_classes(recipe: AnyRecipe) -> None:
    """The values of any answer are those of one of the random inputs."""

    def logits(outputs: OutputFilter) -> Any:
        request = small_population.request.TrainingRequest(
            records(), small_population.design(), recipe, 5, ("logits",), "cpu", outputs=outputs
        )
        return Worker(request, "cpu").train(np.arange(3)).signals["logits"][:, -1]

    plain, shown = logits(OutputFilter()), logits(OutputFilter(random_values=True))
    own = plain.argsort(axis=-1, kind="stable")
    assert np.array_equal(np.take_along_axis(shown, own, -1), np.sort(shown, axis=-1))
    assert not np.allclose(np.sort(shown, -1), np.sort(plain, -1))
    assert np.array_equal(logits(OutputFilter(random_values=True)), shown)


def test_outputs_that_cannot_be_written_to_are_filtered() -> None:
    """A user's function may return an array that belongs to somebody else."""
    logits = np.zeros((4, 3), dtype=np.float32)
    logits.setflags(write=False)
    assert returned(logits, logits, OutputFilter(), Drawn(0, 0, len(logits))) is logits
    for outputs in FILTERS:
        found = returned(logits, np.zeros((RANDOM_INPUTS, 3), np.float32), outputs, Drawn(0, 0, len(logits)))
        assert np.isfinite(found).all() and found.dtype == np.float32
    assert (logits == 0).all()


def test_random_inputs_lie_within_the_range_of_each_feature() -> None:
    flat = random_inputs(records().features, 0)
    assert flat.shape == (RANDOM_INPUTS, 4)
    assert (flat >= records().features.min(axis=0)).all() and (flat <= records().features.max(axis=0)).all()
    images = np.random.default_rng(0).integers(10, 200, (30, 2, 4, 4)).astype(np.uint8)
    drawn = random_inputs(images, 0)
    assert drawn.dtype == np.uint8 and drawn.shape == (RANDOM_INPUTS, 2, 4, 4)
    assert drawn.min() >= images.min() and drawn.max() <= images.max() and drawn.std() > 30


def test_blocks_of_another_size_give_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, found = OutputFilter(random_values=True, digits=2), []
    for size in (8, 3):
        small_population.use_blocks_of(monkeypatch, size)
        bank = small_population.complete(tmp_path / str(size), outputs=outputs)
        found.append(np.array(bank.signals().arrays["log_odds"]))
    close = np.isclose(*found, atol=1e-4)  # an output may be rounded up in one block and down in another
    assert close.mean() > 0.99


@pytest.mark.parametrize("outputs", [LABEL_ONLY, OutputFilter(random_values=True)], ids=str)
def test_a_given_model_is_queried_through_the_same_filter(tmp_path: Path, outputs: OutputFilter) -> None:
    given = noise()
    is_member = np.random.default_rng(1).permutation(len(given)) < len(given) // 2
    fitted = KNeighborsClassifier(1).fit(given.features[is_member], given.labels[is_member])
    recipe = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
    source = leakscope.GivenTarget(given, leakscope.FittedEstimator(fitted), is_member, recipe, outputs)
    verdict = leakscope.audit(source, out=tmp_path, models=8, device="cpu")
    odds = np.load(tmp_path / "signals" / "log_odds.npy")
    if outputs == LABEL_ONLY:
        np.testing.assert_array_equal(np.unique(odds[0]), np.unique(odds[1:]))
    assert verdict.results.config.source.facts["outputs"] == str(outputs)


def test_a_config_names_the_outputs(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.write_text('[data]\ndataset = "digits"\n[outputs]\ntemperature = 2\ndigits = 2\n')
    assert read_config(path).outputs == OutputFilter(2.0, digits=2)
    source = read_config(path).source(None)
    assert isinstance(source, leakscope.TrainedPopulation)
    assert source.outputs == OutputFilter(2.0, digits=2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[data]\ndataset = "digits"\n[outputs]\ndigits = 9\n', r"digits=9: must be in 1\.\.6"),
        (
            '[data]\ndataset = "digits"\n[outputs]\ndigit = 2\n',
            "outputs.digit is not .*digits",
        ),
        ('[predictions]\nfile = "p.npz"\n[outputs]\ndigits = 2\n', "outputs would do nothing"),
    ],
)
def test_outputs_that_cannot_be_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "audit.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_config(path)


def test_outputs_of_a_regression_or_of_another_source_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="outputs are filtered only for classifiers"):
        small_audit(tmp_path, LABEL_ONLY, records=regression_records())
    with pytest.raises(InputError, match="outputs would do nothing"):
        leakscope.audit(leakscope.TrainedPopulation(records(), RECIPE), outputs=LABEL_ONLY)
    with pytest.raises(InputError, match="OutputFilter"):
        leakscope.audit(records(), RECIPE, outputs="top_1")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("setting", ["label_smoothing", "label_entropy", "relax_loss"])
def test_losses_of_classifiers_are_refused_for_numbers(tmp_path: Path, setting: str) -> None:
    recipe = Recipe(**{setting: 0.5})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"{setting} would do nothing: these labels are numbers"):
        leakscope.audit(regression_records(), recipe, out=tmp_path / "run")

"""Audits of models trained with DP-SGD: the guarantee is stated, stored and held against the attacks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import leakscope
from leakscope.evaluate.sentences import privacy_sentences
from leakscope.evaluate.verdict import Verdict
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Recipe
from leakscope.runs.kinds import schema
from tests.cli.command import run_command
from tests.train.problems import class_records

RECIPE = Recipe(net_options=(("width", 4),), epochs=2, batch_size=10, privacy=Privacy(noise_multiplier=2.0))


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    folder = tmp_path_factory.mktemp("private") / "run"
    return leakscope.audit(class_records(n=60), RECIPE, out=folder, models=4, attacks=("loss",), device="cpu")


def test_the_guarantee_is_typed_stored_and_said(verdict: Verdict) -> None:
    spent = verdict.results.population.privacy
    assert spent is not None
    assert (spent.noise_multiplier, spent.sampling_rate, spent.steps) == (2.0, 10 / 30, 6)
    assert 0 < spent.epsilon < 10
    assert spent.accountant.startswith("dp-accounting ")
    stored = json.loads((verdict.folder / "results.json").read_text())
    assert stored["population"]["privacy"]["epsilon"] == spent.epsilon
    (sentence,) = privacy_sentences(verdict.results)
    assert f"trained with DP-SGD: epsilon = {spent.epsilon:.3g} at delta = 1e-05 for each record" in sentence
    assert sentence in str(verdict)
    report = (verdict.folder / "report.md").read_text()
    assert f"DP-SGD, epsilon {spent.epsilon:.3g} at delta 1e-05 for each record" in report
    assert run_command("verify", verdict.folder).exit_code == 0


def test_attacks_that_contradict_the_guarantee_are_loud(verdict: Verdict) -> None:
    results = verdict.results
    bound = replace(results.attacks["loss"].epsilon.general, value=99.0, reason=None)
    figures = replace(
        results.attacks["loss"], epsilon=replace(results.attacks["loss"].epsilon, general=bound)
    )
    _, warning = privacy_sentences(replace(results, attacks={"loss": figures}))
    assert "the attacks contradict this guarantee, with a lower bound of 99 on epsilon" in warning


def test_the_schema_describes_it() -> None:
    assert "sampling_rate" in json.dumps(schema("audit"))


def test_other_audits_say_nothing_of_it(tmp_path: Path) -> None:
    plain = leakscope.audit(
        class_records(n=60), replace(RECIPE, privacy=None), out=tmp_path, models=4, attacks=("loss",),
        device="cpu",
    )  # fmt: skip
    assert plain.results.population.privacy is None
    assert "DP-SGD" not in str(plain)


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        (replace(RECIPE, net_options=(("norm", "batch"),)), 'set norm = "group"'),
        (replace(RECIPE, privacy=Privacy(noise_multiplier=1.0, delta=0.05)), "must be below 1 / 30"),
    ],
)
def test_what_cannot_be_guaranteed_is_refused_before_anything_is_written(
    tmp_path: Path, recipe: Recipe, problem: str
) -> None:
    with pytest.raises(leakscope.errors.InputError, match=problem):
        leakscope.audit(class_records(n=60), recipe, out=tmp_path / "run", models=4, device="cpu")
    assert not (tmp_path / "run").exists()

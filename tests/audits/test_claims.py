"""[claim] in audits of every source: the verdict, exit codes, reports, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import leakscope
from leakscope.audits.config import parse_config
from leakscope.audits.finished import FinishedRun
from leakscope.audits.merged import merge_runs
from leakscope.audits.planning.plan import plan_audit
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.settings import AuditSettings
from leakscope.data.predictions import Predictions
from leakscope.disclosure import Disclosure
from leakscope.errors import ExitCode, InputError
from leakscope.evaluate.verdict import Verdict
from leakscope.privacy.claim import Claim
from leakscope.recipe import EstimatorRecipe, FunctionRecipe, Recipe
from leakscope.runs.verification import verify_run
from leakscope.types import Records
from tests.engine.small_population import noise
from tests.quick_audits import short_trials

KNOWS_ITS_MEMBERS = EstimatorRecipe(KNeighborsClassifier(1), processes=1)
WRONG = Claim(1.0)


def knows_nothing(records: Records, indices: Any, seed: int) -> Any:
    """A training function that ignores its records."""
    return lambda features: np.random.default_rng(0).random((len(features), 2)) + 0.1


def claimed(out: Path, **changes: Any) -> Verdict:
    given: dict[str, Any] = {"recipe": KNOWS_ITS_MEMBERS, "models": 16, "claim": WRONG, **changes}
    return leakscope.audit(given.pop("records", noise(40)), given.pop("recipe"), out=out, **given)


@pytest.fixture(scope="module")
def refuted(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    return claimed(tmp_path_factory.mktemp("claims") / "refuted")


def test_a_wrong_claim_ends_with_a_refutation(refuted: Verdict) -> None:
    assert refuted.claim is not None
    assert refuted.claim.status == "refuted"
    assert refuted.exit_code == ExitCode.GATE_FAILED
    assert any("is refuted with 95% confidence" in line for line in refuted.summary())
    stored = json.loads((refuted.folder / "results.json").read_text())
    assert stored["claim"]["verdict"]["status"] == "refuted"
    assert stored["config"]["claim"]["epsilon"] == 1.0
    assert verify_run(refuted.folder).problems == []


def test_the_report_has_the_claim(refuted: Verdict) -> None:
    text = (refuted.folder / "report.md").read_text()
    assert "**Claim refuted**" in text
    assert "one record, many models" in text
    assert "Independent fair coins decided" in text
    assert "Gate failed" not in text


def test_the_redacted_report_has_no_single_record(tmp_path: Path) -> None:
    verdict = claimed(tmp_path / "run", disclosure=Disclosure(redacted=True))
    page = (verdict.folder / "report-redacted.html").read_text()
    assert "Claim refuted" in page
    assert "many records, many models" in page
    assert "one record, many models" not in page


def test_a_training_that_ignores_its_records_is_never_refuted(tmp_path: Path) -> None:
    verdict = claimed(tmp_path / "run", recipe=FunctionRecipe(knows_nothing))
    assert verdict.claim is not None
    assert verdict.claim.status == "consistent"
    assert verdict.exit_code == ExitCode.SUCCESS
    assert any("cannot confirm one" in line for line in verdict.summary())


def test_few_models_are_inconclusive(tmp_path: Path) -> None:
    verdict = claimed(tmp_path / "run", models=4)
    assert verdict.claim is not None
    assert verdict.claim.status == "not testable"
    assert verdict.exit_code == ExitCode.INCONCLUSIVE
    assert any("it takes at least" in line for line in verdict.summary())


@pytest.mark.slow
def test_another_budget_than_the_claimed_one_is_named(tmp_path: Path) -> None:
    recipe = Recipe(net="linear", epochs=1, batch_size=20, privacy=leakscope.Privacy(epsilon=2.0, delta=1e-3))
    verdict = claimed(tmp_path / "a", recipe=recipe, models=8, claim=Claim(1.0, delta=0.1))
    summary = " ".join(verdict.summary())
    assert "The claim is of epsilon = 1, and the training spends 2" in summary
    assert "A delta of 0.1 is not below one over the" in summary
    plain = claimed(tmp_path / "b", recipe=Recipe(net="linear", epochs=1), models=8)
    assert "trained without differential privacy" in " ".join(plain.summary())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"design": "balanced"}, "no independent coins"),
        ({"design": "pairs"}, "no independent coins"),
        ({"canaries": leakscope.Canaries(kind="duplicated", number=4)}, "counts as several"),
        ({"claim": 8.0}, "claim=8.0: write for example"),
    ],
)
def test_what_could_refute_a_true_claim_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        claimed(tmp_path / "run", **changes)


@pytest.mark.slow
def test_a_finished_run_is_judged_by_a_claim(tmp_path: Path) -> None:
    fair = claimed(tmp_path / "fair", claim=None, design="bernoulli")
    assert fair.claim is None
    again = leakscope.audit(FinishedRun(fair.folder), out=fair.folder, claim=WRONG)
    assert again.claim is not None
    assert again.claim.status == "refuted"
    balanced = claimed(tmp_path / "balanced", claim=None)
    with pytest.raises(InputError, match="no independent coins"):
        leakscope.audit(FinishedRun(balanced.folder), out=balanced.folder, claim=WRONG)


@pytest.mark.slow
def test_merged_runs_share_a_claim(tmp_path: Path) -> None:
    folders = [claimed(tmp_path / str(seed), models=8, seed=seed).folder for seed in (0, 1)]
    merged = merge_runs(folders, tmp_path / "merged").verdict
    assert merged is not None and merged.claim is not None
    assert {evidence.runs for evidence in merged.claim.evidence} == {8}
    other = claimed(tmp_path / "other", models=8, seed=2, claim=Claim(2.0)).folder
    with pytest.raises(InputError, match="another claim"):
        merge_runs([folders[0], other], tmp_path / "unequal")


def saved(n: int, n_references: int, leak: float, balanced: bool = False) -> Predictions:
    """A model's margins are higher on its members; half of the records are, at random."""
    rng = np.random.default_rng(0)
    in_mask = rng.random((n_references + 1, n)) < 0.5
    in_mask[0] = rng.permutation(np.arange(n) % 2 == 0)
    if balanced:
        in_mask[1:] = ~in_mask[0]
        in_mask[1:, : n // 4] = rng.random((n_references, n // 4)) < 0.5
    labels = np.arange(n) % 2
    margins = 1.0 + rng.normal(size=n) + leak * in_mask + 0.3 * rng.normal(size=in_mask.shape)
    logits = np.stack([-margins, margins], axis=-1) / 2 * np.where(labels, 1, -1)[None, :, None]
    logits, ids = logits.astype(np.float32), np.arange(n).astype(str)
    target = Predictions(logits[0], labels, ids, in_mask[0])
    if not n_references:
        return target
    return replace(target, reference_logits=logits[1:], reference_in_mask=in_mask[1:])


def test_saved_predictions(tmp_path: Path) -> None:
    verdict = leakscope.audit(
        leakscope.SavedPredictions(saved(400, 12, leak=6.0)), out=tmp_path / "run", claim=WRONG
    )
    assert verdict.claim is not None
    assert verdict.claim.status == "refuted"
    (evidence,) = verdict.claim.evidence
    assert any("drawn at random" in sentence for sentence in evidence.assumed)
    alone = leakscope.SavedPredictions(saved(400, 0, leak=0.0))
    without = leakscope.audit(alone, out=tmp_path / "alone", claim=WRONG).claim
    assert without is not None
    assert without.status == "consistent"
    with pytest.raises(InputError, match="depend on the target's"):
        leakscope.audit(
            leakscope.SavedPredictions(saved(400, 12, 1.0, balanced=True)), out=tmp_path / "x", claim=WRONG
        )


def test_a_claim_is_not_judged_after_a_failed_check(tmp_path: Path) -> None:
    predictions = saved(400, 12, leak=6.0)
    swapped = replace(predictions, is_member=~predictions.is_member)  # members have the lower confidence
    verdict = leakscope.audit(leakscope.SavedPredictions(swapped), out=tmp_path / "run", claim=WRONG)
    assert any(check.status == "failed" for check in verdict.results.hygiene)
    assert verdict.claim is None and verdict.outcome == "inconclusive"
    assert "claim was not judged" in str(verdict)
    assert "refuted" not in (tmp_path / "run" / "results.json").read_text()


CONFIG = """
[data]
dataset = "digits"
[claim]
{claim}
"""


def test_the_section_of_a_config() -> None:
    config = parse_config(CONFIG.format(claim="epsilon = 8\ndelta = 1e-6"), Path("a.toml"))
    assert config.settings.claim == Claim(8.0, 1e-6)
    steps = "noise_multiplier = 1.0\nsampling_rate = 0.1\nsteps = 100\ntradeoff = 'gaussian'"
    accounted = parse_config(CONFIG.format(claim=steps), Path("a.toml")).settings.claim
    assert accounted is not None and accounted.tradeoff == "gaussian"
    for wrong, message in (
        ("", "give either epsilon"),
        ("epsilon = 0", "must be above 0"),
        ("epsilon = 8\nsteps = 3", "give either epsilon"),
        ("epsilon = 8\nepsilom = 8", "did you mean"),
        ("epsilon = 8\ndelta = 1.5", "must be in"),
        ("epsilon = '8'", "must be a number"),
    ):
        with pytest.raises(InputError, match=message):
            parse_config(CONFIG.format(claim=wrong), Path("a.toml"))


@pytest.mark.slow
def test_the_plan_names_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    short_trials(monkeypatch)
    source = TrainedPopulation(noise(40), KNOWS_ITS_MEMBERS)
    planned = plan_audit(AuditSettings(models=16, claim=Claim(4.0)), source).claim
    assert planned is not None
    assert planned.models_needed is not None and planned.models_needed > 1000
    assert planned.seconds is not None
    few = plan_audit(AuditSettings(models=4, claim=Claim(4.0)), source).claim
    assert few is not None
    assert "is not testable with this budget" in few.sentences[0]
    assert plan_audit(AuditSettings(models=4), source).claim is None
    one = plan_audit(AuditSettings(claim=WRONG), leakscope.SavedPredictions(saved(400, 0, 0.0))).claim
    assert one is not None and one.models_needed is None

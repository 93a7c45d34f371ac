"""References that do not match the target, or inputs fed wrongly: such an audit decides no gate."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import leakscope
from leakscope.array_types import AnyArray, BoolArray, IntArray
from leakscope.audits.given import REFERENCES
from leakscope.audits.predictions import SavedPredictions
from leakscope.data.predictions import Predictions
from leakscope.evaluate.gate import FEWEST_REFERENCES, Gate
from leakscope.recipe import EstimatorRecipe
from leakscope.types import Records
from tests.cli.command import run_command

N, D = 400, 40
LEAKING, NULL = "leaking", "null"


class World(NamedTuple):
    """Records of three classes, and how a model of them is trained."""

    features: AnyArray
    labels: IntArray

    def outputs(self, members: AnyArray, strength: float = 10.0) -> LogisticRegression:
        return LogisticRegression(C=strength, max_iter=200).fit(self.features[members], self.labels[members])


def world(seed: int) -> World:
    rng = np.random.default_rng(seed)
    labels = np.arange(N) % 3
    return World(rng.normal(size=(N, D)) + np.random.default_rng(1).normal(0, 0.3, (3, D))[labels], labels)


def references(wrong: str, is_member: BoolArray, n: int, rng: np.random.Generator) -> BoolArray:
    """Whom the references are trained on; bool (references, records)."""

    def some(share: float, of: BoolArray) -> BoolArray:
        return np.isin(np.arange(N), rng.permutation(np.flatnonzero(of))[: round(share * of.sum())])

    everybody = np.ones(N, dtype=np.bool_)
    rows = {
        "non-members only": lambda: some(0.5, ~is_member),
        "mostly non-members": lambda: some(0.3, is_member) | some(0.7, ~is_member),
        "members only": lambda: some(0.5, is_member),
        "smaller": lambda: some(0.15, everybody),
        "larger": lambda: some(0.85, everybody),
    }
    return np.stack([rows.get(wrong, lambda: some(0.5, everybody))() for _ in range(n)])


def saved(target: str, wrong: str, n: int = 8, seed: int = 0) -> Predictions:
    """A target that leaks, or one trained on other records, and references that are wrong in a named way."""
    rng, own = np.random.default_rng([seed, 5]), world(seed)
    is_member = np.isin(np.arange(N), rng.permutation(N)[: N // 2])
    in_mask = references(wrong, is_member, n, rng)
    model = own.outputs(is_member) if target == LEAKING else world(seed + 50).outputs(is_member)
    strength = 1e-3 if wrong == "more regular" else 10.0
    fed = own.features[:, ::-1] if wrong == "columns reversed" else own.features
    fed = 30 * own.features if wrong == "not standardized" else fed
    others = [own.outputs(members, strength).decision_function(own.features) for members in in_mask]
    return Predictions(
        logits=model.decision_function(fed).astype(np.float32),
        labels=own.labels,
        ids=np.arange(N).astype(str),
        is_member=is_member,
        reference_logits=np.stack(others).astype(np.float32),
        reference_in_mask=in_mask,
    )


def judged(folder: Path, given: Predictions, gate: Gate) -> leakscope.Verdict:
    return leakscope.audit(SavedPredictions(given), out=folder, gate=gate, attacks=["loss", "lira"])


def failed_checks(verdict: leakscope.Verdict) -> set[str]:
    return {check.name for check in verdict.results.hygiene if check.status == "failed"}


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        ("non-members only", "overlap"),
        ("mostly non-members", "overlap"),
        ("members only", "overlap"),
        ("smaller", "size"),
        ("larger", "size"),
        ("more regular", "confidence"),
        ("columns reversed", "accuracy"),
        ("not standardized", "confidence"),
    ],
)
@pytest.mark.parametrize("target", [LEAKING, pytest.param(NULL, marks=pytest.mark.slow)])
def test_wrong_references_are_named_and_nothing_is_concluded(
    tmp_path: Path, target: str, wrong: str, check: str
) -> None:
    """Neither a limit that any figure keeps nor one that any figure breaks is decided."""
    verdict = judged(tmp_path, saved(target, wrong), Gate(max_auc=1.0, max_advantage=0.0))
    assert check in failed_checks(verdict)
    assert (verdict.outcome, verdict.exit_code) == ("inconclusive", 4)
    assert {limit.outcome for limit in verdict.results.gate.limits} == {"inconclusive"}
    text = str(verdict)
    assert text.startswith("Inconclusive: ")
    assert f"DO NOT TRUST THESE FIGURES ({check}): " in text
    assert "ranks a random member above" not in text


@pytest.mark.parametrize("n", [4, 8])
def test_right_references_leave_the_gate_decided(tmp_path: Path, n: int) -> None:
    verdict = judged(tmp_path, saved(LEAKING, "nothing", n), Gate(max_auc=0.99, max_advantage=0.0))
    assert (failed_checks(verdict), verdict.outcome) == (set(), "failed")
    assert [limit.outcome for limit in verdict.results.gate.limits] == [
        "passed" if n >= FEWEST_REFERENCES else "inconclusive",
        "failed",
    ]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_references_still_reveal_columns_in_the_wrong_order(tmp_path: Path, n: int) -> None:
    verdict = judged(tmp_path, saved(LEAKING, "columns reversed", n), Gate(max_auc=0.9))
    assert "accuracy" in failed_checks(verdict)
    (causes,) = (line for line in verdict.summary() if line.startswith("Likely causes"))
    places = [
        causes.index(word)
        for word in ("column is the wrong one", "member list", "order or on another scale", "recipe")
    ]
    assert places == sorted(places)


def test_columns_in_the_wrong_order_are_noticed_without_references(tmp_path: Path) -> None:
    given = saved(LEAKING, "columns reversed")
    path = tmp_path / "mine.npz"
    np.savez(path, logits=given.logits, labels=given.labels, is_member=given.is_member)
    (tmp_path / "mine.toml").write_text('[predictions]\nfile = "mine.npz"\n[gate]\nmax_auc = 0.9\n')
    done = run_command("audit", tmp_path / "mine.toml", "--out", tmp_path / "run")
    assert done.exit_code == 4
    assert "(1) a column is the wrong one" in " ".join(done.out.split())
    assert "Gate passed" not in done.out
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'class="badge bad">Inconclusive' in page
    assert '<figure class="gauge' not in page and 'class="badge good"' not in page
    assert run_command("judge", tmp_path / "run", "--quiet").exit_code == 4


def test_two_records_conclude_nothing(tmp_path: Path) -> None:
    given = Predictions(
        logits=np.array([[5.0, 0.0], [0.0, 5.0]], dtype=np.float32),
        labels=np.array([0, 0]),
        ids=np.array(["a", "b"]),
        is_member=np.array([True, False]),
    )
    verdict = leakscope.audit(SavedPredictions(given), out=tmp_path, gate=Gate(max_auc=0.6))
    assert (verdict.outcome, "balance" in failed_checks(verdict)) == ("inconclusive", True)


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_references_of_a_given_model_are_trained_on_as_many_records(tmp_path: Path, share: float) -> None:
    own = world(3)
    records = Records(
        own.features.astype(np.float32), own.labels, np.arange(N).astype(str), class_names=("a", "b", "c")
    )
    is_member = np.random.default_rng(0).permutation(N) < share * N
    fitted = KNeighborsClassifier(1).fit(own.features[is_member], own.labels[is_member])
    source = leakscope.GivenTarget(
        records,
        leakscope.PredictFunction(fitted.predict_proba),
        is_member,
        EstimatorRecipe(KNeighborsClassifier(1), processes=1),
    )
    verdict = leakscope.audit(source, out=tmp_path, models=10, device="cpu", attacks=["loss", "lira"])
    n_members = np.load(tmp_path / REFERENCES / "design.npy").sum(axis=1)
    assert set(n_members.tolist()) == {round(share * N)}
    sizes = {check.name: check.status for check in verdict.results.hygiene}
    assert (sizes["size"], sizes["overlap"]) == ("ok", "ok")

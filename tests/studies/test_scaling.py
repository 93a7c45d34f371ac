"""The study of width and overfitting: the published data, protocol and fields, and every option."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from leakscope.bank.bank import Bank
from leakscope.bank.results import read_results
from leakscope.runs.kinds import schema
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling import page
from leakscope.studies.scaling.config import PRESETS, ScalingConfig, recipe
from leakscope.studies.scaling.population import population, roles
from leakscope.studies.scaling.results import ScalingResults
from leakscope.studies.scaling.study import bank_folder, recompute, run
from leakscope.types import Design, Records
from tests.cli.command import files_under, run_command
from tests.quick_audits import whole_audits

SMALL = ScalingConfig(hidden_widths=(4, 6, 9), n_repeats=3, n_shadow=2, n_reference=4, n_samples=60)
Split = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]

Study = tuple[ScalingResults, Path]


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    """Intervals of few bootstrap draws: no test here is about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling_judge, "_N_DRAWS", 50)
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A small study with everything it writes."""
    out = tmp_path_factory.mktemp("study") / "run"
    with whole_audits():
        return run(SMALL, out), out


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures."""
    monkeypatch.setattr(page, "write_report", lambda *_: None)


def published_dataset(
    seed: int, n: int = 500, d: int = 10, k: int = 5, centres_seed: int | None = None
) -> Any:
    """The published generator, line by line; k must divide n."""
    random = np.random.RandomState(seed)
    centres = random.randn(k, d)
    if centres_seed is not None:
        centres = np.random.RandomState(centres_seed).randn(k, d)
    x = np.concatenate([random.randn(n // k, d) * 1.5 + centre for centre in centres])
    y = np.repeat(np.arange(k), n // k)
    order = random.permutation(n)
    return x[order], y[order]


def published_members(seed: int, n: int = 500, fraction: float = 0.5) -> npt.NDArray[np.bool_]:
    members = np.zeros(n, dtype=bool)
    members[np.random.RandomState(seed).permutation(n)[: int(n * fraction)]] = True
    return members


def model_data(records: Records, design: Design, model: int) -> Split:
    """One model's universe of records and who of it is a member."""
    assert design.columns is not None
    rows = design.columns[model]
    return records.features[rows], records.labels[rows], design.in_mask[model]


def check_data(found: Split, seed: int, split_seed: int, **sizes: Any) -> None:
    fraction = sizes.pop("fraction", 0.5)
    x, y = published_dataset(seed, **sizes)
    np.testing.assert_array_equal(found[0], x.astype(np.float32))
    np.testing.assert_array_equal(found[1], y)
    np.testing.assert_array_equal(found[2], published_members(split_seed, len(y), fraction))


def test_the_records_are_the_published_ones() -> None:
    config = ScalingConfig()
    records, design = population(config)
    targets, shadows, references = roles(config)
    assert design.n_models == 3 * (1 + 3 + 16)
    for repeat, target in enumerate(targets):
        check_data(model_data(records, design, target), seed=42, split_seed=42)
        for i, shadow in enumerate(shadows[repeat]):
            base = 42 + 500 * repeat
            check_data(model_data(records, design, shadow), base + 1000 + 100 * i, base + 2000 + 50 * i)
        for reference in references[repeat]:
            x, y, _ = model_data(records, design, reference)
            target_x, target_y, _ = model_data(records, design, target)
            np.testing.assert_array_equal(x, target_x)
            np.testing.assert_array_equal(y, target_y)


def test_references_are_balanced_halves_of_the_targets_records() -> None:
    config = ScalingConfig()
    _, design = population(config)
    for repeat in roles(config).references:
        in_mask = design.in_mask[repeat]  # (references, records)
        assert (in_mask.sum(axis=0) == 8).all()
        assert (in_mask.sum(axis=1) == 250).all()


def test_every_model_has_exactly_one_role() -> None:
    parts = roles(SMALL)
    everyone = np.concatenate([part.reshape(-1) for part in parts])
    assert sorted(everyone) == list(range(3 * 7))
    assert parts.shadows.shape == (3, 2)
    assert parts.references.shape == (3, 4)


def test_same_shadow_data_has_the_targets_centres() -> None:
    config = ScalingConfig(shadow_data="same", n_reference=0)
    records, design = population(config)
    for repeat, shadows in enumerate(roles(config).shadows):
        for i, shadow in enumerate(shadows):
            base = 42 + 500 * repeat
            found = model_data(records, design, shadow)
            check_data(found, base + 1000 + 100 * i, base + 2000 + 50 * i, centres_seed=42)


def test_redrawn_targets_share_no_records_with_anyone() -> None:
    config = ScalingConfig(target_data="redrawn", n_repeats=4, n_reference=2)
    records, design = population(config)
    targets, shadows, _ = roles(config)
    check_data(model_data(records, design, targets[0]), 42, 42)
    worlds = [model_data(records, design, m)[0] for m in [*targets, *shadows.reshape(-1)]]
    firsts = {world[0].tobytes() for world in worlds}
    assert len(firsts) == 4 * 4  # no dataset comes twice
    splits = {model_data(records, design, m)[2].tobytes() for m in targets}
    assert len(splits) == 4


def test_another_split_and_other_sizes_reach_the_data() -> None:
    config = ScalingConfig(n_samples=90, n_features=3, n_classes=6, train_fraction=0.3, seed=7, n_reference=4)
    records, design = population(config)
    assert records.n_classes == 6
    sizes = {"n": 90, "d": 3, "k": 6, "fraction": 0.3}
    check_data(model_data(records, design, 0), 7, 7, **sizes)
    check_data(model_data(records, design, int(roles(config).shadows[1, 2])), 1707, 2607, **sizes)
    assert (design.in_mask.sum(axis=1) == 27).all()


def test_more_shadows_and_references_leave_the_targets_alone() -> None:
    fewer = population(ScalingConfig(n_shadow=1, n_reference=0))[1]
    more = population(ScalingConfig(n_shadow=4, n_reference=8))[1]
    np.testing.assert_array_equal(fewer.in_mask[:3], more.in_mask[:3])


def test_the_recipe_is_the_published_one() -> None:
    found = recipe(64)
    assert (found.net, dict(found.net_options)) == ("mlp", {"width": 64})
    assert (found.optimizer, found.lr, found.batch_size, found.epochs) == ("adam", 0.01, 64, 50)
    assert (found.schedule, found.weight_decay, found.label_smoothing) == ("constant", 0, 0)


def test_parameters_are_counted_as_published() -> None:
    counted = [ScalingConfig().n_params(width) for width in ScalingConfig().hidden_widths]
    assert counted == [261, 517, 1029, 2053, 4101]


def test_results_are_stored_and_cover_every_width_and_repeat(study: Study) -> None:
    results, out = study
    assert read_results(out, ScalingResults) == results
    assert results.config == SMALL
    assert [row.hidden_width for row in results.results] == [4, 6, 9]
    for row in results.results:
        assert [repeat.repeat for repeat in row.repeats] == [0, 1, 2]
        assert {repeat.hidden_width for repeat in row.repeats} == {row.hidden_width}
    assert results.runtime.n_models == 3 * 3 * 7


def test_results_fit_their_schema_and_every_property_is_described(study: Study) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    generated = schema("study scaling")
    jsonschema.validate(json.loads((study[1] / "results.json").read_text()), generated)
    for definition in (generated, *generated["$defs"].values()):
        for name, described in definition["properties"].items():
            assert described.get("description"), name


def test_means_and_deviations_are_those_of_the_repeats(study: Study) -> None:
    for row in study[0].results:
        for name in ("attack_auc", "attack_accuracy", "overfit_gap"):
            values = [getattr(repeat, name) for repeat in row.repeats]
            assert getattr(row, f"mean_{name}") == pytest.approx(np.mean(values), abs=1e-12)
            assert getattr(row, f"std_{name}") == pytest.approx(np.std(values, ddof=0), abs=1e-12)
        for name in ("train_acc", "test_acc"):
            mean = np.mean([getattr(repeat, name) for repeat in row.repeats])
            assert getattr(row, f"mean_{name}") == pytest.approx(mean)
        for repeat in row.repeats:
            assert repeat.overfit_gap == pytest.approx(repeat.train_acc - repeat.test_acc)


def test_correctness_is_the_gap(study: Study) -> None:
    for row in study[0].results:
        for repeat in row.repeats:
            assert repeat.auc["correctness"] == pytest.approx(0.5 + repeat.overfit_gap / 2, abs=1e-12)


def test_accuracies_and_the_shadow_attack_from_the_logits(study: Study) -> None:
    """A naive reading of the protocol with scikit-learn's own metrics."""
    results, out = study
    for row in results.results:
        bank = Bank.open(bank_folder(out, row.hidden_width))
        logits = np.asarray(bank.signals().last("logits"), dtype=np.float64)
        probability = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        design, labels = bank.design(), bank.signals().labels
        targets, shadows, _ = roles(SMALL)
        for repeat, (target, group) in enumerate(zip(targets, shadows, strict=True)):
            measured = row.repeats[repeat]
            right, members = logits[target].argmax(-1) == labels[target], design.in_mask[target]
            assert measured.train_acc == pytest.approx(right[members].mean())
            assert measured.test_acc == pytest.approx(right[~members].mean())
            x = np.concatenate([probability[s] for s in group])
            y = np.concatenate([design.in_mask[s] for s in group])
            attack = LogisticRegression(max_iter=1000).fit(x, y)
            score = attack.predict_proba(probability[target])[:, 1]
            assert measured.attack_auc == pytest.approx(roc_auc_score(members, score), abs=1e-9)
            assert measured.attack_accuracy == pytest.approx(attack.score(probability[target], members))


def test_correlations_are_pearsons_over_width_means(study: Study) -> None:
    results, _ = study
    rows = results.results
    size = np.log2([row.n_params for row in rows])
    gap = np.array([row.mean_overfit_gap for row in rows])
    success = np.array([row.mean_attack_auc for row in rows])
    pairs = {"auc_vs_log_params": (success, size), "auc_vs_overfit_gap": (success, gap),
             "gap_vs_log_params": (gap, size)}  # fmt: skip
    for name, (x, y) in pairs.items():
        expected = stats.pearsonr(x, y)
        measured = getattr(results.correlations, name)
        assert measured.r == pytest.approx(expected.statistic)
        assert measured.p == pytest.approx(expected.pvalue)


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
def test_the_same_command_twice_writes_the_same_bytes(study: Study, tmp_path: Path) -> None:
    _, out = study
    assert run(SMALL, tmp_path / "again") is not None
    first, second = files_under(out), files_under(tmp_path / "again")
    assert first.keys() == second.keys()
    moment = rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    for files in (first, second):  # the page names the minutes between which the models were trained
        files["report.html"] = re.sub(moment + rb"( to " + moment + rb")?", b"", files["report.html"])
    compared = [name for name in first if not name.endswith(("manifest.json", "sha256.json"))]
    assert [name for name in compared if first[name] != second[name]] == []
    assert {"results.json", "report.md", "run.json"} <= set(compared)
    assert sum(name.endswith(".png") for name in compared) == 8


def test_results_follow_from_the_banks_alone(study: Study) -> None:
    results, out = study
    assert recompute(out, results.config) == results


def test_another_seed_is_another_study(study: Study, tmp_path: Path, quick: None) -> None:
    other = run(replace(SMALL, seed=43), tmp_path / "other")
    assert other.results[0].repeats != study[0].results[0].repeats


OPTIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "features": (("--n-features", "3"), {"n_features": 3}),
    "classes": (("--n-classes", "2"), {"n_classes": 2}),
    "a third": (("--train-fraction", "0.3"), {"train_fraction": 0.3}),
    "same centres": (("--shadow-data", "same"), {"shadow_data": "same"}),
    "redrawn targets": (("--target-data", "redrawn"), {"target_data": "redrawn"}),
    "no references": (("--n-reference", "0"), {"n_reference": 0}),
    "one of each": (
        ("--n-repeats", "1", "--n-shadow", "1", "--widths", "5"),
        {"n_repeats": 1, "n_shadow": 1, "hidden_widths": [5]},
    ),
    "seed and size": (("--seed", "0", "--n-samples", "70"), {"seed": 0, "n_samples": 70}),
    "a preset with options on top": (
        ("--preset", "decisive", "--n-shadow", "3"),
        {"shadow_data": "same", "target_data": "redrawn", "n_shadow": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "expected"), OPTIONS.values(), ids=OPTIONS)
def test_every_option_works(
    tmp_path: Path, quick: None, arguments: tuple[str, ...], expected: dict[str, Any]
) -> None:
    small = (
        "--n-initializations",
        "1",
        "--no-published-seeds",
        "--widths",
        "4,6",
        "--n-repeats",
        "2",
        "--n-shadow",
        "2",
        "--n-reference",
        "4",
        "--n-samples",
        "60",
    )
    done = run_command("study", "scaling", *small, *arguments, "--json", "--out", tmp_path / "run")
    assert (done.exit_code, done.err) == (0, "")
    printed = json.loads(done.out)
    expected = {
        "hidden_widths": [4, 6],
        "n_repeats": 2,
        "n_shadow": 2,
        "n_reference": 4,
        "n_samples": 60,
        "seed": 42,
    } | expected
    assert printed["config"].items() >= expected.items()
    results = read_results(tmp_path / "run", ScalingResults)
    config = results.config
    attacks = {"shokri", "correctness", "loss"} | ({"lira"} if config.n_reference else set())
    for row in results.results:
        width = row.hidden_width
        assert row.n_params == width * (config.n_features + 1) + config.n_classes * (width + 1)
        assert set(row.attacks) == attacks
        assert len(row.repeats) == config.n_repeats
        logits = Bank.open(bank_folder(tmp_path / "run", width)).signals().last("logits")
        n_models = config.n_repeats * (1 + config.n_shadow + config.n_reference)
        assert logits.shape == (n_models, config.n_samples, config.n_classes)
    assert set(results.gap_or_size) == attacks
    assert all(found.answer.endswith(".") for found in results.gap_or_size.values())


@pytest.mark.slow
@pytest.mark.usefixtures("whole_audits")
@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_widths": (5,), "n_repeats": 1},
        {"hidden_widths": (4, 6), "n_repeats": 2},
        {"n_reference": 0, "n_repeats": 1},
    ],
    ids=["one width", "two widths", "no references"],
)
def test_too_little_to_correlate_is_said_not_hidden(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Undefined numbers are null, sentences and figures are made all the same."""
    results = run(replace(SMALL, **changes), tmp_path / "run")
    text = (tmp_path / "run" / "report.md").read_text()
    assert "nan" not in text.lower().replace("nance", "")
    assert "None" not in text
    if len(results.results) == 1:
        assert results.correlations.gap_vs_log_params.r is None
        assert "undefined" in text
    assert len(list((tmp_path / "run" / "figures").glob("*.png"))) == 4


def test_presets_are_valid_and_the_published_one_is_the_default() -> None:
    assert PRESETS["published"].without_additions() == ScalingConfig()
    assert ScalingConfig().is_published_protocol and PRESETS["published"].is_published_protocol
    assert ScalingConfig(n_reference=0).is_published_protocol  # references change nothing published
    decisive = PRESETS["decisive"]
    assert not decisive.is_published_protocol
    assert len(decisive.hidden_widths) >= 20
    assert decisive.n_repeats >= 30

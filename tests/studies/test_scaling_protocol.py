"""The published protocol: its seeds give its table, its spread decides what agrees, its validator passes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakscope.bank.results import parse_results
from leakscope.studies.scaling import judge as scaling_judge
from leakscope.studies.scaling.config import PUBLISHED_WIDTHS, ScalingConfig
from leakscope.studies.scaling.evidence import Trainings
from leakscope.studies.scaling.population import population, roles, split_seeds
from leakscope.studies.scaling.published import FIGURES, PUBLISHED
from leakscope.studies.scaling.published_seeds import training_seeds
from leakscope.studies.scaling.results import ScalingResults
from leakscope.studies.scaling.study import recompute, run

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "scaling"
SMALL = ScalingConfig(
    hidden_widths=(4, 6, 9),
    n_repeats=2,
    n_shadow=2,
    n_reference=2,
    n_samples=60,
    n_initializations=3,
    published_seeds=True,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScalingResults, Path]:
    out = tmp_path_factory.mktemp("study") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling_judge, "_N_DRAWS", 50)
        return run(SMALL, out), out


def committed() -> ScalingResults:
    """The published preset as the page of claims shows it."""
    path = RESULTS / "published.json"
    return parse_results(json.loads(path.read_text()), ScalingResults, path)


def validator_problems(folder: Path) -> list[str]:
    """What the publication's validator checks in a results folder, in our words; warnings included."""
    data = json.loads((folder / "results.json").read_text())
    config, problems = data["config"], []
    widths = [row["hidden_width"] for row in data["results"]]
    if widths != config["hidden_widths"]:
        problems.append("results of other widths than config.hidden_widths")
    for row in data["results"]:
        problems += _row_problems(row, config)
    if max(row["mean_attack_auc"] for row in data["results"]) <= 0.5:
        problems.append("no width has an attack AUC above 0.5")
    for name in ("auc_vs_log_params", "auc_vs_overfit_gap", "gap_vs_log_params"):
        one = data["correlations"][name]
        if not (-1 <= one["r"] <= 1 and 0 <= one["p"] <= 1 and one["description"]):
            problems.append(f"{name} is no correlation")
    files = ("report.md", "attack_auc_vs_size.png", "attack_auc_vs_gap.png", "overfit_gap_vs_size.png",
             "summary_plots.png")  # fmt: skip
    return problems + [f"no {name} beside results.json" for name in files if not (folder / name).is_file()]


def _row_problems(row: dict[str, Any], config: dict[str, Any]) -> list[str]:
    width = row["hidden_width"]
    n_params = (config["n_features"] + 1) * width + (width + 1) * config["n_classes"]
    rates = [row[f"mean_{name}"] for name in ("attack_auc", "attack_accuracy", "train_acc", "test_acc")]
    problems = [] if all(0 <= rate <= 1 for rate in rates) else [f"width {width}: a rate outside 0 to 1"]
    if not {"std_attack_auc", "std_attack_accuracy", "mean_overfit_gap", "std_overfit_gap"} <= row.keys():
        problems.append(f"width {width}: a field is missing")
    if row["n_params"] != n_params:
        problems.append(f"width {width}: {row['n_params']} parameters, not {n_params}")
    if len(row["repeats"]) != config["n_repeats"]:
        problems.append(f"width {width}: {len(row['repeats'])} repeats")
    needed = {
        "repeat",
        "hidden_width",
        "train_acc",
        "test_acc",
        "overfit_gap",
        "attack_auc",
        "attack_accuracy",
    }
    for one in row["repeats"]:
        if not needed <= one.keys() or one["hidden_width"] != width:
            problems.append(f"width {width}: a repeat is incomplete")
    return problems


def test_the_publications_validator_has_nothing_to_say(study: tuple[ScalingResults, Path]) -> None:
    assert validator_problems(study[1]) == []


def test_the_validators_checks_can_fail(study: tuple[ScalingResults, Path], tmp_path: Path) -> None:
    data = json.loads((study[1] / "results.json").read_text())
    data["config"]["hidden_widths"] = [4, 6]
    data["results"][0]["n_params"] += 1
    (tmp_path / "results.json").write_text(json.dumps(data))
    problems = " ".join(validator_problems(tmp_path))
    assert "other widths" in problems and "parameters" in problems and "no summary_plots.png" in problems


def test_the_seeds_of_torch_are_the_published_ones() -> None:
    shadows = [42 + 500 * r + 3000 + 50 * i for r in range(3) for i in range(3)]
    assert training_seeds(ScalingConfig()) == [42, 542, 1042, *shadows]
    assert split_seeds(ScalingConfig()) == [42, 42, 42, *(seed - 1000 for seed in shadows)]


def test_further_initializations_have_the_same_records_and_other_weights(
    study: tuple[ScalingResults, Path],
) -> None:
    _, design = population(SMALL)
    first, *further = (roles(SMALL, k) for k in range(3))
    assert design.columns is not None and design.n_models == 2 * (1 + 2 + 2) + 2 * 2 * 3
    for other in further:
        for one, again in ((first.targets, other.targets), (first.shadows, other.shadows)):
            np.testing.assert_array_equal(design.in_mask[one], design.in_mask[again])
            np.testing.assert_array_equal(design.columns[one], design.columns[again])
        assert other.references.shape == (2, 0)
    everyone = [
        *first.references.reshape(-1),
        *(i for r in (first, *further) for i in (*r.targets, *r.shadows.flat)),
    ]
    assert sorted(everyone) == list(range(design.n_models))
    spread = study[0].initializations
    assert spread is not None and spread.n == 3
    for row, width in zip(study[0].results, spread.widths, strict=True):
        assert width.attack_auc.values[0] == pytest.approx(row.mean_attack_auc)
        assert len(set(width.attack_auc.values)) == 3
        assert width.attack_auc.sd == pytest.approx(np.std(width.attack_auc.values, ddof=1))


def test_everything_follows_from_the_folder(study: tuple[ScalingResults, Path]) -> None:
    results, out = study
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling_judge, "_N_DRAWS", 50)
        assert recompute(out, SMALL) == results
        file = out / "published_seeds" / "width-00004.npy"
        stored = np.load(file)
        np.save(file, stored[:, ::-1])
        assert recompute(out, SMALL).published_seeds != results.published_seeds
        np.save(file, stored)


@pytest.mark.slow
def test_the_publications_seeds_give_its_table_to_one_record(tmp_path: Path) -> None:
    """Every cell: rounding (0.0005) and one of 250 records in one of three repeats."""
    results = run(ScalingConfig(published_seeds=True, n_reference=0), tmp_path / "run")
    assert results.published_seeds is not None
    one_record = 1 / (3 * 250)
    for row in results.published_seeds.widths:
        for figure in FIGURES:
            allowed = 0.0005 + one_record * (np.sqrt(2) if figure.startswith("std_") else 1)
            theirs = getattr(PUBLISHED[row.hidden_width], figure)
            assert abs(getattr(row, figure) - theirs) <= allowed, (row.hidden_width, figure)


def test_the_spread_has_the_power_to_tell_the_attack_from_guessing() -> None:
    """A tolerance of 0.03 accepted an AUC of 0.5; the spread of a three-repeat mean is 0.004 to 0.006."""
    spread = committed().initializations
    assert spread is not None and spread.n == 40
    for width in spread.widths:
        assert 0.003 < width.attack_auc.sd < 0.007
        assert (width.attack_auc.mean - 0.5) / width.attack_auc.sd > 4


@pytest.mark.slow
def test_another_initialization_lies_in_the_committed_spread(tmp_path: Path) -> None:
    """All widths together, by a chi-square statistic at 0.1%; the same limit refuses an AUC of 0.5."""
    spread = committed().initializations
    assert spread is not None
    config = ScalingConfig(n_reference=0, n_initializations=2)
    results = run(config, tmp_path / "run").initializations
    assert results is not None
    for figure in ("test_acc", "overfit_gap", "attack_auc"):
        measured = [getattr(width, figure).values[1] for width in results.widths]
        limit = stats.chi2.ppf(0.999, len(PUBLISHED_WIDTHS))
        assert distance(measured, spread.widths, figure) < limit, figure
        assert distance([0.5] * len(measured), spread.widths, figure) > limit


def distance(values: list[float], widths: Any, figure: str) -> float:
    spreads = [getattr(width, figure) for width in widths]
    return float(sum(((v - s.mean) / s.sd) ** 2 for v, s in zip(values, spreads, strict=True)))


def test_one_training_alone_settles_no_cell() -> None:
    results = committed()
    assert Trainings.of(results) is not None
    assert Trainings.of(replace(results, initializations=None)) is None
    assert Trainings.of(replace(results, published_seeds=None)) is None


def test_every_figure_of_the_documentation_is_on_the_page_of_claims() -> None:
    docs = RESULTS.parents[1]
    claims = (docs / "results" / "scaling.md").read_text()
    stated = set(re.findall(r"(?<![\d.])\d\.\d{3}(?!\d)", (docs / "scaling.md").read_text()))
    assert len(stated) > 20
    assert sorted(number for number in stated if number not in claims) == []

"""The page of the dynamics study: arrays of the plane, sentences, missing parts, redaction, the command."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope.dynamics.plane import Trajectories
from leakscope.runs.kinds import rebuild_report
from leakscope.studies.dynamics import page_plane as plane_module
from leakscope.studies.dynamics.page_plane import MOST_CHARACTERS, coded, shown_part
from leakscope.studies.dynamics.records import stored_records
from leakscope.studies.dynamics.report import command, headline
from leakscope.studies.dynamics.results import DynamicsResults, Figure, Series
from leakscope.studies.dynamics.settings import DynamicsConfig, config_of
from tests.report.html import made_up
from tests.report.html.made_up import CLASSES, HOSTILE, Study, made_up_study, setting


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return made_up_study(tmp_path_factory.mktemp("study") / "one", (setting(),), HOSTILE)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Study:
    settings = (setting(optimizer="sgd"), setting(optimizer="sam", seed=0))
    return made_up_study(tmp_path_factory.mktemp("study") / "two", settings)


def with_vulnerable(
    results: DynamicsResults, changed: Callable[[Figure[Series]], Figure[Series]]
) -> DynamicsResults:
    """The results with another figure of vulnerable records in every run."""
    runs = {
        name: replace(run, figures=replace(run.figures, vulnerable=changed(run.figures.vulnerable)))
        for name, run in results.runs.items()
    }
    return replace(results, runs=runs)


def written(study: Study, redacted: bool = False) -> str:
    return made_up.written(study, redacted).read_text()


def array(page: str, name: str) -> Any:
    """What the page's script would read: flat."""
    element = re.search(rf'data-name="{name}" data-kind="(\w+)"[^>]*>([^<]*)<', page)
    assert element, name
    content = zlib.decompress(base64.b64decode(element[2]))
    return json.loads(content) if element[1] == "text" else np.frombuffer(content, element[1])


def test_the_plane_holds_every_records_state_at_every_checkpoint(study: Study) -> None:
    page, states = written(study), study.runs[0].paths.states
    levels = array(page, "plane0-levels")
    for column, name in enumerate(("fpr", "tpr")):
        rates = levels[array(page, f"plane0-{name}")].reshape(states.shape[:2])
        np.testing.assert_allclose(rates, states[..., column], atol=1e-6)
    np.testing.assert_array_equal(array(page, "plane0-vulnerable"), study.runs[0].vulnerable[-1])
    assert array(page, "plane0-ids")[len(HOSTILE)] == f"record-{len(HOSTILE):05d}"


def test_hostile_text_is_in_the_file_only_packed_and_long_text_is_cut(study: Study) -> None:
    page = written(study)
    ids = array(page, "plane0-ids")
    assert ids[0] == HOSTILE[0]
    assert len(ids[6]) == MOST_CHARACTERS and ids[6].endswith("…")
    for text in (*HOSTILE[:4], CLASSES[0]):
        assert text not in page
    assert "x" * (MOST_CHARACTERS + 1) not in page


def test_the_first_sentence_is_the_exposure_with_its_interval_beside_chance(study: Study) -> None:
    vulnerable = study.results.runs["digits-mlp-sgd"].figures.vulnerable.last
    value, error, chance = vulnerable.value, vulnerable.standard_error, vulnerable.floor.mean
    assert value is not None and error is not None and chance is not None
    lead, *_ = headline(study.results)
    low = 100 * max(0, value - 1.96 * error)
    assert f"{100 * value:.1f}% (95% interval {low:.1f}% to" in lead
    assert f"chance alone puts {100 * chance:.1f}% there" in lead


def test_exposure_within_the_floor_is_called_chance(study: Study) -> None:
    def with_floor(series: Figure[Series]) -> Figure[Series]:
        return replace(series, floor=replace(series.floor, high=(*series.floor.high[:-1], 1.0)))

    assert "no larger than chance" not in headline(study.results)[0]
    assert "no larger than chance" in headline(with_vulnerable(study.results, with_floor))[0]


@pytest.mark.slow
def test_the_page_from_the_folder_alone_is_the_one_the_run_wrote(study: Study) -> None:
    assert rebuild_report(study.folder).read_text() == written(study)


def test_stored_records_are_the_judged_ones(study: Study) -> None:
    (stored,), (judged,) = stored_records(study.folder, study.results), study.runs
    assert stored.name == judged.name
    assert stored.paths.epochs == judged.paths.epochs
    np.testing.assert_array_equal(stored.paths.states, judged.paths.states)
    np.testing.assert_array_equal(stored.vulnerable, judged.vulnerable)
    assert list(stored.hardness) == list(judged.hardness)
    for name, values in judged.hardness.items():
        np.testing.assert_array_equal(stored.hardness[name], values, err_msg=name)


def test_one_checkpoint_gives_a_whole_page_that_says_what_is_absent(tmp_path: Path) -> None:
    study = made_up_study(tmp_path, (setting(epochs=2),))
    page = written(study)
    assert "a single checkpoint, so only the final plane is known" in page
    assert "nothing can be drawn over training" in page and "there are no moves" in page
    assert "need the logits, which were not stored" in page
    assert 'data-name="plane0-fpr"' in page and "How to reproduce" in page


def test_several_runs_are_compared_and_share_one_plane(compared: Study) -> None:
    page = written(compared)
    assert 'data-name="plane1-fpr"' in page and page.count('id="plane"') == 1
    assert "peak entry, SGD / SAM" in page and "Published claims" in page
    lead = headline(compared.results)[0]
    sgd, sam = (compared.results.runs[f"digits-mlp-{o}"].figures.vulnerable.value[-1] for o in ("sgd", "sam"))
    assert sgd is not None and sam is not None and sgd > sam
    assert lead.index("digits-mlp-sgd") < lead.index("digits-mlp-sam")
    assert lead.count("95% interval") == 2


@pytest.mark.parametrize(("error", "is_decided"), [(0.001, True), (0.3, False), (None, None)])
def test_a_difference_within_its_interval_is_called_undecided(
    compared: Study, error: float | None, is_decided: bool | None
) -> None:
    def with_error(series: Figure[Series]) -> Figure[Series]:
        return replace(series, standard_error=(*series.standard_error[:-1], error))

    first, second = (run.figures.vulnerable.value[-1] for run in compared.results.runs.values())
    assert first is not None and second is not None
    text = " ".join(headline(with_vulnerable(compared.results, with_error)))
    difference = f"They differ by {100 * abs(first - second):.1f} percentage points"
    assert (difference in text) is (error is not None)
    assert ("is not decided" in text) is (is_decided is False)


@given(st.integers(1, 60), st.integers(1, 300), st.integers(60, 2000))
def test_what_is_shown_fits_whatever_the_size(n_checkpoints: int, n_records: int, most: int) -> None:
    rng = np.random.default_rng(0)
    states = rng.integers(0, 5, (n_checkpoints, n_records, 2)) / 4
    paths = Trajectories(tuple(range(1, n_checkpoints + 1)), states)
    shown = shown_part(paths, most)
    assert len(shown.checkpoints) * len(shown.records) <= most
    assert len(np.unique(shown.records)) == len(shown.records) > 0
    assert {0, n_checkpoints - 1} <= set(shown.checkpoints.tolist())
    is_whole = (len(shown.checkpoints), len(shown.records)) == (n_checkpoints, n_records)
    assert (shown.note == "") is is_whole


def test_a_study_too_large_for_a_file_is_shown_in_part_and_the_page_says_so(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plane_module, "MOST_STATES", 500)
    page = written(study)
    assert "The plane contains 100 of 200 records" in page
    final = study.runs[0].paths.advantage[-1]
    ids = {text for text in array(page, "plane0-ids") if text.startswith("record")}
    most = np.argsort(-final, kind="stable")[:50]
    assert {f"record-{i:05d}" for i in most if i >= len(HOSTILE)} <= ids


def test_checkpoints_are_thinned_before_records_and_the_ends_stay() -> None:
    paths = Trajectories(tuple(range(1, 101)), np.full((100, 50, 2), 0.5))
    shown = shown_part(paths, 50 * 40)
    assert len(shown.records) == 50 and len(shown.checkpoints) == 40
    assert (shown.checkpoints[0], shown.checkpoints[-1]) == (0, 99)
    assert "40 of 100 checkpoints" in shown.note
    assert shown_part(paths, 50 * 100).note == ""


def test_undefined_records_are_not_on_the_plane() -> None:
    states = np.full((2, 3, 2), 0.5)
    states[:, 1] = np.nan
    assert shown_part(Trajectories((1, 2), states), 100).records.tolist() == [0, 2]


def test_few_rates_are_exact_and_many_are_off_by_a_fifth_of_a_percent() -> None:
    few = np.array([[[0.1, 1 / 3]], [[0.7, 1.0]]])
    levels, codes = coded(few)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(levels[codes], few)
    many = np.random.default_rng(0).random((4, 500, 2))
    levels, codes = coded(many)
    assert 1e-3 < np.abs(levels[codes] - many).max() <= 0.5 / 255 + 1e-12


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (config_of("optimizers", populations=2, seed=3), "--preset optimizers --seed 3 --populations 2"),
        (config_of("quick", fpr=0.1, attack="loss", lr=0.5), "--lr 0.5 --attack loss --fpr 0.1"),
        (config_of("mnist", store_logits=False), "--preset mnist --no-logits"),
        (config_of(attack="lira(variance=record)"), "--attack 'lira(variance=record)'"),
    ],
)
def test_the_command_asks_for_the_same_study(config: DynamicsConfig, expected: str) -> None:
    assert expected in str(command(config))


def test_settings_no_preset_makes_have_no_command(compared: Study) -> None:
    assert not command(compared.results.config).words
    assert "run.json contains them" in written(compared)

"""The parts of advice: what is tried in which time, the order of defences, and the config that is written."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from leakscope.advice.candidates import schedule
from leakscope.advice.config_file import moved, named_code, ready_tables, with_settings
from leakscope.advice.rank import ranked, recommended
from leakscope.advice.results import AdviceConfig, AdviceResults, Effect, PopulationSummary, Tried
from leakscope.advice.sentences import plan_sentences, promised, summary
from leakscope.advice.tables import trade_table
from leakscope.compare.results import DifferenceFigure
from leakscope.disk.toml_text import toml_text
from leakscope.errors import InputError
from leakscope.stats.estimate import Estimate

SUMMARY = PopulationSummary(
    "low", "lira", Estimate(0.6, 0.5, 0.7), Estimate(0.97, 0.9, 0.99), Estimate(0.9, 0.8, 1.0), 16
)


def tried(
    name: str, auc: float, accuracy: float, effect: Effect = "leaks less", affordable: bool = True
) -> Tried:
    figures = [
        DifferenceFigure(before, after, after - before, None, None, "")
        for before, after in ((0.8, auc), (0.9, accuracy))
    ]
    return Tried(name, "", SUMMARY, figures[0], None, figures[1], effect, affordable, None)


def test_the_largest_fall_that_is_affordable_comes_first() -> None:
    ordered = ranked(
        [
            tried("useless", 0.8, 0.95, "no difference detected"),
            tried("mild", 0.7, 0.9),
            tried("strong", 0.6, 0.89),
            tried("ruinous", 0.5, 0.3, affordable=False),
        ]
    )
    assert [one.defence for one in ordered] == ["strong", "mild", "ruinous", "useless"]
    assert recommended(ordered) == "strong"


@pytest.mark.parametrize(
    ("effect", "affordable"),
    [("no difference detected", True), ("leaks more", True), ("leaks less", False)],
)
def test_nothing_is_recommended_that_is_unsure_or_too_dear(effect: Effect, affordable: bool) -> None:
    assert recommended(ranked([tried("one", 0.5, 0.9, effect, affordable)])) is None
    assert recommended([]) is None


def test_a_defence_that_is_beaten_twice_is_marked() -> None:
    by_name = {one.defence: one for one in ranked([tried("good", 0.6, 0.9), tried("bad", 0.7, 0.8)])}
    assert by_name["bad"].dominated_by == "good" and by_name["good"].dominated_by is None


def test_luck_does_not_make_a_defence_worse_than_another() -> None:
    lucky = tried("lucky", 0.6, 0.9, "no difference detected")
    assert all(one.dominated_by is None for one in ranked([lucky, tried("bad", 0.7, 0.8)]))


def test_equal_defences_do_not_beat_each_other() -> None:
    assert all(one.dominated_by is None for one in ranked([tried("a", 0.6, 0.9), tried("b", 0.6, 0.9)]))


def test_a_promise_is_wider_the_more_defences_it_was_chosen_from() -> None:
    """The luckiest of twelve keeps a narrow promise too rarely: benchmarks/advice_of_noise.py measures it."""
    alone, chosen = (promised(Estimate(0.6, 0.55, 0.65), n) for n in (1, 12))
    assert alone == pytest.approx((0.6 - 0.05 * 2**0.5, 0.6 + 0.05 * 2**0.5))
    assert (chosen[1] - chosen[0]) / (alone[1] - alone[0]) == pytest.approx(2.865 / 1.960, abs=0.002)
    assert promised(Estimate(0.98, 0.9, 0.99), 12)[1] <= 1.0
    assert promised(Estimate(0.6, None, None), 12) == (0.0, 1.0)


def test_time_buys_defences_first_and_models_then() -> None:
    assert schedule(1.0, 9, 2, 64).n_defences == 5 and schedule(1.0, 9, 2, 64).models == 16
    assert schedule(1.0, 3, 2, 64) == replace(schedule(1.0, 3, 2, 64), models=16, n_defences=3)
    assert schedule(1.0, 3, 10, 64).models == 64
    assert schedule(1.0, 3, 10, 32).models == 32  # the user's own config has no more
    assert schedule(3.0, 9, 1, 64).models == 8


def test_the_schedule_stays_within_the_time() -> None:
    for minutes in (1, 2, 5, 10, 60):
        for seconds in (0.01, 0.3, 2.0):
            assert schedule(seconds, 9, minutes, 64).seconds <= 60 * minutes


def test_too_little_time_is_refused_with_what_it_takes() -> None:
    with pytest.raises(InputError, match=r"takes about 2\.7 minutes.*--minutes 3"):
        schedule(9.0, 9, 1, 64)


CONFIG = '[data]\nfile = "people.csv"\nlabel = "y"\n\n[model]\nestimator = "a:B"\noptions = { depth = 3 }\n'


def test_settings_join_the_tables_that_are_there() -> None:
    joined = tomllib.loads(with_settings(CONFIG, "[model.options]\nleaf = 5\n\n[training]\nepochs = 4\n"))
    assert joined["model"] == {"estimator": "a:B", "options": {"depth": 3, "leaf": 5}}
    assert joined["training"] == {"epochs": 4} and joined["data"]["file"] == "people.csv"


def test_the_tables_of_a_defence_replace_those_of_the_config() -> None:
    """A heading of its own for the options would define them twice."""
    tables = ready_tables(CONFIG, "[model.options]\nleaf = 5\n")
    assert tables == '[model]\nestimator = "a:B"\noptions = { depth = 3, leaf = 5 }'
    assert ready_tables(None, "[training]\nepochs = 4\n") == "[training]\nepochs = 4"


def test_a_moved_config_reads_the_same_file(tmp_path: Path) -> None:
    old, new = tmp_path / "here", tmp_path / "runs" / "advice"
    text = moved(CONFIG, old, new)
    file = tomllib.loads(text)["data"]["file"]
    assert (new / file).resolve() == (old / "people.csv").resolve()


def test_a_relative_folder_leads_to_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tomllib.loads(moved(CONFIG, Path(), Path("runs/x")))["data"]["file"]
    assert file == "../../people.csv"


def test_code_of_the_user_is_named_and_that_of_scikit_learn_is_not() -> None:
    assert named_code(CONFIG) == ["a:B"]
    assert named_code('[model]\nestimator = "sklearn.tree:DecisionTreeClassifier"\n') == []


def test_any_data_of_a_config_reads_back() -> None:
    tables = {
        "data": {"file": 'C:\\a "b"\n\x7f.csv', "label": "é日", "odd key": [1, 2.5, True], "empty": {}},
        "model": {"options": {"a.b": {"c": [{"x": 1e-09}, {"x": -0.0}]}, "d": ""}},
    }
    assert tomllib.loads(toml_text(tables)) == tables


def results_about(utility: str, unit: str | None, affordable: bool) -> AdviceResults:
    """Advice with one defence that leaks less."""
    config = AdviceConfig(
        toml=None, records="made up", records_sha256="ab" * 32, recipe={}, minutes=1.0, accepted_loss=0.02,
        utility=utility, unit=unit, seed=0, design="balanced", models=16, attacks=("lira",), fpr=None,
        defences=("mixup",), settings={"mixup": ""}, not_applicable={},
    )  # fmt: skip
    one = tried("mixup", 0.6, 0.85, affordable=affordable)
    best = "mixup" if affordable else None
    return AdviceResults("advise", config, SUMMARY, (one,), {}, best, 0.95, "", ())


def test_what_a_regression_loses_is_told_in_r_squared() -> None:
    said = " ".join(summary(results_about("R²", None, affordable=True)))
    assert (
        "R² on non-members changes by -0.050, from 0.900 to 0.850; you accept a loss of 0.02 of R²." in said
    )
    too_dear = summary(results_about("R²", None, affordable=False))[0]
    assert "accepted loss of 0.02 of R². mixup leaks less, and costs 0.050." in too_dear
    table = trade_table(results_about("R²", None, affordable=True))
    assert "R²" in table.head and "change of R²" in table.head
    assert table.rows[0][table.head.index("R²")] == "0.900"
    assert table.rows[1][table.head.index("change of R²")] == "-0.050"
    assert "ccuracy" not in f"{said}{too_dear}{table.head}{table.caption}"


def test_what_a_classifier_loses_is_told_in_points() -> None:
    said = " ".join(summary(results_about("accuracy", None, affordable=True)))
    assert "changes by -5.0 points, from 90.0% to 85.0%; you accept a loss of 2 points of accuracy." in said
    table = trade_table(results_about("accuracy", None, affordable=True))
    assert table.rows[1][table.head.index("change of accuracy")] == "-5.0"


def test_the_conclusion_stands_beside_the_defence_and_empty_columns_are_left_out() -> None:
    results = results_about("accuracy", None, affordable=True)
    table = trade_table(results)
    assert table.head[:2] == ["defence", "in short"] and table.rows[1][1] == "recommended"
    measured = any(one.population.most_exposed.value is not None for one in results.tried)
    assert ("AUC, most exposed 1%" in table.head) == measured
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert "undefined" not in str(table.rows)


def test_members_that_are_people_are_called_people() -> None:
    results = results_about("accuracy", "patient_id", affordable=True)
    said = [*plan_sentences(results.config, 60.0), *summary(results)]
    assert "on the same patients and design" in said[0] and "these patients" in said[-1]
    assert not any("record" in sentence for sentence in said)


def test_the_average_does_not_hide_the_most_exposed() -> None:
    results = results_about("accuracy", "patient", affordable=True)
    said = (
        "Among the most exposed 1% of the patients, the AUC goes from 0.970 to 0.970 (95% interval 0.900 to"
    )
    assert any(sentence.startswith(said) for sentence in summary(results))
    assert "AUC, most exposed 1%" in trade_table(results).head
    unknown = replace(SUMMARY, most_exposed=Estimate(None, None, None))
    assert not any("most exposed" in sentence for sentence in summary(replace(results, baseline=unknown)))

"""What a tracker is sent: every figure with its ends, names and lengths that trackers take, no secrets."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leakscope.disclosure import is_redacted
from leakscope.errors import InputError
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations.tracked_run import LONGEST_TEXT, LONGEST_VALUE, TrackedRun, tracked_run

ALLOWED_BY_MLFLOW = re.compile(r"[\w\-. :/]{1,250}", re.ASCII)


def texts(run: TrackedRun) -> str:
    return "\n".join(
        [run.name, *run.params.values(), *run.tags.values(), *run.metrics, *run.params, *run.tags]
    )


def changed(verdict: Verdict, **changes: Any) -> Verdict:
    return replace(verdict, results=replace(verdict.results, **changes))


def test_figures_come_with_the_ends_of_their_intervals(population: Verdict) -> None:
    sent, results = tracked_run(population).metrics, population.results
    auc, strongest = results.headline.auc, results.attacks[results.strongest_attack]
    assert sent["leakscope/auc"] == auc.value
    assert (sent["leakscope/auc_low"], sent["leakscope/auc_high"]) == (auc.low, auc.high)
    quarter, thousandth = strongest.tpr_at_fpr
    assert sent["leakscope/tpr_at_fpr_0.25_high"] == quarter.high
    assert thousandth.value is None and "leakscope/tpr_at_fpr_0.001" not in sent
    assert (
        sent["leakscope/attacks/lira_online_false/auc_low"] == results.attacks["lira(online=false)"].auc.low
    )
    assert sent["leakscope/accuracy_members"] == results.accuracy.members.value


def test_words_and_settings(population: Verdict) -> None:
    run = tracked_run(population)
    assert run.name == "my run"
    assert run.tags["leakscope/rating"] == population.rating
    assert run.tags["leakscope/gate"] == population.outcome
    assert run.params["leakscope/seed"] == "0"
    assert run.params["leakscope/models"] == "8"
    assert run.params["leakscope/recipe/epochs"] == "4"
    assert run.params["leakscope/gate/max_auc"] == "0.9"
    assert [path.name for path in run.files] == ["report.html", "results.json"]


def test_every_figure_is_finite_and_every_name_is_one_that_trackers_take(population: Verdict) -> None:
    run = tracked_run(population)
    assert all(math.isfinite(value) for value in run.metrics.values())
    for names in (run.metrics, run.params, run.tags):
        assert all(name.startswith("leakscope/") and ALLOWED_BY_MLFLOW.fullmatch(name) for name in names)


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_an_undefined_figure_is_left_out(population: Verdict, bad: float | None) -> None:
    attacks, strongest = population.results.attacks, population.strongest_attack
    advantage = replace(attacks[strongest].advantage, value=bad, low=bad)
    undefined = {**attacks, strongest: replace(attacks[strongest], advantage=advantage)}
    sent = tracked_run(changed(population, attacks=undefined)).metrics
    assert "leakscope/advantage" not in sent and "leakscope/advantage_low" not in sent
    assert "leakscope/advantage_high" in sent


def test_attacks_whose_names_would_be_the_same_stay_apart(population: Verdict) -> None:
    figures = population.results.attacks["loss"]
    labels = ["a(b=1)", "a(b:1)", "../../etc", "my_module:Mine", "x" * 400, "ß", "loss"]
    sent = tracked_run(changed(population, attacks=dict.fromkeys(labels, figures) | {
        population.strongest_attack: figures})).metrics  # fmt: skip
    names = [name for name in sent if name.startswith("leakscope/attacks/") and name.endswith("/auc")]
    assert len(names) == len({*labels, population.strongest_attack})
    assert all(ALLOWED_BY_MLFLOW.fullmatch(name) and ".." not in name for name in names)


def test_long_values_are_cut(population: Verdict) -> None:
    figures = population.results.population
    long = replace(figures, recipe={"note": "n" * 9000, "nested": {"deep": list(range(5000))}})
    config = replace(population.results.config, records="r" * 9000)
    run = tracked_run(changed(population, population=long, config=config))
    assert max(map(len, run.params.values())) == LONGEST_VALUE == 500
    assert max(map(len, run.tags.values())) <= LONGEST_TEXT


def test_neither_home_nor_config_nor_environment_is_sent(
    population: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("MY_TOKEN", "secret-in-environment")
    source = replace(
        population.results.config.source,
        facts={"file": "/home/alice/patients.csv"},
        toml='[data]\nfile = "/home/alice/patients.csv"\noptions = {password = "secret-in-config"}',
    )
    config = replace(population.results.config, source=source)
    recipe = {"estimator": {"memory": "/home/alice/cache"}, "root": "/home/alice", "other": "/home/alicette"}
    verdict = changed(
        population, config=config, population=replace(population.results.population, recipe=recipe)
    )
    run = tracked_run(verdict)
    assert "secret" not in texts(run)
    assert "/home/alice/" not in texts(run)
    assert run.params["leakscope/recipe/root"] == "~"
    assert run.params["leakscope/recipe/other"] == "/home/alicette"


def test_a_redacted_run_sends_its_redacted_page_only(redacted: Verdict) -> None:
    """Although the private page is still beside it."""
    assert is_redacted(redacted.folder) and (redacted.folder / "report.html").exists()
    run = tracked_run(redacted)
    assert [path.name for path in run.files] == ["report-redacted.html"]
    assert run.tags["leakscope/redacted"] == "yes"


def test_a_redacted_run_sends_no_figure_of_a_few_records(population: Verdict, redacted: Verdict) -> None:
    headline = population.results.headline
    few = replace(headline.most_exposed, records=19, reason=None, auc=headline.auc)
    headline = replace(headline, most_exposed=few)
    assert "leakscope/most_exposed_auc" in tracked_run(changed(population, headline=headline)).metrics
    assert "leakscope/most_exposed_auc" not in tracked_run(changed(redacted, headline=headline)).metrics
    enough = replace(headline, most_exposed=replace(few, records=20))
    assert "leakscope/most_exposed_auc" in tracked_run(changed(redacted, headline=enough)).metrics


def test_a_given_models_results_are_not_sent(given_model: Verdict) -> None:
    """They hold a hash of the member list and small groups, which its page leaves out."""
    assert [path.name for path in tracked_run(given_model).files] == ["report.html"]


def test_nothing_that_is_sent_names_a_record(population: Verdict, redacted: Verdict) -> None:
    ids = re.compile(r"\bp\d+\b")
    for verdict in (population, redacted):
        assert not ids.search(texts(tracked_run(verdict)))
    assert not ids.search((redacted.folder / "report-redacted.html").read_text().split("<script")[0])


def test_a_missing_page_is_named_with_its_remedy(population: Verdict, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"report\.html is missing; write it with: leakscope report "):
        tracked_run(replace(population, folder=tmp_path))

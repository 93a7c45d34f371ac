"""The model-index of an audit: YAML that the Hub's own library reads, with values and intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leakscope.errors import InputError
from leakscope.evaluate.verdict import Verdict
from leakscope.integrations.model_card import model_card
from tests.cli.command import run_command


def parsed(text: str) -> Any:
    return pytest.importorskip("yaml", reason="PyYAML is not installed").safe_load(text)


def test_value_and_interval_are_those_of_the_audit(population: Verdict) -> None:
    (entry,) = parsed(model_card(population, "my-model"))["model-index"]
    (result,) = entry["results"]
    auc, tpr = result["metrics"]
    figure = population.results.headline.auc
    assert entry["name"] == "my-model"
    assert auc["type"] == "membership_inference_auc"
    assert auc["value"] == pytest.approx(figure.value, abs=5e-5)
    assert auc["args"]["interval_95"] == pytest.approx([figure.low, figure.high], abs=5e-5)
    assert auc["args"]["rating"] == population.rating
    assert tpr["type"] == "membership_inference_tpr_at_fpr_0.25"  # 0.001 cannot be measured
    assert f"{figure.low:.3f}"[:4] in auc["name"]


@pytest.mark.parametrize("name", ['a: "b"', "- c", "#d", "{e}", "null", "ü\n  evil: true", "\x1b[31m", "\\x"])
def test_no_name_breaks_the_yaml(population: Verdict, name: str) -> None:
    config = replace(population.results.config, records=name)
    verdict = replace(population, results=replace(population.results, config=config))
    card = parsed(model_card(verdict, name))
    assert set(card) == {"model-index"} and len(card["model-index"]) == 1
    shown = card["model-index"][0]["name"]
    assert shown == card["model-index"][0]["results"][0]["dataset"]["name"]
    assert shown == name or "\\" in shown or "\n" in name


def test_a_figure_without_an_interval_says_so(population: Verdict) -> None:
    headline = replace(
        population.results.headline, auc=replace(population.results.headline.auc, low=None, high=None)
    )
    verdict = replace(population, results=replace(population.results, headline=headline))
    auc = parsed(model_card(verdict, "m"))["model-index"][0]["results"][0]["metrics"][0]
    assert "interval_95" not in auc["args"] and auc["name"].endswith("(no interval)")


def test_an_inconclusive_audit_is_not_quoted(population: Verdict) -> None:
    rating = replace(population.results.rating, level="inconclusive", reason="a check failed")
    with pytest.raises(InputError, match="should not quote this audit"):
        model_card(replace(population, results=replace(population.results, rating=rating)), "m")


def test_the_command_prints_it(population: Verdict) -> None:
    done = run_command("card", population.folder, "--name", "org/model")
    assert (done.exit_code, done.err, done.out) == (0, "", model_card(population, "org/model"))


@pytest.mark.filterwarnings("ignore")
def test_the_hubs_own_library_reads_it(population: Verdict) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    card = hub.ModelCard(f"---\n{model_card(population, 'org/model')}---\n# My model\n")
    auc, *_ = card.data.eval_results
    assert card.data.model_name == "org/model"
    assert auc.metric_type == "membership_inference_auc"
    assert auc.metric_value == pytest.approx(population.results.headline.auc.value, abs=5e-5)
    assert auc.metric_args["interval_95"][0] < auc.metric_value < auc.metric_args["interval_95"][1]
    assert auc.dataset_name == "noise"

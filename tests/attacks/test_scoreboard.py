"""What the scoreboard says follows from its cells, and its best possible attack is the best."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from leakscope.attacks import Bavaria, EbLira, Lira
from leakscope.stats.roc import auc
from leakscope.types import Design, Signals

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    """The modules of the scoreboard, which import one another as scripts do."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import distance_to_optimum
    import scoreboard
    import scoreboard_page

    return scoreboard, scoreboard_page, distance_to_optimum


def test_an_exception_is_named_only_where_the_rival_is_clearly_higher(benchmarks):
    _, page, _ = benchmarks
    rng = np.random.default_rng(0)
    own = 0.7 + 0.02 * rng.normal(size=(16, 4))
    higher = own + 0.01 + 0.001 * rng.normal(size=(16, 4))
    similar = own + 0.0001 + 0.01 * rng.normal(size=(16, 4))
    rivals = {"LiRA, fixed variance": higher, "BaVarIA-n": similar, "BASE": own - 0.1}
    cells = {name: {8: values} for name, values in {"EB-LiRA": own, **rivals}.items()}
    n, exceeded = page.exceptions(page.Board("made up", 20, 100, 16, cells))
    assert n == 12  # three rivals, four figures
    assert {one.rival for one in exceeded if one.is_beyond_noise} == {"LiRA, fixed variance"}
    assert not any(one.rival == "BASE" for one in exceeded)


def test_rivals_that_read_as_many_queries_are_compared_and_named_in_words(benchmarks, tmp_path, monkeypatch):
    _, page, _ = benchmarks
    own = 0.7 + 0.02 * np.random.default_rng(0).normal(size=(16, 4))
    higher = own + [0.01, 0, 0, 0.02] + 0.001 * np.random.default_rng(1).normal(size=(16, 4))
    higher[:, 1:3] = own[:, 1:3] - 0.1
    names = {"EB-LiRA, 18 queries": own, "LiRA, 18 queries": higher, "LiRA, 1 query": own + 0.2}
    stored = {name: {str(size): values.tolist() for size in (4, 8)} for name, values in names.items()}
    about = {"bank": "made up", "models": 20, "records": 100, "targets": [0] * 16}
    (tmp_path / "made up.json").write_text(json.dumps({**about, "cells": stored}))
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.write(tmp_path)
    text = " ".join((tmp_path / "page.md").read_text().split())
    assert '"LiRA, 18 queries" is above "EB-LiRA, 18 queries" in AUC (4, 8 references) and' in text
    assert "TPR at 0.01% (4, 8 references). All of them:" in text
    assert "0 of the 4 exceptions" in text


def test_the_optimum_of_equal_records_is_the_known_one(benchmarks):
    _, _, optimum = benchmarks
    n = 40_000
    known = optimum.Truth(np.zeros(n), np.full(n, 1.5), np.full(n, 2.0), np.full(n, 2.0))
    rng = np.random.default_rng(1)
    in_mask = rng.random((1, n)) < 0.5
    found = auc(known.log_ratio(optimum.outputs(known, in_mask, rng)[0]), in_mask[0])
    assert found == pytest.approx(norm.cdf(1.5 / 2), abs=0.007)  # three standard deviations


@pytest.mark.parametrize("population", ["unrelated", "hard records move"])
def test_no_attack_is_above_the_optimum(benchmarks, population):
    _, _, optimum = benchmarks
    rng = np.random.default_rng(2)
    known = optimum.truth(population, rng, 4000)
    in_mask = rng.random((65, 4000)) < 0.5
    log_odds = optimum.outputs(known, in_mask, rng)
    signals = Signals({"log_odds": log_odds[:, None]}, (1,), np.zeros(4000, dtype=np.int64))
    best = auc(known.log_ratio(log_odds[0]), in_mask[0])
    for attack in (EbLira(), EbLira(online=False), Lira(variance="record"), Bavaria("t")):
        assert auc(attack(signals, Design(in_mask), np.array([0])).values[0], in_mask[0]) < best


def test_the_taylor_softmax_is_the_published_one(benchmarks):
    board, _, _ = benchmarks
    logits = np.array([[[2.0, -1.0, 0.5]]])  # one model, one record, label 0
    weights = [sum((z / 2) ** k / f for k, f in enumerate((1, 1, 2, 6, 24))) for z in (2 - 1.2, -1.0, 0.5)]
    share = weights[0] / sum(weights)
    found = board.taylor_log_odds(logits, np.array([0]))[0, 0, 0]
    assert found == pytest.approx(np.log(share / (1 - share)), rel=1e-5)

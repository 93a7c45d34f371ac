"""The page about a given model says how it rounds, and no count that a second one would make precise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakscope.evaluate.coarse import shareable
from leakscope.evaluate.hygiene.balance import check_balance
from leakscope.evaluate.sentences import population_sentence
from tests.made_up_audits import made_up_audit, quick_single_records


@pytest.mark.parametrize("n_members", [1, 90, 101, 139])
def test_the_number_of_members_is_said_to_be_rounded_and_given_once(tmp_path: Path, n_members: int) -> None:
    n_records = 140
    with quick_single_records():
        results = made_up_audit(tmp_path, 1.0, fpr_budgets=(0.1,)).results
    is_member = np.arange(n_records) < n_members
    balance = check_balance(is_member[None], np.zeros((0, n_records), dtype=bool))
    of_one = replace(
        results,
        config=replace(results.config, targets=(0,)),
        population=replace(results.population, records=n_records, members=n_members),
        hygiene=(balance,),
    )
    exact, coarse = population_sentence(of_one), population_sentence(shareable(of_one))
    assert f", {n_members} of them members of its training set, with" in exact
    assert "of them members of its training set (rounded to about a fifth)" in coarse
    assert f"{n_members} member" in balance.sentence and f"{n_records - n_members} non-member" in (
        balance.sentence
    )
    (rounded,) = shareable(of_one).hygiene
    assert "members; all other records are non-members" in rounded.sentence
    assert sum(word.isdigit() for word in rounded.sentence.partition(";")[0].split()) == 1

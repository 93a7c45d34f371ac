"""Exposed, not exposed, or not resolvable: a flag is null where no output of the models could have set it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import leakscope
from leakscope.array_types import BoolArray
from leakscope.compare.compare import compare
from leakscope.evaluate.exposure import exposure_flags
from leakscope.stats.per_record import record_risk
from tests.made_up_audits import made_up_audit, quick_single_records
from tests.report.page_attacks import arrays
from tests.synthetic_runs import Synthetic


def balanced(n_models: int, n_records: int) -> BoolArray:
    half = np.arange(n_models) < n_models // 2
    rng = np.random.default_rng(0)
    return np.stack([rng.permutation(half) for _ in range(n_records)], axis=1)


def perfect_on(in_mask: BoolArray, records: slice) -> BoolArray:
    """Decisions that are always right about some records, and "non-member" about the others."""
    says_member = np.zeros_like(in_mask)
    says_member[:, records] = in_mask[:, records]
    return says_member


def test_few_models_resolve_no_record_however_exposed_a_few_are() -> None:
    in_mask = balanced(8, 120)
    flags = exposure_flags(record_risk(perfect_on(in_mask, slice(5)), in_mask))
    assert not flags.exposed.any() and not flags.resolved.any()


def test_few_models_resolve_every_record_where_most_are_exposed() -> None:
    in_mask = balanced(8, 120)
    flags = exposure_flags(record_risk(perfect_on(in_mask, slice(100)), in_mask))
    assert flags.exposed.sum() == 100 and flags.resolved.all()


def test_enough_models_say_no_where_nothing_leaks() -> None:
    in_mask = balanced(16, 120)
    flags = exposure_flags(record_risk(np.zeros_like(in_mask), in_mask))
    assert not flags.exposed.any() and flags.resolved.all()


@pytest.mark.parametrize("n_in", [0, 1, 8, 15, 16])
def test_a_record_is_resolved_exactly_where_perfect_decisions_would_list_it(n_in: int) -> None:
    """Brute force: in a Bernoulli design, every target is right about one record."""
    in_mask = balanced(16, 120)
    in_mask[:, 0] = np.arange(16) < n_in
    resolved = exposure_flags(record_risk(np.zeros_like(in_mask), in_mask)).resolved
    listed = exposure_flags(record_risk(perfect_on(in_mask, slice(1)), in_mask)).exposed
    assert resolved[0] == listed[0] == (n_in == 8) and resolved[1:].all()


def test_the_flag_is_null_wherever_it_travels(tmp_path: Path) -> None:
    Synthetic(n_models=8, n_checkpoints=1, attacks=("loss",)).audited(tmp_path / "few")
    run = leakscope.open_run(tmp_path / "few")
    assert run.results.exposed is not None and run.results.exposed.records is None
    for table in (run.records, pl.read_parquet(tmp_path / "few" / "records.parquet")):
        assert table["exposed"].dtype == pl.Boolean and table["exposed"].null_count() == 120
    page = (tmp_path / "few" / "report.html").read_text()
    assert np.isnan(arrays(page)["exposed"]).all()
    assert 'id="records-exposed"' not in page  # nothing to filter by


def test_a_comparison_counts_no_exposed_records_that_its_models_cannot_resolve(tmp_path: Path) -> None:
    with quick_single_records():
        for name, gap in (("a", 2.0), ("b", 0.0)):
            made_up_audit(tmp_path / name, gap, models=6, attacks=("loss",))
        comparison = compare([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    changes = comparison.results.comparisons[0].records
    assert changes is not None and changes.resolved == 0
    assert (changes.exposed_baseline, changes.exposed_other, changes.exposed_both) == (None, None, None)
    assert (changes.share_difference.value, changes.share_difference.high) == (None, None)
    assert "Exposed records: not resolvable with 6 models" in str(comparison)
    table = pl.read_parquet(tmp_path / "out" / "records.parquet")
    for name in ("exposed_baseline", "exposed_other"):
        assert table[name].dtype == pl.Boolean and table[name].null_count() == 120
    for page in ("report.md", "report.html"):
        text = (tmp_path / "out" / page).read_text()
        assert "not resolvable" in text and "changes by +0.0 points" not in text

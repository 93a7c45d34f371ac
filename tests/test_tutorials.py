"""Every tutorial of the documentation runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quick_audits import quick_audits, short_trials
from tests.tutorials import Step, run_tutorial, steps

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs" / "tutorials").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    short_trials(monkeypatch)
    with quick_audits():
        run_tutorial(page.read_text(), tmp_path)


def test_there_is_one_for_each_kind_of_reader() -> None:
    assert {page.stem for page in PAGES} >= {
        "scikit_learn", "torch", "saved_predictions", "ci", "privacy_officer",
    }  # fmt: skip


def test_blocks_are_saved_run_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (
        "Save this as `a.toml`:\n\n```toml\nx = 1\n```\n\nThen:\n\n"
        "```python\nfrom pathlib import Path\nprint(Path('a.toml').read_text(), 2.5)\n```\n\n"
        "It prints:\n\n```text\nx = 7\n```\n\n```sh\nleakscope plan missing.toml  # exit code 2\n```\n"
    )
    assert next(steps(page)) == Step("toml", "x = 1\n", "a.toml")
    run_tutorial(page, tmp_path)
    with pytest.raises(AssertionError, match="not printed"):
        run_tutorial(page.replace("x = 7", "y = 7"), tmp_path)
    with pytest.raises(AssertionError, match="plan missing"):
        run_tutorial(page.replace("  # exit code 2", ""), tmp_path)

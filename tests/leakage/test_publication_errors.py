"""The errors of Farokhi and Kaafar (2020) that docs/leakage.md corrects, and the snippets of that page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from leakscope.leakage.gaussian import Gaussian, kl

PAGE = Path(__file__).resolve().parents[2] / "docs" / "leakage.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=[f"snippet {i + 1}" for i in range(len(SNIPPETS))])
def test_the_snippets_of_the_page_run_and_print_what_it_says(snippet, capsys):
    exec(compile(snippet, str(PAGE), "exec"), {})
    said = re.findall(r"# -> (.*)", snippet)
    assert said
    assert capsys.readouterr().out.split("\n")[: len(said)] == said


def test_the_page_has_a_snippet_for_each_error():
    assert len(SNIPPETS) >= 4


def test_the_printed_trace_term_is_no_divergence():
    """tr(inv(S0) S0) = p: what is left is negative where only the variance grows."""
    first, second = Gaussian(np.zeros(1), np.array([[4.0]])), Gaussian(np.zeros(1), np.array([[1.0]]))
    as_printed = (1 - 1 + 0 + np.log(1 / 4)) / 2
    a, b = stats.norm(0, 2), stats.norm(0, 1)
    truth = integrate.quad(lambda x: a.pdf(x) * (a.logpdf(x) - b.logpdf(x)), -25, 25)[0]
    assert as_printed < 0
    assert kl(first, second) == pytest.approx(truth)


def test_the_share_of_records_left_out():
    """n of N are drawn: a given one is out with probability 1 - n/N."""
    rng = np.random.default_rng(0)
    out = np.mean([0 not in rng.choice(10, 3, replace=False) for _ in range(4000)])
    assert out == pytest.approx(1 - 3 / 10, abs=0.03)
    assert abs(out - 3 / 10) > 0.3

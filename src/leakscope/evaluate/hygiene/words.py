"""The blind baseline of text: do words alone say who is a member, without any model?

A logistic regression on the words of a document and its length, fitted to other documents. It is what attacks
on language models have to beat: where members were collected elsewhere or at another time than non-members,
it beats many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.data.near_copies import words_of

_PENALTY = 1.0  # inverse strength, scikit-learn's default
_LENGTH_SCALE = 0.3  # of the column of lengths, beside rows of words with norm 1


def bags_of_words(texts: Sequence[str]) -> Any:
    """Words that two or more documents have, by tf-idf, and the length; sparse (documents, words + 1)."""
    from scipy.sparse import csr_array, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    n_words = np.log1p([len(text) for text in texts])
    spread = float(n_words.std()) or 1.0
    length = csr_array(_LENGTH_SCALE * ((n_words - n_words.mean()) / spread)[:, None])
    try:
        bags = TfidfVectorizer(analyzer=words_of, min_df=2, sublinear_tf=True).fit_transform(texts)
    except ValueError:  # no word occurs twice
        return length
    return csr_array(hstack([bags, length]))


def word_scores(bags: Any, members: BoolArray, folds: Sequence[tuple[IntArray, IntArray]]) -> FloatArray:
    """How much each document looks like a member to a regression fitted without its fold.

    The mean of the fold is subtracted, as in the check of tables.
    """
    from sklearn.linear_model import LogisticRegression

    scores = np.empty(len(members))
    for train, test in folds:
        fitted = LogisticRegression(C=_PENALTY, solver="liblinear", random_state=0)
        log_odds = fitted.fit(bags[train], members[train]).decision_function(bags[test])
        scores[test] = log_odds - log_odds.mean()
    return scores

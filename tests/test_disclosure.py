"""Hashed ids: the same within a run, others in another, not to be guessed without the key."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from leakscope.disclosure import KEY, shown_ids

IDS = np.array(["anna", "ben", "Ωmega"])


def test_ids_are_shown_as_they_are_unless_redacted(tmp_path: Path) -> None:
    assert shown_ids(tmp_path, IDS, redacted=False).tolist() == IDS.tolist()
    assert not (tmp_path / KEY).exists()


def test_hashes_are_stable_in_a_run_and_differ_between_runs(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    first, again = (shown_ids(folders[0], IDS, redacted=True) for _ in range(2))
    other = shown_ids(folders[1], IDS, redacted=True)
    assert first.tolist() == again.tolist() and len(set(first.tolist())) == 3
    assert not set(first.tolist()) & set(other.tolist())
    plain = {hashlib.sha256(name.encode()).hexdigest()[:12] for name in IDS.tolist()}
    assert not set(first.tolist()) & plain  # a guess cannot be tested without the key

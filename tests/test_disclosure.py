"""Keyed ids, and which pages a run writes: what was redacted stays redacted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from leakscope.disclosure import KEY, Disclosure, keyed_ids, redaction_key
from leakscope.errors import InputError
from leakscope.report.page import PAGE, pages_to_write

IDS = np.array(["anna", "ben", "Ωmega"])


def test_hashes_are_stable_in_a_run_and_differ_between_runs(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    first, again = (keyed_ids(folders[0], IDS) for _ in range(2))
    other = keyed_ids(folders[1], IDS)
    assert first.tolist() == again.tolist() and len(set(first.tolist())) == 3
    assert not set(first.tolist()) & set(other.tolist())
    plain = {hashlib.sha256(name.encode()).hexdigest()[:12] for name in IDS.tolist()}
    assert not set(first.tolist()) & plain  # a guess cannot be tested without the key


def test_nobody_else_can_read_the_key(tmp_path: Path) -> None:
    redaction_key(tmp_path)
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600
    (tmp_path / KEY).chmod(0o644)  # as a copy or an older version leaves it
    redaction_key(tmp_path)
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("has_key", "has_page", "wanted", "redacted_pages"),
    [
        (False, False, Disclosure(), [False]),
        (False, False, Disclosure(redacted=True), [True]),
        (True, False, Disclosure(), [True]),  # killed, and resumed without the option
        (True, True, Disclosure(), [False, True]),
        (True, False, Disclosure(redacted=False), [False, True]),
        (False, True, Disclosure(redacted=True), [False, True]),
        (True, False, Disclosure(with_membership=True), [False, True]),
    ],
)
def test_a_run_that_was_redacted_stays_redacted(
    tmp_path: Path, has_key: bool, has_page: bool, wanted: Disclosure, redacted_pages: list[bool]
) -> None:
    if has_key:
        redaction_key(tmp_path)
    if has_page:
        (tmp_path / PAGE).touch()
    pages = pages_to_write(tmp_path, wanted)
    assert [page.redacted for page in pages] == redacted_pages
    assert not any(page.redacted and page.with_membership for page in pages)


def test_a_redacted_page_with_membership_is_refused() -> None:
    with pytest.raises(InputError, match="--redact or --with-membership"):
        Disclosure(redacted=True, with_membership=True)

"""A bank survives being killed at each of its writes, renames and removals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_death_at_any_write_changes_nothing(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.faults.kill_points", tmp_path], cwd=REPO, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    survived = json.loads(found.stdout)
    # Three blocks of six renames each (five files and the folder), three bank files, four more at the end.
    assert survived["new_bank, before a rename"] >= 24
    assert survived["new_bank, after a rename"] == survived["new_bank, before a rename"]
    assert survived["new_bank, while writing"] >= 21
    assert survived["new_bank, while removing"] >= 15
    assert survived["damaged_bank, before a rename"] >= 9

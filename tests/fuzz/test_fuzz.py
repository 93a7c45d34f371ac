"""Hostile input of every kind, for a moment; `benchmarks/fuzz.py` does it for as long as wanted."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import KINDS, try_one

pytestmark = pytest.mark.slow

_EXAMPLES = {"parquet": 8, "predictions": 20, "report": 6, "run folder": 12, "study folder": 6, "torch": 25}
_SLOW = ("report", "study folder")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in _SLOW else kind for kind in KINDS]
)
def test_it_is_read_or_refused_in_words(kind: str) -> None:
    ended: set[str] = set()

    @given(st.integers(0, 2**63))
    @settings(max_examples=_EXAMPLES.get(kind, 50), derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    def one(seed: int) -> None:
        folder = Path(tempfile.mkdtemp(prefix="leakscope-fuzz-"))
        try:
            ended.add(try_one(kind, Random(seed), folder))
        finally:
            shutil.rmtree(folder)

    one()
    assert ended & {"InputError", "CorruptBankError"}, "nothing hostile was made"


def test_a_fault_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge itself: a traceback, a file outside, code that ran."""
    from tests.fuzz import targets

    def made(read: object, within: str = "") -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        monkeypatch.setitem(
            targets.KINDS, "bad", lambda rng, inside: targets.Example(inside / within, lambda: read(inside))
        )  # type: ignore[operator]
        try_one("bad", Random(0), folder)

    made(lambda inside: None)
    with pytest.raises(ZeroDivisionError):
        made(lambda inside: 1 / 0)
    with pytest.raises(AssertionError, match="wrote outside"):
        made(lambda inside: (inside.parent / "x").write_text(""))
    with pytest.raises(AssertionError, match=r"wrote outside: \['y'\]"):
        made(lambda inside: (inside / "y").write_text(""), within="run")
    with pytest.raises(AssertionError, match="ran code"):
        made(lambda inside: (inside / "evil").write_text(""))

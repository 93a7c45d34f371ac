"""Code of the user that fails when it is called: one line that says where, from `plan` and `audit` alike."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.command import run_command
from tests.cli.test_mistakes import DIGITS

OWN_CODE = """
def raises(*arguments, **options): raise KeyError("oops")
def returns_none(*arguments, **options): return None
value = 3
class Estimator:
    def __init__(self): raise OSError("no licence")
"""
OF_OWN_CODE: dict[str, tuple[str, tuple[str, ...]]] = {
    "a net that raises": (
        "[model]\nnet = 'broken_code:raises'",
        ("net='broken_code:raises'", "KeyError: 'oops'"),
    ),
    "a net that is none": ("[model]\nnet = 'broken_code:returns_none'", ("returned NoneType",)),
    "a net that is a number": (
        "[model]\nnet = 'broken_code:value'",
        ("net='broken_code:value'", "not callable"),
    ),
    "an estimator that raises": (
        "[model]\nestimator = 'broken_code:Estimator'",
        ("OSError: no licence", "line 6"),
    ),
    "an estimator that is a number": ("[model]\nestimator = 'broken_code:value'", ("not callable",)),
    "a training function that raises": (
        "[model]\ntrain = 'broken_code:raises'",
        ("KeyError: 'oops'", "line 2"),
    ),
    "a training function that is a number": (
        "[model]\ntrain = 'broken_code:value'",
        ("is int, not a function",),
    ),
    "a model that raises": (
        "[target]\nmembers = 'members.txt'\npredict = 'broken_code:raises'",
        ("PredictFunction", "KeyError: 'oops' (broken_code.py, line 2)"),
    ),
    "a model that returns nothing": (
        "[target]\nmembers = 'members.txt'\npredict = 'broken_code:returns_none'",
        ("PredictFunction",),
    ),
    "a model that is a number": (
        "[target]\nmembers = 'members.txt'\npredict = 'broken_code:value'",
        ("is int, not a function",),
    ),
    "a training function that is not there": ("[model]\ntrain = 'broken_code:nobody'", ("'nobody'",)),
}


@pytest.mark.parametrize(("content", "named"), OF_OWN_CODE.values(), ids=OF_OWN_CODE)
def test_mistakes_in_code_of_the_user_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, named: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "broken_code", raising=False)
    (tmp_path / "broken_code.py").write_text(OWN_CODE)
    (tmp_path / "members.txt").write_text("\n".join(f"digits-{i:04d}" for i in range(9)))
    config = tmp_path / "config.toml"
    config.write_text(f"{DIGITS}{content}\n[population]\nmodels = 2\ndevice = 'cpu'")
    lines = set()
    for command in (("plan", config), ("audit", config, "--out", tmp_path / "run")):
        refused = run_command(*command)
        assert (refused.exit_code, refused.out) == (2, ""), refused
        lines |= set(refused.err.splitlines())
    (line,) = lines
    assert line.startswith("leakscope: ")
    assert all(part in line for part in named), line

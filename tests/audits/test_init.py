"""`leakscope init`: what it writes runs, whatever the file looks like, or it says in one line why not."""

from __future__ import annotations

import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import polars as pl
import pytest

from leakscope.audits.config import read_config
from leakscope.audits.config_schema import config_schema
from leakscope.audits.initial.config_text import SCHEMA_FILE, Size
from leakscope.audits.initial.guess import guess_id
from leakscope.audits.initial.look import look_at
from tests.cli.command import Outcome, run_command
from tests.cli.test_mistakes import check_refused

N = 120


def people(**changes: Any) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "person": [f"P{i:03}" for i in range(N)],
        "age": rng.integers(18, 90, N),
        "income": rng.normal(30, 5, N).round(3),
        "city": rng.choice(["Oslo", "Paris"], N),
        "outcome": rng.choice(["no", "yes"], N),
    }
    return pl.DataFrame({k: v for k, v in (columns | changes).items() if v is not None}, strict=False)


def init(folder: Path, frame: pl.DataFrame, *options: str, name: str = "people.csv") -> Outcome:
    path = folder / name
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    return run_command("init", path, "--out", folder / "my.toml", *options)


def config(folder: Path) -> dict[str, Any]:
    """What was written: it is a config, fits the schema it names, and its records can be read."""
    text = (folder / "my.toml").read_text()
    content = tomllib.loads(text)
    jsonschema.validate(content, config_schema())
    assert text.startswith(f"#:schema ./{SCHEMA_FILE}\n") and (folder / SCHEMA_FILE).exists()
    read_config(folder / "my.toml").records(None)
    return content


def test_a_table_is_audited_with_what_was_written(tmp_path: Path) -> None:
    done = init(tmp_path, people())
    assert done.exit_code == 0, done
    written = config(tmp_path)
    assert written["data"] == {
        "file": "people.csv", "label": "outcome", "task": "classification", "id": "person",
    }  # fmt: skip
    assert "Label: 'outcome', because of its name." in done.out
    audited = run_command(
        "audit", tmp_path / "my.toml", "--models", "8", "--quiet", "--out", tmp_path / "run",
    )  # fmt: skip
    assert audited.exit_code == 0, audited


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("mine")
    people().write_csv(tmp_path / "people.csv")
    command = ("init", tmp_path / "people.csv", "--out", tmp_path / "my.toml")
    check_refused(tmp_path, command, "my.toml exists", "--out")
    (tmp_path / SCHEMA_FILE).write_text("{}")
    check_refused(tmp_path, (*command[:3], tmp_path / "b.toml"), SCHEMA_FILE, "--no-schema")
    assert run_command(*command[:3], tmp_path / "b.toml", "--no-schema").exit_code == 0
    assert "#:schema" not in (tmp_path / "b.toml").read_text()
    assert (tmp_path / "my.toml").read_text() == "mine"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("estimator", ["sklearn.ensemble:RandomForestClassifier", None])
def test_flags_come_before_guesses(tmp_path: Path, suffix: str, estimator: str | None) -> None:
    options = ("--estimator", estimator) if estimator else ("--net", "linear")
    done = init(tmp_path, people(), "--label", "city", "--id", "person", *options, name=f"a{suffix}")
    assert done.exit_code == 0, done
    written = config(tmp_path)
    assert written["data"]["label"] == "city" and written["data"]["file"] == f"a{suffix}"
    assert written["model"] == ({"estimator": estimator} if estimator else {"net": "linear"})
    assert ("standardise" in written["data"]) == (estimator is not None), "a forest cannot take the texts"
    assert ("training" in written) == (estimator is None)


@pytest.mark.parametrize(
    ("changes", "label", "task", "reason"),
    [
        ({"outcome": None, "churned": ["a", "b"] * (N // 2)}, "churned", "classification", "the last column"),
        (
            {"outcome": None, "city": None, "price": np.linspace(0.5, 9, N)},
            "price",
            "regression",
            "holds numbers",
        ),
        ({"outcome": np.arange(N) % 3}, "outcome", "classification", "3 different whole numbers"),
        ({"outcome": np.arange(N) * 7 % 101}, "outcome", "regression", "101 different whole numbers"),
        ({"outcome": [True, False] * (N // 2)}, "outcome", "classification", "2 classes"),
        ({"Target": ["u", "v"] * (N // 2), "outcome": None}, "Target", "classification", "of its name"),
    ],
)
def test_label_and_task_are_guessed_and_the_reason_is_given(
    tmp_path: Path, changes: dict[str, Any], label: str, task: str, reason: str
) -> None:
    done = init(tmp_path, people(**changes))
    assert done.exit_code == 0, done
    written = config(tmp_path)["data"]
    assert (written["label"], written["task"]) == (label, task)
    assert reason in done.out


def test_free_text_is_left_out_and_the_comment_says_so(tmp_path: Path) -> None:
    n = 600
    frame = pl.DataFrame(
        {
            "note": [f"note {i}: {i * 7919 % 1000}" for i in range(n)],
            "remark": [f"remark {i % 300}" for i in range(n)],
            "size": np.arange(n) % 9,
            "empty": pl.Series([None] * n, dtype=pl.String),
            "label": ["x", "y", "z"] * (n // 3),
        }
    )
    done = init(tmp_path, frame)
    assert done.exit_code == 0, done
    written = config(tmp_path)["data"]
    assert written["id"] == "note" and written["features"] == ["size"]
    assert "Left out: 'remark', 'empty'" in done.out


def test_ids_and_classes_with_leading_zeros(tmp_path: Path) -> None:
    code = [f"{row:05}" for row in range(N)]
    done = init(tmp_path, people(person=code, outcome=["01", "1", "02"] * (N // 3)))
    assert done.exit_code == 0, done
    assert config(tmp_path)["data"]["id"] == "person"
    records = read_config(tmp_path / "my.toml").records(None)
    assert records.ids.tolist() == code and records.class_names == ("01", "02", "1")
    assert "classification (3 classes: 01, 1, 02)" in done.out


def test_a_class_with_a_single_record_is_said(tmp_path: Path) -> None:
    done = init(tmp_path, people(outcome=["no", "yes"] * (N // 2 - 1) + ["no", "maybe"]))
    assert done.exit_code == 0 and "Check: class 'maybe' has a single record; " in done.out
    assert "Check:" not in init(tmp_path, people(), "--out", tmp_path / "b.toml").out


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "form", ["{},{:02}", "2024-01-01 {:02}:{:02}", "{:02}.{:02}.2024", "{},{:02} €", "{}:{:02}", "{}.{}%"]
)
def test_dates_and_numbers_with_fractions_are_no_ids(tmp_path: Path, form: str, suffix: str) -> None:
    texts = [form.format(1 + row // 28, 1 + row % 28) for row in range(N)]
    path = tmp_path / f"people{suffix}"
    for ids in (None, [f"{row:05}" for row in range(N)], [f"2.{row}.0" for row in range(N)]):
        frame = people(person=ids, seen_id=texts)
        frame.write_csv(path, separator=";") if suffix == ".csv" else frame.write_parquet(path)
        look = look_at(path)
        assert look.column("seen_id").is_unique
        assert guess_id(look, "outcome")[0] == (None if ids is None else "person")


def test_notes_are_no_ids(tmp_path: Path) -> None:
    """A report states the ids of the most exposed records."""
    notes = [f"seen in room {row} and sent home" for row in range(N)]
    people(person=None, note=notes).write_csv(tmp_path / "people.csv")
    assert guess_id(look_at(tmp_path / "people.csv"), "outcome")[0] is None
    people(person=[f"van der Berg, Anna{row}" for row in range(N)], note=notes).write_csv(tmp_path / "b.csv")
    assert guess_id(look_at(tmp_path / "b.csv"), "outcome")[0] == "person"


def test_a_measurement_with_decimal_commas_is_a_feature(tmp_path: Path) -> None:
    income = [f"{20_000 + 17 * row},{row % 100:02}" for row in range(N - 1)] + ["31999"]
    done = init(tmp_path, people(person=None, income=income))
    assert done.exit_code == 0, done
    assert "id" not in config(tmp_path)["data"]
    records = read_config(tmp_path / "my.toml").records(None)
    assert "income" in records.feature_names
    assert "Ids: none; no column has unique values and a name such as 'id'" in done.out


def test_nine_hundred_classes(tmp_path: Path) -> None:
    n = 2700
    frame = pl.DataFrame({"x": np.arange(n) % 31, "label": [f"c{i % 900}" for i in range(n)]})
    assert init(tmp_path, frame).exit_code == 0
    assert config(tmp_path)["data"]["task"] == "classification"
    assert "900 classes" in (tmp_path / "my.toml").read_text()


def test_all_text(tmp_path: Path) -> None:
    frame = pl.DataFrame({c: [f"{c}{i % k}" for i in range(N)] for c, k in (("a", 5), ("b", 3), ("c", 2))})
    done = init(tmp_path, frame)
    assert done.exit_code == 0, done
    assert config(tmp_path)["data"]["label"] == "c"


HOSTILE = [
    "it's",
    'say "hi"',
    "line\nbreak",
    "tab\there",
    "naïve ✓ 名",
    "a#b=[c]",
    "back\\slash",
    "'''",
    "\x7f",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_and_classes_may_hold_any_character(tmp_path: Path, name: str) -> None:
    """In a parquet file, where names are as they are; the folder and the file are called so, too."""
    frame = people(outcome=None).with_columns(pl.Series(name, [f"{name}1", f"{name}2"] * (N // 2)))
    folder = tmp_path / name.replace("\n", "")
    folder.mkdir()
    done = init(folder, frame, "--label", name, name=f"{name}.parquet".replace("\n", ""))
    assert done.exit_code == 0, done
    assert config(folder)["data"]["label"] == name


@pytest.mark.parametrize(
    ("frame", "options", "named"),
    [
        (people().select("age"), (), ("has 1 columns", "a label and at least one feature")),
        (people().head(0), (), ("0 rows",)),
        (people(), ("--label", "outcom"), ("column 'outcom' does not exist", "did you mean 'outcome'?")),
        (people(), ("--id", "city"), ("id column 'city' is not unique", "--id")),
        (people(), ("--id", "nobody"), ("id column 'nobody' does not exist",)),
        (people(), ("--label", "age", "--id", "age"), ("'age' cannot be both label and id",)),
        (people(), ("--net", "mpl"), ("mpl", "did you mean 'mlp'?")),
        (people(), ("--estimator", "sklearn.ensemble:Nothing"), ("--estimator=", "cannot be imported")),
        (people(), ("--estimator", "sklearn.linear_model:Ridge", "--net", "mlp"), ("exclude each other",)),
        (people(), ("--estimator", "sklearn.ensemble:RandomForestRegressor"), ("labels are classes",)),
        (people(outcome=["yes"] * N), ("--label", "outcome"), ("all labels in 'outcome' are 'yes'",)),
        (people(outcome=["yes", None] * (N // 2)), (), ("label 'outcome' has no value in 60 rows", "line 3")),
        (people(outcome=[1.5, float("nan")] * (N // 2)), (), ("'outcome' has no value in 60 rows",)),
        (people(), ("--label", "person"), ("'person' has 120 different text values in 120 rows", "--label")),
        (people(city=None, age=None, income=None), (), ("no column is left as a feature",)),
        (people(prob_0=0.5, is_member=1), (), ("saved predictions", "leakscope audit --predictions")),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_one_line_and_writes_nothing(
    tmp_path: Path, frame: pl.DataFrame, options: tuple[str, ...], named: tuple[str, ...]
) -> None:
    frame.write_csv(tmp_path / "a.csv")
    check_refused(tmp_path, ("init", tmp_path / "a.csv", "--out", tmp_path / "my.toml", *options), *named)


def test_other_files(tmp_path: Path) -> None:
    check_refused(tmp_path, ("init", tmp_path / "none.csv"), "none.csv does not exist")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    check_refused(tmp_path, ("init", tmp_path / "a.xlsx"), "is a spreadsheet; save it as csv in UTF-8")
    (tmp_path / "b.csv").write_bytes(b"a,b\n\xff,1\n")
    check_refused(tmp_path, ("init", tmp_path / "b.csv", "--out", tmp_path / "b.toml"), "b.csv", "UTF-8")


def test_arrays_and_images(tmp_path: Path) -> None:
    images = np.zeros((40, 1, 8, 8), dtype=np.uint8)
    images[::2, :, ::2] = 200
    np.savez(tmp_path / "pets.npz", features=images, labels=np.arange(40) % 2)
    done = run_command("init", tmp_path / "pets.npz", "--out", tmp_path / "my.toml")
    assert done.exit_code == 0, done
    assert config(tmp_path)["model"] == {"net": "cnn"}
    assert "40 records of shape (1, 8, 8)" in done.out


def test_models_are_fewer_where_records_are_many() -> None:
    sizes = [Size.of(n) for n in (100, 20_000, 20_001, 10**6)]
    assert [size.models for size in sizes] == [64, 64, 32, 16]
    assert all(size.models % 2 == 0 for size in sizes)


def test_the_label_of_a_sorted_file_is_seen_to_its_end(tmp_path: Path) -> None:
    """The first rows hold one class; the other, and an empty cell, come later."""
    n = 25_000
    frame = pl.DataFrame({"x": np.arange(n) % 7, "kind": ["a"] * (n - 1000) + ["b"] * 1000})
    assert init(tmp_path, frame).exit_code == 0
    assert config(tmp_path)["data"]["label"] == "kind"
    (tmp_path / "my.toml").unlink()
    frame[n - 1, "kind"] = None
    refused = init(tmp_path, frame)
    assert refused.exit_code == 2
    assert "label 'kind' has no value in 1 row (first: line 25,001)" in refused.err


@pytest.mark.slow
def test_a_million_rows_take_seconds(tmp_path: Path) -> None:
    n = 1_000_000
    frame = pl.DataFrame(
        {"id": np.arange(n), "a": np.arange(n) % 977, "b": np.arange(n) / 7, "y": np.arange(n) % 2}
    )
    frame.write_csv(tmp_path / "large.csv")
    started = time.process_time()
    done = run_command("init", tmp_path / "large.csv", "--out", tmp_path / "my.toml", "--estimator",
                       "sklearn.linear_model:LogisticRegression")  # fmt: skip
    assert done.exit_code == 0, done
    assert time.process_time() - started < 10
    assert "only its first rows" in done.out
    assert tomllib.loads((tmp_path / "my.toml").read_text())["population"]["models"] == 16


class Terminal:
    """A terminal at which somebody types."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    def isatty(self) -> bool:
        return True

    def answer(self, text: str, default: str = "") -> str:
        self.lines, typed = self.lines[1:], self.lines[0]
        return typed or default


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Somebody who types three answers."""
    terminal = Terminal("city", "none", "sklearn.ensemble:RandomForestClassifier")
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr("leakscope.cli.init._is_terminal", lambda stream: True)
    monkeypatch.setattr("typer.prompt", terminal.answer)
    return terminal


def test_no_questions_are_asked_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.setenv("CI", "true")
    assert init(tmp_path, people()).exit_code == 0
    assert len(terminal.lines) == 3 and config(tmp_path)["data"]["label"] == "outcome"


def test_questions_are_asked_at_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert init(tmp_path, people()).exit_code == 0
    written = config(tmp_path)
    assert terminal.lines == []
    assert written["data"]["label"] == "city" and "id" not in written["data"]
    assert written["model"]["estimator"] == "sklearn.ensemble:RandomForestClassifier"

"""A user's mistake is one line that names the value and the remedy, exit code 2, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from leakscope.attacks.registry import attack_classes
from tests.cli.command import files_under, run_command

SMALL = ("--widths", "4,6", "--n-repeats", "2", "--n-shadow", "1", "--n-reference", "2", "--n-samples", "60",
         "--n-initializations", "1", "--no-published-seeds")  # fmt: skip


def check_refused(folder: Path, arguments: tuple[str | Path, ...], *named: str) -> None:
    """One line that names everything in `named`; not a byte under `folder` changes."""
    before = files_under(folder), sorted(folder.rglob("*"))
    refused = run_command(*arguments)
    assert refused.exit_code == 2, refused
    assert refused.out == ""
    (line,) = refused.err.splitlines()
    assert line.startswith("leakscope: ")
    for part in named:
        assert part in line
    assert (files_under(folder), sorted(folder.rglob("*"))) == before


@pytest.mark.parametrize("command", [("demo",), ("study", "scaling", *SMALL), ("init", "table.csv")])
def test_a_name_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("a,label\n1,yes\n2,no\n")
    check_refused(
        tmp_path, (*command, "--out", "a" * 300), "the name is too long; choose a shorter one", "--out"
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--widths", "-8,16"), ("widths=[-8, 16]", "at least 1, like 16,32,64")),
        (("--widths", "0"), ("widths=[0]", "at least 1")),
        (("--widths", "8,8"), ("widths=[8, 8]", "distinct")),
        (("--widths", "8,wide"), ("widths='8,wide'", "whole numbers separated by commas, like 16,32,64")),
        (("--widths", "8.5"), ("widths='8.5'", "whole numbers")),
        (("--widths", ""), ("widths=''", "whole numbers")),
        (("--train-fraction", "1.5"), ("train_fraction=1.5", "between 0 and 1, like 0.5")),
        (("--train-fraction", "0"), ("train_fraction=0", "between 0 and 1")),
        (("--train-fraction", "nan"), ("train_fraction=nan", "between 0 and 1")),
        (("--n-classes", "1"), ("n_classes=1", "at least 2")),
        (("--n-classes", "50"), ("n_samples=60", "at least two per class (100)")),
        (("--n-features", "0"), ("n_features=0", "at least 1")),
        (("--n-repeats", "0"), ("n_repeats=0", "at least 1")),
        (("--n-shadow", "-1"), ("n_shadow=-1", "at least 1")),
        (("--n-reference", "3"), ("n_reference=3", "even")),
        (("--n-reference", "-2"), ("n_reference=-2", "at least 0")),
        (("--seed", "-1"), ("seed=-1", "from 0 to")),
        (("--preset", "nope"), ("preset='nope'", "choose published, wide, decisive")),
        (("--shadow-data", "stolen"), ("shadow_data='stolen'", "choose redrawn or same")),
        (("--target-data", "moved"), ("target_data='moved'", "choose fixed or redrawn")),
        (("--n-classes", "1", "--seed", "-1", "--widths", "0"), ("n_classes=1", "seed=-1", "widths=[0]")),
    ],
)
def test_study_options(tmp_path: Path, arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    check_refused(
        tmp_path, ("study", "scaling", *SMALL, *arguments, "--out", tmp_path / "new" / "run"), *named
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--train-fraction", "0.001"), ("train_fraction=0.001", "n_samples=60")),
        (("--seed", "4294967295"), ("seed=4294967295",)),
    ],
)
def test_study_options_that_only_the_data_refuses(
    tmp_path: Path, arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    check_refused(tmp_path, ("study", "scaling", *SMALL, *arguments, "--out", tmp_path / "run"), *named)


def test_an_out_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.txt").write_text("mine")
    (out / ".chapter.txt.tmp-1").write_text("mine too")
    for command in (("study", "scaling", *SMALL), ("demo", "--models", "2")):
        check_refused(tmp_path, (*command, "--out", out), str(out), "not empty and holds no run", "--out")


def test_an_out_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run_command("study", "scaling", *SMALL, "--quiet", "--out", out).exit_code == 0
    remedy = "choose another folder with --out, or remove this one"
    changes = {
        ("--seed", "43"): "config.seed is 42 there, 43 now",
        ("--n-reference", "4"): "config.n_reference is 2 there, 4 now",
        ("--widths", "4,6,8"): "config.hidden_widths is [4, 6] there, [4, 6, 8] now",
        ("--train-fraction", "0.4"): "config.train_fraction is 0.5 there, 0.4 now",
    }
    for changed, named in changes.items():
        check_refused(tmp_path, ("study", "scaling", *SMALL, *changed, "--out", out), str(out), named, remedy)
    check_refused(tmp_path, ("demo", "--out", out), "kind is study scaling there, audit now", remedy)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("demo", "--models", "7"), ("models=7", "even", "try 8")),
        (("demo", "--models", "0"), ("models=0", "at least 2")),
        (("demo", "--seed", "-1", "--models", "4"), ("seed=-1", "0 or more")),
    ],
)
def test_demo_options(tmp_path: Path, arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    check_refused(tmp_path, (*arguments, "--out", tmp_path / "run"), *named)


DIGITS = "[data]\ndataset = 'digits'\n"
CONFIGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "malformed": ("[data\ndataset = 'digits'", ("is not TOML", "line 1")),
    "three mistakes": (
        "[data]\ndataset = 'digits'\n[population]\nmodels = 7\n[training]\nlr = -1\n"
        "[attacks]\nnames = ['guess']",
        ("lr=-1", "models=7", "even", "attack='guess' is unknown", "lira"),
    ),
    "three more": (
        "[data]\n[training]\nepochs = 'many'\n[model]\nnett = 'mlp'",
        ("give either `dataset` or `file`", "training.epochs='many'", "model.nett is not a known setting"),
    ),
    "no data": ("[model]\nnet = 'mlp'", ("data is missing",)),
    "unknown dataset": ("[data]\ndataset = 'digit'", ("unknown dataset 'digit'", "did you mean 'digits'?")),
    "unknown attack": (
        "[data]\ndataset = 'digits'\n[attacks]\nnames = ['lyra']",
        ("'lyra' is unknown", "did you mean 'lira'?", f"choose from {', '.join(sorted(attack_classes()))}"),
    ),
    "no attack": ("[data]\ndataset = 'digits'\n[attacks]\nnames = []", ("attacks=[]", "choose from")),
    "odd number of models": (
        "[data]\ndataset = 'digits'\n[population]\nmodels = 9",
        ("models=9", "an even number of models"),
    ),
    "an impossible budget": (
        "[data]\ndataset = 'digits'\n[attacks]\nfpr = [0.1, 2]",
        ("fpr=[2.0]", "must be rates above 0 and at most 1"),
    ),
    "bad checkpoints": (
        "[data]\ndataset = 'digits'\n[training]\nepochs = 3\ncheckpoints = [2, 9]",
        ("checkpoints=[2, 9]", "1..epochs=3"),
    ),
    "missing file": ("[data]\nfile = 'nobody.csv'\nlabel = 'y'", ("nobody.csv", "does not exist")),
    "unknown option": (
        "[data]\ndataset = 'gaussian'\noptions = {n_people = 5}",
        ("unknown option n_people", "n_samples"),
    ),
    "unknown estimator": (
        "[data]\ndataset = 'digits'\n[model]\nestimator = 'sklearn.ensemble:Forrest'",
        ("model.estimator='sklearn.ensemble:Forrest'", "cannot be imported"),
    ),
    "misspelled estimator": (
        "[data]\ndataset = 'digits'\n[model]\nestimator = 'sklearn.tree:DecisionTreeClasifier'",
        ("cannot be imported", "did you mean 'DecisionTreeClassifier'?"),
    ),
    "estimator without a colon": (
        "[data]\ndataset = 'digits'\n[model]\nestimator = 'sklearn.tree.DecisionTreeClassifier'",
        ("no name after a colon", "write for example 'sklearn.tree:DecisionTreeClassifier'"),
    ),
    "an estimator's unknown option": (
        "[data]\ndataset = 'digits'\n[model]\nestimator = 'sklearn.svm:SVC'\noptions = {depth = 3}",
        ("sklearn.svm:SVC", "'depth' is not an option of SVC; it takes C, kernel"),
    ),
    "training of an estimator": (
        "[data]\ndataset = 'digits'\n[model]\nestimator = 'sklearn.svm:SVC'\n[training]\nlr = 0.1",
        ("training would do nothing",),
    ),
    "label of a dataset": ("[data]\ndataset = 'digits'\nlabel = 'y'", ("label would do nothing",)),
    "a number in quotes": (DIGITS + "[population]\nmodels = '8'", ("population.models='8'",)),
    "half a model": (DIGITS + "[population]\nmodels = 8.5", ("population.models=8.5",)),
    "a rate in quotes": (DIGITS + "[attacks]\nfpr = '0.1'", ("attacks.fpr='0.1'",)),
    "rates in quotes": (DIGITS + "[attacks]\nfpr = ['0.1']", ("attacks.fpr.0='0.1'",)),
    "one attack": (DIGITS + "[attacks]\nnames = 'lira'", ("attacks.names='lira'",)),
    "a number for an attack": (DIGITS + "[attacks]\nnames = [3]", ("attacks.names",)),
    "a table without a name": (
        DIGITS + "[attacks]\nnames = [{ online = false }]",
        ("give its `name`",),
    ),
    "an option of an attack": (
        DIGITS + "[attacks]\nnames = [{ name = 'lira', online = 'yes' }]",
        ("online='yes'",),
    ),
    "a date for a seed": (DIGITS + "[population]\nseed = 2020-01-01", ("population.seed",)),
    "text for a section": ("data = 'digits'", ("data='digits': must be a table, written [data]",)),
    "a list of sections": ("[[data]]\ndataset = 'digits'", ("data=", "must be a table, written [data]")),
    "a number of thousands of digits": (DIGITS + f"[population]\nmodels = {'9' * 5000}", ("is not TOML",)),
    "a section twice": (DIGITS + "[data]\nfile = 'x'", ("is not TOML",)),
    "yes for true": ("[data]\nfile = 'a.csv'\nstandardise = 'yes'", ("data.standardise='yes'",)),
    "Ray, misspelled": (DIGITS + "[population]\nengine = 'Ray'", ("engine='Ray'", "'local' or 'ray'")),
    "a gate without limits": (DIGITS + "[gate]", ("no limit is set", "max_auc")),
    "a limit in quotes": (DIGITS + "[gate]\nmax_auc = '0.6'", ("gate.max_auc='0.6'",)),
    "half a limit": (DIGITS + "[gate]\nmax_tpr = [{ fpr = 0.1 }]", ("gate.max_tpr",)),
    "a rate for a list of limits": (
        DIGITS + "[gate]\nmax_tpr = 0.1",
        ("gate.max_tpr=0.1: must be a list of tables, written [{ fpr = ..., tpr = ... }]",),
    ),
    "a misspelled section": ("[dta]\ndataset = 'digits'", ("dta is not a known", "did you mean 'data'?")),
    "an empty file": ("", ("data is missing",)),
    "predictions that are not there": ("[predictions]\nfile = 'nobody.npz'", ("nobody.npz",)),
    "predictions without a file": ("[predictions]", ("predictions.file is missing",)),
    "weights that are not there": (
        DIGITS + "[target]\nweights = 'nobody.pt'\nmembers = 'members.csv'",
        ("members", "cannot be read"),
    ),
    "a path that no file system takes": (f"[data]\nfile = '{'x' * 5000}'", ("longer than a path may be",)),
    "a folder that is not there": ("[data]\nfile = 'nowhere/'", ("nowhere", "does not exist")),
    "a net that is not there": (
        DIGITS + "[model]\nnet = 'nowhere:build'",
        ("model.net='nowhere:build' cannot be imported",),
    ),
    "an option no net has": (
        DIGITS + "[model]\noptions = { wide = 4 }",
        ("net='mlp'", "wide"),
    ),
    "an unknown signal": (
        DIGITS + "[population]\nsignals = ['gossip']",
        ("signals=", "'gossip'"),
    ),
    "an unknown device": (DIGITS + "[population]\ndevice = 'tpu'", ("device='tpu'",)),
}  # fmt: skip


@pytest.mark.parametrize(("content", "named"), CONFIGS.values(), ids=CONFIGS)
def test_audit_configs(tmp_path: Path, content: str, named: tuple[str, ...]) -> None:
    config = tmp_path / "config.toml"
    config.write_text(content)
    check_refused(tmp_path, ("audit", config, "--out", tmp_path / "run"), *named)


@pytest.mark.parametrize("content", [content for content, _ in CONFIGS.values()], ids=CONFIGS)
def test_a_plan_refuses_what_the_audit_refuses_with_the_same_message(tmp_path: Path, content: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(content)
    planned = run_command("plan", config)
    assert (planned.exit_code, planned.out) == (2, "")
    assert planned.err == run_command("audit", config, "--out", tmp_path / "run").err


@pytest.mark.parametrize("name", ["nowhere.toml", "."])
def test_a_config_that_is_not_there(tmp_path: Path, name: str) -> None:
    check_refused(tmp_path, ("audit", tmp_path / name, "--out", tmp_path / "run"), str(tmp_path / name))


@pytest.mark.parametrize("content", [b"age,label\n1,0\n", b"PK\xff"], ids=["csv", "npz"])
@pytest.mark.parametrize("command", ["audit", "plan"])
def test_records_in_place_of_a_config(tmp_path: Path, command: str, content: bytes) -> None:
    (tmp_path / "people.csv").write_bytes(content)
    named = "people.csv", "give the path of a TOML file", "`leakscope init` writes one for your records"
    check_refused(tmp_path, (command, tmp_path / "people.csv"), *named)
    (tmp_path / "config.toml").write_bytes(content)
    assert "leakscope init" not in run_command(command, tmp_path / "config.toml").err


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["Unix", "Windows"])
def test_line_ends_and_byte_order_marks_do_not_matter(tmp_path: Path, mark: bytes, line_end: bytes) -> None:
    config = tmp_path / "config.toml"
    lines = b"[data]", b"dataset = 'digits'", b"[population]", b"models = 7"
    config.write_bytes(mark + line_end.join(lines))
    check_refused(tmp_path, ("audit", config, "--out", tmp_path / "run"), "models=7", "even")


@pytest.mark.parametrize("command", ["audit", "demo"])
def test_an_out_that_cannot_be_a_folder(tmp_path: Path, command: str) -> None:
    """A file in the way is the user's mistake; the file stays."""
    (tmp_path / "thesis.txt").write_text("mine")
    config = tmp_path / "config.toml"
    config.write_text("[data]\ndataset = 'digits'\n[population]\nmodels = 2\n[training]\nepochs = 1")
    start = ("audit", config) if command == "audit" else ("demo", "--models", "2")
    for out in (tmp_path / "thesis.txt", tmp_path / "thesis.txt" / "run"):
        check_refused(tmp_path, (*start, "--out", out), str(tmp_path / "thesis.txt"), "--out")


def test_an_out_that_cannot_be_written(tmp_path: Path) -> None:
    """Nothing is wrong with the input, so the exit code is 3; still one line."""
    refused = run_command("demo", "--models", "2", "--out", "/proc/nowhere/run")
    assert (refused.exit_code, refused.out) == (3, "")
    (line,) = refused.err.splitlines()
    assert "/proc/nowhere" in line


def test_a_config_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe\x00")
    check_refused(tmp_path, ("audit", tmp_path / "config.toml"), "config.toml cannot be read")


@pytest.mark.parametrize("command", ["audit", "plan"])
def test_a_config_that_never_ends(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zeros.toml").symlink_to("/dev/zero")
    for name in ("pipe.toml", "zeros.toml"):
        check_refused(tmp_path, (command, tmp_path / name), f"{name} cannot be read", "not a regular file")
    with (tmp_path / "big.toml").open("wb") as file:
        file.truncate(2 * 10**6)
    check_refused(tmp_path, (command, tmp_path / "big.toml"), "big.toml is larger than 1 MB")


def test_a_config_may_be_a_link_with_any_line_ends(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_bytes(b"[data]\r\ndataset = 'digits'\r\n[model]\rnet = 'linear'\n")
    (tmp_path / "link.toml").symlink_to(tmp_path / "real.toml")
    assert run_command("plan", tmp_path / "link.toml", "--quiet").exit_code == 0


def test_a_missing_data_folder(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[data]\ndataset = 'cifar10'")
    check_refused(
        tmp_path,
        ("audit", config, "--data-dir", "/nonexistent", "--out", tmp_path / "run"),
        "cifar10",
        "/nonexistent",
        "leakscope data fetch cifar10",
        "--data-dir",
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A csv file with an infinite number in row 4 and a config for it."""
    rng = np.random.default_rng(0)
    lines = ["age,height,sick"]
    lines += [
        f"{age:.2f},{height:.2f},{'yes' if age > 0 else 'no'}" for age, height in rng.normal(size=(20, 2))
    ]
    lines[5] = "inf,1.0,yes"
    (tmp_path / "people.csv").write_text("\n".join(lines))
    (tmp_path / "config.toml").write_text(
        "[data]\nfile = 'people.csv'\nlabel = 'sick'\n[population]\nmodels = 4"
    )
    return tmp_path


def test_infinite_features_of_a_table(table: Path) -> None:
    check_refused(
        table,
        ("audit", table / "config.toml", "--out", table / "run"),
        "people.csv",
        "age",
        "infinite",
        "line 6",
        "correct those cells",
    )


def test_a_label_column_that_is_not_there(table: Path) -> None:
    content = (table / "config.toml").read_text().replace("sick", "ill")
    (table / "config.toml").write_text(content)
    check_refused(
        table, ("audit", table / "config.toml", "--out", table / "run"), "people.csv", "'ill'", "sick"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("study", "scaling", "--n-repeats", "abc"),
        ("study", "scaling", "--train-fraction", "half"),
        ("study", "scaling", "--nope"),
        ("study", "scaling", "extra"),
        ("study", "nope"),
        ("nope",),
        ("audit",),
        ("verify",),
        ("demo", "--models"),
    ],
)
def test_what_the_parser_refuses_is_exit_code_2_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run_command(*arguments)
    assert refused.exit_code == 2
    assert refused.out == ""
    assert refused.err != ""
    assert list(tmp_path.iterdir()) == []


def test_verify_of_a_folder_that_is_no_run(tmp_path: Path) -> None:
    check_refused(tmp_path, ("verify", tmp_path), str(tmp_path), "not a run folder")
    check_refused(tmp_path, ("verify", tmp_path / "nowhere"), "nowhere", "not a run folder")

"""The command as a shell runs it: closed pipes, little memory, hostile names, absurd files, shadowing."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from leakscope.errors import printable
from leakscope.report.blocks import Bullets, Code, Definitions, Heading, Table
from tests.cli.command import run_command
from tests.made_up_audits import made_up_audit, quick_single_records

COMMAND = (sys.executable, "-c", "from leakscope.cli.main import main; main()")
ESCAPE = "\x1b]0;owned\x07\x1b[31m"
DATA = "id,town,a,b,label\n" + "".join(
    f"p{i},{i % 2},{i * 37 % 11},{i * 53 % 7},{i % 3 > 0:d}\n" for i in range(40)
)
CONFIG = """
[data]
file = "people.csv"
label = "label"
id = "id"
groups = ["town"]
[training]
epochs = 2
[population]
models = 4
design = "pairs"
device = "cpu"
[attacks]
names = ["loss"]
"""


def config(folder: Path, more: str = "") -> Path:
    (folder / "people.csv").write_text(DATA)
    (folder / "audit.toml").write_text(CONFIG + more)
    return folder / "audit.toml"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [("attacks",), ("schema", "audit"), ("--help",), ("--version",)])
def test_output_that_cannot_be_written_is_one_line_and_exit_code_3(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
        silent = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=full)
    assert done.returncode == silent.returncode == 3
    assert done.stderr == (
        "leakscope: standard output cannot be written (No space left on device); free space there, or "
        "redirect it elsewhere\n"
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_that_lacks_a_character_ends_no_command(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run([*COMMAND, "attacks"], capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Ili? et al. 2026" in done.stdout.decode(encoding)


def unread(*arguments: str | Path) -> tuple[int, bytes]:
    """Exit code and standard error of a command whose standard output nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run([*COMMAND, *map(str, arguments)], stdout=closed, stderr=subprocess.PIPE)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("attacks",), ("schema", "audit"), ("--help",), ("data", "list")])
def test_a_closed_pipe_is_no_failed_gate(arguments: tuple[str, ...]) -> None:
    assert unread(*arguments) == (0, b"")


@pytest.mark.slow
def test_the_exit_code_is_the_gates_also_when_nobody_reads_on(tmp_path: Path) -> None:
    assert unread("audit", config(tmp_path), "--out", tmp_path / "good")[0] == 0
    failing = config(tmp_path, "[gate]\nmax_auc = 0.01\n")
    failing.write_text(failing.read_text().replace("models = 4", "models = 8"))  # fewer decide nothing
    assert unread("audit", failing, "--out", tmp_path / "bad")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [300, 700, 1000, 1500])
@pytest.mark.parametrize("command", ["audit", "plan"])
def test_too_little_memory_is_one_line(tmp_path: Path, megabytes: int, command: str) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    arguments = [*COMMAND, command, config(tmp_path)]
    done = subprocess.run(arguments, cwd=tmp_path, preexec_fn=limited, capture_output=True, text=True)
    assert done.returncode in (2, 3)
    assert "leakscope: not enough memory" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folders_name_cannot_send_commands_to_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / f"run{ESCAPE.replace('/', '')}"
    with quick_single_records():
        made_up_audit(folder, 1.0, attacks=("loss",), towns=(f"north{ESCAPE}", "<b>south</b>"))
    for command in (
        ["judge"],
        ["report"],
        ["verify"],
        ["open", "--print-only"],
        ["audit"],
        ["compare", tmp_path],
    ):
        done = run_command(*command, folder)
        assert "\x1b" not in done.out + done.err and "\x07" not in done.out + done.err, command
    for name in ("report.md", "report.html"):
        text = (folder / name).read_text()
        assert "owned" in text and not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text)


NAMES = ["<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "![x](http://e.x/y)", "a|b\n\n<script>",
         "`<b>`", "\\<i>", "&lt;b&gt;<b>", "# x", "<!--", ESCAPE]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_in_markdown(name: str) -> None:
    """Read by a parser of Markdown that passes HTML on, as GitHub's does."""
    markdown_it = pytest.importorskip("markdown_it")
    blocks = [Heading(name), Bullets([name, f"group {name}"]), Definitions([(name, name)]), Code(name),
              Table([name, "n"], [[name, "1"], [f"{name}|{name}", "2"]], name)]  # fmt: skip
    text = "\n\n".join(block.markdown() for block in blocks)
    tokens = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    kinds = {token.type for outer in tokens for token in (outer, *(outer.children or ()))}
    assert not kinds & {"html_block", "html_inline", "link_open", "image"}
    assert sum(token.type == "heading_open" for token in tokens) == 1
    assert printable(text) == text


ESTIMATOR = "[model]\nestimator = 'sklearn.dummy:DummyClassifier'"


@pytest.mark.slow
@pytest.mark.parametrize(("more", "allowed"), [("", False), (ESTIMATOR, True)])
def test_modules_beside_a_config_shadow_nothing(tmp_path: Path, more: str, allowed: bool) -> None:
    """A config that came with a folder of modules named like those that leakscope imports later."""
    path = config(tmp_path, more)
    path.write_text(
        path.read_text().replace("[training]\nepochs = 2\n", "" if more else "[training]\nepochs = 2\n")
    )
    names = ("torch", "polars", "scipy", "sklearn", "plotly", "rich", "jinja2", "pydantic", "random", "csv",
             "sitecustomize", "leakscope_plugins", "joblib", "skops", "typing_extensions")  # fmt: skip
    for name in names:
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\nraise SystemExit(9)\n"
        )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [*COMMAND[:1], "-P", *COMMAND[1:], "plan", path], cwd=elsewhere, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    printed = "import sys; from leakscope.audits.config import read_config; from pathlib import Path; "
    printed += (
        f"read_config(Path({str(path)!r})).recipe(); print({str(tmp_path)!r} in sys.path, sys.path[-2:])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", printed], cwd=elsewhere, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(allowed)), done.stderr
    assert not allowed or str(tmp_path) in done.stdout.partition(" ")[2]  # last, so that it shadows nothing


def test_reproduce_names_the_design_the_file_and_what_was_given_on_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "run"
    given = ("--models", "6", "--attacks", "loss,lira(online=false)", "--fpr", "0.25")
    assert run_command("audit", config(tmp_path), "--out", out, "--quiet", *given).exit_code == 0
    page = (out / "report.html").read_text()
    assert (
        "leakscope audit audit.toml --models 6 --attacks &#39;loss,lira(online=false)&#39; --fpr 0.25" in page
    )
    assert "file = &#34;people.csv&#34;" in page and "<dt>design</dt><dd>pairs</dd>" in page


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ("--gate internal", "--gate internal"),
        ("--gate internal --max-auc 0.9", "--gate internal --max-auc 0.9"),
        (
            "--max-advantage 0.5 --max-tpr 0.01:0.05,0.1:0.3",
            "--max-advantage 0.5 --max-tpr 0.01:0.05,0.1:0.3",
        ),
        ("--claim 8", "--claim 8,1e-05"),
    ],
)
def test_the_command_that_repeats_an_audit_has_its_limits(tmp_path: Path, limits: str, named: str) -> None:
    """Otherwise whoever repeats an audit that failed its gate sees it pass."""
    out = tmp_path / "run"
    toml = config(tmp_path)
    toml.write_text(toml.read_text().replace("pairs", "bernoulli"))  # which a claim takes
    run_command("audit", toml, "--out", out, "--quiet", "--models", "8", *limits.split())
    page = unescape((out / "report.html").read_text())
    (command,) = re.findall(r"leakscope audit audit.toml --models 8 --attacks loss .*?</code>", page)
    assert command.endswith(f" {named}</code>") and command.count("--max") == named.count("--max")


def _csv_with_hole(path: Path) -> None:
    path.write_text("id,label,x\n1,0,2\n2,1,3\n")
    os.truncate(path, 2 << 30)


def _one_line(path: Path) -> None:
    path.write_bytes(b"x" * (40 << 20))


def _many_columns(path: Path) -> None:
    path.write_bytes(b"label" + b"," * (3 << 20) + b"\n1" + b"," * (3 << 20))


def _long_id(path: Path) -> None:
    path.write_text(
        "id,label,x\n" + "".join(f"{'a' * 9_000_000 if i == 0 else i},{i % 2},{i}\n" for i in range(99))
    )


@pytest.mark.slow
@pytest.mark.parametrize("absurd", [_csv_with_hole, _one_line, _many_columns, _long_id])
def test_an_absurd_csv_is_refused_without_much_memory(tmp_path: Path, absurd: Callable[[Path], None]) -> None:
    absurd(tmp_path / "people.csv")
    (tmp_path / "audit.toml").write_text(CONFIG)
    measured = (
        "from pathlib import Path; from leakscope.audits.config import read_config\n"
        "try: read_config(Path('audit.toml')).records(None)\n"
        "except Exception as error: print(type(error).__name__, str(error)[:300])\n"
        # Not ru_maxrss, which a process inherits from the one that starts it.
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", measured], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    error, kilobytes = done.stdout.splitlines()
    assert error.startswith("InputError"), done
    assert int(kilobytes) < 600_000


def test_formulas_in_ids_are_text_in_every_csv(tmp_path: Path) -> None:
    import csv

    from leakscope.data.predictions import Predictions
    from leakscope.single_model.attack import write_submission

    ids = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-5", "+1e3", "plain", "=\n=1"]
    private = Predictions(np.zeros((10, 2), np.float32), np.zeros(10, np.int64), np.array(ids))
    write_submission(tmp_path / "submission.csv", private, np.linspace(0, 1, 10))
    with (tmp_path / "submission.csv").open(newline="") as file:
        written = [row[0] for row in csv.reader(file)][1:]
    for before, after in zip(ids, written, strict=True):
        assert after in (before, f"'{before}")
        assert not after.startswith(("=", "@", "\t", "\r")) and (after[0] not in "+-" or float(after))

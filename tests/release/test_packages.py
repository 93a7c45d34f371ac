"""What a release uploads: complete, clean, and at work far from the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from leakscope import __version__
from tests.release.conftest import ROOT, Built
from tests.release.environments import Environment, environment, link_packages, requirements_of

pytestmark = pytest.mark.slow

PRIVATE = re.compile(r"\.(npz|npy|parquet|csv|pem|key|env|db|pyc|log)$|(^|/)\.(git|env|ci|venv)")
TRAINING_NEEDS_TORCH = "leakscope: training needs torch: pip install 'leakscope[train]'\n"


def test_the_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    names = zipfile.ZipFile(built.wheel).namelist()
    info = f"leakscope-{__version__}.dist-info/"
    assert [name for name in names if not name.startswith(("leakscope/", info))] == []
    assert [name for name in names if PRIVATE.search(name)] == []
    in_source = {f"leakscope/{path.relative_to(ROOT / 'src/leakscope')}" for path in package_files()}
    assert {name for name in names if name.startswith("leakscope/")} == in_source
    assert any(name.endswith(".j2") for name in names), "the templates of the report"
    assert any(name.endswith(".js") for name in names), "its scripts"
    assert "leakscope/py.typed" in names
    assert f"{info}licenses/LICENSE" in names


def package_files() -> list[Path]:
    every = (ROOT / "src" / "leakscope").rglob("*")
    return [path for path in every if path.is_file() and "__pycache__" not in path.parts]


def test_the_wheel_is_small(built: Built) -> None:
    assert built.wheel.stat().st_size < 2_000_000


def test_the_sdist_has_what_the_tests_need(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        left_out = set(tracked.stdout.splitlines()) - names
        assert left_out == set(), "a tracked file is missing from the sdist"
        strangers = {name for name in names if not (ROOT / name).exists()} - {"PKG-INFO"}
        assert strangers == set()
    assert "tests/conftest.py" in names and "Makefile" in names


def test_a_package_index_accepts_both(built: Built) -> None:
    pytest.importorskip("twine", reason="twine is not installed (pip install 'leakscope[dev]')")
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist],
        capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture(scope="module")
def without_torch(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel as `pip install leakscope` installs it."""
    made = environment(tmp_path_factory.mktemp("plain") / "venv", built.wheel)
    linked = link_packages(made.packages, requirements_of(made))
    assert {"numpy", "polars"} <= linked
    assert not {"torch", "safetensors", "ray"} & linked, "a plain install brings torch"
    return made


def write_predictions(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    in_mask, labels = rng.random((4, 300)) < 0.5, np.arange(300) % 2
    logits = rng.normal(size=(4, 300, 2))
    logits[:, np.arange(300), labels] += 1 + 4 * in_mask
    np.savez(folder / "outputs.npz", logits=logits[0], labels=labels, is_member=in_mask[0],
             reference_logits=logits[1:], reference_members=in_mask[1:])  # fmt: skip
    return folder / "outputs.npz"


def test_a_plain_install_judges_predictions_and_refuses_to_train(
    without_torch: Environment, tmp_path: Path
) -> None:
    assert without_torch.leakscope("--help", cwd=tmp_path).returncode == 0
    assert without_torch.leakscope("--version", cwd=tmp_path).stdout == f"leakscope {__version__}\n"
    predictions = write_predictions(tmp_path)
    files = ("--junit", "junit.xml", "--summary", "summary.md")
    judged = without_torch.leakscope(
        "audit", "--predictions", predictions, "--gate", "release", *files, cwd=tmp_path
    )
    assert judged.returncode == 1, judged.stderr
    assert "Gate failed" in judged.stdout
    assert (tmp_path / "runs" / "outputs" / "report.html").stat().st_size > 100_000
    verified = without_torch.leakscope("verify", "runs/outputs", cwd=tmp_path)
    assert verified.returncode == 0, verified.stderr
    trained = without_torch.leakscope("demo", cwd=tmp_path)
    assert (trained.returncode, trained.stderr) == (2, TRAINING_NEEDS_TORCH)
    assert not (tmp_path / "runs" / "demo").exists()


def test_python_says_the_same(without_torch: Environment, tmp_path: Path) -> None:
    script = (
        "import leakscope\nfrom leakscope.errors import MissingExtraError\n"
        "try:\n    leakscope.audit(leakscope.load('digits'), leakscope.Recipe(), out='run')\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    done = without_torch.run("python", "-c", script, cwd=tmp_path)
    assert f"leakscope: {done.stdout}" == TRAINING_NEEDS_TORCH, done.stderr


def test_with_train_the_demo_runs_in_an_empty_folder(built: Built, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    trained = environment(tmp_path / "venv", built.wheel)
    link_packages(trained.packages, requirements_of(trained, "train"))
    folder = tmp_path / "empty"
    folder.mkdir()
    done = trained.leakscope("demo", "--models", "2", "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "runs" / "demo" / "report.html").exists()
    assert [path.name for path in folder.iterdir()] == ["runs"]


def interpreter(version: str) -> Path | None:
    """A Python of this version: on the path, or one that pyenv installed."""
    own = shutil.which(f"python{version}")
    candidates = [
        *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
        *([Path(own)] if own else []),
    ]
    for candidate in candidates:
        asked = subprocess.run(
            [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True,
        )  # fmt: skip
        if asked.stdout.strip() == version:
            return candidate
    return None


OTHERS = [f"3.{minor}" for minor in (11, 12, 13) if minor != sys.version_info.minor]


@pytest.mark.parametrize("version", OTHERS)
def test_every_other_supported_python_installs_and_compiles_it(
    built: Built, version: str, tmp_path: Path
) -> None:
    """Without other packages, most of which are compiled for one Python; `.ci/release` installs them all."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    made = environment(tmp_path / "venv", built.wheel, python)
    compiled = made.run(
        "python", "-W", "error", "-m", "compileall", "-q", made.packages / "leakscope", cwd=tmp_path
    )
    assert compiled.returncode == 0, compiled.stdout
    version_of = "import leakscope, leakscope.errors, leakscope.testing; print(leakscope.__version__)"
    started = made.run("python", "-W", "error", "-c", version_of, cwd=tmp_path)
    assert started.stdout == f"{__version__}\n", started.stderr
    assert made.leakscope("--help", cwd=tmp_path).returncode != 0, "typer came from elsewhere"

"""Versions, requirements and the files around the code agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from leakscope import __version__
from leakscope.errors import missing_extra

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pinned(name: str) -> dict[str, str]:
    """Package -> version of a file in requirements/."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {normalized(package): version for package, version in pairs}


def normalized(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def required(*extras: str) -> list[Requirement]:
    """The package's own requirements, and those of extras without what other extras bring."""
    texts = [
        *PROJECT["dependencies"],
        *(t for extra in extras for t in PROJECT["optional-dependencies"][extra]),
    ]
    return [one for one in map(Requirement, texts) if one.name != "leakscope"]


def test_minimal_versions_are_the_lower_bounds_of_the_package() -> None:
    bounds = {
        normalized(one.name): next(s.version for s in one.specifier if s.operator == ">=")
        for one in required()
    }
    minimal = pinned("minimal.txt")
    assert minimal.keys() == bounds.keys()
    for name, version in minimal.items():
        parts = [*bounds[name].split("."), "0", "0"][:3]
        assert version == ".".join(parts), name


def test_the_lock_file_satisfies_every_requirement_and_names_no_host() -> None:
    text = (ROOT / "requirements" / "dev.lock").read_text()
    assert not re.search(r"://|@|\+|--", text)
    locked = pinned("dev.lock")
    for one in required("train", "dev"):
        version = locked.get(normalized(one.name))
        assert version is not None, f"{one.name} is not in requirements/dev.lock; run `make lock`"
        assert one.specifier.contains(version, prereleases=True), f"{one} but {version}; run `make lock`"


def test_a_plain_install_needs_no_torch() -> None:
    assert "torch" not in {one.name for one in required()}
    assert "torch" in {one.name for one in required("train")}
    assert missing_extra("torch") == "training needs torch: pip install 'leakscope[train]'"
    assert missing_extra("torch.nn") == missing_extra("torch")
    assert missing_extra("numpy") == missing_extra(None) == ""


def test_the_version_is_the_same_everywhere() -> None:
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (pip install 'leakscope[dev]')")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == __version__
    assert cited["license"] == PROJECT["license"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == __version__


def test_issue_templates_are_forms() -> None:
    yaml = pytest.importorskip("yaml", reason="pyyaml is not installed (pip install 'leakscope[dev]')")
    forms = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    assert len(forms) == 3
    for path in forms:
        form = yaml.safe_load(path.read_text())
        assert {"name", "description", "body"} <= form.keys()
        ids = [part["id"] for part in form["body"]]
        assert len(set(ids)) == len(ids)
        assert {part["type"] for part in form["body"]} <= {"textarea", "input", "dropdown", "checkboxes"}

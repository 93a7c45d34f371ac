"""What a CI pipeline asks of a command: a gate by name, JUnit XML, a summary for the page of a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.errors import InputError

if TYPE_CHECKING:
    from leakscope.evaluate.gate import Gate
    from leakscope.evaluate.results import AuditResults
    from leakscope.runs.verification import Verification

GateName = Annotated[
    str | None,
    typer.Option(
        "--gate",
        metavar="PRESET",
        help="Limits by the model's use: release, research or internal. In `audit`, limits in the config "
        "override them.",
    ),
]
Junit = Annotated[
    Path | None, typer.Option(help="Write limits and checks as test cases to this JUnit XML file.")
]
Summary = Annotated[Path | None, typer.Option(help="Write a summary to this Markdown file, for a CI job.")]


def with_gate(gate: Gate | None, name: str | None) -> Gate | None:
    """The gate with the preset of this name."""
    from leakscope.evaluate.gate import Gate

    if name is None:
        return gate
    preset: Any = name  # Gate refuses unknown names
    return Gate(preset=preset) if gate is None else replace(gate, preset=preset)


def check_files(junit: Path | None, summary: Path | None) -> None:
    """Refuses what cannot be written, before anything is trained."""
    for option, path in (("junit", junit), ("summary", summary)):
        if path is not None and path.is_dir():
            raise InputError(f"--{option}={path} is a folder; give the name of a file")
    if junit is not None and summary is not None and junit.resolve() == summary.resolve():
        raise InputError(f"--junit and --summary are the same file, {junit}; give two")


def write_audit(results: AuditResults, junit: Path | None, summary: Path | None) -> None:
    """Writes the files that were asked for."""
    from leakscope.audits.report.pipeline import audit_junit, job_summary

    if junit is not None:
        _write(junit, audit_junit(results), "--junit")
    if summary is not None:
        _write(summary, job_summary(results).encode(), "--summary")


def write_verification(run: Path, checked: Verification, junit: Path | None, summary: Path | None) -> None:
    """The same for a run folder that was checked: one test case per check and per problem."""
    from leakscope.report.blocks import Bullets, plain
    from leakscope.report.junit import Case, junit_xml

    name = f"leakscope verify {run.name}"
    cases = [Case("verify", what, "passed", f"All good: {what}.") for what in checked.checked]
    cases += [Case("verify", f"problem {n}", "failed", what) for n, what in enumerate(checked.problems, 1)]
    if checked.undecided:
        cases.append(Case("verify", "version", "inconclusive", ". ".join(checked.undecided)))
    if junit is not None:
        _write(junit, junit_xml(name, cases), "--junit")
    if summary is not None:
        good = "Undamaged, but computed by another version" if checked.undecided else "All good"
        outcome = f"{len(checked.problems)} problems" if checked.problems else good
        lines = Bullets([*(case.sentence for case in cases), *checked.notes]).markdown()
        _write(summary, f"## {plain(name)}\n\n**{outcome}**\n\n{lines}\n".encode(), "--summary")


def _write(path: Path, content: bytes, option: str) -> None:
    from leakscope.disk.storage import atomic_file

    with atomic_file(path, option=option) as file:
        file.write(content)

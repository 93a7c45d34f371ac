"""report.html of the dynamics study: the plane to move through, everything over epochs, hardness, ratios.

Built from results.json, records.parquet and every record's path; without the paths at hand they are made
from the banks, which is one attack a checkpoint and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from leakscope.bank.run_folder import RESULTS, read_json
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure, shown_ids
from leakscope.disk.parquet import read_stored
from leakscope.disk.storage import write_bytes
from leakscope.evaluate.judge import RECORDS
from leakscope.report.page import PAGE, Page, Section, paragraphs
from leakscope.report.study_page import (
    absent,
    bullets,
    conventions,
    folder_facts,
    grid,
    heading,
    reproduce,
)
from leakscope.report.tables import table
from leakscope.studies.dynamics import page_charts as charts
from leakscope.studies.dynamics import page_first_screen as first
from leakscope.studies.dynamics.figures import shown_measures
from leakscope.studies.dynamics.page_plane import SCRIPTS, PlaneRun, plane
from leakscope.studies.dynamics.report import (
    COMPARED,
    COMPARED_NOTE,
    HARDNESS,
    RATIO_NOTE,
    RATIOS,
    SUMMARY,
    compared_rows,
    hardness_note,
    hardness_rows,
    population_lines,
    ratio_rows,
    summary_rows,
    variation_words,
    words,
)

if TYPE_CHECKING:
    import polars as pl

    from leakscope.studies.dynamics.judge import JudgedRun

Run = dict[str, Any]


def write_page(
    folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE, runs: Sequence[JudgedRun] | None = None
) -> Path:
    """report.html of a study folder; returns its path.

    Args:
        folder: a finished study.
        disclosure: what may be told of single records.
        runs: the judged runs; None: read from the folder.
    """
    from leakscope.studies.dynamics.stored import stored_runs

    results = read_json(folder / RESULTS)
    judged = stored_runs(folder, results) if runs is None else runs
    write_bytes(folder / PAGE, page(results, judged, folder, disclosure).encode())
    return folder / PAGE


def page(results: dict[str, Any], runs: Sequence[JudgedRun], folder: Path, disclosure: Disclosure) -> str:
    """The page as text."""
    side = results["config"]["side"]
    on_plane = plane([_plane_run(run, folder, disclosure) for run in runs], side)
    named = list(results["runs"].items())
    datasets = dict.fromkeys(run["setting"]["dataset"] for _, run in named)
    sections = [
        *(_comparison(results) if len(named) > 1 else []),
        Section("plane-section", "The plane", on_plane.body, _plane_note(runs[0], named)),
    ]
    for k, run in enumerate(runs):
        sections += _run_sections(k, run, results, several=len(runs) > 1)
    sections += [
        conventions([], results["conventions"]),
        reproduce(first.command(results["config"]), named[0][1]["setting"]["seed"], results["runtime"]),
    ]
    return Page(
        f"When records become exposed in training: {', '.join(datasets)}",
        first.headline(results),
        [*first.facts(results), *folder_facts(folder)],
        sections,
        on_plane.arrays,
        [*first.limits(results), *on_plane.left_out],
        gauge=first.gauge(named[0][1]) if len(named) == 1 else None,
        redacted=disclosure.redacted,
        scripts=SCRIPTS,
    ).render()


def _plane_run(run: JudgedRun, folder: Path, disclosure: Disclosure) -> PlaneRun:
    frame = _records(folder, run.setting.name)
    # Python's strings: as an array of one width, a single long id would cost its length for every record.
    ids, labels = (frame[name].cast(str).fill_null("").to_numpy() for name in ("id", "label"))
    return PlaneRun(
        run.setting.name,
        run.result["population"]["models"],
        run.paths,
        run.vulnerable,
        run.result["figures"]["vulnerable"]["floor"]["mean"],
        shown_ids(folder, ids, disclosure.redacted),
        np.full(len(labels), "left out") if disclosure.redacted else labels,
        run.hardness,
    )


def _records(folder: Path, run: str) -> pl.DataFrame:
    import polars as pl

    return read_stored(folder / RECORDS, ["run", "id", "label"]).filter(pl.col("run") == run)


def _plane_note(run: JudgedRun, named: list[tuple[str, Run]]) -> str:
    steps = "one checkpoint: how the records came here is not known" if len(run.paths.epochs) == 1 else (
        f"{len(run.paths.epochs)} checkpoints; move the slider or press play")  # fmt: skip
    several = f"{len(named)} runs; " if len(named) > 1 else ""
    return (
        "Upper left is exposed: models trained on a record take it for a member and others do not. On the "
        f"dashed diagonal nobody can tell. {several}{steps}."
    )


def _run_sections(k: int, judged: JudgedRun, results: dict[str, Any], several: bool) -> list[Section]:
    """One section a topic for a single run; one section a run where there are several."""
    run, name = judged.result, judged.setting.name
    figures = table(SUMMARY, summary_rows(run)) + paragraphs([variation_words(run["advantage"])])
    parts = [
        ("figures", "Figures", figures),
        ("over-training", "Over training", _over_training(k, run)),
        ("moves", "Moves between cells", _moves(k, run)),
        ("hardness", "Hardness", _hardness(k, judged, results["published"]["epistemic_r"])),
    ]
    if not several:
        return [Section(id, title, body) for id, title, body in parts]
    body = bullets(words(run, results["published"]["early_share"])) + Markup("").join(
        heading(title) + part for _, title, part in parts
    )
    return [Section(f"run{k}", name, body)]


def _over_training(k: int, run: Run) -> Markup:
    if len(run["epochs"]) == 1:
        return absent(
            "There is one checkpoint, so nothing can be drawn over training. Ask for more with --every."
        )
    drawn = [
        charts.over_time(f"run{k}-{what.figure}", run, what) for what in (*charts.OVER_TIME, *charts.EARLY)
    ]
    titles = [what.title for what in (*charts.OVER_TIME, *charts.EARLY)]
    way = heading("Centre of mass") + charts.centre(f"run{k}-centre", [("measured", run)])
    return grid(*(heading(title) + part for title, part in zip(titles, drawn, strict=True)), way)


def _moves(k: int, run: Run) -> Markup:
    if len(run["epochs"]) == 1:
        return absent("There is one checkpoint, so no record has moved.")
    return charts.transitions(f"run{k}-transitions", run)


def _hardness(k: int, judged: JudgedRun, published_r: float) -> Markup:
    run = judged.result
    if not run["hardness"]:
        return absent("No measure of hardness could be computed from the answers that were kept.")
    drawn = [
        charts.hardness(f"run{k}-hardness{m}", row.measure, judged.hardness[row.measure],
                        judged.paths.advantage[-1], run["hardness"][row.measure])
        for m, row in enumerate(shown_measures(judged))
    ]  # fmt: skip
    missing = (
        Markup("")
        if judged.setting.keep_logits
        else absent("Uncertainty over all classes and EL2N are absent: all classes' answers were not kept.")
    )
    return (
        table(HARDNESS, hardness_rows(run))
        + paragraphs([hardness_note(published_r)])
        + missing
        + grid(*drawn)
    )


def _comparison(results: dict[str, Any]) -> list[Section]:
    named = list(results["runs"].items())
    body = table(COMPARED, compared_rows(results)) + paragraphs([COMPARED_NOTE])
    if results["comparison"]:
        body += heading("Ratios beside the published ones")
        body += table(RATIOS, ratio_rows(results)) + paragraphs([RATIO_NOTE])
    else:
        body += absent(
            "No two of these runs differ as two of the published ones do, so there is no ratio to compare."
        )
    _, vulnerable, entropy, _ = charts.OVER_TIME
    if all(len(run["epochs"]) > 1 for _, run in named):
        body += grid(
            heading(vulnerable.title) + charts.compared("compared-vulnerable", named, vulnerable),
            heading(entropy.title) + charts.compared("compared-entropy", named, entropy),
            heading("Centre of mass") + charts.centre("compared-centre", named),
        )
    spread = [line.removeprefix("- ") for line in population_lines(results)[2:]]
    body += heading("Independent populations") + bullets(spread) if spread else Markup("")
    return [Section("comparison", "Comparison", body)]

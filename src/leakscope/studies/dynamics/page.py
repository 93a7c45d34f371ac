"""report.html of the dynamics study: the interactive plane, every figure over epochs, hardness, ratios.

The page is made from results.json, records.parquet and the path of every record. Paths that are not given are
computed from the banks, by one attack per checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from leakscope.bank.results import read_results
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
from leakscope.studies.dynamics import page_first_screen as first_screen
from leakscope.studies.dynamics.figures import drawn_measures
from leakscope.studies.dynamics.page_plane import SCRIPTS, PlaneRun, plane
from leakscope.studies.dynamics.records import RunRecords, stored_records
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
    population_sentences,
    ratio_rows,
    sentences,
    summary_rows,
    variation_sentence,
)
from leakscope.studies.dynamics.results import DynamicsResults, PublishedFigures, RunResults


def write_page(
    folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE, runs: Sequence[RunRecords] | None = None
) -> Path:
    """Writes report.html of a finished study; returns its path.

    Args:
        folder: the study's folder.
        disclosure: what the page may disclose about single records.
        runs: the records of each run; None means to compute them from the folder.
    """
    results = read_results(folder, DynamicsResults)
    runs = stored_records(folder, results) if runs is None else runs
    write_bytes(folder / PAGE, _page(results, runs, folder, disclosure).encode())
    return folder / PAGE


def _page(results: DynamicsResults, runs: Sequence[RunRecords], folder: Path, disclosure: Disclosure) -> str:
    config = results.config
    on_plane = plane([_plane_run(results, run, folder, disclosure) for run in runs], config.side)
    single = next(iter(results.runs.values())) if len(results.runs) == 1 else None
    datasets = dict.fromkeys(setting.dataset for setting in config.settings)
    sections = [
        *([] if single else [_comparison(results)]),
        Section("plane-section", "The plane", on_plane.body, _plane_note(results)),
        *(section for k, run in enumerate(runs) for section in _run_sections(k, run, results)),
        conventions([], results.conventions),
        reproduce(first_screen.command(config), config.settings[0].seed, results.runtime),
    ]
    return Page(
        f"When records become exposed during training: {', '.join(datasets)}",
        first_screen.headline(results),
        [*first_screen.facts(results), *folder_facts(folder)],
        sections,
        on_plane.arrays,
        [*first_screen.limits(results), *on_plane.left_out],
        gauge=first_screen.gauge(single) if single else None,
        redacted=disclosure.redacted,
        scripts=SCRIPTS,
    ).render()


def _plane_run(
    results: DynamicsResults, records: RunRecords, folder: Path, disclosure: Disclosure
) -> PlaneRun:
    import polars as pl

    frame = read_stored(folder / RECORDS, ["run", "id", "label"]).filter(pl.col("run") == records.name)
    # Python strings: in an array of fixed width, a single long id would cost its length for every record.
    ids, labels = (frame[name].cast(str).fill_null("").to_numpy() for name in ("id", "label"))
    run = results.runs[records.name]
    return PlaneRun(
        records,
        run.population.models,
        run.figures.vulnerable.floor.mean,
        shown_ids(folder, ids, disclosure.redacted),
        np.full(len(labels), "redacted") if disclosure.redacted else labels,
    )


def _plane_note(results: DynamicsResults) -> str:
    n_runs, n_checkpoints = len(results.runs), len(next(iter(results.runs.values())).epochs)
    steps = (
        "There is a single checkpoint, so the records' paths are unknown."
        if n_checkpoints == 1
        else f"{n_checkpoints} checkpoints: move the slider or press Play."
    )
    several = f"{n_runs} runs: choose one above the plane. " if n_runs > 1 else ""
    return (
        "Records at the upper left are exposed: the attack recognizes them as members of the models trained "
        "on them, and rarely of the others. On the dashed diagonal it is no better than guessing. "
        f"{several}{steps}"
    )


def _run_sections(k: int, records: RunRecords, results: DynamicsResults) -> list[Section]:
    """One section per topic for a single run; one section per run where there are several."""
    run = results.runs[records.name]
    figures = table(SUMMARY, summary_rows(run)) + paragraphs([variation_sentence(run.advantage)])
    parts = [
        ("figures", "Figures", figures),
        ("over-training", "Over training", _over_training(k, run)),
        ("moves", "Moves between cells", _moves(k, run)),
        ("hardness", "Hardness", _hardness(k, run, records, results.published)),
    ]
    if len(results.runs) == 1:
        return [Section(id, title, body) for id, title, body in parts]
    body = bullets(sentences(run, results.published)) + Markup("").join(
        heading(title) + part for _, title, part in parts
    )
    return [Section(f"run{k}", records.name, body)]


def _over_training(k: int, run: RunResults) -> Markup:
    if len(run.epochs) == 1:
        return absent(
            "There is a single checkpoint, so nothing can be drawn over training. "
            "Choose more checkpoints with --every."
        )
    drawn = [
        heading(what.title) + charts.over_time(f"run{k}-{what.figure}", run, what)
        for what in (*charts.OVER_TIME, *charts.EARLY)
    ]
    centre = heading("Center of mass") + charts.centre(f"run{k}-centre", {"measured": run})
    return grid(*drawn, centre)


def _moves(k: int, run: RunResults) -> Markup:
    if len(run.epochs) == 1:
        return absent("There is a single checkpoint, so there are no moves.")
    return charts.transitions(f"run{k}-transitions", run.transitions)


def _hardness(k: int, run: RunResults, records: RunRecords, published: PublishedFigures) -> Markup:
    if not run.hardness:
        return absent("No measure of hardness can be computed from the stored signals.")
    advantage = records.paths.advantage[-1]
    drawn = [
        charts.hardness(f"run{k}-hardness{m}", name, records.hardness[name], advantage, run.hardness[name])
        for m, name in enumerate(drawn_measures(run.hardness))
    ]
    missing = (
        Markup("")
        if run.setting.store_logits
        else absent("Uncertainty over all classes and EL2N need the logits, which were not stored.")
    )
    return (
        table(HARDNESS, hardness_rows(run)) + paragraphs([hardness_note(published)]) + missing + grid(*drawn)
    )


def _comparison(results: DynamicsResults) -> Section:
    runs = results.runs
    body = table(COMPARED, compared_rows(results)) + paragraphs([COMPARED_NOTE])
    if results.comparison:
        body += heading("Ratios next to the published ones")
        body += table(RATIOS, ratio_rows(results)) + paragraphs([RATIO_NOTE])
    else:
        body += absent("No two of these runs differ as two published settings do, so no ratio is compared.")
    _, vulnerable, entropy, _ = charts.OVER_TIME
    if all(len(run.epochs) > 1 for run in runs.values()):
        body += grid(
            heading(vulnerable.title) + charts.compared("compared-vulnerable", runs, vulnerable),
            heading(entropy.title) + charts.compared("compared-entropy", runs, entropy),
            heading("Center of mass") + charts.centre("compared-centre", runs),
        )
    spread = population_sentences(results)
    body += heading("Independent populations") + bullets(spread) if spread else Markup("")
    return Section("comparison", "Comparison", body)

"""The dynamics study's report: the interactive plane, every figure over epochs, hardness, ratios.

It is made from results.json, records.parquet and the path of every record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakscope.disk.parquet import read_stored
from leakscope.evaluate.judge import RECORDS
from leakscope.report.blocks import Absent, Body, Bullets, Heading, Picture, Raw, Table
from leakscope.report.charts import Grid
from leakscope.report.page import Page, Section
from leakscope.report.study_page import conventions, folder_facts, reproduce
from leakscope.studies.claims import claims_section
from leakscope.studies.dynamics import page_charts as charts
from leakscope.studies.dynamics import report
from leakscope.studies.dynamics.claims import PUBLICATION
from leakscope.studies.dynamics.page_plane import SCRIPTS, Plane, PlaneRun, plane
from leakscope.studies.dynamics.plane_figures import draw_paths, draw_planes
from leakscope.studies.dynamics.records import RunRecords
from leakscope.studies.dynamics.results import DynamicsResults, RunResults


def write_report(
    results: DynamicsResults,
    runs: Sequence[RunRecords],
    folder: Path,
    redacted: bool = False,
) -> None:
    """Writes report.html, report.md and figures/*.png; with several runs, one folder of figures each.

    A redacted report is one page, without the plane and the paths of single records.

    Args:
        results: the results, as read from results.json.
        runs: the records of each run.
        folder: the study's folder.
        redacted: write the redacted page instead.
    """
    for records in () if redacted else runs:
        figures, run = folder / "figures" / _figures_of(records, results), results.runs[records.name]
        draw_planes(run, records, results.config.side, figures / "plane.png")
        if len(run.epochs) > 1:
            draw_paths(records, results.config.side, figures / "trajectories.png")
    page(results, runs, folder, redacted).write(folder)


def page(results: DynamicsResults, runs: Sequence[RunRecords], folder: Path, redacted: bool) -> Page:
    """The report; arguments as in `write_report`."""
    config = results.config
    on_plane = None if redacted else plane([_plane_run(results, run, folder) for run in runs], config.side)
    single = next(iter(results.runs.values())) if len(results.runs) == 1 else None
    datasets = dict.fromkeys(setting.dataset for setting in config.settings)
    sections = [
        *([] if single else [_comparison(results)]),
        *([_plane_section(on_plane, runs, results)] if on_plane else []),
        *(section for k, run in enumerate(runs) for section in _run_sections(k, run, results, redacted)),
        claims_section(PUBLICATION.settle([results])),
        conventions([], results.conventions),
        reproduce(report.command(config), config.settings[0].seed, results.runtime),
    ]
    return Page(
        f"When records become exposed during training: {', '.join(datasets)}",
        report.headline(results),
        report.facts(results),
        sections,
        [*report.limits(results), *(on_plane.left_out if on_plane else [])],
        folder_facts(folder),
        on_plane.arrays if on_plane else {},
        picture=report.gauge(single) if single else None,
        redacted=redacted,
        scripts=SCRIPTS if on_plane else (),
    )


def _plane_section(on_plane: Plane, runs: Sequence[RunRecords], results: DynamicsResults) -> Section:
    drawn = [picture for records in runs for picture in _plane_pictures(records, results)]
    return Section("plane-section", "The plane", [Raw(on_plane.body), *drawn], _plane_note(results))


def _figures_of(records: RunRecords, results: DynamicsResults) -> str:
    """Where the figures of a run are, in figures/."""
    return f"{records.name}/" if len(results.runs) > 1 else ""


def _plane_pictures(records: RunRecords, results: DynamicsResults) -> list[Picture]:
    """What report.md has instead of the interactive plane."""
    folder, name = _figures_of(records, results), records.name
    density = Picture(f"{folder}plane", f"Density of the records on the plane, {name}.")
    paths = Picture(f"{folder}trajectories", f"Paths of the most exposed records, {name}.")
    return [density, paths] if len(records.paths.epochs) > 1 else [density]


def _plane_run(results: DynamicsResults, records: RunRecords, folder: Path) -> PlaneRun:
    import polars as pl

    frame = read_stored(folder / RECORDS, ["run", "id", "label"]).filter(pl.col("run") == records.name)
    # Python strings: in an array of fixed width, a single long id would cost its length for every record.
    ids, labels = (frame[name].cast(str).fill_null("").to_numpy() for name in ("id", "label"))
    run = results.runs[records.name]
    return PlaneRun(records, run.population.models, run.figures.vulnerable.floor.mean, ids, labels)


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


def _run_sections(k: int, records: RunRecords, results: DynamicsResults, redacted: bool) -> list[Section]:
    """One section per topic for a single run; one section per run where there are several."""
    run, folder = results.runs[records.name], _figures_of(records, results)
    figures: Body = [
        Table(report.SUMMARY, report.summary_rows(run)),
        report.variation_sentence(run.advantage),
        Heading("Entropy by number of models and of cells"),
        Table(report.ENTROPY, report.entropy_rows(run)),
    ]
    parts: list[tuple[str, str, Body]] = [
        ("figures", "Figures", figures),
        ("over-training", "Over training", _over_training(k, run, folder)),
        ("moves", "Moves between cells", _moves(k, run, folder)),
        ("hardness", "Hardness", _hardness(k, records, results, redacted)),
    ]
    if len(results.runs) == 1:
        return [Section(id, title, body) for id, title, body in parts]
    blocks = [block for _, title, part in parts for block in (Heading(title), *part)]
    return [Section(f"run{k}", records.name, [Bullets(report.sentences(run)), *blocks])]


def _over_training(k: int, run: RunResults, folder: str) -> Body:
    if len(run.epochs) == 1:
        missing = (
            "There is a single checkpoint, so nothing can be drawn over training. "
            "Choose more checkpoints with --every."
        )
        return [Absent(missing)]
    over_time, early = (
        [charts.over_time(f"run{k}-{what.figure}", run, what) for what in drawn]
        for drawn in (charts.OVER_TIME, charts.EARLY)
    )
    centre = charts.centre(f"run{k}-centre", {"measured": run}, f"{folder}centre_of_mass")
    return [Grid(over_time, f"{folder}over_epochs"), Grid(early, f"{folder}early_exposure"), Grid([centre])]


def _moves(k: int, run: RunResults, folder: str) -> Body:
    if len(run.epochs) == 1:
        return [Absent("There is a single checkpoint, so there are no moves.")]
    return [charts.transitions(f"run{k}-transitions", run.transitions, f"{folder}transitions")]


def _hardness(k: int, records: RunRecords, results: DynamicsResults, redacted: bool) -> Body:
    run, advantage = results.runs[records.name], records.paths.advantage[-1]
    if not run.hardness:
        return [Absent("No measure of hardness can be computed from the stored signals.")]
    # Each dot of a chart is one record, in the order of the records.
    drawn = [
        charts.hardness(f"run{k}-hardness{m}", name, records.hardness[name], advantage, run.hardness[name])
        for m, name in enumerate([] if redacted else charts.drawn_measures(run.hardness))
    ]
    early = report.early_rows(run)
    early_blocks: Body = [Heading("As an early predictor"), Table(report.EARLY, early)] if early else []
    no_logits = Absent("Uncertainty over all classes and EL2N need the logits, which were not stored.")
    return [
        Table(report.HARDNESS, report.hardness_rows(run)),
        report.HARDNESS_NOTE,
        *early_blocks,
        *([] if run.setting.store_logits else [no_logits]),
        *([Grid(drawn, f"{_figures_of(records, results)}hardness")] if drawn else []),
    ]


def _comparison(results: DynamicsResults) -> Section:
    runs, spread = results.runs, report.population_sentences(results)
    populations: Body = [Heading("Independent populations"), Bullets(spread)] if spread else []
    _, vulnerable, entropy, _ = charts.OVER_TIME
    drawn = [
        charts.compared("compared-vulnerable", runs, vulnerable),
        charts.compared("compared-entropy", runs, entropy),
        charts.centre("compared-centre", runs),
    ]
    body: Body = [
        Table(report.COMPARED, report.compared_rows(results)),
        report.COMPARED_NOTE,
        Grid(drawn, "comparison"),
        *populations,
    ]
    return Section("comparison", "Comparison", body)

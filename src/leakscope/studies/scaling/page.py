"""report.html of the scaling study: gap or size, the table, correlations, four charts; from results alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from leakscope.bank.run_folder import RESULTS, read_json, to_jsonable
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.report.charts import chart, colour
from leakscope.report.page import PAGE, Page, Section, paragraphs
from leakscope.report.study_page import (
    Command,
    absent,
    bullets,
    closest,
    conventions,
    folder_facts,
    grid,
    heading,
    options,
    reproduce,
)
from leakscope.report.tables import Table, table
from leakscope.studies.scaling.report import (
    ANSWER_NOTE,
    ATTACK_NAMES,
    BESIDE_PUBLISHED,
    CONVENTIONS,
    PUBLISHED,
    TABLE_NOTE,
    correlation_words,
    is_published,
    partial_words,
    published_rows,
    setting_words,
    table_head,
    table_rows,
)

_SIZE = "parameters (log scale)"
_GAP = "overfitting gap (train minus test accuracy)"
_CORRELATED = "Over width means, the shadow-model attack; 95% intervals by Fisher's z."
_CHECK = "correctness"
"""Its AUC is the gap itself, up to a factor: a check, no finding."""


def write_page(folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> Path:
    """report.html of a study folder; returns its path. It tells nothing of single records."""
    results = read_json(folder / RESULTS)
    write_bytes(folder / PAGE, page(results, folder, disclosure).encode())
    return folder / PAGE


def page(results: dict[str, Any], folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> str:
    """The page as text."""
    sections = [
        Section("answer", "Gap or size", _answer(results), "Which goes with attack success over widths?"),
        Section("widths", "Widths", _widths(results)),
        Section("charts", "Against size and gap", _charts(results)),
        Section("correlations", "Correlations", _correlations(results), _CORRELATED),
        conventions(CONVENTIONS),
        reproduce(command(results["config"]), results["config"]["seed"], results["runtime"]),
    ]
    return Page(
        "Membership leakage against model width: small MLPs",
        headline(results),
        [*_facts(results), *folder_facts(folder)],
        sections,
        {},
        _limits(results),
        redacted=disclosure.redacted,
    ).render()


def headline(results: dict[str, Any]) -> list[str]:
    """The answers, the strongest attack's first."""
    answers = {name: found for name, found in results["gap_or_size"].items() if name != _CHECK}
    by_success = sorted(answers.values(), key=lambda found: -(found["mean_auc"]["value"] or 0))
    return [found["answer"] for found in by_success]


def command(config: dict[str, Any]) -> Command:
    """The command line that asks for this study."""
    from leakscope.studies.scaling.study import PRESETS, ScalingConfig

    presets = {name: to_jsonable(asdict(ScalingConfig(**changes))) for name, changes in PRESETS.items()}
    preset, given = closest(presets, config)
    return Command(
        ("leakscope", "study", "scaling", "--preset", preset, *options(given), "--out", "runs/again")
    )


def _answer(results: dict[str, Any]) -> Markup:
    found = results["gap_or_size"]
    head = ("attack", "mean AUC", "r with the gap", "r with log2 parameters", "difference")
    rows = [
        [
            ATTACK_NAMES[name],
            *(_with_interval(row[key]) for key in ("mean_auc", "r_gap", "r_size", "difference")),
        ]
        for name, row in found.items()
    ]
    return (
        bullets([row["answer"] for row in found.values()])
        + table(head, rows, "With 95% intervals")
        + bullets([partial_words(name, row) for name, row in found.items()])
        + paragraphs([ANSWER_NOTE])
    )


def _correlations(results: dict[str, Any]) -> Markup:
    return bullets([correlation_words(found) for found in results["correlations"].values()])


def _with_interval(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "undefined"
    ends = "" if found["low"] is None else f" ({found['low']:.3f} to {found['high']:.3f})"
    return f"{found['value']:.3f}{ends}"


def _widths(results: dict[str, Any]) -> Markup:
    body = table(table_head(results), table_rows(results)) + paragraphs([TABLE_NOTE])
    body += heading("Beside the published values")
    if not is_published(results):
        return body + absent(
            "This is not the published protocol, so the published table does not stand beside it."
        )
    return body + table(BESIDE_PUBLISHED, published_rows(results), "Published, and ours minus theirs")


def _charts(results: dict[str, Any]) -> Markup:
    rows = results["results"]
    size, gap = [row["n_params"] for row in rows], [row["mean_overfit_gap"] for row in rows]
    published = [PUBLISHED[row["hidden_width"]] for row in rows] if is_published(results) else []
    numbers = Table(table_head(results), table_rows(results))
    aucs = [_points(size, [row["attacks"][name] for row in rows], ATTACK_NAMES[name], k, "lines+markers")
            for k, name in enumerate(rows[0]["attacks"])]  # fmt: skip
    by_gap = [{**trace, "x": gap, "mode": "markers"} for trace in aucs]
    gaps = [{"mean_auc": row["mean_overfit_gap"], "std_auc": row["std_overfit_gap"]} for row in rows]
    accuracy = [
        _line(size, [row[key] for row in rows], name, k)
        for k, (key, name) in enumerate((("mean_train_acc", "members"), ("mean_test_acc", "non-members")))
    ]
    n = f"{results['config']['n_repeats']} repeats"
    auc, overfitting = f"attack AUC ({n})", f"overfitting gap ({n})"
    gap_points = _points(size, gaps, "gap", 0, "lines+markers")
    by_size = [*aucs, *_published(size, published, 3)]
    against_gap = [*by_gap, *_published([values[2] for values in published], published, 3)]
    gap_by_size = [gap_points, *_published(size, published, 2)]
    return grid(
        heading("Attack success against size") + _chart("auc-size", by_size, _SIZE, auc, numbers),
        heading("Attack success against overfitting") + _chart("auc-gap", against_gap, _GAP, auc, None),
        heading("Overfitting against size") + _chart("gap-size", gap_by_size, _SIZE, overfitting, None),
        heading("Accuracy against size") + _chart("accuracy-size", accuracy, _SIZE, f"accuracy ({n})", None),
    )


def _chart(id: str, data: list[dict[str, Any]], x: str, y: str, numbers: Table | None) -> Markup:
    x_axis: dict[str, Any] = {"title": {"text": x}}
    if x == _SIZE:
        size = data[0]["x"]
        ticks = size[:: max(1, len(size) // 5)]
        x_axis |= {"type": "log", "tickvals": ticks, "ticktext": [f"{n:,}" for n in ticks]}
    layout = {"xaxis": x_axis, "yaxis": {"title": {"text": y}}, "legend": {"orientation": "h", "y": -0.3}}
    return chart(
        id,
        {"data": data, "layout": layout},
        f"Mean {y} and its standard deviation, against {x}.",
        numbers,
        400,
    )


def _points(x: list[float], found: list[dict[str, Any]], name: str, k: int, mode: str) -> dict[str, Any]:
    error = {"type": "data", "array": [f["std_auc"] for f in found], "color": colour(k), "thickness": 1}
    return {**_line(x, [f["mean_auc"] for f in found], name, k), "mode": mode, "error_y": error}


def _line(x: list[float], y: list[float], name: str, k: int) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines+markers", "x": x, "y": y, "name": name,
            "line": {"color": colour(k), "width": 2}, "marker": {"color": colour(k)}}  # fmt: skip


def _published(x: list[float], published: Sequence[tuple[float, ...]], column: int) -> list[dict[str, Any]]:
    """The document's values as rings; nothing where the protocol is another."""
    if not published:
        return []
    return [{"type": "scatter", "mode": "markers", "x": x, "y": [values[column] for values in published],
             "name": "published",
             "marker": {"symbol": "circle-open", "size": 11, "color": "var(--muted)"}}]  # fmt: skip


def _facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    config = results["config"]
    widths = config["widths"]
    return [
        ("What", setting_words(results).replace("\n", " ")),
        ("Widths", f"{len(widths)}, from {min(widths)} to {max(widths)}"),
        ("Models", f"{results['runtime']['n_models']:,}"),
        ("Seed", str(config["seed"])),
    ]


def _limits(results: dict[str, Any]) -> list[str]:
    config = results["config"]
    lines = [
        "Small MLPs on Gaussian classes: a toy, chosen because everything else can be held fixed.",
        "A correlation over widths is no cause: width moves gap and size together.",
    ]
    if config["target_data"] == "fixed":
        lines.append("All repeats share one target dataset, so their spread is that of training alone.")
    if config["shadow_data"] == "redrawn":
        lines.append("Shadow models have class centres of their own, which handicaps them, as published.")
    if not config["n_reference"]:
        lines.append("LiRA is absent: there are no reference models.")
    return lines

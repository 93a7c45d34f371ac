"""report.html of the leakage study: what must hold, five figures, the chain of bounds, bits; from results."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from leakscope.bank.run_folder import RESULTS, read_json
from leakscope.disclosure import DEFAULT_DISCLOSURE, Disclosure
from leakscope.disk.storage import write_bytes
from leakscope.report.page import PAGE, Badge, Page, Section, paragraphs
from leakscope.report.study_page import (
    NO_COMMAND,
    Command,
    absent,
    closest,
    conventions,
    folder_facts,
    grid,
    heading,
    options,
    reproduce,
)
from leakscope.report.tables import table
from leakscope.studies.leakage.page_charts import bits, bounds, figure
from leakscope.studies.leakage.report import (
    AXES,
    HEAD,
    TITLES,
    chain_words,
    convention_lines,
    interval,
    number,
    poor_words,
    setting_words,
    table_rows,
)

_VERDICTS = {True: "holds", False: "fails", None: "undefined"}
_EFFECTS = {  # figure -> what is turned up, and what that does to the leakage where the document is right
    "1": ("more training records", "less"),
    "2": ("more training records for a network", "less"),
    "3": ("a heavier ridge", "less"),
    "4": ("more features", "more"),
    "5": ("more noise on the parameters", "less"),
}


def write_page(folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> Path:
    """report.html of a study folder; returns its path. It tells nothing of single records."""
    results = read_json(folder / RESULTS)
    write_bytes(folder / PAGE, page(results, folder, disclosure).encode())
    return folder / PAGE


def page(results: dict[str, Any], folder: Path, disclosure: Disclosure = DEFAULT_DISCLOSURE) -> str:
    """The page as text."""
    sections = [Section("checks", "What must hold", _checks(results))]
    for name in ("1", "2", "3", "4", "5"):
        sections.append(_figure_section(results, name))
    sections += [
        Section("bounds", "The chain of bounds", _bounds(results)),
        Section("bits", "Bits", _bits(results)),
        conventions(convention_lines(results)),
        reproduce(command(results["config"]), results["config"]["seed"], {}),
    ]
    failed = sum(check["holds"] is False for check in results["checks"])
    badge = Badge(f"{failed} claims fail", "bad") if failed else Badge("no claim fails", "good")
    return Page(
        f"What drives membership leakage: {results['config']['dataset']}",
        headline(results),
        [*_facts(results), *folder_facts(folder)],
        sections,
        {},
        _limits(results),
        redacted=disclosure.redacted,
        badge=badge,
    ).render()


def headline(results: dict[str, Any]) -> list[str]:
    """What was found, in plain words, with intervals."""
    names = list(results["figures"])
    as_expected = [name for name in names if _trend(results, name)["holds"]]
    lead = (
        f"In {len(as_expected)} of {len(names)} figures the leakage goes the way that was published: "
        + "; ".join(f"{_EFFECTS[name][0]}, {_EFFECTS[name][1]} leakage" for name in as_expected)
        if as_expected
        else f"In none of {len(names)} figures does the leakage go the way that was published"
    )
    return [f"{lead}.", *(_range_words(results, name) for name in names), _checks_words(results)]


def command(config: dict[str, Any]) -> Command:
    """The command line that asks for this study, where one does."""
    from leakscope.studies.leakage.study import BUDGETS, FIGURES, budgeted

    usual = {name: {**asdict(budgeted(name)), "dataset": config["dataset"]} for name in BUDGETS}
    plain = {
        name: {k: list(v) if isinstance(v, tuple) else v for k, v in made.items()}
        for name, made in usual.items()
    }
    budget, given = closest(plain, config)
    figures = given.pop("figures", [])
    if set(given) - {"records", "trials", "precision", "seed"}:
        return NO_COMMAND
    chosen = [word for figure in figures if figures != list(FIGURES) for word in ("--figure", str(figure))]
    return Command(
        ("leakscope", "study", "leakage", "--budget", budget, *chosen, *options(given), "--out", "runs/again")
    )


def _trend(results: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = results["figures"][name]["trends"]["leakage"]
    return found


def _range_words(results: dict[str, Any], name: str) -> str:
    """Mean leakage at both ends of a figure, with intervals."""
    points = results["figures"][name]["points"]
    ends = [
        f"{number(p['rho_kl']['mean'])} nats ({interval(p['rho_kl'])}) at {number(p['value'])}"
        for p in (points[0], points[-1])
    ]
    correlation = _trend(results, name)["spearman"]
    rank = "undefined" if correlation is None else f"{correlation:+.2f}"
    what = AXES[name].split(" (")[0]
    return f"Figure {name}, {what}: mean leakage {ends[0]}, {ends[1]}; rank correlation {rank}."


def _checks_words(results: dict[str, Any]) -> str:
    count = {
        word: sum(_VERDICTS[c["holds"]] == word for c in results["checks"]) for word in _VERDICTS.values()
    }
    return (
        f"Of {len(results['checks'])} claims {count['holds']} hold, {count['fails']} fail and "
        f"{count['undefined']} cannot be decided here. Intervals are 95%, over records."
    )


def _checks(results: dict[str, Any]) -> Markup:
    rows = [[check["claim"], _VERDICTS[check["holds"]], check["detail"]] for check in results["checks"]]
    return table(("claim", "verdict", "numbers"), rows) + _control(results)


def _control(results: dict[str, Any]) -> Markup:
    """The control, where nothing leaks."""
    if "shuffled" not in results:
        return absent("Without figure 1 there is no control with the record's presence shuffled.")
    head = ("n", "corrected", "99% interval", "uncorrected", "its law, p(p+3)/K", "total variation")
    rows = [
        [number(c["n"]), number(c["corrected"]), _wide_interval(c), number(c["uncorrected"]),
         number(c["analytic"]), number(c["total_variation"])]
        for c in results["shuffled"]
    ]  # fmt: skip
    return heading("The control: presence shuffled, nothing leaks (nats)") + table(head, rows)


def _wide_interval(control: dict[str, Any]) -> str:
    return "undefined" if control["low"] is None else f"{control['low']:.1e} to {control['high']:.1e}"


def _figure_section(results: dict[str, Any], name: str) -> Section:
    title, note = f"Figure {name}", TITLES[name]
    if name not in results["figures"]:
        return Section(f"figure-{name}", title, absent(f"Figure {name} was not asked for."), note)
    body = figure(f"figure-{name}-chart", results, name)
    head = [AXES[name].split(" (")[0], *HEAD, *(["rho_KL, finite precision"] if name == "3" else [])]
    body += table(head, table_rows(results, name), "Leakage in nats; advantage of the threshold adversary.")
    return Section(
        f"figure-{name}", title, body + paragraphs([w for w in poor_words(results, name) if w]), note
    )


def _bounds(results: dict[str, Any]) -> Markup:
    drawn = [
        heading(f"Figure {name}") + bounds(f"bounds-{name}", results, name) for name in results["figures"]
    ]
    return paragraphs([" ".join(chain_words(results))]) + grid(*drawn)


def _bits(results: dict[str, Any]) -> Markup:
    words = (
        "Mutual information between a record's presence and what is trained, with presence as likely as not: "
        "1 bit tells presence for sure, 0 bits tells nothing. In one unit it is at most a quarter of rho_KL."
    )
    largest = max(
        (p["rho_mi_bits"]["mean"] for f in results["figures"].values() for p in f["points"]
         if p["rho_mi_bits"]["mean"] is not None), default=float("nan"))  # fmt: skip
    found = "" if np.isnan(largest) else f" The largest mean here is {largest:.3f} bits."
    drawn = [heading(f"Figure {name}") + bits(f"bits-{name}", results, name) for name in results["figures"]]
    return paragraphs([words + found]) + grid(*drawn)


def _facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    config = results["config"]
    n_points = sum(len(f["points"]) for f in results["figures"].values())
    return [
        ("What", setting_words(results)),
        ("Figures", f"{', '.join(results['figures'])}; {n_points} points"),
        ("Trials", f"{config['trials']:,} in each of two halves (network: {config['network_trials']})"),
        ("Seed", str(config["seed"])),
    ]


def _limits(results: dict[str, Any]) -> list[str]:
    config = results["config"]
    lines = [
        "It is about linear regressions (and, in figure 2, one small network); large models may differ.",
        f"Intervals are over {config['records']} chosen records of {config['dataset']}, not over datasets.",
        "Leakage is that of fitted Gaussians; where their fit is poor the figure says so.",
    ]
    if "2" in results["figures"]:
        lines.append(
            "A network's leakage is that of its answer about the record: a lower bound on its parameters'."
        )
    return lines

"""The report of advice: what to take, the trade of every defence, the tables that switch it on."""

from __future__ import annotations

from pathlib import Path

from leakscope.advice.config_file import ready_tables
from leakscope.advice.results import AdviceResults, Tried
from leakscope.advice.sentences import headline, limitations
from leakscope.advice.tables import in_short, trade_table
from leakscope.evaluate.utility import utility_named
from leakscope.report.blocks import Block, Body, Bullets, Code, Definitions, Heading, Table
from leakscope.report.charts import Chart, axis, colour, error_bars, label, symbol
from leakscope.report.page import Badge, Page, Section

_RULE = (
    "Defences that leak less beyond chance and cost no more {utility} than accepted come first, by how much "
    "the AUC falls. Then come those that leak less and cost more, then the others. The first is recommended "
    "if it is of the first kind. By the estimates, a defence is worse than another that leaks no more and "
    "predicts no worse."
)


def write_report(results: AdviceResults, folder: Path, redacted: bool) -> None:
    """Writes report.html, report.md and figures/trade.png, or the redacted page."""
    Page(
        title=f"Which defence to choose: {results.config.records}",
        headline=headline(results),
        facts=_facts(results),
        sections=[
            _trade_section(results),
            _settings_section(results),
            _gate_section(results),
            _not_tried_section(results),
            Section("method", "Method", _method(results)),
        ],
        limits=limitations(results),
        redacted=redacted,
        badges=[Badge("Recommended" if results.recommended else "None recommended", "plain")],
    ).write(folder)


def _facts(results: AdviceResults) -> list[tuple[str, str]]:
    config = results.config
    return [
        ("Records", config.records),
        ("Models", f"{config.models} per defence, each trained on a random half of the {config.noun.many}"),
        ("Attacks", ", ".join(config.attacks)),
        ("Accepted loss", utility_named(config.utility).loss(config.accepted_loss)),
        ("Time", "1 minute" if config.minutes == 1 else f"{config.minutes:g} minutes"),
        ("Seed", str(config.seed)),
        ("Records sha256", config.records_sha256[:16]),
    ]


def _trade_section(results: AdviceResults) -> Section:
    table = trade_table(results)
    body: Body = [table, _chart(results, table)] if results.tried else [table]
    rule = _RULE.format(utility=results.config.utility)
    return Section("trade", "What each defence gains and costs", body, rule)


def _chart(results: AdviceResults, table: Table) -> Chart:
    """Change of the AUC against change of utility, with intervals in both directions."""
    utility = results.config.utility
    traces = [_point(one, index) for index, one in enumerate(results.tried)]
    layout = {
        "xaxis": axis(f"change of {utility} (right is better)"),
        "yaxis": axis("change of AUC (lower is better)"),
        "showlegend": True,
        "hovermode": "closest",
    }
    alt = (
        f"One point per defence: change of {utility} on non-members and of the AUC, with 95% intervals that "
        "hold together."
    )
    return Chart("trade-chart", {"data": traces, "layout": layout}, alt, table, 440, png="trade")


def _point(one: Tried, index: int) -> dict[str, object]:
    x, y = one.utility, one.auc
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(one.defence),
        "x": [x.difference],
        "y": [y.difference],
        "marker": {"color": colour(index), "size": 11, "symbol": symbol(index)},
        "error_x": error_bars([x.difference], [x.low], [x.high], colour(index)),
        "error_y": error_bars([y.difference], [y.low], [y.high], colour(index)),
    }


def _settings_section(results: AdviceResults) -> Section:
    body: list[Block | str] = []
    for one in results.tried:
        body += [
            Heading(one.defence),
            f"{in_short(one, results).capitalize()}.",
            Code(ready_tables(results.config.toml, one.settings)),
        ]
    note = "The tables that change, as they read in the config. recommended.toml is the whole config."
    return Section("settings", "Settings", body, note)


def _gate_section(results: AdviceResults) -> Section:
    which = "the recommended config" if results.recommended else "the present config"
    body: Body = [Code(results.gate), Bullets(results.gate_reasons)]
    return Section("gate", "Suggested gate", body, f"Limits for {which}.")


def _not_tried_section(results: AdviceResults) -> Section:
    body: Body = [Definitions(list(results.not_tried.items()))] if results.not_tried else ["Everything was."]
    return Section("not-tried", "Not tried", body)


def _method(results: AdviceResults) -> Body:
    return [
        f"All models have the same {results.config.noun.many}, design and seed, with each defence and "
        "without. A defence's reference models have it, too. The strongest attack is chosen for each "
        "defence, so a defence gains nothing by defeating one attack of several.",
        "Intervals of changes come from leaving out groups of models from both populations at once, and are "
        f"widened for the number of defences and figures (confidence {results.level:.2%} each). The interval "
        f"of an AUC is for other models trained on random halves of these {results.config.noun.many}.",
    ]

"""The charts of an audit's report, each with its numbers: ROC, precision, groups, bits, scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from leakscope.array_types import BoolArray, FloatArray, IntArray
from leakscope.audits.report.cells import (
    NOT_MEASURABLE,
    attack_table,
    interval_table,
    measured_fprs,
    number,
    percent,
    rate,
    remarks,
    sets_remarks,
    sets_table,
)
from leakscope.disclosure import FEWEST_RECORDS
from leakscope.disk.scratch import evict_pages, over_blocks
from leakscope.evaluate.attacked import Attacked
from leakscope.evaluate.hygiene.outcome import undermining
from leakscope.evaluate.remedies import groups_above, remedies
from leakscope.evaluate.results import AuditResults, GroupFigures
from leakscope.leakage.checkpoints import CheckpointLeakage
from leakscope.report.blocks import Absent, Body, Raw, Table
from leakscope.report.charts import (
    Chart,
    PlotlyFigure,
    axis,
    band,
    colour,
    distinct_labels,
    error_bars,
    guessing,
    label,
    line,
    rate_axes,
)
from leakscope.report.page import Section
from leakscope.report.phrases import enumeration
from leakscope.report.roc_bands import RocBand
from leakscope.report.templates import template
from leakscope.stats.estimate import Estimate

_SHOWN_RATES = (0.001, 0.01, 0.1, 0.5)
_START_PRIOR = 0.1
_BINS = 80
_TAIL = 0.02
_SHARED = 20  # scores that are equal, and then tell nothing about one record
_SAMPLED = 2_000_000  # scores that set the range of the histogram


def sets_section(results: AuditResults, fewest_records: int) -> Section:
    """The strongest attack on all records, on the most exposed and on the canaries, side by side."""
    note = (
        "A figure over all records is an average, and an average hides the few records that stand out. Rates "
        "are computed within each set: its own non-members set the threshold, and all targets are pooled."
    )
    table, say = sets_table(results, fewest_records), results.config.noun.say
    remarks_on_sets = sets_remarks(results, fewest_records)
    return Section("sets", say("Exposure by record set"), [table, *remarks_on_sets], say(note))


def roc_section(results: AuditResults, bands: Mapping[str, RocBand], is_secret: bool) -> Section:
    """ROC on log axes, and the table of all attacks; `is_secret`: the bands have few points."""
    n_targets = results.population.targets
    alt = "True positive rate against false positive rate of every attack, both on logarithmic axes."
    if n_targets > 1:
        alt += f" Lines are means over {n_targets} targets; bands span the 5% to 95% range."
    note = (
        "The true positive rate (TPR) is the share of members an attack detects; the false positive rate "
        "(FPR) is the share of non-members it takes for members. The further a curve lies above the dashed "
        "line, the more an attack gains over guessing."
    )
    if is_secret:
        note += " The curves have few points, because each step of a finer one would be a record."
    picture = Chart("roc-chart", _roc_figure(results, bands), alt, _roc_numbers(bands), 460, png="roc")
    return Section(
        "roc", "ROC", [attack_table(results), *interval_table(results), *remarks(results), picture], note
    )


def _roc_figure(results: AuditResults, bands: Mapping[str, RocBand]) -> PlotlyFigure:
    smallest = min(float(of_attack.fpr[0]) for of_attack in bands.values())
    traces = [
        trace
        for k, (name, of_attack) in enumerate(bands.items())
        for trace in _curve(of_attack, k, f"{name} (AUC {results.attacks[name].auc.value:.3f})", smallest)
    ]
    return {"data": [*traces, guessing(smallest, 1)], "layout": rate_axes(smallest)}


def _curve(rates: RocBand, k: int, legend: str, smallest: float) -> list[PlotlyFigure]:
    """A curve with its spread over targets; a point for a binary attack."""
    hover = f"%{{y:.2%}} of members at %{{x:.2%}} of non-members<extra>{label(legend)}</extra>"
    if rates.yes is not None:
        fpr, tpr = rates.yes
        marker = {"color": colour(k), "symbol": "diamond", "size": 10}
        return [{"x": [fpr], "y": [tpr], "name": label(legend), "mode": "markers", "marker": marker,
                 "hovertemplate": hover}]  # fmt: skip
    low = np.maximum(rates.low, smallest / 10)
    spread = band(rates.fpr, low, rates.high, colour(k, band=True), legendgroup=legend)
    return [
        *spread,
        line(rates.fpr, rates.mean, legend, colour(k), legendgroup=legend, hovertemplate=hover),
    ]


def _roc_numbers(bands: Mapping[str, RocBand]) -> Table:
    rows = [
        [f"{fpr:.2%}", *(_at_rate(band, fpr) for band in bands.values())]
        for fpr in _SHOWN_RATES
        if any(fpr >= band.fpr[0] for band in bands.values())
    ]
    return Table(["FPR", *bands], rows, "Mean TPR over targets at some false positive rates")


def _at_rate(band: RocBand, fpr: float) -> str:
    at = int(np.searchsorted(band.fpr, fpr * (1 + 1e-9), side="right")) - 1
    return NOT_MEASURABLE if at < 0 else f"{band.mean[at]:.2%}"


def precision_section(results: AuditResults) -> Section:
    """Precision where members are few; a slider sets how few."""
    points = [
        (label, point)
        for label, figures in results.attacks.items()
        for point in figures.tpr_at_fpr
        if point.value is not None
    ]
    note = (
        "Precision is the share of members among the records an attack calls members. A false positive rate "
        "of 1% may look small, but where one record in a thousand is a member it means about ten false "
        "alarms for each true one, or more."
    )
    if not points:
        absent = Absent("No TPR is measurable at the chosen FPR budgets.")
        return Section("precision", "Precision", [absent], results.config.noun.say(note))
    at_start = [(label, p, _precision(p.value or 0.0, p.fpr, _START_PRIOR)) for label, p in points]
    slider = template("prior.html.j2", rows=at_start, prior=_START_PRIOR, noun=results.config.noun)
    priors = [f"precision if {entry.prior:.0%} are members" for entry in points[0][1].precision]
    rows = [[label, percent(p.fpr), rate(p), *map(rate, p.precision)] for label, p in points]
    table = Table(["attack", "FPR", "TPR", *priors], rows)
    return Section("precision", "Precision", [Raw(slider, [table])], results.config.noun.say(note))


def _precision(tpr: float, fpr: float, prior: float) -> float:
    called = prior * tpr + (1 - prior) * fpr
    return prior * tpr / called if called else float("nan")


def groups_section(results: AuditResults, fewest_records: int) -> Section:
    """AUC by group with intervals, of the strongest attack; groups of fewer records are left out."""
    attack = results.strongest_attack
    all_columns = results.attacks[attack].groups
    shown = {name: [g for g in groups if g.records >= fewest_records] for name, groups in all_columns.items()}
    columns = {name: groups for name, groups in shown.items() if groups}
    n_small = sum(map(len, all_columns.values())) - sum(map(len, columns.values()))
    say = results.config.noun.say
    charts = _group_charts(columns, attack, results.attacks[attack].auc.value, say)
    no_groups = "The records have no groups. Set `groups` to compare the risk between groups of people."
    absent = [] if all_columns else [Absent(say(no_groups))]
    if n_small:
        noun = "group" if n_small == 1 else "groups"
        absent.append(Absent(say(f"Left out: {n_small} {noun} of fewer than {fewest_records} records.")))
    note = (
        f"Does the risk differ between groups of people? Attack: {attack}. Each group has its own 95% "
        "interval; among many groups, some differ by chance."
    )
    reasons = [
        f"Not evaluated by {column}: {reason}.{_merge_groups(reason)}"
        for column, reason in results.groups_left_out.items()
    ]
    body: Body = [*(_groups_sentences(results) if charts else ()), *charts, *reasons, *absent]
    return Section("groups", "Groups", body, note)


def _group_charts(
    columns: Mapping[str, Sequence[GroupFigures]],
    attack: str,
    overall: float | None,
    say: Callable[[str], str],
) -> Body:
    """A chart and a table per column; the TPRs that no group can measure are named below them."""
    points = [point for groups in columns.values() for group in groups for point in group.tpr_at_fpr]
    fprs = measured_fprs(points)
    charts = [
        _group_chart(k, groups, _group_table(name, groups, fprs, say), attack, overall, say)
        for k, (name, groups) in enumerate(columns.items())
    ]
    missing = sorted({point.fpr for point in points if point.fpr not in fprs}, reverse=True)
    at = enumeration(list(map(percent, missing)), "or") if missing else ""
    return [*charts, *([f"No group is large enough to measure the TPR at {at} FPR."] if missing else [])]


def _groups_sentences(results: AuditResults) -> list[str]:
    """Which groups stand out; the rule of the remedy for groups, whose intervals allow for their number."""
    if undermining(results.hygiene):
        return []
    above, say = groups_above(results), results.config.noun.say
    if above is None:
        why = f"none has {FEWEST_RECORDS} records and an interval"
        return [say(f"Whether a group stands out was not tested: {why}.")]
    if above:
        return [remedy.found for remedy in remedies(results) if remedy.finding == "groups"]
    return [
        say(
            f"Of the groups with at least {FEWEST_RECORDS} records, none is more exposed than the records as "
            "a whole beyond chance. This test allows for the number of groups; the intervals below do not, "
            "so single ones may lie above the line of all records."
        )
    ]


def _merge_groups(reason: str) -> str:
    return " Merge groups to compare them." if "at most" in reason else ""


def _group_chart(
    k: int,
    groups: Sequence[GroupFigures],
    numbers: Table,
    attack: str,
    overall: float | None,
    say: Callable[[str], str],
) -> Chart:
    """AUC by group; a dashed line is guessing, a solid one the AUC over all records."""
    column = numbers.head[0]
    defined = [group for group in groups if group.auc.value is not None]
    aucs = [group.auc for group in defined]
    at_half = {"type": "line", "x0": 0.5, "x1": 0.5, "y0": 0, "y1": 1, "yref": "paper",
               "line": {"color": "var(--muted)", "dash": "dash", "width": 1}}  # fmt: skip
    trace = {"x": [auc.value for auc in aucs], "y": distinct_labels([group.group for group in defined]),
             "mode": "markers", "marker": {"color": colour(0), "size": 9}, "error_x": _intervals(aucs, 0),
             "hovertemplate": "%{x:.3f}<extra>%{y}</extra>"}  # fmt: skip
    over_all = {**at_half, "x0": overall, "x1": overall, "line": {"color": "var(--muted)", "width": 1}}
    shapes = [at_half, *([] if overall is None else [over_all])]
    layout = {"xaxis": axis("AUC"), "shapes": shapes,
              "yaxis": {"type": "category", "autorange": "reversed"}}  # fmt: skip
    alt = (
        f"AUC of {attack} for each group of {column}, with 95% intervals. The dashed line is guessing, the "
        f"solid line {say('all records')}."
    )
    figure = {"data": [trace], "layout": layout}
    return Chart(f"groups-{k}", figure, alt, numbers, 90 + 26 * len(defined), title=f"By {column}")


def _group_table(
    column: str, groups: Sequence[GroupFigures], fprs: Sequence[float], say: Callable[[str], str]
) -> Table:
    """AUC, and TPR at each of some FPRs, by group."""
    rates = [f"TPR at {percent(fpr)} FPR" for fpr in fprs]
    rows = [
        [g.group, f"{g.records:,}", number(g.auc), *(rate(p) for p in g.tpr_at_fpr if p.fpr in fprs)]
        for g in groups
    ]
    return Table([column, say("records"), "AUC", *rates], rows)


def _intervals(estimates: Sequence[Estimate], k: int) -> PlotlyFigure:
    values, low, high = ([getattr(e, end) for e in estimates] for end in ("value", "low", "high"))
    return error_bars(values, low, high, colour(k))


def bits_section(results: AuditResults) -> Section:
    """Bits of membership per record, over training where there are several checkpoints."""
    leakage = results.leakage
    if not leakage.checkpoints or leakage.checkpoints[-1].bits.value is None:
        reason = leakage.reason or "the bank has no checkpoint"
        return Section("bits", "Bits", [Absent(f"Undefined: {reason}.")])
    if not leakage.checkpoints[-1].bits.has_interval:
        return Section("bits", "Bits", [Absent(f"Bits of membership per record: {leakage.reason}.")])
    say, numbers = results.config.noun.say, _bits_numbers(results)
    one_checkpoint = "This run has one checkpoint; set training.checkpoints to follow leakage over training."
    body: Body = [*numbers, *([] if results.is_of_one_model else [Absent(one_checkpoint)])]
    if len(leakage.checkpoints) > 1:
        body = [_bits_chart(leakage.checkpoints, say), *numbers]
    return Section("bits", "Bits", body, say(_bits_note(results)))


def _bits_numbers(results: AuditResults) -> Body:
    checkpoints = results.leakage.checkpoints
    rows = [
        [str(at.epoch), *map(number, (at.bits, at.most_exposed, at.rho_kl, at.total_variation))]
        for at in checkpoints
    ]
    head = ["epoch", "mutual information", "most exposed 1%", "rho_KL", "total variation"]
    if results.is_of_one_model:  # its epochs are unknown
        head, rows = head[1:], [row[1:] for row in rows]
    few = checkpoints[-1].most_exposed.reason
    return [Table(head, rows), *([f"Most exposed 1%: {few}."] if few else [])]


def _bits_note(results: AuditResults) -> str:
    leakage = results.leakage
    signal = leakage.signal if results.population.rows is None else f"mean {leakage.signal} over its rows"
    note = (
        f"A record's {signal} has one distribution over models trained on it and another over the "
        "other models; a Gaussian is fitted to each. Mutual information is at most 1 bit. rho_KL is the "
        "sum of the two Kullback-Leibler divergences, in bits. Total variation is the largest advantage "
        "of an attacker who sees only this output, if the Gaussians are right; where they are not, an "
        "attacker can exceed it. All figures are bias-corrected with permuted designs; intervals are for "
        "records like these, and approximate."
    )
    if results.is_of_one_model:
        note += (
            " The models are the references alone: this is what models trained like the audited one reveal, "
            "and it does not count towards the rating."
        )
    return note


def _bits_chart(checkpoints: Sequence[CheckpointLeakage], say: Callable[[str], str]) -> Chart:
    series: dict[str, list[Estimate]] = {
        say("mean over records"): [at.bits for at in checkpoints],
        "most exposed 1%": [at.most_exposed for at in checkpoints if at.most_exposed.reason is None],
    }
    epochs = [at.epoch for at in checkpoints]
    traces = [
        line(epochs, [e.value for e in estimates], name, colour(k), mode="lines+markers",
             error_y=_intervals(estimates, k))
        for k, (name, estimates) in enumerate(series.items())
        if estimates
    ]  # fmt: skip
    layout = {"xaxis": axis("epoch"), "yaxis": axis("bits of membership")}
    alt = "Bits of membership that an output reveals, over training."
    return Chart("bits-chart", {"data": traces, "layout": layout}, alt)


def scores_section(results: AuditResults, attacked: Attacked, is_secret: bool) -> Section:
    """How the scores of members and non-members are distributed; left out where members are secret."""
    if is_secret:
        absent = (
            "Left out: a bar of one record would reveal its membership. The option --with-membership "
            "includes them."
        )
        return Section("scores", "Scores", [Absent(results.config.noun.say(absent))])
    strongest, scores = results.strongest_attack, attacked.scores
    labels = [strongest, *(label for label in results.attacks if label != strongest)]
    traces = [
        trace
        for label in labels
        for trace in _histogram(
            label, scores[label].values, attacked.memberships.rows(scores[label].targets), label == strongest
        )
    ]
    figure = {
        "data": traces,
        "layout": {
            "xaxis": axis("score (higher means member)"),
            "yaxis": axis(results.config.noun.say("share of records"), tickformat=".1%", rangemode="tozero"),
            "hovermode": "x",
        },
    }
    alt = (
        f"Scores of members and of non-members ({scores[strongest].values.size:,} scores). The outermost "
        "bars contain the most extreme 2% at each end."
    )
    choice = Raw(template("choice.html.j2", chart_id="scores-chart", names=labels))
    note = "Where the two distributions overlap, an attacker can only guess."
    return Section("scores", "Scores", [choice, Chart("scores-chart", figure, alt)], note)


def _histogram(label: str, values: FloatArray, in_mask: BoolArray, is_visible: bool) -> list[PlotlyFigure]:
    """The traces of one attack."""
    edges = _edges(values)
    middles = (edges[1:] + edges[:-1]) / 2

    def counts(columns: slice) -> IntArray:
        clipped, mask = np.clip(values[:, columns], edges[0], edges[-1]), in_mask[:, columns]
        return np.stack([np.histogram(clipped[side], edges)[0] for side in (mask, ~mask)])

    both = np.sum(over_blocks(values.shape[1], counts, values, in_mask), axis=0)  # (2, bins)
    traces = []
    for k, (side, counted) in enumerate(zip(("members", "non-members"), both, strict=True)):
        share = (counted / max(int(counted.sum()), 1)).round(6)
        traces.append(
            {"x": middles.round(4), "y": share, "name": side, "mode": "lines",
             "line": {"shape": "hvh", "color": colour(k), "width": 1.6}, "fill": "tozeroy",
             "fillcolor": colour(k, band=True), "meta": label, "visible": is_visible,
             "hovertemplate": "%{y:.2%}<extra>" + side + "</extra>"}
        )  # fmt: skip
    return traces


def _edges(values: FloatArray) -> FloatArray:
    """Edges of the bins, from a sample of the scores; the lowest and highest score are single records'."""
    sample = np.array(values[:, :: max(1, values.size // _SAMPLED)])
    evict_pages(values)
    finite = sample[np.isfinite(sample)]
    low, high = np.quantile(finite, [_TAIL, 1 - _TAIL]) if finite.size else (0.0, 1.0)
    if low == high:  # nearly all scores are the same: the others count where many share one
        scores, counts = np.unique(finite, return_counts=True)
        shared = scores[counts >= _SHARED]
        low, high = (shared[0], shared[-1]) if len(shared) else (low, high)
    return np.linspace(low, high if high > low else low + 1, _BINS + 1)

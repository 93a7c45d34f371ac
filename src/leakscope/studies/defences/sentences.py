"""What a comparison of defences says, in sentences and tables."""

from __future__ import annotations

from leakscope.evaluate.results import Figure
from leakscope.evaluate.utility import Utility, utility_named
from leakscope.report.blocks import Table
from leakscope.report.phrases import enumeration, number, percent, with_interval
from leakscope.stats.estimate import Estimate
from leakscope.studies.defences.config import NONE
from leakscope.studies.defences.results import DefencesResults, Domination, SetFigures, SettingResults

SET_NAMES = {"population": "all records", "canaries": "canaries", "worst": "most exposed records"}
_IN_PROSE = {**SET_NAMES, "worst": "the most exposed records"}
_MOST_PAIRS = 6


def headline(results: DefencesResults) -> list[str]:
    """The answer: what to take, who dominates whom, and which defences only look safe."""
    return [
        *_answer(results),
        _none_sentence(results),
        *_trap_sentences(results),
        *domination_sentences(results),
    ]


def _answer(results: DefencesResults) -> list[str]:
    by_label = {setting.label: setting for setting in results.settings}
    affordable = next((best for best in results.best if best.utility_loss == 0.02), results.best[-1])
    best = by_label[affordable.label]
    utility = utility_named(results.config.utility)
    loss = utility.loss(affordable.utility_loss).replace("points", "percentage points")
    if not best.leaks_less:
        return [f"No defence leaks less than none does, beyond chance, at a loss of at most {loss}."]
    falls = [
        f"from {number(results.none.sets[name].auc.value)} to {interval(best.sets[name].auc)} on "
        f"{_IN_PROSE[name]}"
        for name in results.decides
    ]
    return [
        f"For at most {loss}, take {best.label}.",
        f"The AUC falls {' and '.join(falls)}; {utility.name} changes by "
        f"{changed(best.utility_difference, utility)}.",
    ]


def _none_sentence(results: DefencesResults) -> str:
    none, utility = results.none, utility_named(results.config.utility)
    parts = [f"{interval(one.auc)} on {_IN_PROSE[name]}" for name, one in none.sets.items()]
    return (
        f"Without a defence the strongest attack has an AUC of {enumeration(parts)}; "
        f"{utility.name} on records a model was not trained on is {utility.level(none.utility.value)}."
    )


def _trap_sentences(results: DefencesResults) -> list[str]:
    """The settings whose figure over all records hides what happens to canaries."""
    traps = [setting for setting in results.settings[1:] if setting.looks_safe_only]
    if not traps:
        return []
    worst = max(traps, key=lambda setting: _most(setting, results).auc.value or 0.0)
    rest = [setting.label for setting in traps if setting is not worst]
    others = f" The same holds for {enumeration(rest)}." if rest else ""
    name = max(results.decides, key=lambda name: worst.sets[name].auc.value or 0.0)
    return [
        f"{worst.label} looks safe and is not: AUC {interval(worst.sets['population'].auc)} over all "
        f"records, {interval(worst.sets[name].auc)} on {_IN_PROSE[name]}.{others}"
    ]


def _most(setting: SettingResults, results: DefencesResults) -> SetFigures:
    """Where the setting leaks most."""
    return max((setting.sets[name] for name in results.decides), key=lambda one: one.auc.value or 0.0)


def domination_sentences(results: DefencesResults) -> list[str]:
    """Who dominates whom, the largest difference in leakage first; one sentence per winning defence."""
    defence = {setting.label: setting.defence for setting in results.settings}
    by_pair: dict[tuple[str, str], Domination] = {}
    for pair in sorted(results.dominations, key=_largest_difference):
        if NONE not in (pair.winner, pair.loser):
            by_pair.setdefault((defence[pair.winner], defence[pair.loser]), pair)
    utility = utility_named(results.config.utility)
    return [_domination_sentence(pair, utility) for pair in list(by_pair.values())[:_MOST_PAIRS]]


def _largest_difference(pair: Domination) -> float:
    return min(one.value or 0.0 for one in pair.auc_differences.values())


def _domination_sentence(pair: Domination, utility: Utility) -> str:
    aucs = [f"{signed(one)} on {_IN_PROSE[name]}" for name, one in pair.auc_differences.items()]
    return (
        f"{pair.winner} dominates {pair.loser}: AUC {' and '.join(aucs)}, {utility.name} "
        f"{changed(pair.utility_difference, utility)}."
    )


def deciding_sets(results: DefencesResults) -> str:
    """The sets of records that decide, in words."""
    return " or ".join(_IN_PROSE[name] for name in results.decides)


def settings_table(results: DefencesResults) -> Table:
    """Utility and leakage of every setting."""
    sets, utility = list(results.none.sets), utility_named(results.config.utility)
    change = "change (points)" if utility.is_rate else "change"
    head = ("setting", utility.name, change, *(f"AUC, {SET_NAMES[name]}" for name in sets),
            f"TPR at {100 * results.config.fpr:g}% FPR, all records", "on the frontier")  # fmt: skip
    return Table(head, [_row(setting, sets, utility) for setting in results.settings])


def _row(setting: SettingResults, sets: list[str], utility: Utility) -> list[str]:
    tpr, change = setting.sets["population"].tpr, setting.utility_difference
    return [
        setting.label,
        utility.level(setting.utility.value),
        "" if change is None else _change(change, utility),
        *(interval(setting.sets[name].auc) for name in sets),
        "not resolvable" if tpr is None else percent_interval(tpr),
        "yes" if setting.is_on_frontier else "no",
    ]


def short_table(results: DefencesResults) -> Table:
    """The same for a terminal, without intervals."""
    sets, utility = list(results.none.sets), utility_named(results.config.utility)
    head = ("setting", utility.name, *(f"AUC, {SET_NAMES[name]}" for name in sets), "frontier")
    rows = [
        [
            setting.label,
            utility.level(setting.utility.value),
            *(number(setting.sets[name].auc.value) for name in sets),
            "yes" if setting.is_on_frontier else "",
        ]
        for setting in results.settings
    ]
    return Table(head, rows)


def best_table(results: DefencesResults) -> Table:
    """The setting to take for each loss of utility."""
    utility = utility_named(results.config.utility)
    by_label = {setting.label: setting for setting in results.settings}
    rows = []
    for best in results.best:
        setting = by_label[best.label]
        rows.append([
            f"{100 * best.utility_loss:g}" if utility.is_rate else f"{best.utility_loss:g}",
            setting.label, utility.level(setting.utility.value),
            *(interval(one.auc) for one in setting.sets.values()),
        ])  # fmt: skip
    head = (
        f"{utility.name} to give up, at most{' (points)' if utility.is_rate else ''}",
        "take",
        utility.name,
        *(f"AUC, {SET_NAMES[n]}" for n in results.none.sets),
    )
    return Table(head, rows)


def interval(figure: Figure) -> str:
    """A figure with its interval for these records."""
    return with_interval(figure.value, figure.these_low, figure.these_high)


def percent_interval(figure: Figure) -> str:
    """A rate with its interval for these records."""
    return with_interval(figure.value, figure.these_low, figure.these_high, percent)


def signed(difference: Estimate) -> str:
    """A difference with its interval."""
    assert difference.value is not None and difference.low is not None and difference.high is not None
    return f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"


def changed(difference: Estimate | None, utility: Utility) -> str:
    """A difference in accuracy, in percentage points, or in R²."""
    assert difference is not None
    change = _change(difference, utility)
    return f"{change} percentage points" if utility.is_rate else change


def _change(difference: Estimate, utility: Utility) -> str:
    assert difference.value is not None
    return utility.change(difference.value, difference.low, difference.high)

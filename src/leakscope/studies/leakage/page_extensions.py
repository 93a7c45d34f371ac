"""The extensions in the leakage study's report: limits, private noise, regularizer, network."""

from __future__ import annotations

from collections.abc import Sequence

from leakscope.report.blocks import Absent, Body, Table
from leakscope.report.charts import Chart, PlotlyFigure, axis, colour, error_bars, line
from leakscope.report.page import Section
from leakscope.studies.leakage.extension_results import (
    AtSameError,
    LimitPoint,
    Limits,
    Privacy,
    PrivatePoint,
    Regularized,
    Tradeoff,
)
from leakscope.studies.leakage.page_charts import number
from leakscope.studies.leakage.results import LeakageResults

_ADVERSARIES = {
    "threshold": "threshold adversary",
    "likelihood_ratio": "likelihood-ratio adversary",
    "informed": "informed adversary",
    "worst_pair": "worst pair found",
}


def extension_sections(results: LeakageResults) -> list[Section]:
    """One section per extension; a sentence where it is not part of the run."""
    limits, privacy, regularized = results.limits, results.privacy, results.regularizer
    bodies: list[tuple[str, str, Body]] = [
        ("limits", "Sensitivity, and the limits of Theorem 3", limits_body(limits) if limits else []),
        ("privacy", "Differential privacy", privacy_body(privacy) if privacy else []),
        ("regularizer", "Leakage as a regularizer", regularizer_body(regularized) if regularized else []),
        ("network", "Network beside regression", network_body(results) if results.network else []),
    ]
    return [
        Section(anchor, title, body or [Absent(f"{title}: not part of this run.")])
        for anchor, title, body in bodies
    ]


def limits_body(limits: Limits) -> Body:
    """Both families."""
    return [
        "Two families of losses whose Lipschitz constant L goes to 0: the loss times a constant, and "
        "inputs clipped to a norm. S is the largest norm of the loss's gradient over all clipped records "
        f"and all |theta| <= {limits.radius:.3g}, a ball that contains every solution; on it, L = S. The "
        "parameters are rounded.",
        _limit_table(limits.loss_scale, "loss times", "Scaled loss"),
        _limit_table(limits.clipping, "clip norm", "Clipped inputs"),
    ]


def _limit_table(points: Sequence[LimitPoint], value: str, caption: str) -> Table:
    head = (value, "S", "rho_KL, rounded", "95% interval", "estimated by", "likelihood-ratio adversary",
            "informed adversary")  # fmt: skip
    rows = [
        [number(p.value), number(p.sensitivity), number(p.leakage), _interval(p.leakage_low, p.leakage_high),
         p.method, f"{p.likelihood_ratio:.3f}", f"{p.informed:.3f}"]
        for p in points
    ]  # fmt: skip
    return Table(head, rows, caption)


def privacy_body(privacy: Privacy) -> Body:
    """The figure against epsilon, and its numbers."""
    reached = privacy.worst_pair / privacy.sensitivity
    return [
        f"Ridge regression (weight {privacy.weight:g}, n = {privacy.size}) on records clipped to norm "
        f"{privacy.norm:g} with centered targets, released with Gaussian noise on every parameter. "
        f"Replacing one record moves the solution by at most {privacy.sensitivity:.4g} (proved). A search "
        f"found two training sets {privacy.worst_pair:.4g} apart ({reached:.0%} of it); the trainings of "
        f"this study reached {privacy.largest_distance:.4g}. delta = {privacy.delta:g}.",
        privacy_chart(privacy),
        _constant_words(privacy),
        _private_table(privacy, privacy.analytic, "Analytic calibration (Balle and Wang 2018)"),
        _private_table(privacy, privacy.classical, "Classical calibration, proved below epsilon = 1"),
        "The informed adversary knows all other records. The worst pair is two training sets that the "
        "search found, so its advantage is in closed form. Bounds: (e^eps - 1 + 2 delta) / (e^eps + 1) "
        "holds for any (eps, delta)-private release, 2 Phi(mu/2) - 1 with mu = sensitivity / sigma for "
        "this one, and rho_KL is at most mu^2. They hold for every record, adversary and prior knowledge, "
        "in exact arithmetic; nothing in them is fitted. Scaling and principal components come from all "
        "records and count as public.",
    ]


def _constant_words(privacy: Privacy) -> str:
    """At which epsilons the released models are worse than a constant."""
    guess = (
        f"Guessing the class of most records has an accuracy of {privacy.constant_accuracy:.3f} on the same "
        "test records"
    )
    below = [p.epsilon for p in privacy.analytic if p.epsilon and p.accuracy < privacy.constant_accuracy]
    if not below:
        return f"{guess}; every released model exceeds it."
    return (
        f"{guess}. With the analytic calibration, the released models do worse than that at epsilon "
        f"{number(max(below))} and below: such a release is of no use, however little it reveals."
    )


def privacy_chart(privacy: Privacy) -> Chart:
    """Advantages with their bounds and accuracy on the left axis, leakage with its bound on the right."""
    points = privacy.analytic
    at = ["no noise" if p.epsilon is None else number(p.epsilon) for p in points]
    data: list[PlotlyFigure] = [
        line(at, [getattr(p, name) for p in points], label, colour(k), mode="lines+markers")
        for k, (name, label) in enumerate(_ADVERSARIES.items())
    ]
    data += [
        line(at, [p.advantage_bound for p in points], "bound, (ε, δ)", colour(0), "dash"),
        line(at, [p.gaussian_bound for p in points], "bound, Gaussian noise", colour(3), "dash"),
        line(at, [p.accuracy for p in points], "accuracy", colour(4), mode="lines+markers"),
        line(at, [privacy.constant_accuracy] * len(at), "accuracy, constant guess", colour(4), "dot"),
    ]
    mean, low, high = (
        [getattr(p, name) for p in points] for name in ("leakage", "leakage_low", "leakage_high")
    )
    bars = error_bars(mean, low, high, colour(5))
    data += [
        line(at, mean, "leakage (right)", colour(5), yaxis="y2", mode="lines+markers", error_y=bars),
        line(
            at, [p.leakage_bound for p in points], "bound on leakage (right)", colour(5), "dash", yaxis="y2"
        ),
    ]
    layout = {
        "xaxis": axis("epsilon (logarithmic)", type="category"),
        "yaxis": axis("advantage, accuracy", range=[0, 1.05]),
        "yaxis2": axis("leakage (nats)", overlaying="y", side="right", showgrid=False, type="log", dtick=1,
                       exponentformat="power"),
        "legend": {"orientation": "h", "y": -0.25},
        "margin": {"l": 64, "r": 64, "t": 24, "b": 60},
    }  # fmt: skip
    alt = f"Advantages, accuracy and leakage with their bounds at {len(points)} values of epsilon."
    return Chart("epsilon-chart", {"data": data, "layout": layout}, alt, None, 480, png="epsilon")


def _private_table(privacy: Privacy, points: Sequence[PrivatePoint], caption: str) -> Table:
    head = ("epsilon", "sigma", "leakage (95% interval)", "bound", "threshold", "likelihood ratio",
            "informed", "worst pair", "largest measured (at least)", "bound, Gaussian", "bound, (eps, delta)",
            "accuracy")  # fmt: skip
    rows = [
        ["no noise" if p.epsilon is None else number(p.epsilon), number(p.sigma),
         f"{number(p.leakage)} ({_interval(p.leakage_low, p.leakage_high)})", number(p.leakage_bound),
         f"{p.threshold:.4f}", f"{p.likelihood_ratio:.4f}",
         f"{p.informed:.4f} ± {1.96 * p.informed_error:.4f}",
         f"{p.worst_pair:.4f}", f"{p.largest_measured:.4f} ({max(p.largest_measured_low, 0):.4f})",
         f"{p.gaussian_bound:.4f}", f"{p.advantage_bound:.4f}",
         f"{p.accuracy:.3f}{', below a constant guess' if p.accuracy < privacy.constant_accuracy else ''}"]
        for p in points
    ]  # fmt: skip
    return Table(head, rows, caption)


def regularizer_body(regularized: Regularized) -> Body:
    """Error and leakage of all three, and the comparison at equal error."""
    return [
        "Ridge weights, one per parameter, that minimize squared error plus a multiple of rho_KL, on "
        f"records of their own (n = {regularized.size}). Below 0 in the first table, the leakage penalty "
        "leaks less than ridge of the same error.",
        _comparison_table(regularized.comparisons),
        _tradeoff_table(regularized.penalized, "leakage times", "Weights chosen for error plus leakage"),
        _tradeoff_table(regularized.scaled, "factor", "Weights chosen for the error alone, times a factor"),
        _tradeoff_table(regularized.plain, "ridge weight", "Plain ridge"),
    ]


def _comparison_table(comparisons: Sequence[AtSameError]) -> Table:
    head = ("leakage times", "against", "at its", "error there", "difference of rho_KL (95% interval)",
            "difference of the likelihood-ratio advantage (95% interval)")  # fmt: skip
    rows = [
        [number(c.strength), c.baseline,
         f"{number(c.baseline_value)}{'' if c.is_error_reached else ' (its least error is higher)'}",
         f"{c.baseline_error:.4f}",
         f"{number(c.leakage)} ({_interval(c.leakage_low, c.leakage_high)})",
         f"{number(c.likelihood_ratio)} ({_interval(c.likelihood_ratio_low, c.likelihood_ratio_high)})"]
        for c in comparisons
    ]  # fmt: skip
    return Table(head, rows, "Leakage penalty minus ridge of the same squared error")


def _tradeoff_table(tradeoffs: Sequence[Tradeoff], value: str, caption: str) -> Table:
    head = (value, "squared error", "accuracy", "rho_KL", "likelihood-ratio adversary", "ridge weights")
    rows = [
        [number(t.value), f"{t.squared_error:.4f}", f"{t.accuracy:.3f}", number(t.leakage),
         f"{t.likelihood_ratio:.3f}", ", ".join(number(weight) for weight in t.penalty)]
        for t in tradeoffs
    ]  # fmt: skip
    return Table(head, rows, caption)


def network_body(results: LeakageResults) -> Body:
    """Differences at the sizes that both figures have."""
    head = (
        "n",
        "records",
        "advantage, network minus regression",
        "leakage of the output by nearest neighbors",
    )
    rows = [
        [number(c.n), str(c.records), _plus_minus(c.advantage, c.advantage_half_width),
         _plus_minus(c.neighbours, c.neighbours_half_width)]
        for c in results.network
    ]  # fmt: skip
    return [
        "The same records and training sets. Above 0, the network reveals more than the regression. "
        f"Nearest neighbors see fewer nats of the network (K = {results.config.network_trials:,}) than of "
        f"the regression (K = {results.config.trials:,}), so where much leaks the right column is too low.",
        Table(head, rows, "Differences with 95% intervals over records"),
    ]


def _plus_minus(value: float | None, half_width: float | None) -> str:
    if value is None or half_width is None:
        return "-"
    return f"{value:+.3f} ± {half_width:.3f}"


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None else f"{number(low)} to {number(high)}"

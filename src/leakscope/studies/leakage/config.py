"""What the leakage study runs: budgets, and the points of its five figures and of its extensions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from leakscope.errors import InputError
from leakscope.leakage.mechanism import analytic_sigma, classical_sigma
from leakscope.leakage.sensitivity import ridge_sensitivity

NETWORK = 2
"""The figure that trains networks; the others train linear regressions."""
CONTROL = 0
"""Not a figure: the trainings of figure 1 with the record's presence shuffled, where nothing leaks."""
ROUNDED = 6
"""Not a figure: the trainings of figure 3 with parameters rounded to a grid."""
LOSS_SCALE = 7
"""Not a figure: the limit L -> 0 of Theorem 3, by a loss that is multiplied by a constant."""
CLIPPING = 8
"""Not a figure: the same limit, by inputs that are clipped."""
PRIVACY = 9
"""Not a figure: the Gaussian mechanism with the analytic calibration."""
CLASSICAL = 10
"""Not a figure: the Gaussian mechanism with the classical calibration."""
REGULARIZER = 11
"""Not a figure: plain ridge beside ridge weights that are chosen to leak less."""
_NAMES = {
    CONTROL: "shuffled presence",
    ROUNDED: "rounded parameters",
    LOSS_SCALE: "scaled loss",
    CLIPPING: "clipped inputs",
    PRIVACY: "analytic Gaussian mechanism",
    CLASSICAL: "classical Gaussian mechanism",
    REGULARIZER: "regularizer",
}
EXTENSIONS = ("limits", "privacy", "regularizer")
"""What the study runs beyond the five figures."""
N_FEATURES = 5
"""Principal components, unless a figure varies them."""
HALF_RANGE = 0.5
"""Largest absolute target of clipped records: targets from 0 to 1 are centered first."""
DELTA = 1e-5
"""Of the Gaussian mechanism."""
PRIVATE_SIZE, PRIVATE_WEIGHT, PRIVATE_NORM = 100, 1.0, 1.0
"""Training records, ridge weight and clip norm under the Gaussian mechanism."""
LIMIT_SIZE, LIMIT_WEIGHT, LIMIT_NORM = 10, 0.1, 4.0
"""Training records, ridge weight and largest clip norm of the limits of Theorem 3."""
_EPSILONS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class FigureSpec(NamedTuple):
    """What one figure varies, and what Farokhi and Kaafar (2020) report.

    Attributes:
        title: of the figure.
        axis: label of the varied quantity.
        increase: an increase of it, in words.
        expected: rank correlation of leakage with it that the trend must reach, with the published sign.
    """

    title: str
    axis: str
    increase: str
    expected: float

    @property
    def short_axis(self) -> str:
        """The label without its explanation."""
        return self.axis.split(" (")[0]

    @property
    def effect(self) -> str:
        """The published effect, in words."""
        return f"{self.increase}, {'more' if self.expected > 0 else 'less'} leakage"


FIGURES = {
    1: FigureSpec(
        "Training-set size, linear regression",
        "training records n (logarithmic)",
        "more training records",
        -0.9,
    ),
    2: FigureSpec(
        "Training-set size, network of five tanh layers",
        "training records n of the network (logarithmic)",
        "more training records for a network",
        -0.9,
    ),
    3: FigureSpec(
        "Ridge weight, linear regression, n = 10",
        "ridge weight λ (logarithmic)",
        "a heavier ridge penalty",
        -0.9,
    ),
    4: FigureSpec(
        "Number of features, linear regression, n = 10, λ = 1e-6",
        "features p_x (principal components)",
        "more features",
        0.8,
    ),
    5: FigureSpec(
        "Noise on the parameters, linear regression, n = 30", "noise sd", "more noise on the parameters", -0.9
    ),
}
"""The five figures."""


def part_name(figure: int) -> str:
    """A figure, or another part of the study, in words."""
    return _NAMES.get(figure, f"figure {figure}")


@dataclass(frozen=True)
class LeakageConfig:
    """Configuration of the study; the defaults are the quick budget.

    Attributes:
        dataset: "adult" (categories as integer codes), or "digits", which is built in.
        figures: which of the five figures.
        records: number of records whose leakage is measured, in the linear figures.
        trials: K, trainings with and without a record in each of two independent halves.
        network_records: `records` of the network, which costs thousands of times more.
        network_trials: `trials` of the network.
        network_sizes: training-set sizes of the network.
        extensions: which of "limits", "privacy" and "regularizer" to run as well.
        regularizer_steps: evaluations of the objective for each strength of the leakage penalty.
        precision: step of the grid to which parameters are rounded, for leakage at finite precision.
        priors: of membership, at which rho_MI is computed beside 1/2 and n/N.
        seed: all randomness derives from it.
    """

    dataset: str = "adult"
    figures: tuple[int, ...] = tuple(FIGURES)
    records: int = 40
    trials: int = 1000
    network_records: int = 8
    network_trials: int = 100
    network_sizes: tuple[int, ...] = (10, 20, 40, 80)
    extensions: tuple[str, ...] = EXTENSIONS
    regularizer_steps: int = 80
    precision: float = 0.01
    priors: tuple[float, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        problems = _config_problems(self)
        if problems:
            raise InputError("; ".join(problems))

    def records_of(self, figure: int) -> int:
        """Number of records in a figure."""
        return self.network_records if figure == NETWORK else self.records

    def trials_of(self, figure: int) -> int:
        """K of a figure."""
        return self.network_trials if figure == NETWORK else self.trials


class Setting(NamedTuple):
    """One point of a figure.

    Attributes:
        value: its position on the axis.
        size: records in a training set.
        weight: ridge weight lambda, or one weight per parameter.
        n_features: number of principal components.
        noise_sd: standard deviation of noise added to the parameters.
        grid: step of the grid to which the parameters are rounded; 0: they are not.
        clip: largest norm of a record's inputs, which are scaled down to it; 0: they are not clipped. The
            targets of clipped records are centered.
    """

    value: float
    size: int
    weight: float | tuple[float, ...] = 0.0
    n_features: int = N_FEATURES
    noise_sd: float = 0.0
    grid: float = 0.0
    clip: float = 0.0


def settings(config: LeakageConfig) -> dict[int, tuple[Setting, ...]]:
    """Figure -> its points, for all that is trained in crossed pairs; see the constants above.

    Points are evenly spaced, on a logarithmic axis where the quantity spans decades.
    """
    sizes = (10, 20, 40, 80, 160, 320)
    weights = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
    noises = (
        0.0,
        0.05,
        0.1,
        0.15,
        0.2,
        0.25,
        0.3,
        0.35,
        0.4,
    )  # on Adult the parameters' own sd is 0.05 to 0.08
    every = {
        CONTROL: tuple(Setting(n, n) for n in (100, 200)),
        1: tuple(Setting(n, n) for n in sizes),
        2: tuple(Setting(n, n) for n in config.network_sizes),
        3: tuple(Setting(w, 10, weight=w) for w in weights),
        4: tuple(Setting(p, 10, weight=1e-6, n_features=p) for p in range(1, 9)),  # 9 interpolate at n = 10
        5: tuple(Setting(t, 30, noise_sd=t) for t in noises),
        ROUNDED: tuple(Setting(w, 10, weight=w, grid=config.precision) for w in weights),
        **_limit_settings(config.precision),
        **_private_settings(),
    }
    with_figure = {CONTROL: 1, ROUNDED: 3}
    chosen = [*config.figures, *(part for part, figure in with_figure.items() if figure in config.figures)]
    chosen += [LOSS_SCALE, CLIPPING] if "limits" in config.extensions else []
    chosen += [PRIVACY, CLASSICAL] if "privacy" in config.extensions else []
    return {figure: every[figure] for figure in sorted(chosen)}


def _limit_settings(grid: float) -> dict[int, tuple[Setting, ...]]:
    """Two families of losses whose Lipschitz constant goes to 0; a loss times c is a ridge weight over c."""
    size, weight = LIMIT_SIZE, LIMIT_WEIGHT
    scales, norms = (1.0, 0.1, 0.01, 0.001, 0.0001), tuple(LIMIT_NORM / 4**k for k in range(7))
    return {
        LOSS_SCALE: tuple(Setting(c, size, weight=weight / c, grid=grid, clip=LIMIT_NORM) for c in scales),
        CLIPPING: tuple(Setting(norm, size, weight=weight, grid=grid, clip=norm) for norm in norms),
    }


def _private_settings() -> dict[int, tuple[Setting, ...]]:
    """The Gaussian mechanism at every epsilon, and without noise; the classical rule where it is proved."""
    moved = private_sensitivity()

    def private(epsilon: float, sd: float) -> Setting:
        return Setting(epsilon, PRIVATE_SIZE, PRIVATE_WEIGHT, noise_sd=sd, clip=PRIVATE_NORM)

    return {
        PRIVACY: (
            *(private(epsilon, analytic_sigma(epsilon, DELTA, moved)) for epsilon in _EPSILONS),
            private(float("inf"), 0.0),
        ),
        CLASSICAL: tuple(
            private(epsilon, classical_sigma(epsilon, DELTA, moved)) for epsilon in _EPSILONS if epsilon < 1
        ),
    }


def private_sensitivity() -> float:
    """Sensitivity of the regressions under the Gaussian mechanism."""
    return ridge_sensitivity(PRIVATE_SIZE, PRIVATE_WEIGHT, PRIVATE_NORM, HALF_RANGE)


def with_budget(budget: str, **given: Any) -> LeakageConfig:
    """A budget's configuration with the given fields (None: not given) on top.

    The network never has more records or trials than the linear figures. Extensions are left out where
    figures are given.
    """
    if budget not in BUDGETS:
        raise InputError(f"budget={budget!r}: choose {', '.join(BUDGETS)}")
    given = {name: value for name, value in given.items() if value is not None}
    if "figures" in given:
        given.setdefault("extensions", ())
    for name in ("records", "trials"):
        if name in given:
            of_network = f"network_{name}"
            given.setdefault(of_network, min(getattr(BUDGETS[budget], of_network), given[name]))
    return replace(BUDGETS[budget], **given)


def _config_problems(config: LeakageConfig) -> list[str]:
    """Everything wrong with a configuration, in words."""
    problems = []
    if not config.figures or not set(config.figures) <= set(FIGURES):
        problems.append(f"figures={list(config.figures)}: choose from {', '.join(map(str, FIGURES))}")
    if not set(config.extensions) <= set(EXTENSIONS):
        problems.append(f"extensions={list(config.extensions)}: choose from {', '.join(EXTENSIONS)}")
    for name, least in (("records", 1), ("trials", 2), ("network_records", 1), ("network_trials", 2),
                        ("regularizer_steps", 1)):  # fmt: skip
        if getattr(config, name) < least:
            problems.append(f"{name}={getattr(config, name)}: must be at least {least}")
    if config.network_records > config.records:
        problems.append(f"network_records={config.network_records}: at most records={config.records}")
    if not config.precision > 0:
        problems.append(f"precision={config.precision}: the step of a grid must be above 0")
    if not all(0 < prior < 1 for prior in config.priors):
        problems.append(f"priors={list(config.priors)}: each must be above 0 and below 1")
    if config.seed < 0:
        problems.append(f"seed={config.seed}: must be 0 or more")
    if config.dataset not in ("adult", "digits"):
        problems.append(f"dataset={config.dataset!r}: choose adult or digits")
    if any(n < 2 for n in config.network_sizes):
        problems.append(f"network_sizes={list(config.network_sizes)}: must be at least 2")
    return problems


BUDGETS = {
    "quick": LeakageConfig(),
    "standard": LeakageConfig(
        records=100,
        trials=3000,
        network_records=12,
        network_trials=200,
        network_sizes=(10, 20, 40, 80, 160),
        regularizer_steps=200,
    ),
    "thorough": LeakageConfig(
        records=200,
        trials=10_000,
        network_records=24,
        network_trials=400,
        network_sizes=(10, 20, 40, 80, 160, 320),
        regularizer_steps=400,
    ),
}
"""Budget -> its configuration."""

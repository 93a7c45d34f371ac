"""What the leakage study runs: budgets, and the points of its five figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from leakscope.errors import InputError

NETWORK = 2
"""The figure that trains networks; the others train linear regressions."""
CONTROL = 0
"""Not a figure: the trainings of figure 1 with the record's presence shuffled, where nothing leaks."""
N_FEATURES = 5
"""Principal components, unless a figure varies them."""


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
        "Training-set size, linear regression", "training records n", "more training records", -0.9
    ),
    2: FigureSpec(
        "Training-set size, network of five tanh layers",
        "training records n of the network",
        "more training records for a network",
        -0.9,
    ),
    3: FigureSpec(
        "Ridge weight, linear regression, n = 10", "ridge weight λ", "a heavier ridge penalty", -0.9
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
        precision: step of the grid to which parameters are rounded, for leakage at finite precision.
        seed: all randomness derives from it.
    """

    dataset: str = "adult"
    figures: tuple[int, ...] = tuple(FIGURES)
    records: int = 40
    trials: int = 1000
    network_records: int = 8
    network_trials: int = 16
    network_sizes: tuple[int, ...] = (10, 20, 40, 80)
    precision: float = 0.01
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
        weight: ridge weight lambda.
        n_features: number of principal components.
        noise_sd: standard deviation of noise added to the parameters.
    """

    value: float
    size: int
    weight: float = 0.0
    n_features: int = N_FEATURES
    noise_sd: float = 0.0


def settings(config: LeakageConfig) -> dict[int, tuple[Setting, ...]]:
    """Figure -> its points, for the chosen figures; the control comes with figure 1."""
    sizes = (10, 14, 20, 30, 60, 100, 200, 400)
    weights = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
    noises = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # on Adult the parameters' own sd is 0.05 to 0.08
    every = {
        CONTROL: tuple(Setting(n, n) for n in (100, 200)),
        1: tuple(Setting(n, n) for n in sizes),
        2: tuple(Setting(n, n) for n in config.network_sizes),
        3: tuple(Setting(w, 10, weight=w) for w in weights),
        4: tuple(Setting(p, 10, weight=1e-6, n_features=p) for p in range(1, 9)),  # 9 interpolate at n = 10
        5: tuple(Setting(t, 30, noise_sd=t) for t in noises),
    }
    chosen = (*config.figures, *((CONTROL,) if 1 in config.figures else ()))
    return {figure: every[figure] for figure in sorted(chosen)}


def with_budget(budget: str, **given: Any) -> LeakageConfig:
    """A budget's configuration with the given fields (None: not given) on top.

    The network never has more records or trials than the linear figures.
    """
    if budget not in BUDGETS:
        raise InputError(f"budget={budget!r}: choose {', '.join(BUDGETS)}")
    given = {name: value for name, value in given.items() if value is not None}
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
    for name, least in (("records", 1), ("trials", 2), ("network_records", 1), ("network_trials", 2)):
        if getattr(config, name) < least:
            problems.append(f"{name}={getattr(config, name)}: must be at least {least}")
    if config.network_records > config.records:
        problems.append(f"network_records={config.network_records}: at most records={config.records}")
    if not config.precision > 0:
        problems.append(f"precision={config.precision}: the step of a grid must be above 0")
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
        network_trials=50,
        network_sizes=(10, 20, 40, 80, 160),
    ),
    "thorough": LeakageConfig(
        records=200,
        trials=10_000,
        network_records=24,
        network_trials=200,
        network_sizes=(10, 20, 40, 80, 160, 320),
    ),
}
"""Budget -> its configuration."""

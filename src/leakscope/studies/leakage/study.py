"""What drives membership leakage? Training-set size, ridge weight, features, noise: five honest figures.

Reproduces "Modelling and Quantifying Membership Information Leakage in Machine Learning" (Farokhi and
Kaafar 2020): for each chosen record, trainings with it and trainings without it on other records drawn at
random; the Kullback-Leibler leakage of the trained parameters and the advantage of a threshold adversary,
against the training-set size (linear regression, then a network), the ridge weight, the number of features
and added noise.

Where the document is silent or loose: its estimate of the leakage is biased upwards, so here a null is taken
off and drawn; with the ridge weight only the leakage at finite precision vanishes, so both are drawn; the
network has far too many parameters for a Gaussian of them, so what is measured is its answer about the
record, a lower bound by data processing. All points of a figure share their records and draws: they differ
by what the figure varies and by nothing else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from leakscope.bank.checksums import check_seal, seal_damage, write_seal
from leakscope.bank.run_folder import RESULTS, locked_run_folder, stored_array, to_jsonable
from leakscope.disk.storage import atomic_folder, write_array, write_json
from leakscope.errors import InputError
from leakscope.leakage.experiment import Experiment

KIND = "study leakage"
FIGURES = (1, 2, 3, 4, 5)
CONTROL = 0
"""Not a figure: the trainings of figure 1 with the record's presence shuffled, where nothing leaks."""
N_FEATURES = 5
"""Principal components, unless a figure varies them."""


@dataclass(frozen=True)
class Budget:
    """What one word derives."""

    records: int
    trials: int
    network_records: int
    network_trials: int
    network_sizes: tuple[int, ...]


BUDGETS = {
    "quick": Budget(40, 1000, 8, 16, (10, 20, 40, 80)),
    "standard": Budget(100, 3000, 12, 50, (10, 20, 40, 80, 160)),
    "thorough": Budget(200, 10_000, 24, 200, (10, 20, 40, 80, 160, 320)),
}
"""Budget name -> sizes of the populations."""


@dataclass(frozen=True)
class LeakageConfig:
    """What to run; every derived number is here, and stored.

    Attributes:
        dataset: "adult" (integer codes), or "digits", which is built in.
        figures: which of the five.
        records: chosen records in the linear figures.
        trials: K: trainings with and without a record in each of two independent halves.
        network_records: the same for the network, which costs thousands of times more.
        network_trials: K of the network.
        network_sizes: training-set sizes of the network.
        precision: step of the grid the parameters are rounded to, for finite-precision leakage.
    """

    dataset: str = "adult"
    figures: tuple[int, ...] = FIGURES
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


class Setting(NamedTuple):
    """One point of a figure.

    Attributes:
        value: where it stands on the axis.
        size: records in a training set.
        weight: ridge weight lambda.
        n_features: principal components.
        noise_sd: of noise added to the parameters.
    """

    value: float
    size: int
    weight: float = 0.0
    n_features: int = N_FEATURES
    noise_sd: float = 0.0


def settings(config: LeakageConfig) -> dict[int, tuple[Setting, ...]]:
    """Figure -> its points, for the figures asked for; the control comes with figure 1."""
    sizes = (10, 14, 20, 30, 60, 100, 200, 400)
    weights = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
    noises = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # on Adult theta's own sd is 0.05 to 0.08
    every = {
        CONTROL: tuple(Setting(n, n) for n in (100, 200)),
        1: tuple(Setting(n, n) for n in sizes),
        2: tuple(Setting(n, n) for n in config.network_sizes),
        3: tuple(Setting(w, 10, weight=w) for w in weights),
        4: tuple(Setting(p, 10, weight=1e-6, n_features=p) for p in range(1, 9)),  # 9 interpolate at n = 10
        5: tuple(Setting(t, 30, noise_sd=t) for t in noises),
    }
    wanted = (*config.figures, *((CONTROL,) if 1 in config.figures else ()))
    return {figure: every[figure] for figure in sorted(wanted)}


def budgeted(budget: str, **given: Any) -> LeakageConfig:
    """The configuration of a budget with what the user gave on top; the network never exceeds the rest."""
    if budget not in BUDGETS:
        raise InputError(f"budget={budget!r}: choose {', '.join(BUDGETS)}")
    sizes = asdict(BUDGETS[budget])
    wanted: dict[str, Any] = {**sizes, **{name: value for name, value in given.items() if value is not None}}
    for kind in ("records", "trials"):
        wanted[f"network_{kind}"] = min(wanted[f"network_{kind}"], wanted[kind])
    return LeakageConfig(**wanted)


def run(
    config: LeakageConfig,
    out: Path,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The whole study: trains what is missing under `out`, judges, reports; returns the results.

    Args:
        config: what to run.
        out: run folder; a figure whose trainings are complete is not trained again.
        data_dir: the data folder.
        say: called with a line of progress now and then.
    """
    from leakscope.studies.leakage.network import network_experiments
    from leakscope.studies.leakage.population import linear_experiments
    from leakscope.studies.leakage.report import write_report
    from leakscope.studies.leakage.universe import universe

    everyone = universe(config.dataset, config.records, config.seed, data_dir)
    with locked_run_folder(out, KIND, asdict(config)):
        for figure, points in settings(config).items():
            if seal_damage(_folder(out, figure)):
                trained = network_experiments if figure == 2 else linear_experiments
                _keep(_folder(out, figure), trained(config, everyone, figure, points, say))
        say("judging")
        results = judge(config, out)
        write_json(out / RESULTS, results)
        write_report(results, out)
        return results


def judge(config: LeakageConfig, out: Path) -> dict[str, Any]:
    """Every number of the study from the experiments under `out`."""
    from leakscope.studies.leakage.judge import judged

    results: dict[str, Any] = to_jsonable(judged(config, settings(config), kept_experiments(config, out)))
    return results


def kept_experiments(config: LeakageConfig, out: Path) -> dict[int, list[Experiment]]:
    """Figure -> its points' experiments, as kept under `out`; raises where they are damaged."""
    for figure in settings(config):
        check_seal(_folder(out, figure))
    return {figure: [_read(_folder(out, figure) / f"point-{i:02d}") for i in range(len(points))]
            for figure, points in settings(config).items()}  # fmt: skip


def recompute(out: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The results again, from the experiments alone; what `leakscope verify` compares."""
    return judge(config_from(config), out)


def config_from(stored: dict[str, Any]) -> LeakageConfig:
    """The configuration a results.json was made with."""
    options: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    return LeakageConfig(**options)


def _folder(out: Path, figure: int) -> Path:
    return out / "experiments" / (f"figure-{figure}" if figure else "shuffled")


def _keep(folder: Path, points: list[Experiment]) -> None:
    """Writes a figure's experiments; the folder appears when all of it is there."""
    shutil.rmtree(folder, ignore_errors=True)  # what is there is damaged
    with atomic_folder(folder) as unfinished:
        for i, point in enumerate(points):
            for name, values in point._asdict().items():
                write_array(unfinished / f"point-{i:02d}" / f"{name}.npy", values)
        write_seal(unfinished)


def _read(folder: Path) -> Experiment:
    return Experiment(*(stored_array(folder / f"{name}.npy") for name in Experiment._fields))


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

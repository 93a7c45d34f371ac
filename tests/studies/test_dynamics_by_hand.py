"""The study's figures computed again in plain numpy, from outputs that were given to it.

Nothing of the package takes part: leave-one-out LiRA with one variance per side, states, corner, both
readings of early exposure, entries, correlations, entropies.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from leakscope.dynamics.complexity import nearest_neighbor_error
from leakscope.dynamics.monitor import Monitor
from leakscope.runs.verification import verify_run
from leakscope.studies.dynamics.given_bank import read_given_bank
from leakscope.studies.dynamics.measured_elsewhere import MEANS_ONLY_RECALL, SPACINGS
from leakscope.studies.dynamics.results import RunResults
from leakscope.studies.dynamics.settings import DynamicsConfig, Setting
from leakscope.studies.dynamics.study import run_on_bank
from leakscope.types import Records

Array = npt.NDArray[np.float64]
PUBLISHED_LENGTH = Path(__file__).resolve().parents[3] / "shared" / "banks" / "cifar10-wrn28-2-adamw"
EPOCHS = (10, 20, 30, 40, 50)
N_MODELS, N_RECORDS, N_CLASSES = 13, 300, 4


class ByHand(NamedTuple):
    """Of every record: where it is at each checkpoint, (checkpoints, records) each."""

    fpr: Array
    tpr: Array
    vulnerable: npt.NDArray[np.bool_]

    @property
    def finally_vulnerable(self) -> npt.NDArray[np.bool_]:
        return self.vulnerable[-1]

    @property
    def advantage(self) -> Array:
        return np.round(self.tpr[-1] - self.fpr[-1], 9)  # equal advantages share a rank

    def recall(self, at: int, ever: bool = False) -> tuple[float, float]:
        """Recall and precision of a checkpoint's list."""
        listed = self.vulnerable[: at + 1].any(axis=0) if ever else self.vulnerable[at]
        both = (listed & self.finally_vulnerable).sum()
        return both / self.finally_vulnerable.sum(), both / max(listed.sum(), 1)


def by_hand(log_odds: Array, design: npt.NDArray[np.bool_], variance_of_all: bool = False) -> ByHand:
    """Every model judged by all others; `variance_of_all`: only the means leave the target out."""
    calls = np.stack(
        [_calls(log_odds[:, t].astype(float), design, variance_of_all) for t in range(log_odds.shape[1])],
        axis=1,
    )
    tpr = (calls & design[:, None]).sum(axis=0) / design.sum(axis=0)
    fpr = (calls & ~design[:, None]).sum(axis=0) / (~design).sum(axis=0)
    return ByHand(fpr, tpr, (fpr < 1 / 3 - 1e-9) & (tpr >= 2 / 3 - 1e-9))


def _pooled_variance(values: Array, side: npt.NDArray[np.bool_]) -> float:
    mean = (values * side).sum(axis=0) / side.sum(axis=0)
    return float((((values - mean) ** 2) * side).sum() / side.sum())


def _calls(
    values: Array, design: npt.NDArray[np.bool_], variance_of_all: bool = False
) -> npt.NDArray[np.bool_]:
    calls = np.empty(design.shape, dtype=bool)
    of_all = [_pooled_variance(values, side) for side in (design, ~design)] if variance_of_all else None
    for target in range(len(values)):
        others = np.arange(len(values)) != target
        log_ratio = np.zeros(values.shape[1])
        for k, (side, sign) in enumerate(((design[others], 1), (~design[others], -1))):
            own = values[others]
            mean = (own * side).sum(axis=0) / side.sum(axis=0)
            variance = of_all[k] if of_all else _pooled_variance(own, side)
            log_ratio += sign * -0.5 * ((values[target] - mean) ** 2 / variance + np.log(variance))
        calls[target] = log_ratio > 0
    return calls


def epistemic(logits: Array, design: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Mutual information and total variance over the models not trained on a record."""
    p = special.softmax(logits.astype(float), axis=-1)
    information, variance = [], []
    for record in range(p.shape[1]):
        passes = p[~design[:, record], record]
        mean = passes.mean(axis=0)
        information.append(special.entr(mean).sum() - special.entr(passes).sum(axis=1).mean())
        variance.append(passes.var(axis=0).sum())
    return np.array(information), np.array(variance)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs of made-up models, as a folder of arrays; members' log-odds rise with the epochs."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("given") / "made_up"
    path.mkdir()
    design = rng.random((N_MODELS, N_RECORDS)) < 0.5
    design[:3], design[3:6] = True, False  # three models on both sides of every record
    labels = rng.integers(N_CLASSES, size=N_RECORDS)
    np.save(path / "design.npy", design)
    np.save(path / "labels.npy", labels.astype(np.uint8))
    hard = rng.exponential(size=N_RECORDS)
    for k, epoch in enumerate(EPOCHS):
        logits = rng.normal(size=(N_MODELS, N_RECORDS, N_CLASSES)) * (0.5 + hard[:, None])
        logits[:, np.arange(N_RECORDS), labels] += k * hard * design
        others = np.where(np.arange(N_CLASSES) == labels[:, None], -np.inf, logits)
        own = logits[:, np.arange(N_RECORDS), labels]
        np.save(path / f"logits_epoch{epoch:03d}.npy", logits.astype(np.float32))
        np.save(path / f"log_odds_epoch{epoch:03d}.npy", own - special.logsumexp(others, axis=2))
    return path


@pytest.fixture(scope="module")
def judged(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> RunResults:
    out = tmp_path_factory.mktemp("judged") / "run"
    given = read_given_bank(folder)
    config = DynamicsConfig((given.setting(Setting(dataset="made_up", net="none")),), n_permutations=1)
    (run,) = run_on_bank(config, given, out).runs.values()
    assert verify_run(out).problems == []
    return run


def arrays(folder: Path) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Log-odds and logits (models, checkpoints, ...), and the design."""
    log_odds, logits = (
        np.stack([np.load(folder / f"{name}_epoch{epoch:03d}.npy") for epoch in EPOCHS], axis=1)
        for name in ("log_odds", "logits")
    )
    return log_odds.astype(np.float32), logits, np.load(folder / "design.npy")


def test_both_readings_of_early_exposure(folder: Path, judged: RunResults) -> None:
    log_odds, _, design = arrays(folder)
    expected, figures = by_hand(log_odds, design), judged.figures
    assert 0.1 < expected.finally_vulnerable.mean() < 0.9
    for at in range(len(EPOCHS)):
        now, ever = expected.recall(at), expected.recall(at, ever=True)
        assert (figures.recall.value[at], figures.precision.value[at]) == pytest.approx(now)
        assert (figures.ever_recall.value[at], figures.ever_precision.value[at]) == pytest.approx(ever)


def test_entries_of_all_and_of_those_outside_and_who_stays(folder: Path, judged: RunResults) -> None:
    log_odds, _, design = arrays(folder)
    corner = by_hand(log_odds, design).vulnerable
    entered = [sum(~a & b) for a, b in pairwise(corner)]
    outside = [sum(~a) for a in corner[:-1]]
    assert judged.figures.entry_of_all.value == pytest.approx([n / N_RECORDS for n in entered])
    assert judged.figures.peak_entry_of_all.value == pytest.approx(max(entered) / N_RECORDS)
    assert judged.figures.peak_entry.value == pytest.approx(
        max(n / m for n, m in zip(entered, outside, strict=True))
    )
    stays = {True: [0, 0], False: [0, 0]}
    for t in range(1, len(EPOCHS) - 1):
        for record in np.flatnonzero(corner[t]):
            counts = stays[bool(corner[t - 1, record])]
            counts[0] += int(corner[t + 1, record])
            counts[1] += 1
    for was_there, figure in ((True, judged.figures.others_stay), (False, judged.figures.newcomers_stay)):
        assert figure.value == pytest.approx(stays[was_there][0] / stays[was_there][1])


def test_uncertainty_at_the_end_early_binned_and_among_the_vulnerable(
    folder: Path, judged: RunResults
) -> None:
    log_odds, logits, design = arrays(folder)
    expected = by_hand(log_odds, design)
    corner, advantage = expected.finally_vulnerable, expected.advantage
    for at in range(len(EPOCHS)):
        information, variance = epistemic(logits[:, at], design)
        for name, values in (("epistemic", information), ("ensemble_variance", variance)):
            early = judged.early_hardness[name]
            assert early.pearson[at] == pytest.approx(stats.pearsonr(values, advantage)[0], abs=1e-6)
            assert early.spearman[at] == pytest.approx(stats.spearmanr(values, advantage)[0], abs=1e-4)
            among = stats.pearsonr(values[corner], advantage[corner])[0]
            assert early.among_vulnerable[at] == pytest.approx(among, abs=1e-6)
            bins = np.array_split(np.argsort(values, kind="stable"), 20)
            means = [[x[b].mean() for b in bins] for x in (values, advantage)]
            assert early.binned[at] == pytest.approx(stats.pearsonr(*means)[0], abs=1e-4)
    figures = judged.hardness["epistemic"]
    order = np.argsort(information, kind="stable")
    bins = np.array_split(order, 20)
    means = [[values[b].mean() for b in bins] for values in (information, advantage)]
    assert figures.binned.n == 20
    assert figures.binned.r == pytest.approx(stats.pearsonr(*means)[0], abs=1e-4)
    assert figures.binned.r > figures.pearson.r


def test_the_spread_of_one_models_losses_so_far(folder: Path, judged: RunResults) -> None:
    log_odds, _, design = arrays(folder)
    members = design[0]
    losses = np.log1p(np.exp(-log_odds[0].astype(float)))[:, members]
    advantage = by_hand(log_odds, design).advantage[members]
    early = judged.early_hardness["loss_trace_spread_one_model"]
    assert early.pearson[0] is None  # of one loss there is no spread
    for at in range(1, len(EPOCHS)):
        spread = np.subtract(*np.percentile(losses[: at + 1], [75, 25], axis=0))
        assert early.spearman[at] == pytest.approx(stats.spearmanr(spread, advantage)[0], abs=1e-3)
    monitor = Monitor(int(members.sum()))
    for at in range(len(EPOCHS)):
        monitor.update(losses[at])
        expected = stats.spearmanr(monitor.exposure(), advantage)[0]
        assert judged.early_hardness["monitor_one_model"].spearman[at] == pytest.approx(expected, abs=1e-3)


def test_entropy_of_all_models_for_each_number_of_cells(folder: Path, judged: RunResults) -> None:
    log_odds, _, design = arrays(folder)
    expected = by_hand(log_odds, design)
    rows = {(f.models, f.cells): f for f in judged.entropy_by_resolution}
    assert {models for models, _ in rows} == {N_MODELS, N_MODELS // 2}
    for cells in (3, 5, 10, 20, 40):
        for at, bits in ((0, rows[N_MODELS, cells].first), (-1, rows[N_MODELS, cells].last)):
            parts = [
                np.minimum(np.floor(r[at] * cells + 1e-9), cells - 1) for r in (expected.fpr, expected.tpr)
            ]
            _, counts = np.unique(np.stack(parts), axis=1, return_counts=True)
            assert bits == pytest.approx(stats.entropy(counts, base=2))
    assert rows[N_MODELS, 40].last > rows[N_MODELS, 5].last > rows[N_MODELS // 2, 3].last


def test_nearest_neighbor_error_against_all_distances() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=120)
    features = (rng.normal(size=(120, 5)) + labels[:, None]).astype(np.float32)
    ids = np.array([str(k) for k in range(120)])
    records = Records(features, labels, ids, class_names=("a", "b", "c"))
    wrong = 0
    for k in range(100):
        distances = [
            np.inf if j == k else float(((features[k] - features[j]) ** 2).sum()) for j in range(100)
        ]
        wrong += labels[int(np.argmin(distances))] != labels[k]
    assert nearest_neighbor_error(records, most=100) == wrong / 100


@pytest.mark.slow
@pytest.mark.skipif(
    not PUBLISHED_LENGTH.is_dir(), reason="the outputs at the published length are not at hand"
)
@pytest.mark.parametrize(
    ("variance_of_all", "at_150", "spearman"), [(False, 0.6964, 0.8187), (True, 0.6968, 0.8190)]
)
def test_the_published_length_by_hand(variance_of_all: bool, at_150: float, spearman: float) -> None:
    """Leaving each target out alone, of both moments as the page does, or of the means only."""
    epochs = range(10, 401, 10)
    files = [PUBLISHED_LENGTH / f"log_odds_epoch{epoch:03d}.npy" for epoch in epochs]
    design = np.load(PUBLISHED_LENGTH / "design.npy")
    expected = by_hand(np.stack([np.load(file) for file in files], axis=1), design, variance_of_all)
    corner = expected.vulnerable
    assert expected.recall(14)[0] == pytest.approx(at_150, abs=0.00005)
    if variance_of_all:
        assert round(expected.recall(14)[0], 3) == MEANS_ONLY_RECALL
    assert expected.recall(15)[0] > 0.7 > expected.recall(14)[0]
    entered = (~corner[:-1] & corner[1:]).mean(axis=1)
    assert entered.max() == pytest.approx(0.133, abs=0.0005)
    assert (entered / (~corner[:-1]).mean(axis=1)).max() == pytest.approx(0.1555, abs=0.001)
    information, _ = epistemic(np.load(PUBLISHED_LENGTH / "logits_epoch400.npy"), design)
    assert stats.pearsonr(information, expected.advantage)[0] == pytest.approx(0.726, abs=0.0005)
    assert stats.spearmanr(information, expected.advantage)[0] == pytest.approx(spearman, abs=0.00005)


@pytest.mark.slow
@pytest.mark.skipif(
    not PUBLISHED_LENGTH.is_dir(), reason="the outputs at the published length are not at hand"
)
def test_finer_checkpoints_by_hand() -> None:
    """Shares of the records ever in the corner; by chance, each record's memberships are drawn again."""
    files = [PUBLISHED_LENGTH / f"log_odds_epoch{epoch:03d}.npy" for epoch in range(10, 401, 10)]
    log_odds, design = np.stack([np.load(f) for f in files], axis=1), np.load(PUBLISHED_LENGTH / "design.npy")
    permuted = np.random.default_rng(0).permuted(design, axis=0)
    seen, by_chance = (by_hand(log_odds, one).vulnerable for one in (design, permuted))
    for spacing in SPACINGS:
        step = spacing.every // 10
        shares = [corner[step - 1 :: step].any(axis=0).mean() for corner in (seen, by_chance)]
        assert round(shares[0], 3) == spacing.seen
        assert shares[1] == pytest.approx(spacing.by_chance, abs=0.01)

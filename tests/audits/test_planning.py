"""Plans against what then happens: files byte by byte, memory within a factor, time on a clock of our own."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from leakscope.array_types import AnyArray, IntArray
from leakscope.audits.planning import judging, plan, trial
from leakscope.audits.planning.plan import SUPPOSED_AUC, Cost, Plan, plan_audit, resolution
from leakscope.audits.planning.trial import Seconds
from leakscope.audits.population import TrainedPopulation
from leakscope.audits.run import audit, audit_settings
from leakscope.bank.bank import Bank
from leakscope.engine import local, request
from leakscope.errors import InputError, TrainingError
from leakscope.evaluate.config import EvaluationConfig
from leakscope.evaluate.judge import judge
from leakscope.recipe import Distillation, EstimatorRecipe, FunctionRecipe, Recipe, Treatment
from leakscope.stats.roc import why_unresolvable
from leakscope.types import Design, Records
from tests.engine.small_population import RECIPE, complete, records, regression_records, use_blocks_of

TREE = EstimatorRecipe(DecisionTreeClassifier(max_depth=2), processes=1)


def most_frequent(given: Records, indices: IntArray, seed: int) -> Callable[[AnyArray], AnyArray]:
    """A training function of a user's own."""
    shares = np.bincount(given.labels[indices], minlength=given.n_classes) / len(indices)
    return lambda features: np.tile(shares, (len(features), 1))


@pytest.fixture(autouse=True)
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEPS", "ORDERS", "QUERIES", "FITS"):
        monkeypatch.setattr(trial, f"_{name}_TRIAL", 0.01)
    monkeypatch.setattr(judging, "_TRIAL", 0.01)
    for size in ("_MORE", "_FITTED", "_MANY"):  # test_planned_judging.py is about them
        monkeypatch.setattr(judging, size, 1_000)


def small_plan(**changes: Any) -> Plan:
    given: dict[str, Any] = {"records": records(), "recipe": RECIPE, "models": 8, "device": "cpu", **changes}
    source = TrainedPopulation(given.pop("records"), given.pop("recipe"))
    return plan_audit(audit_settings(given), source)


def small_cost(**changes: Any) -> Cost:
    cost = small_plan(**changes).cost
    assert cost is not None
    return cost


@pytest.mark.parametrize("recipe", [RECIPE, TREE], ids=["networks", "estimators"])
def test_disk_is_what_a_bank_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Recipe | EstimatorRecipe
) -> None:
    use_blocks_of(monkeypatch, 3)
    monkeypatch.setattr(request, "MODELS_PER_BLOCK", 3)
    in_blocks: list[int] = []
    finish = Bank.finish

    def counted_finish(self: Bank, about: dict[str, Any]) -> None:
        in_blocks.extend(path.stat().st_size for path in self.folder.glob("blocks/*/*.npy"))
        finish(self, about)

    monkeypatch.setattr(Bank, "finish", counted_finish)
    several = {"queries": 3, "signals": ("logits", "entropy", "query_log_odds")}
    planned = small_cost(recipe=recipe, models=7, design="bernoulli", **several)
    complete(tmp_path, recipe, signals=tuple(planned.disk.signals), queries=3)
    arrays = {path.stem: path.stat().st_size for path in tmp_path.glob("signals/*.npy")}
    assert planned.disk.signals == arrays
    assert {"logits", "entropy", "correct", "query_log_odds"} <= set(arrays)
    assert planned.disk.finished == sum(path.stat().st_size for path in tmp_path.rglob("*.npy"))
    assert planned.disk.peak == planned.disk.finished + sum(in_blocks)
    assert planned.training.blocks == 3


MEASURED = """
import re, sys, tempfile
from pathlib import Path
import numpy as np, torch
from leakscope.design import make_design
from leakscope.engine.local import TrainingRequest, complete_bank
from leakscope.recipe import Recipe
from leakscope.types import Records

torch.set_num_threads(1)

def bank(n, n_features, models, **options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, n_features)).astype(np.float32)
    records = Records(x, np.arange(n) % 2, np.arange(n).astype(str), class_names=("a", "b"))
    recipe = Recipe(net_options=tuple(options.items()), epochs=1, batch_size=256)
    if sys.argv[1] == "plan":
        from leakscope.audits.planning.plan import plan_audit
        from leakscope.audits.population import TrainedPopulation
        from leakscope.audits.settings import AuditSettings
        settings = AuditSettings(models=models, attacks=("loss", "lira"), device="cpu")
        return plan_audit(settings, TrainedPopulation(records, recipe)).cost.memory
    with tempfile.TemporaryDirectory() as folder:
        design = make_design("balanced", models, n, 0)
        complete_bank(Path(folder), TrainingRequest(records, design, recipe, 0, ("loss", "log_odds"), "cpu"))

def peak():  # not ru_maxrss, which begins with the parent's
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

bank(64, 4, 2, width=4)
before = peak()
memory = bank(4000, 100, 16, width=300, depth=3)
if sys.argv[1] == "plan":
    print(memory.records + memory.parameters + memory.workspace + memory.signals)
else:
    print(peak() - before)
"""


def bytes_printed(what: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, what], capture_output=True, text=True, check=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_training_memory_is_within_a_factor_of_what_it_takes() -> None:
    planned, taken = bytes_printed("plan"), bytes_printed("train")
    assert taken > 100e6  # large beside what the interpreter does by itself
    assert taken / 2 < planned < 3 * taken


@pytest.mark.parametrize("attacks", [("lira",), ("correctness", "loss", "lira"), ("shokri",)], ids=" ".join)
def test_judging_memory_is_within_a_factor_of_what_it_takes(attacks: tuple[str, ...]) -> None:
    many, models = records(n=3000), 32
    planned = small_cost(records=many, models=models, attacks=attacks)
    design = Design(np.random.default_rng(0).random((models, 3000)) < 0.5)
    wanted = local.TrainingRequest(many, design, RECIPE, 0, tuple(planned.disk.signals), "cpu")
    bank = judging.RandomBank(wanted, models, many)
    tracemalloc.start()
    judge(bank, EvaluationConfig("records", attacks, (0.1,)))
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken / 2 < planned.memory.judging < 3 * taken


def test_peak_memory_adds_up() -> None:
    memory = small_cost().memory
    assert memory.parameters == 4 * 4 * 8 * (4 * 4 + 4 + 4 * 3 + 3)  # Adam: values, gradients, two moments
    assert memory.records == 24 * 4 * 4 + 24 * 8
    training = memory.parameters + memory.workspace + memory.signals
    assert memory.peak == memory.records + max(training, memory.judging)


def test_auc_width_is_the_binormal_closed_form() -> None:
    """Var P(Y < X | X) = Q - A^2, Q a bivariate normal probability, by Owen's T."""
    auc, n_in, n_out = SUPPOSED_AUC, 2000, 3000
    h = special.ndtri(auc)
    placement_variance = auc - 2 * special.owens_t(h, np.sqrt(1 / 3)) - auc**2
    standard_error = np.sqrt(placement_variance * (1 / n_in + 1 / n_out))
    found = resolution(64, n_in, n_out, ())
    assert found.auc_one_target == pytest.approx(1.96 * standard_error, rel=0.02)
    of_models, of_records = 1.6 * 1.998 * standard_error / 8, 1.96 * np.sqrt(2 * 0.1 * 0.4 / 5000)
    assert found.auc_all_targets == pytest.approx(np.hypot(of_models, of_records), rel=0.02)
    assert found.auc_without_leakage == pytest.approx(1.6 * 2.656 * standard_error / 8, rel=0.02)


def test_rates_and_records() -> None:
    found = resolution(64, 900, 800, (0.01, 0.001, 0.1, 0.5))
    assert found.lowest_fpr == 1 / 800
    assert found.lowest_fpr_pooled == 1 / (64 * 800)
    low, high = beta.ppf(0.025, 45, 900 - 44), beta.ppf(0.975, 46, 900 - 45)
    assert found.rates[0].one_target == pytest.approx((high - low) / 2)
    of_records = 1.96 * np.sqrt(2 * 0.05 * 0.95 / 1700)
    of_all = np.hypot(found.rates[0].one_target / 8, of_records)
    assert found.rates[0].all_targets == pytest.approx(of_all, rel=0.05)
    assert found.rates[0].reason == ""
    assert [rate.supposed for rate in found.rates] == [0.05, 0.05, 0.2, 0.75]  # above that of guessing
    low, high = beta.ppf(0.025, 180, 900 - 179), beta.ppf(0.975, 181, 900 - 180)
    assert found.rates[2].one_target == pytest.approx((high - low) / 2)
    assert "below 1/800" in found.rates[1].reason
    assert found.rates[1].needed_nonmembers == 1000
    normal = 1.96 * np.sqrt(2 * 0.25 / 32)
    assert normal < found.record_advantage < 1.15 * normal


@pytest.mark.parametrize("n_features", [2, 24])
def test_the_planned_width_of_the_auc_is_about_that_of_the_audit(n_features: int, tmp_path: Path) -> None:
    """Logistic regression on two features reveals next to nothing, on 24 an AUC of about 0.6."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, n_features)).astype(np.float32)
    labels = (features[:, 0] + rng.normal(size=400) > 0).astype(np.int64)
    own = Records(features, labels, np.arange(400).astype(str), class_names=("no", "yes"))
    given: dict[str, Any] = {"models": 16, "device": "cpu"}
    recipe = EstimatorRecipe(LogisticRegression(C=100.0), processes=1)
    planned = plan_audit(audit_settings(given), TrainedPopulation(own, recipe)).resolution
    figure = audit(own, recipe, out=tmp_path / "run", **given).results.headline.auc
    if n_features == 2:
        assert 0.6 < (figure.high_99 - figure.value) / planned.auc_without_leakage < 1.5
    else:
        assert 0.5 < (figure.high - figure.low) / 2 / planned.auc_all_targets < 1.2


@given(st.floats(1e-6, 1.0))
def test_as_many_nonmembers_as_needed_resolve_and_one_fewer_does_not(fpr: float) -> None:
    needed = resolution(2, 10, 10, (fpr,)).rates[0].needed_nonmembers
    assert why_unresolvable(fpr, 10, needed) == ""
    assert needed == 1 or why_unresolvable(fpr, 10, needed - 1)


@pytest.mark.parametrize(
    ("law", "at_hundred", "low"),
    [
        (lambda n: 0.5 * n, 50.0, 50.0),
        (lambda n: 3 + 0.5 * n, 53.0, 53.0),
        (lambda n: 0.1 * n * n, 1000.0, 0.0),
        (lambda n: 2.0, 2.0, 2.0),
    ],
    ids=["linear", "with a fixed cost", "quadratic", "constant"],
)
def test_growing_costs_are_extrapolated(law: Callable[[int], float], at_hundred: float, low: float) -> None:
    found = trial.extrapolated([4, 8], [law(4), law(8)], 100)
    assert found.expected == pytest.approx(at_hundred)
    assert low <= found.low <= found.expected + 1e-9
    assert found.high > found.expected


def test_the_full_size_needs_no_extrapolation() -> None:
    assert trial.extrapolated([4, 8], [1.0, 3.0], 8) == Seconds(3.0, 3.0, 3.0)


class Clock:
    """Time that passes only when work says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(trial.time, "perf_counter", lambda: self.now)

    def work_of(self, seconds_a_unit: float, warm_up: float = 0.0) -> Callable[[int], Callable[[], None]]:
        is_warm = False

        def work(n: int) -> None:
            nonlocal is_warm
            self.now += n * seconds_a_unit + (0 if is_warm else warm_up)
            is_warm = True

        return lambda n: lambda: work(n)


def test_units_are_timed_without_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = trial.seconds_a_unit(clock.work_of(0.001, warm_up=0.2), 1, 500, trial=1.0)
    assert (found.expected, found.low, found.high) == pytest.approx((0.001, 0.001, 0.001))
    assert clock.now < 2.0


def test_work_longer_than_the_trial_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert trial.seconds_a_unit(clock.work_of(7.0), 1, 500, trial=1.0).expected == 7.0
    assert clock.now == 7.0


def test_sizes_grow_only_while_the_trial_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found, n, _ = trial.grown(clock.work_of(0.1), 4, 1000, trial=3.0)
    assert n < 1000
    assert clock.now < 4.0
    assert found.expected == pytest.approx(100)


@pytest.mark.parametrize(
    ("changes", "trainer"),
    [
        ({}, "dense"),
        ({"recipe": Recipe(net_options=(("width", 4), ("norm", "batch")), epochs=2)}, "stacked"),
        ({"recipe": Recipe(net_options=(("width", 4),), epochs=2, trainer="serial")}, "serial"),
        ({"recipe": TREE}, "estimators"),
        ({"recipe": FunctionRecipe(most_frequent)}, "function"),
        ({"records": regression_records()}, "dense"),
        ({"models": 7, "design": "bernoulli"}, "dense"),
        ({"models": 2}, "dense"),
    ],
    ids=["dense", "stacked", "serial", "estimators", "function", "regression", "unequal", "two models"],
)
def test_every_kind_of_audit_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], trainer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    planned = small_plan(**changes)
    assert planned.cost is not None
    assert planned.cost.training.trainer == trainer
    for seconds in (planned.cost.time.training, planned.cost.time.judging, planned.cost.time.total):
        assert 0 < seconds.low <= seconds.expected <= seconds.high
    assert planned.population.members > 0
    assert list(tmp_path.iterdir()) == []  # nothing is written


@pytest.mark.parametrize(("trainer", "stacks"), [("stacked", 2), ("serial", 8)])
def test_time_is_all_epochs_checkpoints_and_blocks(
    monkeypatch: pytest.MonkeyPatch, trainer: str, stacks: int
) -> None:
    """A second for every step, order and question, on a clock that stands still."""
    use_blocks_of(monkeypatch, 4)
    monkeypatch.setattr(trial, "seconds_a_unit", lambda *_: Seconds(1.0, 1.0, 1.0))
    monkeypatch.setattr(plan, "judging_seconds", lambda *_: Seconds(0.0, 0.0, 0.0))
    monkeypatch.setattr(trial.time, "perf_counter", lambda: 0.0)
    n_steps, n_orders, n_queries = 4 * 2, 4, 2 * 24
    found = small_cost(recipe=replace(RECIPE, trainer=trainer)).time.training
    assert found.expected == pytest.approx(stacks * (n_steps + n_orders + n_queries))
    assert (found.low, found.high) == pytest.approx((0.75 * found.expected, 1.25 * found.expected))


def test_time_has_the_early_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps and orders of the window, and a query after each of its epochs; of each sub-model its share."""
    use_blocks_of(monkeypatch, 4)
    monkeypatch.setattr(trial, "seconds_a_unit", lambda *_: Seconds(1.0, 1.0, 1.0))
    monkeypatch.setattr(plan, "judging_seconds", lambda *_: Seconds(0.0, 0.0, 0.0))
    monkeypatch.setattr(trial.time, "perf_counter", lambda: 0.0)

    def cost(**stages: Any) -> float:
        return float(small_cost(recipe=replace(RECIPE, trainer="stacked", **stages)).time.training.expected)

    an_epoch, a_query = 2 * (2 + 1), 2 * 24  # two blocks of two steps and an order; of 24 records
    plain = cost()
    assert cost(treatment=Treatment(epochs=2)) - plain == pytest.approx(2 * an_epoch + 2 * a_query)
    assert cost(treatment=Treatment(choice="random")) == pytest.approx(plain)
    continued = cost(treatment=Treatment(epochs=1, restart=False), checkpoints=(3, 4))
    assert continued - plain == pytest.approx(a_query)
    distilled = cost(distillation=Distillation(3, 1))
    assert distilled - plain == pytest.approx(2 * RECIPE.epochs * an_epoch + 3 * a_query)


def test_a_rare_class_is_never_left_out_of_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records sorted by class, eight of the last one: a fit on, or a judgement of, one class would fail."""
    monkeypatch.setattr(judging, "_FEW", 60)
    n = 3000
    given = records(n=n)
    labels = (np.arange(n) >= n - 8).astype(np.int64)
    rare = Records(given.features, labels, given.ids, class_names=("most", "few"))
    logistic = EstimatorRecipe(LogisticRegression(), processes=1)
    assert small_cost(records=rare, recipe=logistic).time.total.expected > 0


def test_a_trial_of_few_members_queries_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the queries of a million records would count once per forty members."""
    sizes: list[tuple[int, int]] = []

    def train(given: Records, indices: IntArray, seed: int) -> Callable[[AnyArray], AnyArray]:
        predict = most_frequent(given, indices, seed)
        sizes.append((len(indices), len(given)))
        return predict

    small_cost(records=records(n=3000), recipe=FunctionRecipe(train))
    assert sizes and all(n_records == 2 * n_members for n_members, n_records in sizes)
    assert sizes[0][0] < 1500


def test_the_same_mistakes_are_refused() -> None:
    with pytest.raises(InputError, match=r"fpr=\[0\.0\]: must be rates above 0"):
        small_plan(fpr=(0.0,))
    with pytest.raises(InputError, match="device='tpu'"):
        small_plan(device="tpu")
    with pytest.raises(InputError, match="not for regression models, and the labels are numbers"):
        small_plan(records=regression_records(), attacks=("correctness",))


def test_a_block_that_does_not_fit_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate too much")

    monkeypatch.setattr(trial.loop, "train", full)
    with pytest.raises(TrainingError, match=r"block of 8 models does not fit on cpu.*batch_size"):
        small_plan()

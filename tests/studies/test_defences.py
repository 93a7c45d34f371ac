"""The comparison of defences: who dominates whom, the command, and what each setting really trains."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor
from typer.testing import CliRunner

import leakscope
from leakscope.bank.bank import Bank
from leakscope.cli.main import app
from leakscope.cli.studies.defences import _comparison
from leakscope.data.canaries import Canaries
from leakscope.errors import InputError
from leakscope.evaluate.results import Figure
from leakscope.recipe import EstimatorRecipe, Recipe
from leakscope.runs.verification import verify_run
from leakscope.stats.estimate import Estimate
from leakscope.studies.defences.config import (
    DEFAULT_CANARIES,
    Subject,
    chosen_defences,
    preset_named,
    subject_of,
)
from leakscope.studies.defences.frontier import best_at_loss, dominating_pairs, on_frontier
from leakscope.studies.defences.judge import looks_safe_only
from leakscope.studies.defences.page import command
from leakscope.studies.defences.results import BestAtLoss, SetFigures
from leakscope.studies.defences.sentences import best_table, headline, settings_table
from leakscope.studies.defences.study import comparison_of, subject_of_file
from leakscope.types import Records
from tests.published_data import root_with

RECIPE = Recipe(net_options=(("width", 16),), lr=0.01, epochs=20, batch_size=32)
DEFENCES = ("early_stopping(share=0.25)", "top_1", "temperature(value=5)")


def some_records(n=240, seed=0) -> Records:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    features = (rng.normal(size=(n, 8)) + labels[:, None]).astype(np.float32)
    return Records(
        features, labels, np.array([f"r{i}" for i in range(n)]), "made up", class_names=("a", "b", "c")
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("defences")
    results = leakscope.compare_defences(
        some_records(), RECIPE, DEFENCES, folder, models=8, canaries=Canaries("mislabelled", share=0.2)
    )
    return results, folder


def some_numbers(n=160, seed=0) -> Records:
    """Labels that are mostly noise."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 4)).astype(np.float32)
    labels = (50 * (features[:, 0] + rng.normal(0, 2, n)) + 1000).astype(np.float32)
    return Records(features, labels, np.array([f"r{i}" for i in range(n)]), "numbers")


TREE = EstimatorRecipe(DecisionTreeRegressor())


@pytest.fixture(scope="module")
def of_numbers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    defences = ("leaf_size(least=25)", "mixup(alpha=0.2)")
    results = leakscope.compare_defences(
        some_numbers(), TREE, defences, folder, models=8, canaries=Canaries("mislabelled", share=0.2)
    )
    return results, folder


@pytest.mark.slow
class TestRegression:
    def test_attacks_read_residuals_and_what_needs_classes_is_left_out(self, of_numbers):
        results, _ = of_numbers
        assert results.config.attacks == ("loss", "lira", "eb_lira")
        assert [one.label for one in results.left_out] == ["mixup(alpha=0.2)"]
        assert results.none.sets["canaries"].auc.value == 1.0  # a tree knows the label of every member

    def test_the_cost_is_r_squared_on_records_that_are_no_canaries(self, of_numbers):
        """By hand, from the bank; below 0, where a tree predicts worse than the mean of the labels."""
        results, folder = of_numbers
        bank, others = Bank.open(folder / "banks" / "setting-000"), ~np.load(folder / "canaries.npy")
        signals, outside = bank.signals(), ~bank.design().in_mask & others
        squares = np.asarray(signals.last("loss"), np.float64)
        errors = [row[mask].mean() for row, mask in zip(squares, outside, strict=True)]
        expected = 1 - np.mean(errors) / np.var(signals.labels[others], dtype=np.float64)
        found = results.none.utility
        assert expected < 0 and found.value == pytest.approx(expected)
        assert found.these_low < expected < found.these_high
        assert results.none.utility_members.value == pytest.approx(1.0)

    def test_larger_leaves_leak_less_and_predict_better(self, of_numbers):
        results, folder = of_numbers
        leaves = results.settings[1]
        assert leaves.leaks_less and leaves.utility_difference.low > 0
        wanted = leaves.utility.value - results.none.utility.value
        assert leaves.utility_difference.value == pytest.approx(wanted)
        page = (folder / "report.md").read_text()
        assert "For at most 0.02 of R², take leaf_size(least=25)." in page and "accuracy" not in page
        assert verify_run(folder).problems == []

    def test_another_unit_of_the_labels_changes_no_figure(self, of_numbers, tmp_path):
        results, _ = of_numbers
        numbers = some_numbers()
        again = leakscope.compare_defences(
            replace(numbers, labels=numbers.labels * 8), TREE, ("leaf_size(least=25)",), tmp_path,
            models=8, canaries=Canaries("mislabelled", share=0.2),
        )  # fmt: skip
        for one, other in zip(again.settings, results.settings, strict=True):
            assert one.utility.value == pytest.approx(other.utility.value, rel=1e-5)
            assert one.sets["canaries"].auc.value == pytest.approx(other.sets["canaries"].auc.value, abs=1e-6)


class TestFrontier:
    def test_a_setting_that_another_beats_in_both_is_not_on_it(self):
        accuracy, leakage = np.array([0.9, 0.8, 0.85, 0.9]), np.array([0.7, 0.6, 0.75, 0.65])
        assert on_frontier(accuracy, leakage).tolist() == [False, True, False, True]

    def test_equal_settings_do_not_push_each_other_off(self):
        assert on_frontier(np.array([0.9, 0.9]), np.array([0.6, 0.6])).all()

    def test_more_noise_in_a_difference_takes_dominance_away(self):
        accuracy = {(0, 1): Estimate(0.0, -0.005, 0.005), (1, 0): Estimate(0.0, -0.005, 0.005)}

        def pairs(high):
            leakage = {
                (0, 1): {"canaries": Estimate(-0.1, -0.2, high)},
                (1, 0): {"canaries": Estimate(0.1, 0, 0.2)},
            }
            return dominating_pairs(["a", "b"], lambda *k: accuracy[k], lambda *k: leakage[k])

        assert pairs(-0.01) == [(0, 1)]
        assert pairs(0.01) == []

    def test_a_setting_dominates_only_where_it_is_better_on_every_set(self):
        better, worse = Estimate(-0.1, -0.2, -0.05), Estimate(0.1, 0.05, 0.2)
        leakage = {(0, 1): {"canaries": better, "worst": worse}, (1, 0): {"canaries": worse, "worst": better}}
        equal = Estimate(0.0, 0.0, 0.0)
        assert dominating_pairs(["a", "b"], lambda *_: equal, lambda *k: leakage[k]) == []

    def test_strengths_of_one_defence_do_not_compete(self):
        less = {"canaries": Estimate(-0.1, -0.2, -0.05)}
        assert dominating_pairs(["a", "a"], lambda *_: Estimate(0, 0, 0), lambda *_: less) == []

    def test_the_best_setting_costs_no_more_than_is_given_up(self):
        accuracy, leakage = np.array([0.95, 0.94, 0.90]), np.array([0.9, 0.8, 0.6])
        assert [best_at_loss(accuracy, leakage, loss) for loss in (0.0, 0.02, 0.06)] == [0, 1, 2]


class TestComparison:
    def test_no_defence_comes_first_and_every_setting_has_three_sets(self, compared):
        results, _ = compared
        assert [setting.label for setting in results.settings] == ["none", *_labels()]
        for setting in results.settings:
            assert list(setting.sets) == ["population", "canaries", "worst"]
            assert setting.sets["canaries"].records == 48

    def test_a_filter_of_outputs_changes_no_prediction(self, compared):
        results, _ = compared
        none, top_1 = results.none, next(s for s in results.settings if s.defence == "top_1")
        assert top_1.utility == none.utility
        assert (top_1.utility_difference.low, top_1.utility_difference.high) == (0.0, 0.0)
        assert top_1.tables == "[outputs]\ntop_1 = true\n"

    def test_temperature_hides_nothing_from_an_attack_that_adapts(self, compared):
        """Dividing logits by 5 is undone by references that do the same."""
        results, _ = compared
        hot = next(s for s in results.settings if s.defence == "temperature")
        for name in ("population", "canaries"):
            difference = hot.sets[name].auc_difference
            assert difference.low <= 0.02 and difference.high >= -0.02
            assert abs(difference.value) < 0.05

    def test_differences_are_those_of_the_figures(self, compared):
        results, _ = compared
        for setting in results.settings[1:]:
            for name, one in setting.sets.items():
                wanted = one.auc.value - results.none.sets[name].auc.value
                assert one.auc_difference.value == pytest.approx(wanted)
                assert one.auc_difference.low <= wanted <= one.auc_difference.high

    def test_nothing_is_recommended_that_leaks_as_much(self, compared):
        """The least of several estimates is lower than that of no defence, if only by chance."""
        results, _ = compared
        assert not results.none.leaks_less
        alike = [s for s in results.settings if s.defence == "temperature"]
        only = replace(results, best=(BestAtLoss(0.02, alike[0].label),))
        assert not alike[0].leaks_less
        assert headline(only)[0].startswith("No defence leaks less than none does, beyond chance")

    def test_a_defence_that_works_is_the_answer(self, compared):
        results, _ = compared
        settings = tuple(replace(s, leaks_less=s.defence == "early_stopping") for s in results.settings)
        best = replace(results, settings=settings, best=(BestAtLoss(0.02, DEFENCES[0]),))
        assert headline(best)[0] == f"For at most 2 percentage points of accuracy, take {DEFENCES[0]}."
        assert " on the most exposed records; accuracy changes by " in headline(best)[1]
        assert (best_table(best).head[0], best_table(best).rows[0][0]) == (
            "accuracy to give up, at most (points)",
            "2",
        )
        assert settings_table(best).head[2] == "change (points)"
        assert "points" not in " ".join(cell for row in settings_table(best).rows for cell in row)

    def test_every_number_is_recomputed_from_the_folder(self, compared):
        _, folder = compared
        assert verify_run(folder).problems == []

    def test_the_report_names_every_setting_and_says_nothing_about_a_record(self, compared):
        results, folder = compared
        page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
        for setting in results.settings:
            assert setting.label in page and setting.label in text
        assert "r17" not in text

    def test_a_second_run_trains_nothing_and_gives_the_same(self, compared):
        results, folder = compared
        done = []
        again = leakscope.compare_defences(
            some_records(), RECIPE, DEFENCES, folder, done.append, models=8,
            canaries=Canaries("mislabelled", share=0.2),
        )  # fmt: skip
        assert again == results and sum(done) == 8 * 5

    def test_what_does_not_apply_is_named(self, tmp_path):
        forest = pytest.importorskip("sklearn.ensemble").RandomForestClassifier(n_estimators=5)
        comparison = comparison_of(
            Subject(some_records(), EstimatorRecipe(forest)), ("mixup", "top_1"), models=8
        )
        assert [one.label for one in comparison.config.inapplicable] == [
            defence.label for defence in chosen_defences(("mixup",))
        ]
        assert [one.label for one in comparison.config.settings] == ["none", "top_1"]

    @pytest.mark.parametrize("name", ["selena", "targeted"])
    def test_duplicated_canaries_leave_out_what_does_not_go_with_them(self, name):
        subject = Subject(some_records(), RECIPE)
        comparison = comparison_of(
            subject, (name, "top_1"), models=8, canaries=Canaries("duplicated", share=0.1)
        )
        assert {one.reason for one in comparison.config.inapplicable} == {
            "it cannot be combined with duplicated canaries"
        }
        assert [one.label for one in comparison.config.settings] == ["none", "top_1"]

    def test_the_command_repeats_the_very_comparison(self, compared):
        results, _ = compared
        assert command(results).words == ()  # started from Python
        as_preset = replace(results, config=replace(results.config, preset="quick", canaries=None, seed=3))
        words = " ".join(command(as_preset).words)
        assert "--models 8 --seed 3 --canaries none" in words
        assert "--defence early_stopping(share=0.25) --defence top_1" in words

    def test_the_command_names_the_config_file(self, compared):
        results, _ = compared
        config = replace(results.config, config_file="my model.toml", models=32, canaries=DEFAULT_CANARIES)
        words = command(replace(results, config=replace(config, seed=3))).words
        assert words[3:7] == ("--config", "my model.toml", "--seed", "3")
        assert "'my model.toml'" in str(command(replace(results, config=config)))
        tried = [word for before, word in pairwise(words) if before == "--defence"]
        assert tried == [one.label for one in config.settings[1:]] and words[-2:] == ("--out", "runs/again")

    def test_a_config_file_of_the_command_line_is_known(self, tmp_path):
        (tmp_path / "my.toml").write_text('[data]\ndataset = "digits"\n[model]\nnet = "mlp"\n')
        canaries = Canaries("mislabelled", share=0.05)
        given = _comparison("quick", tmp_path / "my.toml", ["top_1"], 8, None, canaries=canaries)
        assert (given.config.config_file, given.config.preset) == ("my.toml", "")

    def test_attacks_on_classes_are_refused_for_numbers(self):
        with pytest.raises(InputError, match=r"attacks='label_only_lira': not for models of a regression"):
            comparison_of(Subject(some_numbers(), TREE), models=8, attacks=("label_only_lira",))

    def test_several_records_per_unit_are_refused_by_name(self, tmp_path):
        (tmp_path / "my.toml").write_text(
            '[data]\ndataset = "digits"\n[model]\nnet = "mlp"\n[population]\nunit = "patient"\n'
        )
        with pytest.raises(InputError, match=r"unit='patient' has several; `leakscope advise`"):
            subject_of_file(tmp_path / "my.toml", None)

    @pytest.mark.parametrize("models", [6, 9])
    def test_too_few_models_are_refused(self, models):
        with pytest.raises(InputError, match="models="):
            comparison_of(Subject(some_records(), RECIPE), ("top_1",), models=models)

    def test_an_unknown_preset_is_named_with_the_closest(self):
        with pytest.raises(InputError, match="did you mean 'quick'"):
            preset_named("qick")


def test_a_settinglooks_safe_only_where_both_intervals_say_so():
    """Over all records nothing shows, on canaries everything does: the comparison must say so."""

    def figures(low, high):
        return SetFigures(100, "lira", Figure(0.5, 0.4, 0.6, None, low, high), None, None)

    assert looks_safe_only({"population": figures(0.49, 0.53), "canaries": figures(0.9, 0.95)})
    assert not looks_safe_only({"population": figures(0.49, 0.60), "canaries": figures(0.9, 0.95)})
    assert not looks_safe_only({"population": figures(0.49, 0.53), "canaries": figures(0.5, 0.95)})


@pytest.mark.slow
def test_the_command_compares_and_prints(tmp_path):
    out = str(tmp_path / "run")
    done = CliRunner().invoke(
        app, ["study", "defences", "--defence", "top_1", "--models", "8", "--out", out, "--json"]
    )
    assert done.exit_code == 0, done.output
    results = json.loads(done.stdout)
    assert [setting["label"] for setting in results["settings"]] == ["none", "top_1"]


def _labels():
    return [defence.label for defence in chosen_defences(DEFENCES)]


def _settings_of_preset(name: str) -> list[str]:
    return [defence.label for defence in chosen_defences(preset_named(name).defences)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quick", "adult", "cifar10"])
def test_every_setting_of_a_preset_applies(name):
    """Nobody waits for an hour to be told that DP-SGD does not go with batch norm."""
    preset = preset_named(name)
    subject = subject_of(preset, root_with(preset.dataset))
    comparison = comparison_of(subject, preset.defences, "cpu", models=preset.models)
    left_out = {one.label: one.reason for one in comparison.config.inapplicable}
    assert set(left_out) == ({"relax_loss(target=1.0)"} if name == "adult" else set())  # two classes
    tried = [one.label for one in comparison.config.settings]
    assert tried == ["none", *(one for one in _settings_of_preset(name) if one not in left_out)]

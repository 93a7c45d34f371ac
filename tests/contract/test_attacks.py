"""Every attack, through the same checks: planted leakage is found, absent leakage is not."""

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest

from leakscope.attacks.base import Attack
from leakscope.attacks.lira import Lira
from leakscope.attacks.quantile import QuantileRegression
from leakscope.attacks.registry import attack_classes
from leakscope.attacks.rmia import Rmia
from leakscope.disk import scratch
from leakscope.errors import InputError
from leakscope.stats.roc import auc
from leakscope.types import Design, Signals
from tests.attacks.banks import flipped, made_up_bank

# Every attack as it comes, and the variants that compute something else.
CASES = {
    **{name: attack() for name, attack in attack_classes().items()},
    "lira, record": Lira(variance="record"),
    "lira, global and median": Lira(variance="global", centre="median"),
    "lira, offline": Lira(online=False),
    "rmia, offline": Rmia(online=False),
}


@pytest.fixture(params=CASES)
def attack(request):
    return CASES[request.param]


def aucs(attack, gap, **bank):
    signals, design = made_up_bank(gap, **bank)
    scores = attack(signals, design)
    return [auc(values, members) for values, members in zip(scores.values, design.in_mask, strict=True)]


def test_names_are_the_attacks_own():
    assert all(name == attack.name for name, attack in attack_classes().items())
    assert all(issubclass(attack, Attack) and attack.needs for attack in attack_classes().values())


def test_planted_leakage_is_found_on_every_target(attack):
    found = aucs(attack, gap=3.0)
    assert min(found) > 0.55
    assert np.mean(found) > 0.6


def test_more_leakage_is_easier_to_find(attack):
    none, some, much = (np.mean(aucs(attack, gap)) for gap in (0.0, 1.0, 3.0))
    assert none < some < much


def test_no_leakage_is_not_found(attack):
    """Memberships are independent coins here, so the scores know nothing: AUC 0.5 up to noise."""
    found = [np.mean(aucs(attack, gap=0.0, seed=seed)) for seed in range(8)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.015)


def test_no_leakage_is_not_found_in_a_balanced_design(attack):
    """There the other models' memberships give away the target's: no attack may live on that.

    With few models LiRA errs the other way (means over fewer models lie further off), never above.
    """
    found = [np.mean(aucs(attack, gap=0.0, kind="balanced", seed=seed)) for seed in range(8)]
    assert 0.4 < np.mean(found) < 0.515


def test_every_target_and_record_has_a_score(attack):
    signals, design = made_up_bank(gap=1.0)
    scores = attack(signals, design)
    assert scores.attack == attack.name
    assert scores.targets.tolist() == list(range(8))
    assert scores.values.shape == (8, 200)
    assert scores.values.dtype == np.float64
    assert np.isfinite(scores.values).all()


@pytest.mark.parametrize(("kind", "n_models"), [("pairs", 2), ("bernoulli", 3), ("balanced", 4)])
def test_a_handful_of_models_is_enough_for_a_score(attack, kind, n_models):
    signals, design = made_up_bank(gap=1.0, n_models=n_models, kind=kind)
    assert np.isfinite(attack(signals, design).values).all()


def test_a_target_s_own_membership_is_not_looked_at(attack):
    signals, design = made_up_bank(gap=2.0, n_models=6, n_records=80)
    for target in (0, 3):
        only = np.array([target])
        known = attack(signals, design, only).values
        np.testing.assert_allclose(
            attack(signals, flipped(design, target), only).values, known, rtol=1e-9, atol=1e-9
        )
        # Nor through what is shared between targets.
        everybody = attack(signals, flipped(design, target)).values[target]
        np.testing.assert_allclose(everybody, known[0], rtol=1e-9, atol=1e-9)


def test_a_target_scores_alike_whichever_others_are_asked_for(attack):
    signals, design = made_up_bank(gap=2.0, n_models=6, n_records=60)
    whole = attack(signals, design).values
    some = attack(signals, design, np.array([4, 1]))
    assert some.targets.tolist() == [4, 1]
    np.testing.assert_allclose(some.values, whole[[4, 1]], rtol=1e-12)


def test_scores_do_not_depend_on_the_order_of_models_or_records(attack):
    if isinstance(attack, QuantileRegression):
        return  # its folds of records are drawn by position
    signals, design = made_up_bank(gap=2.0, n_models=6, n_records=60)
    rng = np.random.default_rng(0)
    models, records = rng.permutation(6), rng.permutation(60)
    arrays = {name: values[models][:, :, records] for name, values in signals.arrays.items()}
    moved = Signals(arrays, (1,), signals.labels[records])
    found = attack(moved, Design(design.in_mask[models][:, records])).values
    # An iterative fit stops a hair elsewhere when its rows are shuffled.
    np.testing.assert_allclose(found, attack(signals, design).values[models][:, records], rtol=0, atol=2e-3)


def test_only_the_last_checkpoint_counts(attack):
    signals, design = made_up_bank(gap=2.0, n_models=4, n_records=40)
    earlier, _ = made_up_bank(gap=0.0, n_models=4, n_records=40, seed=5)
    both = {
        name: np.concatenate([earlier.arrays[name], values], axis=1)
        for name, values in signals.arrays.items()
    }
    found = attack(Signals(both, (1, 2), signals.labels), design).values
    np.testing.assert_array_equal(found, attack(signals, design).values)


def test_inputs_are_not_changed(attack):
    signals, design = made_up_bank(gap=2.0, n_models=4, n_records=40)
    before = {name: values.copy() for name, values in signals.arrays.items()}
    attack(signals, design)
    for name, values in signals.arrays.items():
        np.testing.assert_array_equal(values, before[name])


def test_a_signal_that_was_not_kept_is_asked_for(attack):
    signals, design = made_up_bank(gap=2.0, n_models=4, n_records=40)
    for needed in attack.needs:
        kept = {name: values for name, values in signals.arrays.items() if name != needed}
        with pytest.raises(InputError, match=f"no signal '{needed}'"):
            attack(replace(signals, arrays=kept), design)


def test_what_it_needs_is_enough(attack):
    signals, design = made_up_bank(gap=2.0, n_models=4, n_records=40)
    only = {name: signals.arrays[name] for name in attack.needs}
    np.testing.assert_array_equal(
        attack(replace(signals, arrays=only), design).values, attack(signals, design).values
    )


def test_a_design_of_another_size_is_refused(attack):
    signals, design = made_up_bank(gap=2.0, n_models=4, n_records=40)
    for in_mask in (design.in_mask[:3], design.in_mask[:, :39]):
        with pytest.raises(InputError, match=rf"{attack.name}: signal .* both must be \(models, records\)"):
            attack(signals, Design(in_mask))


def test_settings_are_frozen(attack):
    assert is_dataclass(attack)
    for field in fields(attack):
        with pytest.raises(FrozenInstanceError):
            setattr(attack, field.name, None)


def test_scores_do_not_depend_on_blocks_of_records_nor_on_where_arrays_lie(attack, monkeypatch, tmp_path):
    signals, design = made_up_bank(gap=2.0)
    whole = attack(signals, design).values
    for name, values in signals.arrays.items():
        np.save(tmp_path / f"{name}.npy", values)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in signals.arrays}
    monkeypatch.setattr(scratch, "RECORDS_AT_ONCE", 7)
    monkeypatch.setattr(scratch, "_BLOCKS_AT_ONCE", 2)
    on_disk = attack(
        Signals(mapped, signals.epochs, signals.labels), design, scratch=scratch.Scratch(tmp_path, 0)
    )
    assert isinstance(on_disk.values, np.memmap)
    np.testing.assert_allclose(on_disk.values, whole, rtol=1e-9, atol=1e-9)

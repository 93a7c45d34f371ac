import numpy as np
import pytest
import torch
from torch import nn

from leakscope.train.dropout import SeededDropout, _uniform, seed_dropout


def dropped(x, p=0.3, n_shared_axes=0, key=1):
    return SeededDropout(p, n_shared_axes, key)(x)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_drops_its_share_and_scales_the_rest(p):
    found = dropped(torch.ones(200, 200), p)
    n = found.numel()
    kept = found != 0
    assert kept.float().mean() == pytest.approx(1 - p, abs=5 * np.sqrt(p * (1 - p) / n))
    torch.testing.assert_close(found[kept], torch.full((int(kept.sum()),), 1 / (1 - p)))


@pytest.mark.parametrize(("p", "wanted"), [(0.0, 1.0), (1.0, 0.0)])
def test_the_ends_are_all_and_nothing(p, wanted):
    assert (dropped(torch.ones(3, 4), p) == wanted).all()


@pytest.mark.parametrize(
    ("shape", "n_shared_axes"), [((5, 40, 6), 1), ((5, 40, 3, 4), 2), ((5, 40, 2, 3, 2), 3)]
)
def test_channels_are_dropped_whole(shape, n_shared_axes):
    found = dropped(torch.ones(shape), 0.5, n_shared_axes).flatten(2)
    assert (found == found[..., :1]).all()
    assert 0.3 < (found[..., 0] == 0).float().mean() < 0.7
    assert len({tuple(row.tolist()) for row in found[..., 0]}) == 5, "each record has its own channels"


def test_evaluation_drops_nothing_and_leaves_the_stream_alone():
    layer = SeededDropout(0.5, 0, key=9).eval()
    x = torch.randn(4, 4)
    assert layer(x) is x
    assert int(layer.key) == 9


def test_each_pass_has_a_fresh_mask_and_a_key_repeats_its_passes():
    x = torch.ones(8, 8)
    layer, again = SeededDropout(0.5, 0, key=9), SeededDropout(0.5, 0, key=9)
    passes = [layer(x) for _ in range(5)]
    for one in passes:
        torch.testing.assert_close(one, again(x), rtol=0, atol=0)
    assert len({tuple(one.flatten().tolist()) for one in passes}) == 5


def test_the_global_generator_is_neither_used_nor_moved():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = dropped(torch.ones(9))
    torch.testing.assert_close(torch.get_rng_state(), before)
    torch.manual_seed(1)
    torch.testing.assert_close(dropped(torch.ones(9)), one)


def test_gradients_flow_through_kept_entries_only():
    x = torch.ones(50, requires_grad=True)
    found = dropped(x, 0.5)
    found.sum().backward()
    torch.testing.assert_close(x.grad, (found.detach() != 0) * 2.0)


def test_numbers_are_uniform():
    drawn = _uniform(torch.tensor(5), (20_000,)).numpy()
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.bincount((drawn * 20).astype(int), minlength=20)
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-squared, 19 degrees of freedom, 0.1%


def test_no_pass_is_another_one_shifted():
    layer = SeededDropout(0.5, 0, key=5)
    passes = np.stack([(layer(torch.ones(400)) != 0).numpy() for _ in range(12)]).astype(float) - 0.5
    for shift in range(8):
        both = passes[:, : 400 - shift] @ passes[:, shift:].T * 4 / (400 - shift)
        np.fill_diagonal(both, 0 if shift == 0 else np.diag(both))
        assert np.abs(both).max() < 5 / np.sqrt(400 - shift)


def test_every_dropout_layer_is_replaced_by_one_with_its_own_stream():
    net = nn.Sequential(
        nn.Dropout(0.2), nn.Sequential(nn.Dropout2d(0.3), nn.Dropout1d(0.1)), nn.Dropout3d(0.4)
    )
    seed_dropout(net, key=11)
    layers = [m for m in net.modules() if isinstance(m, SeededDropout)]
    assert [(layer.p, layer.n_shared_axes) for layer in layers] == [(0.2, 0), (0.3, 2), (0.1, 1), (0.4, 3)]
    assert len({int(layer.key) for layer in layers}) == 4
    assert not [m for m in net.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]


def test_another_key_gives_every_layer_another_stream():
    def keys(key):
        net = nn.Sequential(nn.Dropout(), nn.Dropout())
        seed_dropout(net, key)
        return [int(layer.key) for layer in net]

    assert keys(3) == keys(3)
    assert not set(keys(3)) & set(keys(2**63 - 1))

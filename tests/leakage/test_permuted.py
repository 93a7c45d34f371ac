import numpy as np

from leakscope.leakage.permuted import FEWEST_PAIRS, partners, random_order


def pairs(n_pairs, rng, n_records=50):
    in_mask = np.repeat(rng.random((n_pairs, n_records)) < 0.5, 2, axis=0)
    in_mask[1::2] ^= True
    return in_mask


def test_complements_move_together_and_all_others_move_among_themselves():
    rng = np.random.default_rng(0)
    in_mask = np.concatenate([pairs(5, rng), rng.random((3, 50)) < 0.5])
    partner = partners(in_mask)
    assert partner.tolist() == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, -1, -1, -1]
    orders = np.array([random_order(partner, rng) for _ in range(200)])
    assert (np.sort(orders, axis=1) == np.arange(13)).all()
    moved = in_mask[orders]  # (orders, models, records)
    assert (moved[:, 0:10:2] != moved[:, 1:10:2]).all()
    assert (orders[:, 10:] >= 10).all()
    assert all(len(np.unique(column)) == 10 for column in orders[:, :10].T)  # any of a pair, in any place


def test_few_pairs_are_separated():
    """Too many of the few orders of 3 pairs are the given design again."""
    rng = np.random.default_rng(0)
    assert (partners(pairs(FEWEST_PAIRS - 1, rng)) == -1).all()
    assert (partners(pairs(FEWEST_PAIRS, rng)) >= 0).all()


def test_equal_rows_do_not_share_a_partner():
    """Several models may have been trained on the same records: each moves with one complement, or alone."""
    in_mask = np.concatenate([pairs(6, np.random.default_rng(0))] * 2)
    partner = partners(in_mask)
    paired = np.flatnonzero(partner >= 0)
    assert (partner[partner[paired]] == paired).all()
    assert sorted(random_order(partner, np.random.default_rng(1)).tolist()) == list(range(24))

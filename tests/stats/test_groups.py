import numpy as np

from leakscope.stats.groups import Grouping


def test_groups_are_those_of_sorted_labels():
    labels = np.random.default_rng(0).choice(["b", "", "aa", "a", "\U0001f600 \u05d0"], 500)
    found = Grouping.of(labels)
    assert found.names == tuple(np.unique(labels).tolist())
    np.testing.assert_array_equal(np.array(found.names)[found.codes], labels)
    for name, at in found.items():
        np.testing.assert_array_equal(at, np.flatnonzero(labels == name))

"""Places without interference: by brute force, and the count that theory expects."""

import numpy as np
from scipy import stats

from superposition.solvers.collisions import assign
from superposition.theory import collisions as theory


def slowly(W):
    """Walk through all weights, largest first, in plain Python."""
    n, m = W.shape
    neuron, taken = [-1] * n, set()
    for size, i, k in sorted(((abs(W[i, k]), i, k) for i in range(n) for k in range(m)), reverse=True):
        place = (k, W[i, k] > 0)
        if size > 0 and neuron[i] < 0 and place not in taken:
            taken.add(place)
            neuron[i] = k
    return neuron


def test_against_plain_python():
    for n, m in ((1, 1), (3, 2), (8, 4), (12, 30)):
        rng = np.random.default_rng(n)
        W = rng.normal(size=(5, n, m)) * (rng.random((5, n, m)) < 0.7)
        found = assign(W)
        np.testing.assert_array_equal(found.neuron, [slowly(w) for w in W])
        held = [np.bincount([k for k in row if k >= 0], minlength=m) for row in found.neuron]
        np.testing.assert_array_equal(found.polysemantic, [np.sum(row >= 2) for row in held])
    # Features without a place are left out.
    assert assign([[1.0], [0.5], [-0.2], [0.0]]).neuron.tolist() == [0, -1, 0, -1]


def test_the_mean_is_that_of_chance():
    """Two-sided z test, false-alarm rate 1e-4; it resolves 1.2 % of the mean and sees a wrong theory."""
    n, m, runs = 64, 64, 2000
    counts = assign(np.random.default_rng(3).normal(size=(runs, n, m))).polysemantic
    error = counts.std(ddof=1) / np.sqrt(runs)
    limit = stats.norm.isf(0.5e-4) * error
    assert limit < 0.012 * counts.mean()
    assert abs(counts.mean() - theory.expected_polysemantic(n, m)) < limit
    assert abs(counts.mean() - theory.expected_polysemantic(n, m, exclusive=False)) > limit

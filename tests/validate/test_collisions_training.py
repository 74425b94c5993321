"""Training of the l1 model: data, gradients and steps against oracles, then what the experiments say."""

import itertools

import numpy as np
import pytest
from scipy import stats

from superposition.solvers import collisions as solvers
from superposition.validate.experiments.collisions import train_l1

torch = pytest.importorskip("torch")

from superposition.validate.experiments.collisions import engine  # noqa: E402

WEIGHTS = {"device": "cpu", "keep_weights": True}


def weights(runs, n, m, seed=0, scale=0.9):
    rng = np.random.default_rng(seed)
    return scale / np.sqrt(m) * rng.standard_normal((runs, n, m))


def printed_loss(E, D, x, target, lam):
    """Sum over a batch of the squared error and the l1 norm of the activations, in torch."""
    h = x @ E
    return ((torch.relu(h @ D.mT) - target) ** 2).sum() + lam * h.abs().sum()


# Data


def test_random_inputs_have_the_law_of_the_definition():
    n, count = 5, 200_000
    patterns = np.array(list(itertools.product([0, 1], repeat=n)))[1:]

    def worst(seen, p, share):
        law = np.minimum(np.prod(np.where(patterns, p, 1 - p), axis=1) / share, 1.0)
        return min(stats.binomtest(int(k), count, q).pvalue for k, q in zip(seen, law, strict=True))

    for p in (1e-6, 0.05, 0.6, 1.0):
        x = engine.draw_inputs(torch, count, n, p, torch.Generator().manual_seed(1)).numpy()
        seen = np.bincount((x @ 2 ** np.arange(n)[::-1]).astype(int), minlength=2**n)[1:]
        assert seen.sum() == count  # none is empty
        # Exact binomial tests of 31 patterns for four p, at 1e-6 each.
        assert worst(seen, p, 1 - (1 - p) ** n if p > 1e-3 else -np.expm1(n * np.log1p(-p))) > 1e-6
        if 0.01 < p < 1:
            assert worst(seen, 1.05 * p, 1.0) < 1e-6


def exact_loss(torch_W, lam, p):
    """Return the expected loss over the mean number of what is on, all patterns by their chances."""
    n, total = len(torch_W), 0.0
    for on in itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(1, n + 1)):
        x = torch.zeros(1, n, dtype=torch_W.dtype)
        x[:, on] = 1.0
        chance = p ** (len(on) - 1) * (1 - p) ** (n - len(on))  # over p
        total = total + chance * printed_loss(torch_W, torch_W, x, x, lam)
    return total


@pytest.mark.parametrize("p", [1e-9, 0.2, 1.0])
def test_steps_on_random_inputs_have_the_exact_mean(p):
    n, m, lam, runs = 3, 4, 0.3, 4000
    start = np.broadcast_to(weights(1, n, m, seed=3), (runs, n, m))
    settings = {"optimiser": "sign", "p": p, "learning_rate": 1.0, "steps": 1, "start": start}
    found = start - train_l1(n, m, lam, range(runs), **settings, **WEIGHTS)["W"].values[0]
    V = torch.from_numpy(start[0].copy()).requires_grad_(True)
    exact_loss(V, lam, p).backward()
    gap = found.mean(axis=0) - V.grad.numpy()
    if p == 1:
        # Nothing is random but rounding in float32 of numbers of order 10.
        np.testing.assert_allclose(gap, 0, atol=1e-5)
        return
    se = found.std(axis=0, ddof=1) / np.sqrt(runs)
    # 12 entries, normal to good accuracy: beyond 5 with probability 7e-6.
    assert np.abs(gap / se).max() < 5
    # Canary: a lost share of inputs that are not empty is noticed.
    if p > 1e-3:
        assert np.abs((found.mean(axis=0) / (1 - (1 - p) ** n) - V.grad.numpy()) / se).max() > 5


# Gradients and steps


def test_gradients_agree_with_autograd():
    n, m, lam = 5, 7, 0.1
    eye = torch.eye(n, dtype=torch.double).expand(2, n, n)
    strength = torch.full((2, 1, 1), lam, dtype=torch.double)
    random = torch.from_numpy(np.random.default_rng(2).standard_normal((2, n, n)))
    for tied, x in itertools.product((True, False), (None, random)):
        E, D = (torch.from_numpy(weights(2, n, m, seed)) for seed in (0, 0 if tied else 1))
        target = eye if x is None else x
        found = engine.gradients(torch, E, D, x, target, 0.7, strength, tied)
        leaves = [part.clone().requires_grad_(True) for part in ([E] if tied else [E, D])]
        (0.7 * printed_loss(leaves[0], leaves[-1], target, target, lam)).backward()
        for leaf, slope in zip(leaves, found, strict=False):
            # float64 sums of about ten terms of order one.
            np.testing.assert_allclose(slope, leaf.grad, rtol=0, atol=1e-12)


def test_a_run_does_not_depend_on_its_neighbours_and_changes_no_argument():
    options = {"optimiser": "sign", "p": 0.2, "steps": 30, **WEIGHTS}
    lams, seeds = [0.1, 0.2, 0.1], np.array([3, 5, 9])
    stack, alone = train_l1(6, 8, lams, seeds, **options), train_l1(6, 8, 0.2, 5, **options)
    # float32 rounding of sums in another order, over 30 steps of at most 0.05 each.
    np.testing.assert_allclose(stack["W"][0, 1], alone["W"][0, 0], rtol=0, atol=1e-5)
    assert np.abs(stack["W"][0, 0] - stack["W"][0, 2]).max() > 0.1
    assert seeds.tolist() == [3, 5, 9]
    many = train_l1(6, 8, 0.2, [5, 5, 6], steps=1, **WEIGHTS)
    np.testing.assert_array_equal(many["W"][0, 0], many["W"][0, 1])
    start = weights(1, 4, 6)
    train_l1(4, 6, 0.1, 0, steps=5, start=start, device="cpu")
    np.testing.assert_array_equal(start, weights(1, 4, 6))
    first = train_l1(20, 50, 0.1, range(10), steps=0, scale=0.7, **WEIGHTS)["W"].values.ravel()
    assert stats.kstest(first, stats.norm(0, 0.7 / np.sqrt(50)).cdf).pvalue > 1e-4


def test_adamw_is_that_of_torch_on_the_printed_loss():
    n, m, lam, steps = 6, 9, 0.05, 40
    start = weights(2, n, m, seed=5)
    settings = {"optimiser": "adamw", "learning_rate": 1e-2, "steps": steps, "start": start}
    ds = train_l1(n, m, lam, [0, 1], **settings, **WEIGHTS)
    for run in range(2):
        W = torch.from_numpy(start[run].astype(np.float32)).requires_grad_(True)
        adamw = torch.optim.AdamW([W], lr=1e-2)
        eye = torch.eye(n)
        for _ in range(steps):
            adamw.zero_grad()
            printed_loss(W, W, eye, eye, lam).backward()
            adamw.step()
        # Rounding moves a step by 1e-6 of the rate where no gradient cancels; 40 steps, and a margin of 100.
        np.testing.assert_allclose(ds["W"][0, run], W.detach(), rtol=0, atol=40 * 1e-2 * 1e-4)


def test_gradient_descent_follows_the_flow_of_the_normal_form():
    n, m, lam, until = 6, 8, 0.08, 6.0
    start = weights(24, n, m, seed=7)
    exact = solvers.flow(start, lam / 4, [until], tol=1e-8).W
    errors = []
    for rate in (0.01, 0.005, 0.0025):
        steps = round(until / (4 * rate))
        ds = train_l1(n, m, lam, range(24), learning_rate=rate, steps=steps, start=start, **WEIGHTS)
        assert float(ds["t"][0]) == pytest.approx(until)
        assert float(ds["lam_normal"][0]) == lam / 4
        W = ds["W"].values[0]
        # The proximal step keeps exact zeros, and the same ones up to weights that are about to drop.
        assert np.mean((W == 0) == (exact == 0)) > 0.95
        errors.append(np.linalg.norm(W - exact))
    # First order: halving the step halves the gap, within 15 % so far from the limit; float32 rounding of 600
    # steps, some 1e-5, is a hundredth of the last gap.
    assert errors[-1] > 1e-3
    np.testing.assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 2, rtol=0.15)


def test_untied_equal_weights_move_as_tied_ones():
    start = weights(3, 6, 8, seed=8)
    settings = {"start": start, "steps": 200, **WEIGHTS}
    tied = train_l1(6, 8, 0.08, range(3), learning_rate=0.01, **settings)
    settings |= {"tied": False, "penalty": "weights", "start_decoder": start}
    untied = train_l1(6, 8, 0.04, range(3), learning_rate=0.02, **settings)
    assert float(tied["t"][0]) == float(untied["t"][0])
    assert float(tied["lam_normal"][0]) == float(untied["lam_normal"][0])
    for name in ("encoder", "decoder"):
        # float32 rounding over 200 steps whose map expands differences by e^{8 t'} at most early on.
        np.testing.assert_allclose(untied[name], tied["W"], rtol=0, atol=1e-4)
    assert (untied["mismatch"] < 1e-3).all()


def test_extreme_strengths_and_rates_are_reported():
    dead = train_l1(5, 5, 5.0, range(2), steps=300, device="cpu")
    assert (dead["dead"] == 5).all()
    assert (dead["nonzeros"] == 0).all()
    free = train_l1(5, 20, 0.0, range(2), steps=400, device="cpu")
    # Linear convergence at the rate 2 of the normal form, t = 80: exp(-160), so float32 rounding only.
    assert (free["loss"] < 1e-9).all()
    wild = train_l1(5, 5, 0.1, range(2), learning_rate=50.0, steps=50, device="cpu")
    assert (wild["diverged"] == 1).all()
    assert np.isnan(wild["polysemantic"]).all()


def test_training_keeps_a_hadamard_pair_and_turns_others_away():
    W = np.zeros((2, 2, 2))
    for run, angle in enumerate((np.pi / 4 + 0.02, np.pi / 4 + 0.3)):
        W[run] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    settings = {"optimiser": "sign", "p": 0.2, "learning_rate": 0.02, "steps": 6000, "start": W}
    found = train_l1(2, 2, 0.1, [0, 1], **settings, **WEIGHTS)
    size = np.sort(np.abs(found["W"].values[0]), axis=-1)
    # Wide bands: the steps are noisy, and the ends 0.7, 0.7 and 0, 1 far apart.
    assert size[0].min() > 0.6
    assert size[1, :, 0].max() < 0.1
    assert size[1, :, 1].min() > 0.85

"""The report's part on decoders at small sizes, and the trained models' gradients."""

import numpy as np
import pytest
from scipy.linalg import lstsq

from superposition.solvers.decoders import optimum
from superposition.theory.decoders import jumprelu_loss
from superposition.validate.experiments import decoders, rug
from superposition.validate.experiments.decoders.trained import _outputs, refitted_losses

TINY = {
    "map": {"p": [1e-3, 0.1], "ratio": [0.1]},
    "passing": {"n_features": 512, "seeds": range(3), "steps": [1, 4], "cases": [(0.1, 0.5), (0.1, 0.1)]},
    "recovery": {"p": 0.2, "sizes": [128, 512], "around": [0.7, 1.3], "runs": 4},
    "rugs": {"cases": [(0.1, 0.25)], "sizes": [128, 512], "seeds": range(3), "samples": 2**14},
    "trained": {"cases": [(0.1, 0.5)], "n_features": 16, "steps": [30, 60], "seeds": [0, 1], "samples": 4096},
}


def test_the_section_shows_all_of_its_topics(sections, tmp_path):
    pytest.importorskip("torch", reason="training needs PyTorch")
    lab, _ = sections.show("decoders", TINY, tmp_path)
    ends = lab["decoders.recovery"]["recovered"].mean("run").values
    assert ends[:, 0].max() == 0.0
    assert ends[-1, -1] == 1.0


def test_losses_of_the_map_are_those_of_one_step_and_0_above_the_line():
    at = [0.1], [0.125, 0.9]
    ds = decoders.run_map(*at)
    np.testing.assert_allclose(ds["loss"].sel(decoder="relu"), rug.run_theory(*at)["loss"], rtol=1e-6)
    np.testing.assert_array_equal(ds["iterated"] == 0, [[False, True]])
    assert 0.125 < float(ds["recovery"][0]) < 0.9
    # The first step of state evolution is the posterior mean, whatever comes later.
    passing = decoders.run_passing([(0.1, 0.125)], n_features=64, steps=[1, 3], seeds=range(2))
    one = ds["loss"].sel(p=0.1, ratio=0.125, decoder="bayes")
    np.testing.assert_allclose(passing["law"].sel(step=1), one, rtol=1e-6)
    assert float(passing["law"].sel(step=3).item()) < 0.99 * float(one)


def test_losses_on_rugs_tend_to_the_prediction():
    """Interference becomes Gaussian: at 2^13 features within 5 standard errors and 4 %, from above."""
    ds = decoders.run_rugs([(0.1, 0.25)], [128, 2**13], range(6), samples=2**17)
    ratio = ds["on_rug"] / ds["predicted"]
    small, large = (ratio.isel(n_features=k, case=0) for k in (0, 1))
    assert (small.mean("seed") > large.mean("seed")).all()
    error = large.std("seed", ddof=1) / np.sqrt(large.sizes["seed"])
    assert (np.abs(large.mean("seed") - 1) < 5 * error + 0.04).all()


@pytest.mark.slow
def test_the_straight_through_slope_is_that_of_the_loss():
    """On Gaussian interference, with a narrow ramp: the slope by the threshold, 0 at the best decoder."""
    torch = pytest.importorskip("torch", reason="training needs PyTorch")
    p, s, n = 0.02, 0.1, 4_000_000
    best, rng = optimum(p, s), np.random.default_rng(0)
    x = (rng.random(n) < p) * rng.random(n)
    y = torch.tensor(best.a * (x + s * rng.normal(size=n)) + best.b)
    for shift in (-0.03, 0.0, 0.03):
        edge = best.a * best.theta + best.b + shift
        theta = torch.tensor(edge, dtype=torch.float64, requires_grad=True)
        output = _outputs(y, theta, "jumprelu", 0, 0.1 * s)
        (torch.tensor(x) - output).square().mean().backward()
        h = 1e-4 * s  # the difference is good to h²
        less, more = (jumprelu_loss((edge + d - best.b) / best.a, best.a, best.b, s, p) for d in (-h, h))
        slope = (more - less) / (2 * h)
        assert float(theta.grad) == pytest.approx(slope, rel=0.25, abs=2e-4)
        assert abs(slope) > 1e-3 or shift == 0.0


def test_no_threshold_scale_and_offset_are_better_than_the_refitted():
    """Beside a search with SciPy on the same samples, and the best decoders of Gaussian interference."""
    rng = np.random.default_rng(3)
    x = (rng.random((300, 1)) < 0.3) * rng.random((300, 1))
    y = 1.3 * x - 0.2 + 0.3 * rng.normal(size=x.shape)
    relu, jump = refitted_losses(x, y)
    cuts = np.sort(y[:, 0])[:-1]
    ramps = [lstsq(np.maximum(y - t, 0), x)[1][0] for t in cuts]
    assert relu == pytest.approx(min(ramps) / 300, rel=1e-9)
    both = [lstsq(np.hstack([y, y**0]) * (y > t), x)[1] for t in cuts[:-2]]
    assert jump == pytest.approx(min(both).item() / 300, rel=1e-9)
    # 40,000 samples with the feature on, in all: the mean of x^4 gives a standard error of 1 %
    p, s = 0.05, 0.1
    x = (rng.random((100_000, 8)) < p) * rng.random((100_000, 8))
    found = refitted_losses(x, x + s * rng.normal(size=x.shape))
    for got, kind in zip(found, ("relu", "jumprelu"), strict=True):
        assert got == pytest.approx(optimum(p, s, kind).loss, rel=0.05)


def test_what_topk_and_relu_keep():
    torch = pytest.importorskip("torch", reason="training needs PyTorch")
    y, zero = torch.tensor([[0.25, -1.0, 2.0, 0.125]]), torch.zeros(4)
    for kind, kept in (("topk", [0.25, 0.0, 2.0, 0.0]), ("relu", [0.25, 0.0, 2.0, 0.125])):
        assert _outputs(y, zero, kind, 2, 1.0).tolist() == [kept]

"""Laws of SAELens' configurations by hand, where SAELens itself is not there to compare with."""

import numpy as np
import pytest

import superposition as sp
from superposition.validate.loading.synthetic import synthetic_dictionary

torch = pytest.importorskip("torch", reason="SAELens draws with PyTorch")


def law_of(n=3, **settings):
    return sp.laws.from_saelens({"num_features": n, **settings})


def test_how_often_features_fire_and_the_sizes_of_their_values():
    for kind, p in (
        # Between the ends by (1/i - 1/n) / (1 - 1/n): a quarter of the way at the second of three.
        ({"generator_name": "zipfian"}, [0.3, 0.01 + 0.29 / 4, 0.01]),
        ({"generator_name": "zipfian", "exponent": 2.0, "max_prob": 0.5}, [0.5, 0.01 + 0.49 * 5 / 32, 0.01]),
        ({"generator_name": "linear", "max_prob": 0.5, "min_prob": 0.1}, [0.5, 0.3, 0.1]),
        ({"generator_name": "constant"}, [0.1, 0.1, 0.1]),
    ):
        np.testing.assert_allclose(law_of(firing_probability=kind).p, p, rtol=1e-12)
    for kind, sizes in (
        (2.0, [2.0, 2.0, 2.0]), ({"generator_name": "linear", "start": 1.0, "end": 4.0}, [1.0, 2.5, 4.0]),
        ({"generator_name": "exponential", "start": 1.0, "end": 4.0}, [1.0, 2.0, 4.0]),
    ):  # fmt: skip
        np.testing.assert_allclose(law_of(mean_firing_magnitudes=kind).scale, sizes, rtol=1e-12)
    spread = law_of(mean_firing_magnitudes=0.6, std_firing_magnitudes=0.3)
    x = np.maximum(np.random.default_rng(0).normal(0.6, 0.3, 200_000), 0.0)
    assert abs(spread.mean[0] / 0.3 - x.mean()) < 5 * x.std() / np.sqrt(x.size)  # one false alarm in 10^6


def test_what_is_drawn_comes_from_the_seed_of_its_kind():
    def drawn(kind, shape, seed):
        return getattr(torch, kind)(*shape, generator=torch.Generator().manual_seed(seed)).double().numpy()

    chances = {"generator_name": "random", "min_prob": 0.2, "max_prob": 0.6}
    sizes = {"generator_name": "folded_normal", "mean": 0.5, "std": 0.2, "max_value": 0.6}
    law = law_of(5, seed=7, firing_probability=chances, mean_firing_magnitudes=sizes)
    np.testing.assert_allclose(law.p, 0.2 + 0.4 * drawn("rand", (5,), 7))
    np.testing.assert_allclose(law.scale, np.minimum(np.abs(0.5 + 0.2 * drawn("randn", (5,), 9)), 0.6))
    small, large = (
        law_of(5, seed=7, correlation={"rank": 2, "correlation_scale": scale}).factor for scale in (0.1, 9.0)
    )
    np.testing.assert_allclose(small, 0.1 * drawn("randn", (5, 2), 11))
    np.testing.assert_allclose(np.sum(large**2, axis=1), 0.99)  # what SAELens leaves at most


def test_the_dictionary_is_what_adam_of_pytorch_makes_of_its_definition():
    """Autograd of the sum over pairs, in double precision: 0 but for what single precision leaves."""
    n, d, steps, rate = 24, 5, 60, 3e-3
    E = torch.randn(n, d, generator=torch.Generator().manual_seed(9))
    E = (E / E.norm(dim=1, keepdim=True)).double().requires_grad_()
    adam = torch.optim.Adam([E], lr=rate)
    for _ in range(steps):
        adam.zero_grad()
        cosines = E @ E.T - torch.eye(n)
        weights = 1.0 + (n - 1.0) * torch.eye(n)
        (weights * cosines**2).sum().backward()
        adam.step()
    want = (E / E.norm(dim=1, keepdim=True)).detach().numpy().T
    settings = {"num_features": n, "hidden_dim": d, "seed": 9}
    spread = {"num_steps": steps, "lr": rate}
    phi = synthetic_dictionary({**settings, "orthogonalization": spread})
    assert np.abs(phi - want).max() < 1e-4
    assert np.abs(synthetic_dictionary(settings) - want).max() > 0.05  # the directions that it starts from


def test_features_of_a_hierarchy_fire_with_their_parents():
    """Each with p = 1/2; of two that exclude each other each stays with 1 - p/2 of its chances."""
    half, alone = {"generator_name": "constant", "probability": 0.5}, {"mutually_exclusive_portion": 1.0}
    for limits, on in (
        ({}, [0.5, 0.25, 0.25, 0.125, 0.125]), (alone, [0.5, 0.1875, 0.1875, 0.0703125, 0.0703125]),
        (alone | {"mutually_exclusive_min_depth": 1}, [0.5, 0.25, 0.25, 0.09375, 0.09375]),
        (alone | {"mutually_exclusive_max_depth": 0}, [0.5, 0.1875, 0.1875, 0.09375, 0.09375]),
        ({"max_depth": 1}, [0.5, 0.25, 0.25, 0.5, 0.5]),
    ):  # fmt: skip
        trees = {"total_root_nodes": 1, "branching_factor": 2, **limits}
        np.testing.assert_allclose(law_of(5, firing_probability=half, hierarchy=trees).on_probability(), on)
    trees = {"total_root_nodes": 2, "branching_factor": 2, "compensate_probabilities": True}
    chances = {"generator_name": "linear", "max_prob": 0.4, "min_prob": 0.1}
    law = law_of(6, firing_probability=chances, hierarchy=trees)
    np.testing.assert_allclose(law.on_probability(), np.linspace(0.4, 0.1, 6))  # as often as they are to

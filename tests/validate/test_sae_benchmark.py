"""Ceilings of a benchmark's configurations: what is stored, and that a score by leakage is above them."""

import numpy as np
import pytest
from scipy import stats

from superposition.solvers import sae as solvers
from superposition.validate.experiments.sae import benchmark
from superposition.validate.loading.synthetic import synthetic_dictionary, synthetic_law
from superposition.validate.reference import read

torch = pytest.importorskip("torch", reason="SAELens draws with PyTorch")

SIZES = {"n_features": 64, "latents": 12, "samples": 20_000}
D, L0, SEED = 5, [0.3, 0.6, 0.9, 1.2], 42


@pytest.fixture(scope="module")
def small():
    """Return the dataset of a run, and what it has asked `ceiling` with what came back."""
    asked = []

    def noted(*args, _ceiling=solvers.ceiling, **settings):
        begin = {"state": settings["rng"].bit_generator.state}  # before anything is drawn
        asked.append((*args, settings | begin, _ceiling(*args, **settings)))
        return asked[-1][-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "ceiling", noted)
        ds = benchmark.run_benchmark([D], L0, **SIZES)
    (one,) = asked
    return ds, *one


def f1_of(on, there, parts=20):
    """Return the mean over latents of F1, counted as SAELens counts it, and its standard error by parts."""

    def mean(on, there):
        hits, fired, is_on = (np.sum(part, axis=0) for part in (on & there, on, there))
        precision, recall = (hits / np.maximum(of, 1) for of in (fired, is_on))
        return np.mean(2.0 * precision * recall / np.maximum(precision + recall, 1e-12))

    by_part = [mean(on[k], there[k]) for k in np.array_split(np.arange(len(on)), parts)]
    return mean(on, there), np.std(by_part, ddof=1) / parts**0.5


def test_a_planted_leak_is_above_the_ceiling_and_an_honest_decoder_is_not(small):
    """Twelve autoencoders on fresh draws: one false alarm in a thousand (Student's t, Bonferroni)."""
    settings = benchmark.configuration(SIZES["n_features"], D, SEED)
    law, phi = synthetic_law(settings), synthetic_dictionary(settings)
    small, draws, dictionary, l0, asked, found = small
    want = benchmark.sample_sparse(law, 2 * SIZES["samples"], np.random.default_rng([1, SEED]))
    assert (draws != want).nnz == 0
    np.testing.assert_array_equal(dictionary, phi)
    assert (l0, asked["latents"], asked["samples"]) == (L0, SIZES["latents"], SIZES["samples"])
    assert asked["state"] == np.random.default_rng([2, SEED]).bit_generator.state
    np.testing.assert_array_equal(small["f1"].sel(n_hidden=D), found.f1)
    x, rng = law.sample(100_000, 11), np.random.default_rng(12)
    limit = stats.t.isf(1e-3 / len(found.models), 19)

    def above(on, there):
        return benchmark.f1_above(small, D, float(on.sum(axis=1).mean()), *f1_of(on, there))

    for k, models in enumerate(found.models):
        there = x[:, found.owners[k, 1]] > 0.0
        honest = x @ phi.T @ models[1].W_in.T + models[1].b_in > models[1].thresholds
        assert above(honest, there) < limit, found.decoders[k]
        if k == found.f1[:-1, 1].argmax():  # two times in three a latent sees its feature itself
            assert above(np.where(rng.random(there.shape) < 2 / 3, there, honest), there) > limit
    assert above(there, there) > limit


def test_what_is_stored_is_of_the_published_configuration():
    """The published model has about 34 features on and a mean largest cosine of about 0.15."""
    ds = read.read("sae_benchmark", run="sae.benchmark").sel(n_hidden=768)
    assert (ds.attrs["n_features"], ds.attrs["latents"]) == (16_384, 4096)
    assert float(ds["mean_active"]) == pytest.approx(34.0, abs=1.0)
    assert float(ds["mean_max_cosine"]) == pytest.approx(0.15, abs=0.01)
    # Decoders are columns of the dictionary, which no other column is nearer to.
    np.testing.assert_allclose(ds["mcc"], 1.0, atol=1e-6)
    assert np.all(ds["uniqueness"] == 1.0)
    assert np.all(abs(ds["l0"] - ds["target_l0"]).sel(decoder="dictionary, common threshold") < 1.0)

"""The objective of sparse autoencoders on 256 features: exact beside samples, at equal error.

The law is that of the page on autoencoders, "Dense codes": features on with probability 1/32, values uniform
on [1, 2]. Exact sums need all pairs of latents; above eight latents their time is that of the pairs of eight
of them, by the number of pairs. Samples are ours, too, and extrapolated to a standard error of `GOAL`.
"""

import numpy as np
import pytest

from superposition.solvers.sae import AutoencoderObjective
from superposition.theory.features import Features
from superposition.theory.model import Model

D, N, GOAL = 64, 256, 1e-4
# Samples of a value, for each latent, and of one with gradient. From 1000 a latent on, values use exact means
# of single latents, which take the same time for any number of samples.
EACH, SAMPLES = 2000, 2**17
LAW = Features(N, 1 / 32, "uniform(0.5)", 2.0)
FEW = 8  # latents, all pairs of which are timed
KINDS = {
    "ReLU, l1": ("relu", {"l1": 0.02}),
    "JumpReLU, L0": ("jumprelu", {"l0": 0.02}),
    "five prefixes": ("relu", {"l1": 0.02, "prefixes": dict.fromkeys((32, 64, 128, 256, 512), 1.0)}),
    "drawn prefixes": ("relu", {"l1": 0.02, "prefixes": dict.fromkeys(range(1, 513), 1 / 512)}),
}


def directions(count, seed):
    columns = np.random.default_rng(seed).standard_normal((D, count))
    return columns / np.linalg.norm(columns, axis=0)


def autoencoder(latents, hidden="relu"):
    """Return the autoencoder of the first random atoms, as encoder too."""
    atoms = directions(512, 1)[:, :latents]
    thresholds = 0.1 if hidden == "jumprelu" else None
    return Model(atoms.T, -0.3, hidden, atoms, output="identity", thresholds=thresholds)


@pytest.mark.parametrize("gradient", [False, True], ids=["value", "with gradient"])
@pytest.mark.parametrize("latents", [8, 32, 128, 512])
def test_where_samples_win(race, latents, gradient):
    exact = AutoencoderObjective(LAW, directions(N, 0), l1=0.02, method="exact", tol=1e-2)
    count = SAMPLES if gradient else EACH * latents
    sampled = AutoencoderObjective(LAW, directions(N, 0), l1=0.02, method="samples", samples=count)
    one, part = autoencoder(latents), autoencoder(FEW)
    found, right = sampled(one, gradient=gradient), exact(part, gradient=gradient)
    error, part_error = found.error_estimate / found.value, right.error_estimate / right.value
    means = sampled(part, gradient=False)
    assert abs(means.value - right.value) < 5 * means.error_estimate + right.error_estimate
    assert part_error < GOAL
    needed = count * (error / GOAL) ** 2
    if not gradient:
        needed = max(needed, 1000 * latents)
    share = part.n_hidden * (part.n_hidden + 1) / (latents * (latents + 1))
    note = f"extrapolated to {needed:.1e} samples" + f", ours from {FEW} latents" * (share < 1.0)
    race(
        f"objective of an autoencoder{', with gradient' if gradient else ''}",
        f"{latents} latents on {N} features in {D} dimensions",
        lambda: exact(part, gradient=gradient),
        {"our samples": lambda: sampled(one, gradient=gradient)},
        units=share, their_units={"our samples": count / needed},
        errors={"ours": part_error, "our samples": GOAL}, note=note, rounds=1,
    )  # fmt: skip


@pytest.mark.parametrize("gradient", [False, True], ids=["value", "with gradient"])
@pytest.mark.parametrize("kind", KINDS)
def test_samples(race, kind, gradient):
    hidden, settings = KINDS[kind]
    count = SAMPLES if gradient else EACH * 512
    f = AutoencoderObjective(LAW, directions(N, 0), method="samples", samples=count, **settings)
    one = autoencoder(512, hidden)
    means = f(one, gradient=gradient)
    race(
        f"objective of an autoencoder by samples, {kind}{', with gradient' if gradient else ''}",
        f"512 latents on {N} features in {D} dimensions", lambda: f(one, gradient=gradient),
        errors={"ours": means.error_estimate / means.value}, note=f"{count:,} samples", rounds=3,
    )  # fmt: skip

"""A training step with the exact loss, beside a sampled one in PyTorch at equal accuracy of the gradient.

The samples that a gradient needs follow from the measured variance of one sample's gradient: their mean is
off by sqrt(variance/samples), and 1 % of the exact gradient's length is asked for. That depends on where the
model is: near an optimum the gradient vanishes and its noise does not. So there are two places: random
weights, and weights trained by Adam on samples.
"""

from functools import cache

import pytest

from superposition.validate.training import exact_loss

torch = pytest.importorskip("torch")

P, BATCH, ACCURACY = 0.05, 1024, 0.01
SIZES = ((5, 2), (64, 16), (512, 128))


def sampled_loss(W, b, generator):
    x = torch.rand(BATCH, len(W), generator=generator)
    x *= torch.rand(BATCH, len(W), generator=generator) < P
    return (torch.relu(x @ W @ W.T + b) - x).square().mean()


def gradient(W, b, loss):
    return torch.cat([by.ravel() for by in torch.autograd.grad(loss, (W, b))]).double()


@cache
def model(n, m, steps):
    """Return tied weights after so many steps of Adam on batches, and the generator of the batches."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    W = (torch.randn(n, m, generator=generator) / m**0.5).requires_grad_()
    b = torch.zeros(n, requires_grad=True)
    adam = torch.optim.Adam([W, b], 3e-3)
    for _ in range(steps):
        adam.zero_grad()
        sampled_loss(W, b, generator).backward()
        adam.step()
    return W, b, generator


@cache
def exact_gradient(n, m, steps):
    W, b, _ = model(n, m, steps)
    return gradient(W, b, exact_loss(W, W.T, b, P))


@pytest.mark.parametrize("steps", [0, 1000], ids=["random", "trained"])
@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.benchmark(group="one gradient of a tied model")
def test_exact(benchmark, n, m, steps):
    W, b, _ = model(n, m, steps)
    exact_loss(W, W.T, b, P)  # compile first
    benchmark.pedantic(lambda: gradient(W, b, exact_loss(W, W.T, b, P)), rounds=2)
    print(f"\nexact, n = {n}, {steps} steps: {benchmark.stats.stats.median:.2g} s")


@pytest.mark.parametrize("steps", [0, 1000], ids=["random", "trained"])
@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.benchmark(group="one gradient of a tied model")
def test_samples(benchmark, n, m, steps):
    W, b, generator = model(n, m, steps)
    true = exact_gradient(n, m, steps)
    batches = torch.stack([gradient(W, b, sampled_loss(W, b, generator)) for _ in range(32)])
    variance = BATCH * batches.var(dim=0).sum()  # of one sample's gradient
    off = (batches.mean(dim=0) - true).norm() / (variance / (32 * BATCH)).sqrt()
    assert off < 3  # both are of the same loss; 1 is expected, and 3 is the 0.3 % of the widest case
    benchmark.pedantic(lambda: gradient(W, b, sampled_loss(W, b, generator)), rounds=10, warmup_rounds=1)
    error = ((variance / BATCH).sqrt() / true.norm()).item()
    samples, seconds = BATCH * (error / ACCURACY) ** 2, benchmark.stats.stats.median
    whole = seconds * samples / BATCH
    benchmark.extra_info.update(batch_error=error, samples=samples, seconds=whole)
    print(f"\nsamples, n = {n}, {steps} steps: {seconds:.2g} s for {BATCH}, off by {error:.2g}", end="")
    print(f" of the gradient; {samples:.2g} samples, {whole:.2g} s to {ACCURACY:.0%}")

"""The parts of training: data, gradients, Adam, evaluation, statistics of weights, against oracles."""

import numpy as np
import pytest
from scipy import stats

from superposition.solvers.loss import exact_loss
from superposition.theory.features import VALUES, Features, exclusive, synchronous
from superposition.validate.training import DROPPED, weight_statistics

torch = pytest.importorskip("torch")

from superposition.validate.training import data, engine  # noqa: E402
from superposition.validate.training.published import run_published  # noqa: E402

CPU = torch.device("cpu")
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def model(n_features=16, n_hidden=5, p=0.3, seed=0, tied=False, init="aligned", device=CPU):
    return engine.new_model(torch, torch.device(device), n_features, n_hidden, p, seed, tied, init)


def first_weights(*shape, **how):
    item = model(*shape, **how)
    return engine.unpack_parameters(item, item.parameters.numpy())


def draws(p, shape, device="cpu", seed=0):
    x = torch.empty(shape, device=device)
    data.sampler(torch, p, torch.device(device))(x, torch.Generator(device).manual_seed(seed))
    return x.cpu().numpy()


# Data


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("p", [1e-6, data.GAPS_BELOW, 0.031, 1.0])
def test_data_have_the_law_of_the_definition(p, device):
    x = draws(p, (2000, 1000), device).astype(float)
    on = x[x > 0]
    # Each test alone has a false-alarm rate of 1e-5; there are four for each p.
    alpha = 1e-5
    # At p = 1 a uniform v of exactly 0 or 1 may give x = 0, once in 2^24 draws: 4e-8 · 1e6 entries.
    expected = min(p, 1 - 2.0**-24)
    assert stats.binomtest(on.size, x.size, expected).pvalue > alpha
    assert x.max(initial=0) <= 1
    if on.size > 20:
        assert stats.kstest(on, "uniform").pvalue > alpha
    if on.size > 1000:
        # Neighbours along a row and along a column are on together as often as independence says.
        for both in ((x[:, 1:] > 0) & (x[:, :-1] > 0), (x[1:] > 0) & (x[:-1] > 0)):
            pairs = both[::2, ::2]  # disjoint pairs, so that the count is binomial
            assert stats.binomtest(int(pairs.sum()), pairs.size, expected**2).pvalue > alpha


def test_streams_differ_between_models_and_purposes():
    keys = [(8, 4, 0.1, 0), (8, 4, 0.1, 1), (8, 4, 0.2, 0), (8, 3, 0.1, 0), (16, 4, 0.1, 0)]
    states = {
        engine._stream_generator(torch, CPU, key, stream).get_state().numpy().tobytes()
        for key in keys
        for stream in engine.STREAMS
    }
    assert len(states) == len(keys) * len(engine.STREAMS)
    other = Features(16, 0.3, "exponential", np.geomspace(0.5, 2, 16))
    laws = (LAW, other, Features(16, 0.3), Features(16, 0.3, "binary"))
    assert len({engine.law_digest(law) for law in laws}) == 4


LAW = Features(
    16, 0.3, "exponential", np.geomspace(0.5, 2, 16), np.geomspace(0.1, 10, 16), [synchronous([0, 5], 0.2)]
)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("values", VALUES)
def test_data_of_every_law_of_values(values, device):
    law = Features(6, [0.02, 0.1, 1, 0.5, 1, 1], values, [1, 2, 3, 1, 2, 3], 1.0, [exclusive([4, 5], 0.3)])
    size = 200_000
    x = draws(law, (size, 6), device).astype(float)

    def off(law):
        """Return how many standard errors, of the law itself, the first four moments are off."""
        deviations = []
        for k in range(1, 5):
            error = np.sqrt((law.moment(2 * k) - law.moment(k) ** 2) / size)
            sure = error == 0  # binary values of a feature that is always on
            np.testing.assert_allclose((x[:, sure] ** k).mean(axis=0), law.moment(k)[sure], rtol=1e-6)
            deviations.append(((x**k).mean(axis=0) - law.moment(k))[~sure] / error[~sure])
        return np.concatenate(deviations)

    # 24 sums. The most skewed is the fourth power of exponential values of the rarest feature, 4000 terms:
    # one above 18^4 would do, a chance of 1e-4. For all laws of values false alarms are below 1e-3.
    assert np.max(np.abs(off(law))) < 8
    assert np.max(np.abs(off(Features(6, np.minimum(1.1 * law.p, 1), values, law.scale)))) > 8  # canary
    assert not np.any((x[:, 4] != 0) & (x[:, 5] != 0)), "one of the two excludes the other"
    assert np.array_equal(x[:100], draws(law, (size, 6), device)[:100]), "a seed gives the same numbers"


def test_data_given_how_many_are_on():
    x = draws(Features(8, 0.1, "binary", exactly=3), (100, 8))
    np.testing.assert_array_equal(np.count_nonzero(x, axis=1), 3)


FEW_ON = [1e-3, 0.02, 0.1, 0.4, 0.2, 0.05]


@pytest.mark.parametrize("p", [FEW_ON, [1e-3, 0.02, 0.1, 0.4, 0.8, 0.99]], ids=["points", "entries"])
@pytest.mark.parametrize("device", DEVICES)
def test_uniform_features_have_their_law(device, p):
    law = Features(6, p, scale=[1, 2, 3, 1, 1, 0.5])
    x = draws(law, (200_000, 6), device).astype(float) / law.scale
    # 36 tests at a false-alarm rate of 1e-5 each, on disjoint or independent parts of the samples.
    for i, p in enumerate(law.p):
        on = x[:, i] > 0
        assert stats.binomtest(int(on.sum()), len(x), p).pvalue > 1e-5
        assert stats.kstest(x[on, i], "uniform").pvalue > 1e-5
        both = on & (x[:, i - 1] > 0)
        assert stats.binomtest(int(both.sum()), len(x), p * law.p[i - 1]).pvalue > 1e-5


# First weights


def test_aligned_weights_start_as_a_gram_matrix_of_unit_vectors():
    W_out, W_in, b = first_weights()
    # float32 rounding of a sum of 5 squares.
    np.testing.assert_allclose(np.diagonal(W_out @ W_in), 1, rtol=1e-6)
    np.testing.assert_array_equal(W_out, W_in.T)
    assert not b.any()


def test_linear_weights_have_the_law_of_torch():
    W_out, W_in, b = first_weights(400, 100, init="linear")
    # Kolmogorov-Smirnov against U(±1/sqrt(fan_in)), three tests at a false-alarm rate of 1e-4.
    for weights, fan_in in ((W_in, 400), (W_out, 100), (b, 100)):
        bound = fan_in**-0.5
        assert stats.kstest(weights.ravel(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-4


def test_normal_weights_have_the_law_of_liu_et_al():
    W_out, W_in, b = first_weights(400, 100, init="normal", tied=True)
    np.testing.assert_array_equal(W_out, W_in.T)
    free = first_weights(400, 100, init="normal")
    assert abs(np.corrcoef(free[0].ravel(), free[1].T.ravel())[0, 1]) < 4 / 200  # four standard errors
    # Two tests at a false-alarm rate of 1e-4.
    for weights, scale in ((W_out, 0.1), (b, 1.0)):
        assert stats.kstest(weights.ravel(), stats.norm(0, scale).cdf).pvalue > 1e-4


# Gradients and Adam


def adam_by_torch(item, rates, tied, share=1.0, eps=1e-8, batch=64, n_hidden=5):
    """Return weights and losses per feature of torch's Adam, with the data and the start of a model."""
    flat, generator = item.parameters.clone().requires_grad_(True), torch.Generator(item.parameters.device)
    generator.set_state(item.generator.get_state())
    adam, losses = torch.optim.Adam([flat], eps=eps), []
    importance = torch.tensor(getattr(item.law, "importance", np.ones(16)), device=flat.device)
    for rate in rates:
        x = torch.empty(batch, 16, device=flat.device)
        data.sampler(torch, item.law, x.device)(x, generator)
        views = engine._parameter_views(flat, 16, n_hidden, tied)
        loss = ((torch.relu(x @ views[0] @ views[-2].T + views[-1]) - x) ** 2 * importance).sum(dim=1).mean()
        losses.append(loss.item() / 16)
        adam.zero_grad()
        (share * loss).backward()
        adam.param_groups[0]["lr"] = rate
        adam.step()
    return flat.detach(), losses


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("tied", "laws"), [(False, (0.3, 0.02, 1.0)), (True, (0.3, 0.02)), (False, (LAW,))])
def test_steps_agree_with_autograd_and_torch_adam(tied, laws, device):
    """Also for models side by side."""
    models = [model(p=p, seed=k, tied=tied, init="linear", device=device) for k, p in enumerate(laws)]
    rates = np.array([3e-3, 1e-3, 1e-2])[: len(laws)] * np.linspace(1, 0.5, 20)[:, None]
    expected = [adam_by_torch(item, rates[:, k], tied) for k, item in enumerate(models)]
    losses = engine.run_block(torch, models, rates, 64)
    for k, (item, (flat, wanted)) in enumerate(zip(models, expected, strict=True)):
        # float32 sums of 1024 terms in another order: 1024 · 6e-8 at the very worst, relative.
        np.testing.assert_allclose(losses[:, k], wanted, rtol=6e-5)
        # A step is at most about the rate, and its relative error some 1e-5, the gradient's: the sum over
        # the steps bounds the drift, up to entries whose gradients cancel, which the factor 10 allows.
        assert (flat - item.parameters).abs().max().item() < 1e-4 * rates[:, k].sum()


def test_the_epsilon_of_a_mean_over_the_features():
    """A loss that is divided by n, with epsilon, makes the steps of one that is not, with n epsilon."""
    small, n, rates = 1e-2, 16, np.full((20, 1), 1e-2)
    item = engine.new_model(torch, CPU, n, 5, 0.3, 0, True, "normal", 0.0, n * small)
    usual = engine.new_model(torch, CPU, n, 5, 0.3, 0, True, "normal")
    flat, _ = adam_by_torch(item, rates[:, 0], True, share=1.0 / n, eps=small)
    for one in (item, usual):
        engine.run_block(torch, [one], rates, 64)
    assert (flat - item.parameters).abs().max() < 1e-4 * rates.sum()
    assert (usual.parameters - item.parameters).abs().max() > 1e-2  # it is felt


def test_training_as_published_is_torch_adam_on_the_mean_over_features():
    ds = run_published(16, [0.2], [0.5], [3], most_epochs=2, evaluation_samples=2)
    item = model(16, 8, 0.2, 3, init="linear")
    _, losses = adam_by_torch(item, [3e-3 / 4] * 60, False, share=1 / 16, eps=1e-7, batch=1024, n_hidden=8)
    # Single precision, 60 times; a rate that is 1 % off moves the second mean by 1e-3.
    assert ds["epoch_losses"].values[0] == pytest.approx(np.reshape(losses, (2, 30)).mean(axis=1), rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("precision", "bits"), list(engine.PRECISIONS.items()))
def test_gradients_have_the_precision_of_their_factors(precision, bits, device):
    """One step against float64: rounding a factor to nearest moves it by 2^-(bits + 1) of its size at most.

    The gradient is a product of at most four such factors and their products, rounded again in between: seven
    roundings, the bound below if they all point one way. They do not: half of it is far from reached.
    """
    item = model(64, 16, 0.3, init="linear", device=device)
    flat = item.parameters.double().requires_grad_(True)
    x = torch.empty(256, 64, device=device)
    generator = torch.Generator(device)
    generator.set_state(item.generator.get_state())
    data.sampler(torch, 0.3, x.device)(x, generator)
    views = engine._parameter_views(flat, 64, 16, False)
    ((torch.relu(x.double() @ views[0] @ views[-2].T + views[-1]) - x) ** 2).sum(dim=1).mean().backward()
    stack = engine._Stack(torch, [item], 256, precision)
    stack.now.copy_(torch.tensor([1.0, -1.0, 0.0]))
    with torch.no_grad(), engine.tensor_cores(torch, precision, x.device):
        stack.step()
    error = ((stack.gradient[0] - flat.grad).norm() / flat.grad.norm()).item()
    assert error < 7 * 2.0 ** -(bits + 1)
    if bits < 23:
        assert error > 2.0 ** -(bits + 4), "the factors were not rounded"


def test_rounding_is_that_of_the_nearest_number_of_so_many_bits():
    x = torch.tensor([1.0, -1.0, 1 + 2**-8 + 2**-20, -(1 + 2**-8 + 2**-20), 1 + 2**-9, 3e-39, 0.0])
    expected = x.to(torch.bfloat16).float()  # the same where there is no tie
    assert torch.equal(engine._round_to_bits(torch, x, 7), expected)


class Recording(torch.utils._python_dispatch.TorchDispatchMode):
    """What a CUDA graph does, on a CPU: it notes operations with their tensors, and repeats them on these."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def __torch_dispatch__(self, operation, types, given=(), named=None):
        out = operation(*given, **(named or {}))
        self.noted.append((operation, given, named or {}, out))
        return out

    def replay(self):
        for operation, given, named, out in self.noted:
            again = operation(*given, **named)
            if torch.is_tensor(out) and again.data_ptr() != out.data_ptr():
                out.copy_(again)


@pytest.mark.parametrize("law", [0.3, 0.02, LAW])
def test_a_captured_step_is_the_step(monkeypatch, law):
    """All that changes from one step to the next is in tensors that a captured step reads again."""

    def captured(torch_, stack):
        before = [generator.get_state() for generator in stack.generators]
        changed = [stack.flat, stack.mean, stack.square]
        kept = [part.clone() for part in changed]
        with Recording() as recording:
            stack.step()
        # Unlike a recording, a capture does nothing.
        for generator, state in zip(stack.generators, before, strict=True):
            generator.set_state(state)
        for part, value in zip(changed, kept, strict=True):
            part.copy_(value)
        return recording.replay

    rates = np.full((12, 2), 3e-3) * np.linspace(1, 0.1, 12)[:, None]
    plain, repeated = ([model(p=law, seed=seed) for seed in (0, 1)] for _ in range(2))
    losses = engine.run_block(torch, plain, rates, 64)
    monkeypatch.setattr(engine, "_cuda_graph_step", captured)
    np.testing.assert_array_equal(engine.run_block(torch, repeated, rates, 64, cuda_graph=True), losses)
    for stepped, replayed in zip(plain, repeated, strict=True):
        assert torch.equal(stepped.parameters, replayed.parameters)
        assert torch.equal(stepped.generator.get_state(), replayed.generator.get_state())


def test_fused_adam_is_adam(monkeypatch):
    rates = np.array([3e-3, 1e-2]) * np.linspace(1, 0.1, 20)[:, None]
    byhand, fused = ([model(seed=seed) for seed in (0, 1)] for _ in range(2))
    for models, update in ((byhand, engine._adam_update), (fused, engine._fused_adam_update)):
        monkeypatch.setattr(engine, "_adam_update", update)
        for part in (rates[:8], rates[8:]):  # the count of steps goes on
            engine.run_block(torch, models, part, 64)
    for manual, automatic, total in zip(byhand, fused, rates.sum(axis=0), strict=True):
        # Roundings in the gradients move the sum of steps by a small share of it, as above.
        assert (manual.parameters - automatic.parameters).abs().max() < 1e-4 * total
        off = (manual.first_moment - automatic.first_moment).abs().max()
        assert off < 1e-4 * manual.first_moment.abs().max()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("law", [0.3, 0.02, LAW])
def test_a_cuda_graph_is_the_step(law):
    rates = np.full((12, 2), 3e-3)
    plain, repeated = ([model(p=law, seed=seed, device="cuda") for seed in (0, 1)] for _ in range(2))
    losses = engine.run_block(torch, plain, rates, 64)
    again = engine.run_block(torch, repeated, rates, 64, cuda_graph=True)
    np.testing.assert_allclose(again, losses, rtol=6e-5)
    for stepped, replayed in zip(plain, repeated, strict=True):
        assert torch.equal(stepped.generator.get_state(), replayed.generator.get_state())


# Losses on fresh data


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("p", [0.02, 0.4, 1.0])
def test_evaluation_agrees_with_the_exact_loss_and_its_error_is_honest(p, device):
    gaps, canary = [], []
    for seed in range(12):
        item = model(2, 1, p, seed, init="linear", device=device)
        item.ends["converged"] = item.parameters.cpu().numpy()
        loss, se = engine.evaluate(torch, item, "converged", 20_001, 1000)
        W_out, W_in, b = engine.unpack_parameters(item, item.ends["converged"])
        gaps.append((loss - exact_loss(W_out @ W_in, b, p).loss) / se)
        canary.append((loss - exact_loss(W_out @ W_in, b, 0.8 * p).loss) / se)
    # Normal gaps: 36 of them beyond 5 has probability 2e-5; their sum of squares is chi-square(12),
    # checked on both sides at 1e-4 each, so that a standard error wrong by a factor 2 is noticed.
    assert np.max(np.abs(gaps)) < 5
    low, high = stats.chi2(12).ppf([1e-4, 1 - 1e-4])
    assert low < np.sum(np.square(gaps)) < high
    assert np.sum(np.square(canary)) > high, "a wrong p must be noticed"


def test_evaluation_is_exact_on_request():
    item = model(p=LAW, init="linear")
    item.ends["converged"] = item.parameters.numpy()
    sampled, se = engine.evaluate(torch, item, "converged", 40_000, 1000)
    loss, error = engine.evaluate(torch, item, "converged", None, 1000)
    assert error < 1e-4 * se
    assert abs(sampled - loss) < 5 * se  # false alarms below 1e-6, of skewed means somewhat more


def test_the_two_ends_are_evaluated_on_different_data():
    item = model()
    item.ends = {end: item.parameters.numpy() for end in ("stopping rule", "converged")}
    losses = {engine.evaluate(torch, item, end, 500, 100) for end in item.ends}
    assert len(losses) == 2


# Statistics of weights


def test_weight_statistics_agree_with_plain_loops():
    rng = np.random.default_rng(0)
    n = 7
    M, b = rng.normal(size=(n, n)) + 3 * np.eye(n), rng.normal(size=n)
    M[2, 2] = 0.09 * np.abs(np.diagonal(M)).max()
    rows = [[M[i, j] for j in range(n) if j != i] for i in range(n)]
    ratios = [sum(abs(w) ** 3 for w in row) / sum(w * w for w in row) ** 1.5 for row in rows]
    expected = {
        "diagonal_mean": np.mean([M[i, i] for i in range(n)]),
        "diagonal_sd": np.std([M[i, i] for i in range(n)]), "bias_mean": np.mean(b), "bias_sd": np.std(b),
        "row_mean_mean": np.mean([np.mean(row) for row in rows]),
        "row_mean_sd": np.std([np.mean(row) for row in rows]),
        "row_variance_mean": np.mean([np.var(row) for row in rows]),
        "row_variance_variance": np.var([np.var(row) for row in rows]), "lyapunov_max": max(ratios),
        "lyapunov_mean": np.mean(ratios), "dropped": 1 / n,
    }  # fmt: skip
    copy = M.copy()
    # Sums of seven numbers of order one.
    assert weight_statistics(M, b) == pytest.approx(expected, rel=1e-12, abs=1e-14)
    np.testing.assert_array_equal(M, copy)


def test_weight_statistics_at_the_edges():
    statistics = weight_statistics(np.eye(3), np.zeros(3))
    assert statistics["lyapunov_max"] == statistics["row_variance_mean"] == statistics["dropped"] == 0
    # Scaling leaves Λ as it is, even where cubes would underflow.
    M = np.arange(9.0).reshape(3, 3)
    tiny, plain = (weight_statistics(scale * M, np.zeros(3))["lyapunov_max"] for scale in (1e-200, 1.0))
    assert tiny == pytest.approx(plain, rel=1e-12, abs=0)
    # Far below ratio = p all diagonal elements are small, and none is dropped.
    assert weight_statistics(0.01 * np.eye(3), np.zeros(3))["dropped"] == 0
    for share, dropped in ((0.9, 1 / 3), (1.1, 0)):
        diagonal = np.diag([1.0, -1.0, share * DROPPED])
        assert weight_statistics(diagonal, np.zeros(3))["dropped"] == pytest.approx(dropped)


# Weight decay


@pytest.mark.parametrize("decay", [0.5, -0.5])
def test_weight_decay_is_apart_from_the_gradient(decay):
    """In one step the weights differ by the decay alone, of the first weights; biases do not."""
    rate, law = 0.1, Features(6, 0.3, scale=2.0)
    plain, other = (
        engine.new_model(torch, CPU, 6, 3, law, 0, False, "linear", strength) for strength in (0.0, decay)
    )
    rows = [view.astype(float) for view in engine._parameter_views(plain.parameters.numpy(), 6, 3, False)]
    engine.run_block(torch, [plain], np.full((1, 1), rate), 16)
    engine.run_block(torch, [other], np.full((1, 1), rate), 16)
    change = engine._parameter_views((other.parameters - plain.parameters).numpy(), 6, 3, False)
    for shift, first in zip(change[:2], rows[:2], strict=True):
        length = np.linalg.norm(first, axis=1, keepdims=True)
        wanted = -0.05 * first if decay > 0 else 0.05 * first * (1 / length - 1)
        np.testing.assert_allclose(shift, wanted, rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(change[2], 0.0)

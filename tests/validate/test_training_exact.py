"""The exact loss for PyTorch: its gradient by differences, its value by samples, training with it."""

import importlib

import numpy as np
import pytest

from superposition.theory.features import Features
from superposition.validate.training import exact_loss

torch = pytest.importorskip("torch")

LAW = Features(5, [0.1, 0.2, 0.3, 0.1, 0.2], "binary", scale=[1, 2, 1, 1, 0.5], importance=[1, 2, 3, 4, 5])


def weights(*instances, n=5, m=2, seed=0):
    """Return a random model, or several; outputs with these biases are never at a kink for long."""
    rng = np.random.default_rng(seed)
    shapes = (n, m), (m, n), (n,)
    return [torch.tensor(rng.normal(size=(*instances, *shape)), requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("laws", [0.2, [0.2, Features(3, 0.3, "symmetric")]])
def test_the_gradient_is_that_of_differences(laws):
    W_out, W_in, b = weights(2, n=3)
    # Rounding of a difference is some 1e-16/eps = 1e-10, its truncation less.
    settings = {"eps": 1e-6, "atol": 1e-8, "rtol": 1e-6}
    assert torch.autograd.gradcheck(lambda *w: exact_loss(*w, laws), (W_out, W_in, b), **settings)
    assert torch.autograd.gradcheck(lambda W, b: exact_loss(W, W.mT, b, laws), (W_out, b), **settings)


def test_the_loss_is_that_of_samples():
    W_out, W_in, b = weights()
    x = torch.tensor(LAW.sample(100_000, 1))
    error = (torch.relu(x @ (W_out @ W_in).T + b) - x) ** 2 @ torch.tensor(LAW.importance) / 5
    se = error.std() / len(error) ** 0.5
    assert abs(exact_loss(W_out, W_in, b, LAW) - error.mean()) < 4 * se  # one false alarm in 16,000
    assert abs(exact_loss(W_out, W_in, b + 0.03, LAW) - error.mean()) > 4 * se


def test_each_instance_has_its_law_and_the_error_that_is_aimed_at(monkeypatch):
    module, seen = importlib.import_module("superposition.validate.training.exact"), []
    right = module.value_and_gradient
    monkeypatch.setattr(
        module,
        "value_and_gradient",
        lambda M, b, law, tol: seen.append((law, tol)) or right(M, b, law, tol=tol),
    )
    laws, models = [LAW, Features(5, 0.3)], weights(2)
    losses = exact_loss(*models, laws, tol=1e-4)
    assert seen == [(law, 1e-4) for law in laws]
    for k, law in enumerate(laws):
        assert losses[k].item() == pytest.approx(exact_loss(*(w[k] for w in models), law).item(), rel=1e-3)
    assert seen[-1] == (laws[1], 1e-7)  # the default


def test_types_are_those_of_the_tensors():
    exact = weights()
    single = [w.detach().float().requires_grad_() for w in exact]
    for model in (exact, single):
        (2 * exact_loss(*model, LAW)).backward()
    for tensor, other in zip(single, exact, strict=True):
        assert tensor.grad.dtype == torch.float32
        torch.testing.assert_close(tensor.grad.double(), other.grad, rtol=1e-5, atol=1e-6)
    assert exact_loss(*single, LAW).dtype == torch.float64
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(exact_loss(*exact, LAW), exact, create_graph=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gradients_are_on_the_device_of_the_tensors():
    W_out, W_in, b = (w.detach().cuda().requires_grad_() for w in weights(3))
    loss = exact_loss(W_out, W_in, b, 0.1)
    loss.sum().backward()
    assert loss.device == W_out.grad.device == W_out.device

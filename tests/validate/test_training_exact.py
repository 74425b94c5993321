"""The exact loss for PyTorch: its gradient by differences, its value by samples; that of networks too."""

import importlib

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.theory.features import Features
from superposition.theory.model import Model
from superposition.validate.training import exact_loss, network_loss

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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gradients_are_on_the_device_of_the_tensors():
    W_out, W_in, b = (w.detach().cuda().requires_grad_() for w in weights(3))
    loss = exact_loss(W_out, W_in, b, 0.1)
    loss.sum().backward()
    assert loss.device == W_out.grad.device == W_out.device


# Networks

SYMMETRIC = Features(3, 0.2, "symmetric", [1.0, 2.0, 0.5])


def network_weights(seed):
    """Return (W_in, b_in, W_out, b) of a random network."""
    rng, shapes = np.random.default_rng(seed), [(2, 3), (2,), (3, 2), (3,)]
    return [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]


@pytest.mark.parametrize(
    ("jumps", "target"), [(False, "identity"), (True, "abs"), (True, (np.ones((3, 3)), "relu"))]
)
def test_value_and_gradient_are_those_of_the_evaluator(jumps, target):
    tensors = network_weights(1)
    tensors += [torch.tensor([0.1, 0.3], dtype=torch.float64, requires_grad=True)] * jumps
    thresholds = tensors[4] if jumps else None
    loss = network_loss(*tensors[:4], SYMMETRIC, target=target, thresholds=thresholds)
    (3.0 * loss).backward()
    arrays = [tensor.detach().numpy() for tensor in tensors]
    kind = "jumprelu" if jumps else "relu"
    model = Model(arrays[0], arrays[1], kind, arrays[2], arrays[3], "identity", *arrays[4:])
    evaluated = evaluator(SYMMETRIC, tol=1e-7)(model, gradient=True, target=target)
    assert loss.item() == evaluated.loss
    for tensor, name in zip(tensors, ("W_in", "b_in", "W_out", "b", "thresholds"), strict=False):
        np.testing.assert_allclose(tensor.grad.numpy(), 3.0 * evaluated.gradient[name], rtol=1e-14)


def test_a_tied_matrix_gets_the_sum_of_its_two_gradients():
    W, b_in, _, b = network_weights(2)
    network_loss(W, b_in, W.T, b, SYMMETRIC).backward()
    arrays = [tensor.detach().numpy() for tensor in (W, b_in, b)]
    model = Model(arrays[0], arrays[1], "relu", b=arrays[2], output="identity")
    evaluated = evaluator(SYMMETRIC)(model, gradient=True)
    np.testing.assert_allclose(W.grad.numpy(), evaluated.gradient["W_in"], rtol=1e-12)


def test_second_derivatives_are_refused():
    exact, network = weights(), network_weights(4)
    for loss, name, tensor in (
        (exact_loss(*exact, LAW), "exact_loss", exact[0]),
        (network_loss(*network, SYMMETRIC), "network_loss", network[0]),
    ):
        with pytest.raises(RuntimeError, match=f"{name} has no second derivative"):
            torch.autograd.grad(loss, tensor, create_graph=True)

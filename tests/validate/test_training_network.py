"""The loss of networks for PyTorch is that of the evaluator, and its gradient that of the differences."""

import numpy as np
import pytest

from superposition.solvers.loss import evaluator
from superposition.theory.features import Features
from superposition.theory.model import Model
from superposition.validate.training import network_loss

torch = pytest.importorskip("torch")
LAW = Features(3, 0.2, "symmetric", [1.0, 2.0, 0.5])


def _tensors(seed, jumps=False):
    rng = np.random.default_rng(seed)
    shapes = [(2, 3), (2,), (3, 2), (3,)]
    made = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]
    return made + ([torch.tensor([0.1, 0.3], dtype=torch.float64, requires_grad=True)] if jumps else [])


@pytest.mark.parametrize(
    ("jumps", "target"), [(False, "identity"), (True, "abs"), (True, (np.ones((3, 3)), "relu"))]
)
def test_value_and_gradient_are_those_of_the_evaluator(jumps, target):
    tensors = _tensors(1, jumps)
    thresholds = tensors[4] if jumps else None
    loss = network_loss(*tensors[:4], LAW, target=target, thresholds=thresholds)
    (3.0 * loss).backward()
    arrays = [tensor.detach().numpy() for tensor in tensors]
    kind = "jumprelu" if jumps else "relu"
    model = Model(arrays[0], arrays[1], kind, arrays[2], arrays[3], "identity", *arrays[4:])
    evaluated = evaluator(LAW, tol=1e-7)(model, gradient=True, target=target)
    assert loss.item() == evaluated.loss
    for tensor, name in zip(tensors, ("W_in", "b_in", "W_out", "b", "thresholds"), strict=False):
        np.testing.assert_allclose(tensor.grad.numpy(), 3.0 * evaluated.gradient[name], rtol=1e-14)


def test_a_tied_matrix_gets_the_sum_of_its_two_gradients():
    W, b_in, _, b = _tensors(2)
    network_loss(W, b_in, W.T, b, LAW).backward()
    arrays = [tensor.detach().numpy() for tensor in (W, b_in, b)]
    model = Model(arrays[0], arrays[1], "relu", b=arrays[2], output="identity")
    evaluated = evaluator(LAW)(model, gradient=True)
    np.testing.assert_allclose(W.grad.numpy(), evaluated.gradient["W_in"], rtol=1e-12)


def test_second_derivatives_are_refused():
    tensors = _tensors(4)
    with pytest.raises(RuntimeError, match="network_loss has no second derivative"):
        torch.autograd.grad(network_loss(*tensors, LAW), tensors[0], create_graph=True)

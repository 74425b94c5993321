"""The exact loss of networks with a nonlinear hidden layer, for PyTorch's autograd."""

from typing import Any

import numpy as np

from ...solvers.loss import evaluator
from ...theory import validation
from ...theory.annotations import as_annotated
from ...theory.features import as_features
from ...theory.model import Model
from .engine import load_torch
from .exact import check_tensors, loss_function


@as_annotated
def network_loss(
    W_in: Any,
    b_in: Any,
    W_out: Any,
    b: Any,
    law: Any,
    *,
    target: Any = "identity",
    thresholds: Any = None,
    tol: float = 1e-7,
) -> Any:
    r"""Return the exact expected loss of W_out f(W_in x + b_in) + b, differentiable by PyTorch.

    The activation f is ReLU, or JumpReLU if `thresholds` are given. Loss and gradient come from one
    evaluation of `superposition.solvers.loss.evaluator`, in float64 on the CPU for all types and devices of
    tensors.

    Parameters
    ----------
    W_in : (n_hidden, n_features) tensor
        Encoder.
    b_in : (n_hidden,) tensor
        Bias of the hidden neurons.
    W_out : (n_outputs, n_hidden) tensor
        Decoder; for a tied model the transpose of `W_in`.
    b : (n_outputs,) tensor
        Bias of the outputs.
    law : float or Features
        Law of the data; a number is the probability that a feature is on, values then uniform on [0, 1].
    target : {"identity", "relu", "abs"}, array_like, (A, name) or (A, name, B), optional
        Targets of the outputs: the features, "relu" or "abs" of them; A x, A f(x) or A f(x) + B x for arrays
        (n_outputs, n_features), as A, (A, "relu") or (A, "relu", B). See
        `superposition.solvers.loss.evaluator`.
    thresholds : (n_hidden,) tensor, optional
        Thresholds of the JumpReLUs.
    tol : float, optional
        Error to aim at in each mean product of two neurons, in units of their root mean square inputs.

    Returns
    -------
    () tensor of float64
        Mean over the outputs of importance times expected squared error. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> from superposition.theory.features import Features
    >>> W = torch.eye(2, requires_grad=True)
    >>> law = Features(2, 0.1, "symmetric")
    >>> loss = network_loss(W, torch.zeros(2), 0.5 * torch.eye(2), torch.zeros(2), law, target="relu")
    >>> loss.backward()
    >>> round(loss.item(), 9), W.grad.diagonal().double().numpy().round(6).tolist()  # p/6 is E relu(x)^2
    (0.004166667, [-0.004167, -0.004167])
    """
    tol = validation.number("tol", tol, 0.0, 1.0, brackets="()")
    torch = load_torch()
    named = {"W_in": W_in, "b_in": b_in, "W_out": W_out, "b": b}
    named |= {} if thresholds is None else {"thresholds": thresholds}
    check_tensors(torch, named)
    if W_in.ndim != 2 or not W_in.numel():
        raise ValueError(f"`W_in` must have shape (n_hidden, n_features); got {tuple(W_in.shape)}.")
    features = as_features(law, W_in.shape[1])
    # Casts are torch's own: it leads the gradient back to the tensors as they are.
    tensors = [tensor.cpu().double() for tensor in named.values()]
    loss_of = evaluator(features, tol=tol)

    def evaluate(W_in: Any, b_in: Any, W_out: Any, b: Any, *thresholds: Any) -> list[Any]:
        """Return the loss of the network of these arrays, and its derivative in each of them."""
        # A tied model has one derivative for both matrices, but autograd sums those of each.
        if np.array_equal(W_out, W_in.T):
            W_out = W_out.copy()
            W_out[0, 0] = np.nextafter(W_out[0, 0], np.inf)
        hidden = "jumprelu" if thresholds else "relu"
        model = Model(W_in, b_in, hidden, W_out, b, "identity", *thresholds)
        result: Any = loss_of(model, gradient=True, target=target)
        return [result.loss, *(result.gradient[name] for name in named)]

    return loss_function().apply("network_loss", evaluate, *tensors).to(W_in.device)

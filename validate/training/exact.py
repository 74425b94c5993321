"""The exact loss for PyTorch's autograd, for training without the noise of samples."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ...solvers.loss import value_and_gradient
from ...theory.annotations import as_annotated
from ...theory.features import as_features
from ...theory.validation import FloatArray, short_repr
from .engine import load_torch


@cache
def loss_function() -> Any:
    """Return the torch.autograd.Function of (name, evaluate, *tensors) that returns exact losses.

    ``evaluate(*arrays)`` returns the losses, one or a vector of several models, and their first derivatives
    in each of the arrays, with the axis of the models first if there are several. Tensors are of float64 on
    the CPU; `name` is that of the public function, for errors.
    """
    torch = load_torch()

    class ExactLoss(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Exact losses, with their first derivatives."""

        @staticmethod
        def forward(ctx: Any, name: str, evaluate: Callable[..., Any], *tensors: Any) -> Any:
            """Return the losses by `evaluate` at the tensors, and save name and derivatives in `ctx`."""
            losses, *derivatives = evaluate(*(tensor.detach().numpy() for tensor in tensors))
            ctx.save_for_backward(*(torch.from_numpy(np.array(by_tensor)) for by_tensor in derivatives))
            ctx.name = name
            return torch.from_numpy(np.array(losses))

        @staticmethod
        def backward(ctx: Any, by_loss: Any) -> Any:
            """Return the derivatives in the tensors, given those in the losses, `by_loss`."""
            if torch.is_grad_enabled():  # torch would take the gradient for a constant
                raise RuntimeError(f"{ctx.name} has no second derivative; create_graph must be False")
            saved = ctx.saved_tensors
            return None, None, *(by_loss.reshape(-1, *[1] * (by.ndim - 1)) * by for by in saved)

    return ExactLoss


def check_tensors(torch: Any, named: Mapping[str, Any]) -> None:
    """Raise ValueError if one of the `named` arguments is no tensor of PyTorch, `torch`, of floats."""
    for name, tensor in named.items():
        if not (torch.is_tensor(tensor) and tensor.is_floating_point()):
            raise ValueError(f"`{name}` must be a tensor of real numbers; got {short_repr(tensor)}.")


@as_annotated
def exact_loss(W_out: Any, W_in: Any, b: Any, law: Any, *, tol: float = 1e-7) -> Any:
    r"""Return the exact expected loss per feature of ReLU(W_out W_in x + b), differentiable by PyTorch.

    Loss and gradient come from one evaluation of `superposition.solvers.loss.value_and_gradient`, in float64
    on the CPU for all types and devices of tensors. For a tied model pass a matrix and its transpose.

    Parameters
    ----------
    W_out : (n_features, n_hidden) or (instances, n_features, n_hidden) tensor
        Decoder, of any floating type, on any device.
    W_in : (n_hidden, n_features) or (instances, n_hidden, n_features) tensor
        Encoder.
    b : (n_features,) or (instances, n_features) tensor
        Bias of the outputs.
    law : float, Features or sequence of these
        Law of the data; a number is the probability that a feature is on, values then uniform on [0, 1].
        One for all instances, or one for each.
    tol : float, optional
        Error of the loss to aim at, in units of E x_i^2. Its bound is far from sharp: at the default,
        gradients of up to 14 independent uniform features are good to rounding, of more to 1e-7 of their
        length or better.

    Returns
    -------
    () or (instances,) tensor of float64
        The loss, importance included, on the device of `W_out`. Gradients have the types and devices of their
        tensors; there is no second derivative. Where an output is 0 with positive probability, at a kink, the
        gradient is the mean of those on both sides.

    Notes
    -----
    A step is deterministic, so that line searches (LBFGS) work, and a loss that does not fall any more has
    converged. With uniform values it takes a millisecond for 5 features, 40 for 64, a second for 512; with
    binary ones a second for 33 and ten for 64, a fifth of that at a `tol` of 1e-4. With many features samples
    are cheaper as long as a noisy gradient is good enough.

    Examples
    --------
    >>> import torch
    >>> W = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    >>> loss = exact_loss(W, W.T, torch.zeros(2), 0.1)
    >>> loss.backward()
    >>> print(f"{loss.item():.9f}", W.grad.dtype)
    0.001666667 torch.float32
    """
    torch = load_torch()
    named = {"W_out": W_out, "W_in": W_in, "b": b}
    check_tensors(torch, named)
    for name, tensor in named.items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"`{name}` must be finite; got {short_repr(tensor)}.")
    if W_out.ndim not in (2, 3) or not W_out.numel():
        rule = "(n_features, n_hidden), with instances before them if there are several"
        raise ValueError(f"`W_out` must have shape {rule}; got {tuple(W_out.shape)}.")
    *instances, n, m = W_out.shape
    for name, shape in (("W_in", (*instances, m, n)), ("b", (*instances, n))):
        if named[name].shape != shape:
            raise ValueError(f"`{name}` must have shape {shape}; got {tuple(named[name].shape)}.")
    count = instances[0] if instances else 1
    laws = list(law) if np.ndim(law) == 1 else [law] * count
    if len(laws) != count:
        raise ValueError(f"`law` must be one law, or one for each of {count} instances; got {len(laws)}.")
    # Casts and the product are torch's own: it leads the gradient back to the tensors as they are.
    out, into, bias = (tensor.cpu().double() for tensor in (W_out, W_in, b))
    M = (out @ into).reshape(count, n, n)
    all_features = [as_features(model_law, n) for model_law in laws]

    def evaluate(M: FloatArray, b: FloatArray) -> list[FloatArray]:
        """Return the losses (instances,) of ReLU(M x + b) and their derivatives in M and b, stacked."""
        results = [value_and_gradient(*pair, tol=tol) for pair in zip(M, b, all_features, strict=True)]
        return [np.stack(part) for part in zip(*results, strict=True)]

    losses = loss_function().apply("exact_loss", evaluate, M, bias.reshape(count, n))
    return losses.reshape(instances).to(W_out.device)

"""Linear autoencoders by exact flows and by gradient descent in PyTorch, many starts at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from ....solvers.linear import gradient_flow
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.linear import spectrum
from ....theory.validation import FloatArray, IntArray
from ...training import loop
from ...training.engine import load_torch

ROUTES = ("flow", "trained")
RULES = ("pair", "tied", "encoder", "decoder")
MODELS = ("tied", "pair")  # those of the rules that descend a loss
LABELS = {"tied": "tied", "pair": "untied"}


def check_eigenvalues(eigenvalues: Sequence[float], *, strictly: bool = True) -> FloatArray:
    """Return eigenvalues as an array; ValueError unless there are two or more, positive and falling.

    Equal eigenvalues are allowed if not `strictly`.
    """
    values = validation.real("eigenvalues", eigenvalues, 1e-100, 1e100)
    steps = np.diff(values)
    if values.size < 2 or np.any(steps >= 0 if strictly else steps > 0):
        order = "fall" if strictly else "not rise"
        raise ValueError(f"`eigenvalues` must be two or more and {order}; got {values.tolist()}.")
    return values


def moment_points(covariance: npt.ArrayLike, mean: npt.ArrayLike | None = None) -> FloatArray:
    r"""Return inputs whose sample mean and sample covariance are the given ones.

    The loss of an affine model depends on these moments only: training on these few inputs is training on
    the expected loss.

    Parameters
    ----------
    covariance : (n_features, n_features) array_like of float
        Symmetric, without negative eigenvalues.
    mean : (n_features,) array_like of float, optional
        0 by default: then the covariance is the second-moment matrix.

    Returns
    -------
    inputs : ndarray (2 n_features, n_features)
        The mean plus and minus :math:`\sqrt{n\lambda_i}\,u_i`.

    Examples
    --------
    >>> x = moment_points([[2.0, 1.0], [1.0, 2.0]], [1.0, 0.0])
    >>> x.shape, x.mean(axis=0).round(12) + 0.0
    ((4, 2), array([1., 0.]))
    >>> np.cov(x.T, bias=True).round(12)
    array([[2., 1.],
           [1., 2.]])
    """
    eigen = spectrum(covariance)
    n = eigen.eigenvalues.size
    centre = np.zeros(n) if mean is None else validation.vector("mean", mean, n)
    axes = (eigen.eigenvectors * np.sqrt(n * eigen.eigenvalues)).T
    return np.concatenate((centre + axes, centre - axes))


def expected_losses(A: FloatArray, C: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return expected losses per feature of the linear models A C', with features of this covariance.

    A and C are (..., n_features, n_hidden), the losses (...).
    """
    rest = np.eye(A.shape[-2]) - A @ C.mT
    return np.asarray(np.sum((rest @ covariance) * rest, axis=(-2, -1)) / A.shape[-2])


def largest_angles(weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Return the largest angle in degrees between the spans of two matrices' columns.

    `weights` and `directions` are (..., n, d), the angles (...).
    """
    Q, V = np.linalg.qr(weights)[0], np.linalg.qr(directions)[0]
    sines = np.linalg.norm(V - Q @ (Q.mT @ V), 2, axis=(-2, -1))
    return np.asarray(np.degrees(np.arcsin(np.minimum(sines, 1.0))))


@dataclass(frozen=True)
class TrainedWeights:
    """Weights at the requested steps; see :func:`descend`."""

    A: FloatArray
    """Decoders, shape (n_times, n_runs, n_features, n_hidden)."""
    C: FloatArray
    """Encoders transposed, of the same shape; equal to `A` if weights are tied."""
    bias: FloatArray
    """Output biases, shape (n_times, n_runs, n_features)."""


@as_annotated
def descend(
    A0: npt.ArrayLike,
    C0: npt.ArrayLike,
    inputs: npt.ArrayLike,
    rate: float,
    steps: Sequence[int],
    rule: str = "tied",
    *,
    importance: npt.ArrayLike | None = None,
    bias: bool = False,
    momentum: float = 0.0,
) -> TrainedWeights:
    """Return weights of linear autoencoders, trained from several starts by gradient descent, at given steps.

    The weights are decoders `A` and transposed encoders `C`, (n_steps, n_runs, n_features, n_hidden), and
    output biases `bias`, (n_steps, n_runs, n_features). The loss is the squared error, summed over features,
    averaged over inputs; PyTorch's autograd and SGD minimise it in float64. One step at the learning rate eta
    is a time of 2 eta of the flows in `solvers.linear`.

    Parameters
    ----------
    A0, C0 : (n_runs, n_features, n_hidden) array_like of float
        First decoders and transposed encoders; `C0` is used by the rule "pair" only.
    inputs : ([n_runs,] n_inputs, n_features) array_like of float
        Samples, or `moment_points` for the expected loss; the same for all runs, or one set for each.
    rate : float
        Learning rate, positive, at which weights stay finite.
    steps : increasing sequence of int
        Numbers of steps after which the weights are returned; 0 is the start.
    rule : {"tied", "pair", "encoder", "decoder"}, optional
        "tied": shared weights. "pair": separate decoder and encoder. "encoder", "decoder": shared weights
        that move by the encoder's gradient alone (Eq. 22), or by the decoder's alone.
    importance : (n_features,) array_like of float, optional
        Weights of the squared errors, 1 by default.
    bias : bool, optional
        Whether an output bias is trained too, from 0.
    momentum : float, optional
        Momentum of SGD, in [0, 1). With momentum the trajectory is not that of the flows, but the minima are
        the same.
    """
    rule = validation.choice("rule", rule, RULES)
    rate = validation.number("rate", rate, 0, brackets="()")
    momentum = validation.number("momentum", momentum, 0, 1, brackets="[)")
    first, second, data = map(np.asarray, (A0, C0, inputs))
    if first.ndim != 3:
        raise ValueError(f"`A0` must have three axes; got shape {first.shape}.")
    if second.shape != first.shape:
        raise ValueError(f"`C0` must have shape {first.shape}; got {second.shape}.")
    runs, n, _ = first.shape
    if data.size == 0 or data.ndim < 2 or data.shape[-1] != n or data.shape[:-2] not in ((), (runs,)):
        raise ValueError(f"`inputs` must have shape ([{runs},] any, {n}); got {data.shape}.")
    weights = validation.vector("importance", np.ones(n) if importance is None else importance, n)
    weights = validation.real("importance", weights, 0)
    if np.any(np.diff(steps) < 0):
        raise ValueError(f"`steps` must be sorted; got {list(steps)}.")

    torch = load_torch()
    x, scale = torch.tensor(data), torch.tensor(weights)
    A = torch.tensor(first, requires_grad=True)
    C = torch.tensor(second, requires_grad=True) if rule == "pair" else A
    b = torch.zeros((runs, 1, n), dtype=torch.float64, requires_grad=bias)
    parameters = [A, *([C] if rule == "pair" else []), *([b] if bias else [])]

    def loss() -> Any:
        """Return the squared error summed over runs; only the factors that `rule` trains have a gradient."""
        encoder = C.detach() if rule == "decoder" else C
        decoder = A.detach() if rule == "encoder" else A
        error = x - torch.baddbmm(b, x @ encoder, decoder.mT)
        return (error.square() * scale).sum().div(x.shape[-2])

    snapshots: list[list[FloatArray]] = []
    for _ in loop.take_steps(torch.optim.SGD(parameters, lr=rate, momentum=momentum), loss, steps):
        if not torch.isfinite(A).all():
            raise ValueError(f"`rate` must be small enough for the weights to stay finite; got {rate:g}.")
        snapshots.append([weight.detach().numpy().copy() for weight in (A, C, b[:, 0])])
    return TrainedWeights(*map(np.stack, zip(*snapshots, strict=True)))


def follow_routes(
    A0: FloatArray,
    C0: FloatArray,
    inputs: FloatArray,
    rate: float,
    steps: IntArray,
    rule: str,
    trained: bool = True,
) -> FloatArray:
    """Return decoders and transposed encoders after gradient flow and, if `trained`, gradient descent.

    The shape is (2, n_routes, n_runs, n_times, n_features, n_hidden): axis 0 is decoder, encoder; axis 1 is
    `gradient_flow` at the times 2 `rate` `steps`, then `descend` after `steps` steps. The other arguments are
    those of `descend`: first decoders A0 and transposed encoders C0 (n_runs, n_features, n_hidden), samples,
    learning rate, numbers of steps, and rule ("tied", "pair", "encoder" or "decoder").
    """
    sigma, t = inputs.T @ inputs / len(inputs), 2 * rate * steps
    encoders = [C.T if rule == "pair" else None for C in C0]
    flows = [gradient_flow(A, sigma, t, rule, B0=B) for A, B in zip(A0, encoders, strict=True)]
    routes = [np.stack([[flow.W, flow.B.mT] for flow in flows], axis=1)]
    if trained:
        descent = descend(A0, C0, inputs, rate, steps.tolist(), rule)
        routes.append(np.swapaxes([descent.A, descent.C], 1, 2))
    return np.stack(routes, axis=1)


def list_eigenvalues(ds: xr.Dataset) -> str:
    """Return as text the eigenvalues in the attribute ``eigenvalues`` of a dataset, joined by commas."""
    return ", ".join(f"{value:g}" for value in ds.attrs["eigenvalues"])

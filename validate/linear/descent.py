"""Linear autoencoders trained by PyTorch: full-batch gradient descent, many starts at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...theory import arguments
from ...theory.arguments import FloatArray
from ...theory.linear import spectrum
from ..training.engine import load_torch

__all__ = ["LABELS", "MODELS", "RULES", "Trained", "descend", "expected_losses", "moment_points"]

RULES = ("pair", "tied", "encoder", "decoder")
MODELS = ("tied", "pair")  # those of the rules that descend a loss
LABELS = {"tied": "tied", "pair": "untied"}


def moment_points(covariance: npt.ArrayLike, mean: npt.ArrayLike | None = None) -> FloatArray:
    r"""Return inputs whose mean and covariance, as averages over them, are the given ones.

    The loss of a model that is affine depends on nothing else, so that training on these few inputs is
    training on the expected loss.

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

    Raises
    ------
    ValueError
        If `covariance` is not symmetric or has a negative eigenvalue, or `mean` has another size.

    Examples
    --------
    >>> x = moment_points([[2.0, 1.0], [1.0, 2.0]], [1.0, 0.0])
    >>> x.shape, x.mean(axis=0).round(12) + 0.0
    ((4, 2), array([1., 0.]))
    >>> np.cov(x.T, bias=True).round(12)
    array([[2., 1.],
           [1., 2.]])
    """
    found = spectrum(covariance)
    n = found.eigenvalues.size
    centre = np.zeros(n) if mean is None else arguments.vector("mean", mean, n)
    axes = (found.eigenvectors * np.sqrt(n * found.eigenvalues)).T
    return np.concatenate((centre + axes, centre - axes))


def expected_losses(A: FloatArray, C: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return losses per feature of many models; A and C of shape (..., n_features, n_hidden)."""
    rest = np.eye(A.shape[-2]) - A @ np.swapaxes(C, -1, -2)
    return np.asarray(np.sum((rest @ covariance) * rest, axis=(-2, -1)) / A.shape[-2])


def _fitting(name: str, value: npt.ArrayLike, *shapes: tuple[int, ...]) -> FloatArray:
    """Return finite numbers of one of the shapes."""
    array = arguments.real(name, value)
    if array.shape not in shapes:
        raise ValueError(f"`{name}` must have shape {' or '.join(map(str, shapes))}; got {array.shape}.")
    return array


@dataclass(frozen=True)
class Trained:
    """Weights at the steps asked for; see :func:`descend`."""

    A: FloatArray
    """Decoders, shape (n_times, n_runs, n_features, n_hidden)."""
    C: FloatArray
    """Encoders transposed, of the same shape; equal to `A` if weights are tied."""
    bias: FloatArray
    """Output biases, shape (n_times, n_runs, n_features)."""


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
) -> Trained:
    """Descend the mean over all inputs of the squared error summed over features, from several starts.

    One step at the learning rate eta is a time of 2 eta of the flows in `solvers.linear`.

    Parameters
    ----------
    A0, C0 : (n_runs, n_features, n_hidden) array_like of float
        First decoders and transposed encoders; `C0` is not read if weights are tied.
    inputs : ([n_runs,] n_inputs, n_features) array_like of float
        Samples, or `moment_points` for the expected loss; for all runs or for each.
    rate : float
        Learning rate, positive.
    steps : increasing sequence of int
        Steps after which the weights are kept; 0 is the start.
    rule : {"tied", "pair", "encoder", "decoder"}, optional
        Shared weights; a decoder and an encoder of their own; shared weights moved by the encoder's gradient
        alone, the decoder being a copy (what Eq. 22 describes); the same with the roles exchanged.
    importance : ([n_runs,] n_features) array_like of float, optional
        Weights of the squared errors, 1 by default.
    bias : bool, optional
        Whether an output bias is trained as well, from 0.
    momentum : float, optional
        In [0, 1); with it the course is not that of the flows, the minima are.

    Returns
    -------
    Trained

    Raises
    ------
    ValueError
        If an argument is out of range, shapes do not fit, or the weights do not stay finite.
    ImportError
        If PyTorch is not installed.

    Notes
    -----
    PyTorch's autograd and SGD in float64.
    """
    rule = arguments.choice("rule", rule, RULES)
    rate = arguments.number("rate", rate, 0, brackets="()")
    momentum = arguments.number("momentum", momentum, 0, 1, brackets="[)")
    first = arguments.real("A0", A0)
    if first.ndim != 3:
        raise ValueError(f"`A0` must have shape (any, any, any); got {first.shape}.")
    runs, n, _ = first.shape
    second = _fitting("C0", C0, first.shape)
    data = arguments.real("inputs", inputs)
    if (
        data.size == 0
        or data.ndim not in (2, 3)
        or data.shape[-1] != n
        or data.shape[:-2] not in ((), (runs,))
    ):
        raise ValueError(f"`inputs` must have shape ([{runs},] any, {n}); got {data.shape}.")
    weights = np.ones(n) if importance is None else arguments.real("importance", importance, 0)
    weights = _fitting("importance", weights, (n,), (runs, n))
    wanted = [arguments.integer("steps", k, 0) for k in steps]
    if not wanted or np.any(np.diff(wanted) < 0):
        raise ValueError(f"`steps` must be sorted and not empty; got {wanted}.")

    torch = load_torch()
    x, scale = torch.tensor(data), torch.tensor(np.expand_dims(weights, -2))
    A = torch.tensor(first.copy(), requires_grad=True)
    C = torch.tensor(second.copy(), requires_grad=True) if rule == "pair" else A
    b = torch.zeros((runs, 1, n), dtype=torch.float64, requires_grad=bias)
    moved = [A, *([C] if rule == "pair" else []), *([b] if bias else [])]
    optimiser = torch.optim.SGD(moved, lr=rate, momentum=momentum)
    kept: list[list[FloatArray]] = []
    done = 0
    for until in wanted:
        for _ in range(done, until):
            optimiser.zero_grad()
            encoder = C.detach() if rule == "decoder" else C
            decoder = A.detach() if rule == "encoder" else A
            error = x - torch.baddbmm(b, x @ encoder, decoder.mT)
            (error.square() * scale).sum().div(x.shape[-2]).backward()
            optimiser.step()
        done = until
        if not torch.isfinite(A).all():
            raise ValueError(f"`rate` must be small enough for the weights to stay finite; got {rate:g}.")
        kept.append([part.detach().numpy().copy() for part in (A, C, b[:, 0])])
    return Trained(*(np.stack(part) for part in zip(*kept, strict=True)))

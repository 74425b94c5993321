r"""The loss averaged over hidden noise, and its part that depends on the axes: the effective potential.

Summed over inputs e_i and outputs k, as the source's loss without noise (its §2.3),

.. math:: L(W) = \sum_i E (\mathrm{ReLU}(|W_i|^2 + W_i \cdot \xi) - 1)^2
                 + \sum_{i \ne k} E\, \mathrm{ReLU}(W_i \cdot W_k + W_k \cdot \xi)^2 .

Each mean is over one projection W_k.xi, so inputs may share their noise or not. To first order, gradient
descent with one step for all inputs follows dW/dt = -grad L in the time t = learning_rate * steps. With
normal noise L depends on products W_i.W_k only, and no axis is special.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from ..validation import FloatArray, Real, choice, finite, matrix, number, real, scalar_or_array
from .moments import noise_law
from .relu import METHODS, can_list, means_by_states, noise_values, relu_means

__all__ = [
    "effective_potential", "loss_and_gradient", "noise_averaged_gradient", "noise_averaged_loss",
    "sparsifying_rate",
]  # fmt: skip


@finite
def noise_averaged_loss(
    W: npt.ArrayLike,
    noise: str,
    noise_std: float,
    *,
    excess_kurtosis: float | None = None,
    method: str = "exact",
) -> float:
    """Loss of a tied ReLU autoencoder, averaged over noise on neurons and summed over inputs and outputs.

    Numerical errors are n_features^2 times those of :func:`relu_moments`; bipolar noise on m <= 40 neurons
    takes a time in proportion to n_features^2 2^(m/2).

    Parameters
    ----------
    W : array_like of float, shape (n_features, n_hidden)
        Encodings, one a row.
    noise, noise_std, excess_kurtosis, method : optional but for the first two
        Name of the noise's law, its standard deviation, for ``"three-point"`` noise only its excess kurtosis,
        and how means over it are computed ("exact", "edgeworth" or "normal"), as for :func:`relu_moments`.

    Returns
    -------
    float
        L(W) of Lecomte et al. (2024), §3.1; divided by n_features, the mean over inputs.

    Raises
    ------
    ValueError
        If an argument is out of range or the result too large for a float.

    Examples
    --------
    >>> round(noise_averaged_loss([[1.0, 0.0], [0.0, 1.0]], "bipolar", 0.1), 12)
    0.03
    """
    return _mean_over_noise(W, noise, noise_std, excess_kurtosis, method)[0]


@finite
def noise_averaged_gradient(
    W: npt.ArrayLike,
    noise: str,
    noise_std: float,
    *,
    excess_kurtosis: float | None = None,
    method: str = "exact",
) -> FloatArray:
    """Gradient of the loss averaged over the noise: the mean of what one step of descent follows.

    W has an encoding a row; the name `noise` of the noise's law, its standard deviation and excess kurtosis,
    and the `method` of averaging are those of :func:`noise_averaged_loss`. The result has the shape of W. For
    discrete noise the loss has a kink where some value of the noise brings an encoding's own output just to
    0. The result there is the gradient on one side.

    Examples
    --------
    >>> noise_averaged_gradient([[1.0, 0.0], [0.0, 1.0]], "bipolar", 0.1)
    array([[0.03, 0.2 ],
           [0.2 , 0.03]])
    """
    return _mean_over_noise(W, noise, noise_std, excess_kurtosis, method)[1]


def _mean_over_noise(
    W: npt.ArrayLike, noise: str, noise_std: float, excess_kurtosis: float | None, method: str
) -> tuple[float, FloatArray]:
    """Return the noise-averaged loss L(W) and dL/dW, after checks of the arguments.

    L is the loss of a tied ReLU autoencoder, summed over the inputs e_i and over the outputs, with noise xi
    on its hidden neurons; W has an encoding a row. `noise` names the law of xi ("bipolar", "three-point",
    "normal", ...), `noise_std` is its standard deviation, `excess_kurtosis` is for "three-point" only, and
    `method` says how means over it are computed: "exact", "edgeworth" or "normal".
    """
    weights = real("W", matrix("W", W), -1e150, 1e150)
    law = noise_law(noise, noise_std, excess_kurtosis)
    return loss_and_gradient(weights, *law, choice("method", method, METHODS))


def loss_and_gradient(
    W: FloatArray, name: str, std: float, ratio: float, method: str = "exact"
) -> tuple[float, FloatArray]:
    """Return the loss L(W), averaged over the noise, and dL/dW; arguments are not checked.

    L is the loss of a tied ReLU autoencoder, a sum over inputs and outputs; W has an encoding a row. `name`
    is the noise's law, `std` its standard deviation sigma, `ratio` mu4/sigma^4; `method`, "exact",
    "edgeworth" or "normal", is that of `relu_moments`.
    """
    if "normal" in (name, method):
        return _normal_averaged(W, std)
    values, shares = noise_values(ratio)
    discrete = method == "exact" and name in ("bipolar", "three-point") and can_list(values, W.shape[1])
    total, gradient = 0.0, np.zeros_like(W)
    for k, w in enumerate(W.copy()):  # writable: kernels are compiled once more for what is not
        overlap = W @ w
        on, mean, second, on_noise, mean_noise = (
            means_by_states(overlap, w, std * values, shares)
            if discrete
            else relu_means(overlap, w, name, std, ratio, method)
        )
        total += float(second.sum() - 2 * mean[k] + 1)
        mean[k] -= on[k]  # half the slope of each term in its overlap
        gradient += 2 * np.outer(mean, w)
        gradient[k] += 2 * (mean @ W + mean_noise.sum(axis=0) - on_noise[k])
    return total, gradient


def _normal_averaged(W: FloatArray, std: float) -> tuple[float, FloatArray]:
    """Return L(W) and dL/dW averaged over normal noise of standard deviation `std`, in closed form.

    L is the loss of a tied ReLU autoencoder, summed over the inputs e_i and over the outputs; W has an
    encoding a row. Pre-activations are normal, and the loss is a function of W W' alone.
    """
    overlap = W @ W.T
    spread = std * np.sqrt(np.diagonal(overlap))
    with np.errstate(all="ignore"):
        z = np.where(spread > 0, np.clip(overlap / spread, -40.0, 40.0), np.copysign(40.0, overlap))
        density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        on = special.ndtr(z)
        number = on.sum(axis=0)
        by_variance = number - np.where(spread > 0, np.diagonal(density) / spread, 0.0)
    mean = overlap * on + spread * density
    diagonal = mean.ravel()[:: len(W) + 1]  # a view of the diagonal
    total = np.vdot(overlap, mean) + spread**2 @ number - 2 * diagonal.sum() + len(W)
    diagonal -= np.diagonal(on)  # now half the slope of each term in its overlap
    gradient = 2 * ((mean + mean.T) @ W + std**2 * by_variance[:, None] * W)
    return float(total), np.asarray(gradient)


def _overlap_densities(W: FloatArray, noise_std: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each output k the sum over i != k of z_ik n(z_ik), |W_k|, and |W_k|_4^4/|W_k|^4.

    W has an encoding a row, and the three arrays are (n_features,). z_ik = W_i.W_k/(noise_std |W_k|) is the
    overlap in standard deviations of the noise, n the normal density. A ValueError is raised if an encoding
    is 0.
    """
    size = np.max(np.abs(W), axis=1, keepdims=True)
    if not np.all(size > 0):
        raise ValueError("`W` must have no zero encoding, which has no shape; got one.")
    norm = np.sqrt(np.sum((W / size) ** 2, axis=1, keepdims=True))
    directions = W / size / norm
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.clip(W @ directions.T / noise_std, -40.0, 40.0)
        length = (size * norm)[:, 0]
    np.fill_diagonal(z, 0.0)
    pull = np.sum(z * np.exp(-0.5 * z**2), axis=0) / math.sqrt(2 * math.pi)
    if not np.all(np.isfinite(length) & np.isfinite(pull)):
        raise ValueError(f"`W` must have finite lengths; got {np.max(size):g} as an entry.")
    return np.asarray(pull), length, np.asarray(np.sum(directions**4, axis=1))


@finite
def effective_potential(W: npt.ArrayLike, noise_std: float, excess_kurtosis: npt.ArrayLike) -> Real:
    r"""First-order effective potential V(W): what noise that is not normal adds to the averaged loss.

    .. math:: V(W) = -\frac{\kappa\sigma^2}{12} \sum_k \frac{|W_k|_4^4}{|W_k|^2}
              \sum_{i \ne k} z_{ik}\, n(z_{ik}),
              \qquad z_{ik} = \frac{W_i \cdot W_k}{\sigma |W_k|},

    with the standard normal density n. For a single encoding V is 0. The relative errors are of order
    |W_k|_4^4 (times powers of z): V describes spread encodings, and overstates the force on sparse ones. The
    outputs of the encodings' own inputs, with z = |W|/sigma, are left out. Errors are those of
    :func:`noise_averaged_loss`.

    Parameters
    ----------
    W : array_like of float, shape (n_features, n_hidden)
        Encodings, one a row, none of them 0.
    noise_std : float
        Standard deviation of the noise, positive.
    excess_kurtosis : array_like of float
        kappa, at least -2.

    Returns
    -------
    float or ndarray of float64
        V, linear in the excess kurtosis.

    Examples
    --------
    >>> effective_potential([[1.0, 0.0], [0.0, 1.0]], 0.1, -2.0)
    0.0
    """
    kurtosis = real("excess_kurtosis", excess_kurtosis, -2.0)
    std = number("noise_std", noise_std, 0.0, brackets="(]")
    pull, length, fourth = _overlap_densities(matrix("W", W), std)
    scale = std * length
    return scalar_or_array(np.asarray(-kurtosis / 12 * float(np.sum(scale * pull * scale * fourth))) + 0.0)


@finite
def sparsifying_rate(W: npt.ArrayLike, noise_std: float, excess_kurtosis: float) -> FloatArray:
    r"""Rate B at which noise sparsifies each encoding: first order in the learning rate and the kurtosis.

    .. math:: \frac{dW_j}{dt} = B\, (W_j^3 - |W|_4^4 W_j / |W|^2), \qquad
              B_k = \frac{\kappa \sigma^2}{3 |W_k|^2} \sum_{i \ne k} z_{ik}\, n(z_{ik}),

    is the effective potential's force along the sphere at fixed overlaps; the time t is learning_rate *
    steps. An encoding becomes sparser if B > 0. The sign of B is that of the excess kurtosis times that of
    the overlaps. W (an encoding a row), `noise_std` sigma, `excess_kurtosis` kappa, z_ik (overlaps in
    standard deviations of the noise) and validity are those of :func:`effective_potential`; the result has
    shape (n_features,).

    Examples
    --------
    >>> sparsifying_rate([[0.6, -0.8], [-0.8, 0.6]], 0.5, -2.0) > 0
    array([ True,  True])
    """
    kurtosis = number("excess_kurtosis", excess_kurtosis, -2.0)
    std = number("noise_std", noise_std, 0.0, brackets="(]")
    pull, length, _ = _overlap_densities(matrix("W", W), std)
    ratio = std / length
    return np.asarray(kurtosis / 3 * (ratio * pull * ratio))

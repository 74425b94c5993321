"""Objectives of sparse autoencoders as means over samples, with gradients and standard errors.

Activations of an input cost no more than its features that are on, outputs and derivatives no more than its
latents that are on.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...theory.compile.kernels import check_interrupt, inlined, kernel
from ...theory.features import Features
from ...theory.model import Model, rounding_of_sum
from ...theory.validation import FloatArray, IntArray
from ..deadline import work_seconds
from ..loss.network.density_table import DensityTable, density_at, table_of
from ..parallel import parallel_map, single_blas_thread
from ..progress import status, time_left

__all__ = ["LatentMeans", "ObjectiveWeights", "SampledObjective", "sample_objective"]

# Inputs that are drawn at once, and the fewest such batches: their spread gives errors of derivatives.
_BATCH, _BATCHES = 2048, 32
# Inputs of a batch are a multiple of this.
_MULTIPLE = 64
# Latents at whose threshold an input is taken, or up to twice as many: this costs as much as all the rest.
_AT_THRESHOLD = 8
# Batches whose sums are added at once.
_ROUND = 16
# Numbers of an input whose means are always known, and all that may be; the squared error comes after them.
_OF_FEATURES, _CONTROLS = 4, 8
# Largest error of a known mean, over the standard error of the samples' own.
_KNOWN = 0.2
# Of an input: squared error, l1, L0.
_PARTS = (8, 6, 7)


@dataclass(frozen=True)
class ObjectiveWeights:
    """Weights of the parts of an objective."""

    l1: float
    l0: float
    prefixes: FloatArray
    """(n_latents + 1,): entry i is the weight of all prefixes with more than i latents, 0 at the end."""


class LatentMeans(NamedTuple):
    """Exact means over inputs of four sums over latents, and the errors of these means, (4,) each.

    The latents are h_i, their decoder columns v_i, the decoder's bias c, the activations a. The sums are of
    h_i v_i . (c - a), of |v_i|^2 h_i^2 times the weight of all prefixes that have latent i, of |v_i| h_i, and
    of 1(h_i > 0).
    """

    means: FloatArray
    errors: FloatArray


class SampledObjective(NamedTuple):
    """Parts of an objective as means over samples, with standard errors."""

    parts: FloatArray
    """(3,): squared error, l1 and L0."""
    error: float
    """Standard error of the weighted sum of `parts`."""
    gradient: dict[str, FloatArray] | None
    gradient_error: dict[str, FloatArray] | None


def sample_objective(
    sae: Model, law: Features, phi: FloatArray, centre: FloatArray, weights: ObjectiveWeights, samples: int,
    seed: int, gradient: bool, latents: LatentMeans | None = None,
) -> SampledObjective:  # fmt: skip
    """Return the parts of the objective of the network `sae` as means over at least `samples` inputs.

    `sae` reads features of this `law`, which are on where not 0. `phi`, (d, n), has their directions.
    Derivatives, if `gradient`, are by an encoder that reads activations minus `centre`. The same `seed` gives
    the same numbers, whatever the number of threads.

    Means are corrected by regression on control variates, whose means are known: sum of the features, number
    of features on, its square, squared length of the activations, and the sums of `latents`, if given. The
    bias of this is of order 1/samples.
    """
    count = max(-(-samples // _BATCH), _BATCHES)
    size = _MULTIPLE * -(-samples // (count * _MULTIPLE))
    network, table = _network_of(sae, law, phi, weights), table_of(law.values)
    stride = 0
    if gradient and table.edges.size and (weights.l0 > 0.0 or np.any(network.t > 0.0)):
        stride = int(np.clip(2 ** (sae.n_hidden // _AT_THRESHOLD).bit_length() // 2, 1, _MULTIPLE))
    pairs = law.pair_probability()
    np.fill_diagonal(pairs, law.on_probability())
    second = np.sum(phi @ law.second_moment_matrix() * phi)
    if latents is None:
        unknown = _CONTROLS - _OF_FEATURES
        latents = LatentMeans(np.zeros(unknown), np.full(unknown, np.inf))
    origin = np.array([law.mean.sum(), np.trace(pairs), pairs.sum(), second, *latents.means, 0.0])

    def batch(at: int) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """Return sums and products of the numbers of a batch's inputs, and the means of its derivatives."""
        x, rows = law.sample(size, np.random.default_rng([seed, at])), np.empty((size, origin.size))
        sums = _Slopes(*map(np.zeros_like, (network.W, network.b, network.V, network.c, network.t)))
        _add_samples(x, network, table, gradient, stride, rows, sums)
        rows -= origin
        by: dict[str, FloatArray] = {}
        if gradient:
            by_W = sums.W.T @ phi.T - np.outer(sums.b, centre)
            by = {"W_in": by_W, "b_in": sums.b, "W_out": sums.V.T, "b": sums.c}
            if sae.thresholds is not None:
                by["thresholds"] = sums.t
        return rows.sum(axis=0), rows.T @ rows, {name: array / size for name, array in by.items()}

    total, products = np.zeros(origin.size), np.zeros((origin.size, origin.size))
    slopes: dict[str, Any] = {}
    squares: dict[str, Any] = {}
    begin = work_seconds()
    with single_blas_thread():
        for start in range(0, count, _ROUND):
            ends = min(start + _ROUND, count)
            for sums, square, by in parallel_map(lambda k: batch(start + k), ends - start):  # noqa: B023
                total += sums
                products += square
                for name, array in by.items():
                    slopes[name] = slopes.get(name, 0.0) + array
                    squares[name] = squares.get(name, 0.0) + array**2
            remaining = time_left(work_seconds() - begin, ends, count)
            status(f"{ends * size:,} of {count * size:,} samples{remaining}")
    known_errors = np.r_[np.zeros(_OF_FEATURES), latents.errors]
    # One whose mean is known little better than samples say is of no use.
    sampled_errors = np.sqrt(products.diagonal()[:_CONTROLS]) / (count * size)
    controls = np.flatnonzero(known_errors <= _KNOWN * sampled_errors)
    strengths = np.array([1.0, weights.l1, weights.l0])
    parts, error, slope = _regress(total, products, count * size, strengths, controls)
    parts += origin[list(_PARTS)]
    error = float(np.hypot(error, np.abs(slope @ strengths) @ known_errors[controls]))
    if not gradient:
        return SampledObjective(parts, error, None, None)
    means = {name: array / count for name, array in slopes.items()}
    errors = {
        name: np.sqrt(np.maximum(squares[name] / count - means[name] ** 2, 0.0) / (count - 1))
        for name in means
    }
    return SampledObjective(parts, error, means, errors)


def _regress(
    total: FloatArray, products: FloatArray, samples: int, weights: FloatArray, controls: IntArray
) -> tuple[FloatArray, float, FloatArray]:
    """Return (means of the three parts, error of their weighted sum, slopes), with control variates.

    y is the vector of nine numbers of an input, minus known means (0 if unknown); `total` is the sum of y and
    `products` that of y y', over `samples` inputs. The parts, squared error, l1 and L0, are the entries
    `_PARTS` of y, and have the `weights`; the entries `controls` have known means. The slopes, (controls, 3),
    are those of the regression of the parts on the controls.
    """
    mean = total / samples
    spread = products / samples - np.outer(mean, mean)
    parts = list(_PARTS)
    of_controls, of_parts = spread[np.ix_(controls, controls)], spread[np.ix_(controls, np.array(parts))]
    # Each in units of its spread: they differ by decades.
    unit = np.sqrt(np.maximum(of_controls.diagonal(), 0.0))
    unit = np.where(unit > 0.0, unit, 1.0)
    inverse = np.linalg.pinv(of_controls / np.outer(unit, unit), 1e-10, hermitian=True)
    slope = inverse @ (of_parts / unit[:, None]) / unit[:, None]
    left = weights @ (spread[np.ix_(parts, parts)] - slope.T @ of_parts) @ weights
    return mean[parts] - mean[controls] @ slope, float(np.sqrt(max(float(left), 0.0) / samples)), slope


class _Network(NamedTuple):
    """An autoencoder on features, in the layout of the kernel."""

    W: FloatArray
    """(n_features, n_latents): weights of latents."""
    b: FloatArray
    t: FloatArray
    V: FloatArray
    """(n_latents, d): decoder."""
    c: FloatArray
    phi: FloatArray
    """(n_features, d): directions."""
    scale: FloatArray
    norms: FloatArray
    """(n_latents,): norms of the decoder's columns."""
    largest: FloatArray
    """(n_features,): largest absolute weight of a latent on each feature."""
    rounding: float
    """Rounding error of a pre-activation over the sum of the sizes of its terms."""
    offset: float
    """Largest |bias| + threshold of a latent."""
    l1: float
    l0: float
    tail: FloatArray
    """`ObjectiveWeights.prefixes`."""


class _Slopes(NamedTuple):
    """Sums of derivatives of the objective by the arrays of a `_Network`."""

    W: FloatArray
    b: FloatArray
    V: FloatArray
    c: FloatArray
    t: FloatArray


def _network_of(sae: Model, law: Features, phi: FloatArray, weights: ObjectiveWeights) -> _Network:
    """Return `sae`, which reads features of `law` with the directions `phi` (d, n), for the kernels."""
    thresholds = np.zeros(sae.n_hidden) if sae.thresholds is None else sae.thresholds
    W, V, directions = (np.array(array.T, order="C") for array in (sae.W_in, sae.W_out, phi))
    b, t, c, scale = (np.array(array) for array in (sae.b_in, thresholds, sae.b, law.scale))
    norms, largest = np.linalg.norm(V, axis=1), np.abs(W).max(axis=1)
    rounding = float(rounding_of_sum(1.0, law.n_features))
    offset = float(np.max(np.abs(b) + t))
    return _Network(
        W, b, t, V, c, directions, scale, norms, largest, rounding, offset, weights.l1, weights.l0,
        weights.prefixes,
    )  # fmt: skip


class _Input(NamedTuple):
    """Arrays that an input sets in a network; latents are indices, and h, r and R are overwritten."""

    features: IntArray
    """Which features are not 0."""
    on: IntArray
    """Which latents are on."""
    z: FloatArray
    """Pre-activations."""
    h: FloatArray
    """Latents of the input shifted to the threshold of one latent."""
    a: FloatArray
    """Activations."""
    r: FloatArray
    """Error, reconstruction minus activations, of the first latents."""
    R: FloatArray
    """Sum over prefixes of weight times error."""


@inlined
def _encode(x: FloatArray, s: int, net: _Network, at: _Input) -> tuple[int, float, float]:
    """Set `at.features`, pre-activations `at.z` of the latents and activations `at.a` for row s of x.

    Return (number of features that are on, their sum, slack), with slack at least
    |b_i| + t_i + sum_j |W_ij x_j| for any latent i of bias b_i and threshold t_i.
    """
    W, phi, z, a = net.W, net.phi, at.z, at.a
    z[:], a[:] = net.b, 0.0
    count, total, slack = 0, 0.0, net.offset
    for j in range(W.shape[0]):
        v = x[s, j]
        if v == 0.0:
            continue
        at.features[count] = j
        count += 1
        total += v
        slack += np.abs(v) * net.largest[j]
        for i in range(z.size):
            z[i] += v * W[j, i]
        for k in range(a.size):
            a[k] += v * phi[j, k]
    return count, total, slack


@inlined
def _decode(
    x: FloatArray, s: int, net: _Network, at: _Input, count: int, slack: float
) -> tuple[int, float, float]:
    """Set `at.on`, the latents that are on, and `at.r`, reconstruction less activations, for row s of x.

    Return (their number, sum of |v_i| h_i, sum of tail_i |v_i|^2 h_i^2) over the latents i that are on, with
    values h_i = z_i and decoder columns v_i; tail_i = net.tail[i] is the total weight of the prefixes that
    contain latent i. The input has `count` features on. A latent is on if its pre-activation z_i exceeds its
    threshold by more than rounding; `slack` bounds the sum of the absolute terms of any z_i.
    """
    V, z, r, on = net.V, at.z, at.r, at.on
    above = 0
    for i in range(z.size):  # without a branch: which are on is not predictable
        on[above] = i
        above += z[i] > net.t[i]
    active, l1, squares = 0, 0.0, 0.0
    for m in range(above):
        i = on[m]
        excess = z[i] - net.t[i]
        if excess <= net.rounding * slack:  # that of this latent may be smaller
            size = np.abs(net.b[i]) + net.t[i]
            for k in range(count):
                size += np.abs(x[s, at.features[k]] * net.W[at.features[k], i])
            if excess <= net.rounding * size:
                continue
        on[active] = i
        active += 1
        length = net.norms[i] * z[i]
        l1 += length
        squares += net.tail[i] * length * length
    r[:] = net.c - at.a
    quads = active - active % 4
    for m in range(0, quads, 4):  # four at a time: r is read and written less often
        i, j, k, n = on[m], on[m + 1], on[m + 2], on[m + 3]
        h, g, f, e = z[i], z[j], z[k], z[n]
        for q in range(r.size):
            r[q] += h * V[i, q] + g * V[j, q] + f * V[k, q] + e * V[n, q]
    for m in range(quads, active):
        h = z[on[m]]
        for q in range(r.size):
            r[q] += h * V[on[m], q]
    return active, l1, squares


@inlined
def _dot(x: FloatArray, y: FloatArray) -> float:
    """Return the inner product of two vectors."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    quads = x.size - x.size % 4
    for k in range(0, quads, 4):
        a += x[k] * y[k]
        b += x[k + 1] * y[k + 1]
        c += x[k + 2] * y[k + 2]
        d += x[k + 3] * y[k + 3]
    for k in range(quads, x.size):
        a += x[k] * y[k]
    total: float = (a + b) + (c + d)
    return total


@inlined
def _add_error(r: FloatArray, weight: float, R: FloatArray) -> float:
    """Add weight * r to R in place, for an error r; return weight * |r|^2."""
    for k in range(r.size):
        R[k] += weight * r[k]
    return weight * _dot(r, r)


@inlined
def _add_errors(
    x: FloatArray, s: int, net: _Network, at: _Input, count: int, active: int, gradient: bool, by: _Slopes
) -> float:
    """Return the sum over prefixes of weight times squared error; add derivatives to `by`, if `gradient`.

    A prefix is the autoencoder of the first latents alone. The input is row s of x, with `count` features and
    `active` latents on, for which `at` was set; `at.r` and `at.R` are overwritten. The derivatives are those
    of squared errors and l1 with latents fixed on or off. By column i of the decoder the squared errors have
    the derivative 2 h_i R, with R the sum of weight times error of the prefixes with more than i latents.
    """
    V, z, r, R, tail = net.V, at.z, at.r, at.R, net.tail
    by_W, by_b, by_V, by_c, _ = by
    R[:] = 0.0
    above, square = 0.0, 0.0
    for last in range(active - 1, -1, -1):
        i = at.on[last]
        if tail[i] != above:
            square += _add_error(r, tail[i] - above, R)
            above = tail[i]
        if gradient:
            slope = net.l1 * net.norms[i]
            of_norm = net.l1 * z[i] / net.norms[i] if net.norms[i] > 0.0 else 0.0
            twice = 2.0 * z[i]
            for k in range(r.size):
                by_V[i, k] += twice * R[k] + of_norm * V[i, k]
            slope += 2.0 * _dot(R, V[i])
            by_b[i] += slope
            for k in range(count):
                by_W[at.features[k], i] += slope * x[s, at.features[k]]
        if above != tail[0]:
            h = z[i]
            for k in range(r.size):
                r[k] -= h * V[i, k]
    if above != tail[0]:
        square += _add_error(r, tail[0] - above, R)
    for k in range(r.size):
        by_c[k] += 2.0 * R[k]
    return square


@inlined
def _add_thresholds(
    x: FloatArray,
    s: int,
    net: _Network,
    at: _Input,
    count: int,
    table: DensityTable,
    stride: int,
    by: _Slopes,
) -> None:
    """Add to `by` the derivatives from latents that turn on: jumps of the objective times densities.

    Latents i = s mod `stride`, i + `stride`, ... are treated. The value of one feature is changed so that the
    input, row s of x with `count` features on, lies on the threshold of latent i; the density of this value,
    from `table`, times the jump there is the derivative. The feature is the active one of largest weight
    times scale. As each row of x treats one in `stride` latents, the sums are multiplied by `stride`.
    """
    by_W, by_b, _, _, by_t = by
    for i in range(s % stride, at.z.size, stride):
        j, most = 0, 0.0
        for k in range(count):
            weight = np.abs(net.W[at.features[k], i] * net.scale[at.features[k]])
            if weight > most:
                j, most = at.features[k], weight
        if most == 0.0:
            continue
        shift = (net.t[i] - at.z[i]) / net.W[j, i]
        v = (x[s, j] + shift) / net.scale[j]
        if not table.edges[0] < v < table.edges[-1]:
            continue
        flux = stride * (net.l0 + _jump(net, at, i, j, shift)) * density_at(table, v) / most
        by_b[i] += flux
        by_t[i] -= flux
        for k in range(count):
            by_W[at.features[k], i] += flux * x[s, at.features[k]]
        by_W[j, i] += flux * shift


@inlined
def _jump(net: _Network, at: _Input, i: int, j: int, shift: float) -> float:
    """Return the increase of weighted squared errors plus weighted l1 as latent i turns on.

    The input is that of `at`, with feature j larger by `shift`, which lies on the threshold of latent i.
    `at.h`, `at.r` and `at.R` are overwritten.
    """
    V, t, h, r, R, tail = net.V, net.t, at.h, at.r, at.R, net.tail
    if t[i] == 0.0:
        return 0.0
    R[:] = 0.0
    for k in range(r.size):
        r[k] = net.c[k] - at.a[k] - shift * net.phi[j, k]
    for m in range(h.size):
        z = at.z[m] + shift * net.W[j, m]
        h[m] = z if z > t[m] and m != i else 0.0
        if h[m] > 0.0:
            for k in range(r.size):
                r[k] += h[m] * V[m, k]
    above = 0.0
    for m in range(h.size - 1, i - 1, -1):
        if tail[m] != above:
            _add_error(r, tail[m] - above, R)
            above = tail[m]
        if above != tail[i] and h[m] > 0.0:
            for k in range(r.size):
                r[k] -= h[m] * V[m, k]
    alone = t[i] * net.norms[i] * (net.l1 + tail[i] * t[i] * net.norms[i])
    jump: float = alone + 2.0 * t[i] * _dot(R, V[i])
    return jump


@kernel
def _add_samples(
    x: FloatArray, net: _Network, table: DensityTable, gradient: bool, stride: int, rows: FloatArray,
    by: _Slopes,
) -> None:  # fmt: skip
    """Write nine numbers of each input, a row of x, to `rows`; add derivatives to `by`, if `gradient`.

    The numbers are the sum of the features, the number of features on, its square, and the squared length of
    the activations a; the four sums over latents of `LatentMeans`; and the squared error, weighted over
    prefixes. `table` has the density of a feature's value. Derivatives from latents that turn on are added
    for one in `stride` latents of each input, and left out if `stride` is 0.
    """
    (n, latents), d = net.W.shape, net.c.size
    at = _Input(
        np.empty(n, np.int64), np.empty(latents + 1, np.int64), np.empty(latents), np.empty(latents),
        np.empty(d), np.empty(d), np.empty(d),
    )  # fmt: skip
    for s in range(len(x)):
        check_interrupt(s % 256 == 0)
        count, total, slack = _encode(x, s, net, at)
        active, l1, squares = _decode(x, s, net, at, count, slack)
        length, cross = 0.0, 0.0
        for k in range(d):
            length += at.a[k] * at.a[k]
            error = net.c[k] - at.a[k]  # without latents
            cross += (at.r[k] - error) * error
        rows[s, 0], rows[s, 1], rows[s, 2], rows[s, 3] = total, count, count * count, length
        rows[s, 4], rows[s, 5], rows[s, 6], rows[s, 7] = cross, squares, l1, active
        rows[s, 8] = _add_errors(x, s, net, at, count, active, gradient, by)
        if stride > 0:
            _add_thresholds(x, s, net, at, count, table, stride, by)

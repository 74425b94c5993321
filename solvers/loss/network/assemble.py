r"""The exact expected loss of a network with nonlinear hidden neurons and a linear readout.

With y = V h + c and targets t = A f(x) + B x the loss of an output needs means of products only:

.. math:: E (t_k - y_k)^2 = E t_k^2 + v_k' H v_k + c_k^2 - 2 v_k' T_k + 2 c_k v_k' \mu - 2 c_k E t_k

with mu = E h, H = E h h' and T_k = E h t_k. The derivatives by the first layer are those of these means,
weighted with their coefficients in the loss.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ....theory import validation
from ....theory.features.values.law import require
from ....theory.model import Model
from ....theory.results import frozen, result
from ....theory.validation import FloatArray
from ..problem import Accuracy, Law, NetworkProblem
from .neuron_means import PAIR, HiddenNeuron, NeuronContext, UnitMeans, least_terms, pair_means, unit_means
from .pair_fourier import CHANGES
from .time_limit import Stopwatch

__all__ = [
    "ESTIMATES",
    "RESIDUAL",
    "TARGETS",
    "HiddenMeans",
    "NetworkOutputs",
    "hidden_means",
    "hidden_neurons",
    "means_with_targets",
    "network_loss",
    "parse_target",
    "without_linear_pairs",
    "without_residual_path",
]

TARGETS = ("identity", "relu", "abs")
# Targets x + ReLU(x), those of networks with a residual path, by a name of their own.
RESIDUAL = "x+relu"
ESTIMATES = {
    "pair_exact": "heuristic: rounding in units of the neurons' sizes",
    "sums of atoms": "heuristic: rounding in units of the neurons' terms",
    "pair_fourier": "heuristic: what the last frequencies change, with many signs, and rounding",
    "second moments": "heuristic: rounding of sums of second moments",
}
_ROUNDING = 2.0**-46  # of sums over neurons and features
# Terms of sums over frequencies, of some 5 ns each, for an output; those of all share them. A pair has PAIR.
WORK = 2.0**26


def parse_target(target: Any, n_outputs: int, n_features: int) -> tuple[FloatArray, str, FloatArray | None]:
    """Return (A, name of f, B or None for 0) of targets A f(x) + B x; ValueError if shapes do not fit.

    `target` is the name of f, "x+relu", an array A of shape (n_outputs, n_features), (A, name of f), or (A,
    name of f, B).
    """
    matrix, name, linear = target, "identity", None
    if isinstance(target, str):
        residual = target == RESIDUAL and n_outputs == n_features
        matrix, name = None, validation.choice("target", target, (*TARGETS, RESIDUAL))
        if residual:
            name, linear = "relu", np.eye(n_features)
    elif isinstance(target, tuple) and len(target) in (2, 3) and isinstance(target[1], str):
        matrix, name, linear = (*target, None)[:3]
    if matrix is not None:
        validation.choice("target", name, TARGETS)
    shape = (n_outputs, n_features)
    A, B = (
        None
        if array is None
        else validation.real("target", validation.matrix("target", array, shape), -1e50, 1e50)
        for array in (matrix, linear)
    )
    if A is None:
        if n_outputs != n_features:
            rule = f"an array of shape ({n_outputs}, {n_features}) where outputs are not one for each feature"
            raise ValueError(f"`target` must be {rule}; got {name!r}.")
        A = np.eye(n_features)
    return A, name, B


def without_linear_pairs(model: Model) -> tuple[Model, FloatArray | None]:
    """Return (model without pairs of neurons that sum to a linear map, matrix of that map or None).

    Such a pair is ReLU(u x) and ReLU(-u x), read with v and -v: the sum is v u x. A network's residual path
    is written so.
    """
    if (model.hidden, model.output) != ("relu", "identity"):
        return model, None
    rows = {row.tobytes(): i for i, row in enumerate(model.W_in + 0.0) if model.b_in[i] == 0.0}
    is_kept, M = np.full(model.n_hidden, True), np.zeros((model.n_outputs, model.n_features))
    for i, row in enumerate(-model.W_in + 0.0):
        j = rows.get(row.tobytes(), i)
        free = i < j and is_kept[i] and is_kept[j] and model.b_in[i] == 0.0
        if free and np.array_equal(model.W_out[:, i], -model.W_out[:, j]):
            is_kept[[i, j]] = False
            M += np.outer(model.W_out[:, i], model.W_in[i])
    if is_kept.all():
        return model, None
    kept_or_first = is_kept if is_kept.any() else np.arange(is_kept.size) == 0
    W_out = model.W_out[:, kept_or_first] * is_kept[kept_or_first]
    return replace(model, W_in=model.W_in[kept_or_first], b_in=model.b_in[kept_or_first], W_out=W_out), M


def without_residual_path(model: Model, B: FloatArray | None) -> tuple[Model, FloatArray | None]:
    """Return (model without its residual path, B minus that path's matrix or None for 0), of the same loss.

    The path is the neurons that come in pairs whose sum is linear in x; targets are A f(x) + B x. The
    products of the path's neurons with all others need not be computed then.
    """
    model, skip = without_linear_pairs(model)
    return model, B if skip is None else (-skip if B is None else B - skip)


@dataclass(frozen=True)
class NetworkOutputs:
    """Losses (n_outputs,), which rounding may leave below 0, with their errors and derivatives."""

    losses: FloatArray
    errors: FloatArray
    mean_error: float
    """Error of the mean of importance times loss."""
    gradient: dict[str, FloatArray] | None
    """Derivatives of that mean by the names of the model's arrays; None if they were not requested."""
    gradient_error: float
    method: str


@result
class HiddenMeans:
    """Means of hidden neurons h_i = f(u_i x + b_i) and of their products, with errors."""

    mean: FloatArray
    """(n_hidden,): E h, for activations that are not negative the expected l1 norm of each."""
    active: FloatArray
    """(n_hidden,): P(h_i is on), its expected L0."""
    products: FloatArray
    """(n_hidden, n_hidden): E h h'."""
    by_targets: FloatArray
    """(n_hidden, n_features): E h_i f(x_j), f the function of the targets."""
    errors: FloatArray
    """(n_hidden, n_hidden): errors of `products`."""
    unit_errors: FloatArray
    """(n_hidden,): largest error of each neuron's `mean`, `active` and `by_targets`."""


def _context_and_neurons(
    model: Model, law: Law, name: str, tol: float, budget: float | None
) -> tuple[NeuronContext, list[HiddenNeuron]]:
    """Return (what the neurons of a model share: law, targets, tolerances; its hidden neurons).

    `name` is that of the targets' function f ("identity", "relu" or "abs"), `tol` the error of means to aim
    at, in units of the neurons' root mean squares, `budget` the most terms of sums in all, None for a
    default. ValueError if neurons are linear, the law is not covered or more terms than `budget` are needed.
    """
    if model.hidden == "identity":
        raise ValueError("`model` must have hidden neurons that bend: 'relu' or 'jumprelu'; got 'identity'.")
    require(law.values, "law", "transform")
    pairs = model.n_hidden * (model.n_hidden + 1) // 2
    most = budget / pairs if budget else max(WORK * model.n_outputs / pairs, PAIR)
    context = NeuronContext.of(law, name, tol, most)
    units = hidden_neurons(model, context)
    least = sum(least_terms(units[i], units[j]) for i in range(model.n_hidden) for j in range(i + 1))
    if budget is not None and least > budget:
        raise ValueError(f"`budget` must be at least {least:.3g} terms for this model; got {budget:g}.")
    return context, units


def hidden_neurons(model: Model, context: NeuronContext) -> list[HiddenNeuron]:
    """Return the hidden neurons of a model, for features in units of their scales, x_j / scale_j.

    The `context` has the law of the features, and how means over it are computed.
    """
    thresholds = np.zeros(model.n_hidden) if model.thresholds is None else model.thresholds
    rows = zip(model.W_in * context.law.scale, model.b_in, thresholds, strict=True)
    return [HiddenNeuron(context, w, float(b), float(t)) for w, b, t in rows]


def means_with_targets(model: Model, law: Law, name: str, tol: float) -> FloatArray:
    """Return E h_i f(x_j) of a model's hidden neurons h_i, (n_hidden, n_features).

    `name` is that of f; `tol` is the error to aim at, in units of the neurons' root mean squares.
    """
    _, units = _context_and_neurons(model, law, name, tol, None)
    return np.array(
        [unit_means(unit, 0.0, np.zeros(law.n), by_weights=False).by_targets * law.scale for unit in units]
    )


def hidden_means(
    model: Model, law: Law, name: str = "identity", tol: float = 1e-9, budget: float | None = None
) -> HiddenMeans:
    """Return means of a model's hidden neurons, of their products, and of their products with f(x_j).

    `name` is that of f: "identity", "relu" or "abs"; `tol` is the error of means to aim at, in units of the
    neurons' root mean squares, `budget` the most terms of sums in all, None for a default. ValueError if
    neurons are linear, the law is not covered, or the budget is too small.
    """
    context, units = _context_and_neurons(model, law, name, tol, budget)
    law = context.law
    count, n = model.n_hidden, law.n
    products, errors = np.zeros((2, count, count))
    by_targets = np.zeros((count, n))
    mean, active, unit_errors = np.zeros((3, count))
    for i, unit in enumerate(units):
        neuron_mean = unit_means(unit, 0.0, np.zeros(n), by_weights=False)
        mean[i], active[i], by_targets[i], unit_errors[i] = (
            neuron_mean.mean,
            neuron_mean.active,
            neuron_mean.by_targets * law.scale,
            max(neuron_mean.error, neuron_mean.active_error),
        )
        for j in range(i, count):
            pair = pair_means(unit, units[j], False)
            products[i, j] = products[j, i] = pair.value
            errors[i, j] = errors[j, i] = pair.largest_error
    return HiddenMeans(*map(frozen, (mean, active, products, by_targets, errors, unit_errors)))


class _Targets:
    """Targets A f(x) + B x in units of the values: their means, variances and covariances with features.

    A and B, None for 0, have the shape (n_outputs, n_features); `context` has the law and f.
    """

    def __init__(self, context: NeuronContext, A: FloatArray, B: FloatArray | None):
        law = context.law
        if B is not None and context.target == "identity":
            A, B = A + B, None
        self.A, self.B, self.context = A, B, context
        on = np.outer(law.p, law.p) if law.independent else law.features.pair_probability()
        first, second = float(law.values.moment(1)), float(law.values.moment(2))
        # Covariances of features, of functions of them, and of features with functions.
        self.spread, of_f, self.cross = (
            _covariance(on, law.p, *means)
            for means in (
                (first, first, second),
                (context.mean, context.mean, context.square),
                (first, context.mean, context.cross),
            )
        )
        self.mean = law.p * context.mean
        self.means, self.variances = A @ self.mean, np.sum(A @ of_f * A, axis=1)
        self.with_features = A @ self.cross.T  # covariances, (n_outputs, n_features)
        self.size = np.abs(A).sum(axis=1)
        if B is not None:
            self.means = self.means + B @ law.mean
            self.variances = self.variances + np.sum(B @ self.spread * B + 2.0 * B @ self.cross * A, axis=1)
            self.with_features = self.with_features + B @ self.spread
            self.size = self.size + np.abs(B).sum(axis=1)
        # What a target is off by if each of its terms is by 1, over what it is itself: as errors of many
        # terms may add up, each is to be the smaller.
        rms = np.sqrt(np.maximum(self.variances + self.means**2, 0.0))
        self.share = float(np.min(rms[rms > 0.0] / self.size[rms > 0.0], initial=1.0))

    def error_per_unit(self, g: FloatArray, g0: FloatArray) -> FloatArray:
        """Return (error of E h_i (g0_i + sum_k g_ik t_k)) / (error of the means of h_i), (n_hidden,).

        That is the largest error if E h_i, all E h_i f(x_j) and all E h_i x_j are off by at most 1, for the
        targets t_k = sum_j A_kj f(x_j) + B_kj x_j: the sum of |coefficients|. The loss has such terms, with g
        (n_hidden, n_outputs) and g0 (n_hidden,) from the output weights and biases.
        """
        size = np.abs(g0) + np.abs(g @ self.A).sum(axis=1)
        return np.asarray(size if self.B is None else size + np.abs(g @ self.B).sum(axis=1))

    def means_with(
        self, unit: HiddenNeuron, g0: float, w: FloatArray, by_weights: bool
    ) -> tuple[UnitMeans, FloatArray]:
        """Return (`UnitMeans` of the neuron h = `unit`; E h t, (n_outputs,)), t being the targets.

        Derivatives in the `UnitMeans`, by the neuron's weights and bias, are of E h (g0 + w t), a term of the
        loss; w is (n_outputs,). Those by weights may be nan unless `by_weights`.
        """
        means = unit_means(unit, g0, w @ self.A, self.share, by_weights)
        products = self.A @ means.by_targets
        if self.B is None:
            return means, products
        linear_neuron = HiddenNeuron(self.context.with_identity(), unit.w, unit.b, unit.t)
        linear_neuron.copy_cache_from(unit)
        other = unit_means(linear_neuron, 0.0, w @ self.B, self.share, by_weights)
        both = replace(
            means, by_b=means.by_b + other.by_b, flux=means.flux + other.flux, by_w=means.by_w + other.by_w,
            error=max(means.error, other.error), slope_error=max(means.slope_error, other.slope_error),
        )  # fmt: skip
        return both, products + self.B @ other.by_targets


def network_loss(problem: NetworkProblem, accuracy: Accuracy, gradient: bool) -> NetworkOutputs:
    """Return losses, errors and derivatives of a network whose hidden neurons are nonlinear.

    `problem` has the network, law and targets; `accuracy` is aimed at, and derivatives are set if `gradient`.
    Raises ValueError if the law is not covered, or if the budget is too small.
    """
    model, A, B = problem.model, problem.A, problem.B
    context, units = _context_and_neurons(model, problem.law, problem.function, accuracy.tol, accuracy.budget)
    law = context.law
    V, c, n, count = model.W_out, model.b, law.n, model.n_hidden
    weights = problem.importance / model.n_outputs
    goal = _Targets(context, A * law.scale, None if B is None else B * law.scale)
    target_squares = goal.variances + goal.means**2
    # The loss is the sum of K_ij H_ij and of E h_i g_i, g_i = g0_i + sum of g_ik t_k, and a constant.
    K = (V.T * weights) @ V
    g0, g = 2.0 * (V.T * weights) @ c, -2.0 * V.T * weights
    pairs = [(i, j) for i in range(count) for j in range(i, count)]
    watch = Stopwatch(len(pairs), count, limit=accuracy.time_limit)

    def of_pair(at: int) -> Any:
        """Return the `PairMeans` of pair number `at` of the hidden neurons."""
        i, j = pairs[at]
        return pair_means(units[i], units[j], gradient)

    def of_targets(i: int) -> tuple[UnitMeans, FloatArray]:
        """Return the means of hidden neuron i with its g0 + g t, and E h t, for the targets t."""
        return goal.means_with(units[i], float(g0[i]), g[i], gradient)

    pair_products = watch.parallel_map(0, of_pair, accuracy.workers)
    with_targets = watch.parallel_map(1, of_targets, accuracy.workers)
    single, T = [means for means, _ in with_targets], np.array([products for _, products in with_targets])
    H, H_errors, *changes = np.zeros((2 + CHANGES, count, count))
    for (i, j), pair in zip(pairs, pair_products, strict=True):
        H[i, j] = H[j, i] = pair.value
        H_errors[i, j] = H_errors[j, i] = pair.error
        for change, of_pair_alone in zip(changes, pair.changes, strict=True):
            change[i, j] = change[j, i] = of_pair_alone
    mean = np.array([means.mean for means in single])
    unit_errors = np.array([means.error for means in single])
    inside = np.einsum("ki,ij,kj->k", V, H, V)
    cross = np.einsum("ki,ik->k", V, T)
    shift = V @ mean
    losses = target_squares + inside + c**2 - 2.0 * cross + 2.0 * c * shift - 2.0 * c * goal.means
    sizes = target_squares + np.abs(inside) + c**2 + 2.0 * np.abs(cross) + 2.0 * np.abs(c * shift)
    size, far = np.abs(V), goal.size + np.abs(c)
    cut = _truncation_errors(V, changes)
    rounding = (32.0 + 4.0 * np.sqrt(n * count)) * 2.0**-53 * sizes
    errors = np.einsum("ki,ij,kj->k", size, H_errors, size) + 2.0 * (size @ unit_errors) * far
    errors += rounding + cut
    # The mean loss is off by less than its outputs are: a mean of hidden neurons has many signs in it.
    joint_change = np.max([abs(np.sum(K * change)) for change in changes])
    mean_error = float(
        np.sum(np.abs(K) * H_errors) + unit_errors @ goal.error_per_unit(g, g0) + weights @ rounding
    )
    mean_error += float(joint_change + 2.0 * _independent_change(K**2, changes))
    methods = ", ".join(sorted({means.method for means in (*pair_products, *single)}))
    if not gradient:
        return NetworkOutputs(losses, errors, mean_error, None, 0.0, methods)
    by_W, by_b_in, flux = np.zeros((count, n)), np.zeros(count), np.zeros(count)
    slope_error = 0.0
    for (i, j), pair in zip(pairs, pair_products, strict=True):
        share = K[i, j] if i == j else 2.0 * K[i, j]
        for unit, side in ((i, 0), (j, 1)):
            by_W[unit] += share * pair.by_w[side]
            by_b_in[unit] += share * pair.by_b[side]
            flux[unit] += share * pair.flux[side]
        slope_error += abs(share) * pair.slope_error
    for i, means in enumerate(single):
        by_W[i] += means.by_w
        by_b_in[i] += means.by_b
        flux[i] += means.flux
        slope_error += means.slope_error * (abs(g0[i]) + float(np.abs(g[i]) @ goal.size))
    by_out = 2.0 * weights[:, None] * (V @ H - T.T + np.outer(c, mean))
    by_b = 2.0 * weights * (c + shift - goal.means)
    # The readout's derivatives are off by what the means are; those of the first layer by what theirs are.
    output_errors = size @ (H_errors + np.abs(changes).max(axis=0)) + far[:, None] * unit_errors
    output_errors += _ROUNDING * (size @ np.abs(H) + np.abs(T.T) + np.abs(np.outer(c, mean)))
    of_b = size @ unit_errors + _ROUNDING * (
        np.abs(c) + size @ np.abs(mean) + goal.size * np.abs(goal.mean).max()
    )
    slope_error *= max(1.0, float(law.scale.max()))
    slope_error += 2.0 * float(np.max(weights * np.maximum(output_errors.max(axis=1), of_b)))
    by = {"W_in": by_W * law.scale, "b_in": by_b_in, "W_out": by_out, "b": by_b}
    if model.thresholds is not None:
        by["thresholds"] = -flux
    by = {key: frozen(means) for key, means in by.items()}
    return NetworkOutputs(losses, errors, mean_error, by, float(slope_error), methods)


def _truncation_errors(V: FloatArray, changes: list[FloatArray]) -> FloatArray:
    """Return the error of each output's loss, (n_outputs,), by cutting off the pairs' sums over frequencies.

    V is the decoder. Each of `changes`, (n_hidden, n_hidden), has estimates of the error of all pairs' means.
    The sum over pairs of the errors with their signs bounds what pairs have in common; the root of the sum of
    squares, twice, what differs from pair to pair.
    """
    joint_change = np.max([np.abs(np.einsum("ki,ij,kj->k", V, change, V)) for change in changes], axis=0)
    split_change = np.array([_independent_change(np.outer(v**2, v**2), changes) for v in V])
    return np.asarray(joint_change + 2.0 * split_change)


def _independent_change(squares: FloatArray, changes: list[FloatArray]) -> float:
    """Return the root of the sum of `squares` times squared errors over all pairs of neurons.

    Each of `changes`, (n_hidden, n_hidden), has estimates of the errors of E h_i h_j for all pairs; of each
    pair the largest counts. `squares` (n_hidden, n_hidden) are those of the pairs' coefficients in the loss.
    """
    of_pairs = np.max(np.square(changes), axis=0)
    of_pairs = 2.0 * of_pairs - np.diag(np.diag(of_pairs))  # a pair of two stands in the sum twice
    return float(np.sqrt(np.sum(squares * of_pairs)))


def linear_loss(problem: NetworkProblem, accuracy: Accuracy, gradient: bool) -> NetworkOutputs:
    """Return losses, errors and derivatives of y = M x + b with linear neurons, from second moments.

    `problem` has the model, law and targets; derivatives are set if `gradient`, and `accuracy` makes no
    difference.
    """
    law, model, A, B = problem.law, problem.model, problem.A, problem.B
    context = NeuronContext.of(law, problem.function, accuracy.tol, 1.0, False)
    weights = problem.importance / model.n_outputs
    M, b, mean = model.M * law.scale, model.bias, law.mean
    goal = _Targets(context, A * law.scale, None if B is None else B * law.scale)
    spread = goal.spread
    shift = goal.means - M @ mean - b
    parts = [goal.variances, np.sum(M @ spread * M, axis=1), -2.0 * np.sum(M * goal.with_features, axis=1)]
    losses = shift**2 + sum(parts)
    sizes = shift**2 + np.sum(np.abs(parts), axis=0)
    errors = (16.0 + 4.0 * np.sqrt(law.n)) * 2.0**-52 * sizes
    mean_error = float(weights @ errors)
    if not gradient:
        return NetworkOutputs(losses, errors, mean_error, None, 0.0, "second moments")
    by_b = -2.0 * weights * shift
    by_M = 2.0 * weights[:, None] * (M @ spread - goal.with_features - shift[:, None] * mean) * law.scale
    by_in, by_out = model.W_out.T @ by_M, by_M @ model.W_in.T + np.outer(by_b, model.b_in)
    by = {"W_in": by_in, "W_out": by_out, "b_in": model.W_out.T @ by_b, "b": by_b}
    far = max(1.0, float(np.abs(model.W_out).max()), float(np.abs(model.W_in).max()))
    error = 64.0 * 2.0**-52 * far * float(np.max(weights * (sizes + np.abs(shift) + 1.0), initial=0.0))
    by = {key: frozen(array) for key, array in by.items()}
    return NetworkOutputs(losses, errors, mean_error, by, error, "second moments")


def _covariance(on: FloatArray, p: FloatArray, first: float, second: float, both: float) -> FloatArray:
    """Return the covariances of f(x_i) and g(x_j), (n, n), for functions that are 0 where a feature is off.

    `first`, `second` and `both` are the means of f, g and f g of a feature that is on; `on` (n, n) are the
    probabilities that two features are on, p that one is.
    """
    covariance = first * second * (on - np.outer(p, p))
    np.fill_diagonal(covariance, p * both - p**2 * first * second)
    return np.asarray(covariance)


def importance_of(law: Law, n_outputs: int, name: str = "law") -> FloatArray:
    """Return the importance of each output: its feature's, or the common one of all features.

    ValueError, which calls the law `name`, if there are not as many outputs as features, and no common one.
    """
    importance: npt.NDArray[np.float64] = law.features.importance
    if n_outputs == importance.size:
        return importance
    if np.all(importance == importance[0]):
        return np.full(n_outputs, importance[0])
    rule = f"one importance for all where outputs are not one for each feature, but {n_outputs}"
    raise ValueError(f"`{name}` must have {rule}; got {validation.short_repr(importance)}.")

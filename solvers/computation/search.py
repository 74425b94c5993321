r"""Best networks of few features: descents on the exact loss with the readout always at its best.

At a given hidden layer the best readout solves linear equations in means of products. The loss at the best
readout is then a function of the hidden layer alone, and its gradient is that of the loss at this readout
(variable projection). A hidden bias of 0 is a kink: a neuron with bias below 0 is off where no feature is on.
Descents therefore run with biases held at 0 as well, and biases that end near 0 are set to it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from ...theory import validation
from ...theory.computation import fan_network, loss_lower_bound, target_moments
from ...theory.computation.lower_bound import TARGETS
from ...theory.computation.rare import best_single_neuron
from ...theory.features import Features
from ...theory.model import Model
from ...theory.validation import FloatArray
from ..loss.exact import evaluate, problem_of
from ..loss.network.assemble import hidden_means, means_with_targets
from ..loss.problem import Accuracy, law_of
from ..loss.result import Loss
from ..results import Status, result

__all__ = ["BestNetwork", "best_network", "best_readout", "network_loss"]

# Features up to which the means of two neurons' product are exact and take milliseconds.
_MOST = 5
# Hidden biases below this share of a neuron's largest weight are set to 0, where the loss has a kink.
_NEAR = 1e-2
# Eigenvalues of the neurons' covariance below this share of the largest are not inverted.
_CUT = 1e-11
# Losses that differ by less, relatively, count as the same end.
_SAME = 1e-6
# Neurons whose mean square is below this, in units of their weights' squares, are dead and are not read.
_DEAD = 1e-20
_EPS = (0.5, 0.1)  # of the fans among the starts


@result
class BestNetwork:
    """The best network found, and a lower bound for all networks; see `best_network`."""

    model: Model
    """The network."""
    loss: float
    """Its loss per feature: the mean over outputs of importance times the squared error."""
    error_estimate: float
    """Estimated error of the loss."""
    lower_bound: float
    """Lower bound of the loss of any n hidden functions: `theory.computation.loss_lower_bound`."""
    naive: float
    """The least loss of networks whose neurons serve one feature each, or none, at their best readout."""
    hits: int
    """Number of descents that ended at this loss."""
    starts: int
    """Number of descents."""
    gradient_norm: float
    """Largest derivative by a free weight of the hidden layer, in units of the mean variance of the targets.

    Biases of 0, where the loss has a kink, are not free. It is inf where a naive network was the best.
    """
    status: Status
    """CONVERGED if the gradient is as small as requested."""

    @property
    def gain(self) -> float:
        """1 - loss/naive, the share of the naive network's loss that this one saves; 0 if `naive` is 0."""
        return 1.0 - self.loss / self.naive if self.naive > 0.0 else 0.0


class Aim:
    """The loss of networks at one law of features, for targets f(x) + M x; arguments are not checked.

    `target` is the name of f, `mixing` M or None for 0; the readout has a bias if `bias`; `tol` is the
    relative error of the loss. U and b_in are the hidden layer ReLU(U x + b_in).
    """

    def __init__(self, law: Features, target: str, mixing: FloatArray | None, bias: bool, tol: float):
        self.law, self.target, self.mixing, self.bias = law, target, mixing, bias
        self.known_law, self.tol = law_of(law, law.n_features), tol
        self.moments = target_moments(law, target, mixing=mixing)

    def readout(self, U: FloatArray, b_in: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return V (n_features, n_hidden) and c of the readout V ReLU(U x + b_in) + c of least loss.

        If several have the least loss, V is the one of least norm.
        """
        F = self.law.n_features
        model = Model(U, b_in=b_in, hidden="relu", W_out=np.zeros((F, U.shape[0])), output="identity")
        means = hidden_means(model, self.known_law, self.target, self.tol)
        by_targets = means.by_targets
        if self.mixing is not None:
            also = means_with_targets(model, self.known_law, "identity", self.tol)
            by_targets = by_targets + also @ self.mixing.T
        H, T = means.products, by_targets
        if self.bias:
            H = H - np.outer(means.mean, means.mean)
            T = T - np.outer(means.mean, self.moments.mean)
        square = np.diag(means.products)
        live = square > _DEAD * ((U * self.law.scale) ** 2).sum(axis=1) + _DEAD * b_in**2
        V = np.zeros((F, U.shape[0]))
        if live.any():
            size = np.sqrt(square[live])
            values, vectors = np.linalg.eigh(H[np.ix_(live, live)] / np.outer(size, size))
            is_large = values > _CUT * max(values[-1], 1e-300)
            inverse = (vectors[:, is_large] / values[is_large]) @ vectors[:, is_large].T
            V[:, live] = (inverse @ (T[live] / size[:, None])).T / size
        return V, (self.moments.mean - V @ means.mean if self.bias else np.zeros(F))

    def loss(self, model: Model, gradient: bool = False) -> Loss:
        """Return the `Loss` of a network, its expected squared error from f(x) + M x for features x.

        f is this aim's `target` and M its `mixing`. `Loss` has derivatives by the weights if `gradient`.
        """
        target = self.target if self.mixing is None else (np.eye(len(self.mixing)), self.target, self.mixing)
        return evaluate(problem_of(model, self.known_law, None, target), Accuracy(self.tol), gradient)

    def network(self, U: FloatArray, b_in: FloatArray) -> Model:
        """Return the network V ReLU(U x + b_in) + c with the readout (V, c) of least loss, from `readout`.

        U is (n_hidden, n_features), b_in (n_hidden,).
        """
        V, c = self.readout(U, b_in)
        return Model(U, b_in=b_in, hidden="relu", W_out=V, b=c, output="identity")


def _checked_targets(law: Any, target: Any, mixing: Any) -> tuple[Features, str, FloatArray | None]:
    """Return (law, target, mixing), checked: the law, the name of f and M or None of targets f(x) + M x.

    ValueError unless they are a `Features`, a name in `TARGETS`, and a real (n, n) matrix or None.
    """
    features = validation.instance("law", law, Features)
    name = validation.choice("target", target, TARGETS)
    n = features.n_features
    if mixing is not None:
        mixing = validation.real("mixing", validation.matrix("mixing", mixing, (n, n)), -1e50, 1e50)
    return features, name, mixing


def network_loss(
    model: Model,
    law: Features,
    target: str = "relu",
    *,
    mixing: npt.ArrayLike | None = None,
    gradient: bool = False,
    tol: float = 1e-9,
) -> Loss:
    r"""Return the exact loss of a network with a linear readout for the targets f(x) + M x.

    Parameters
    ----------
    model : Model
        With hidden neurons "relu" and the output "identity", one output for each feature.
    law : Features
        Any law that `solvers.loss.evaluator` takes.
    target : {"relu", "abs", "identity"}, optional
        The function f.
    mixing : (n_features, n_features) array_like of float, optional
        M; the identity for x + ReLU(x), None for 0.
    gradient : bool, optional
        Whether to return the derivatives by W_in, b_in, W_out and b.
    tol : float, optional
        Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger.

    Returns
    -------
    Loss
        Its `estimate` says how its error is known.

    Examples
    --------
    >>> law = Features(2, 0.1, "symmetric")
    >>> one = Model([[1.0, 0.0]], hidden="relu", W_out=[[1.0], [0.0]], output="identity")
    >>> round(network_loss(one, law).loss, 12) == round(0.1 / 12, 12)
    True
    """
    law, name, M = _checked_targets(law, target, mixing)
    known = validation.instance("model", model, Model)
    if known.n_features != law.n_features or known.n_outputs != law.n_features:
        rule = f"{law.n_features} features and as many outputs"
        raise ValueError(f"`model` must have {rule}; got {known!r}.")
    if known.hidden == "identity":
        raise ValueError(f"`model` must have nonlinear hidden neurons; got {known!r}.")
    aim = Aim(law, name, M, True, validation.number("tol", tol, 0.0, 1.0, brackets="()"))
    return aim.loss(known, validation.flag("gradient", gradient))


def best_readout(
    W_in: npt.ArrayLike,
    b_in: npt.ArrayLike,
    law: Features,
    target: str = "relu",
    *,
    mixing: npt.ArrayLike | None = None,
    bias: bool = True,
) -> Model:
    """Return the network with these ReLU neurons and the linear readout of least loss.

    Parameters
    ----------
    W_in, b_in : (n_hidden, n_features) array_like of float, float or (n_hidden,) array_like
        The neurons.
    law : Features
        Law of the features x.
    target, mixing : {"relu", "abs", "identity"}, (n_features, n_features) array_like of float, optional
        f and M of the targets f(x) + M x; without `mixing` they are f(x). Errors are those of `network_loss`.
    bias : bool, optional
        Whether the readout has a bias.

    Returns
    -------
    Model
        Where neurons are linearly dependent, to eleven digits, the readout of least norm.

    Examples
    --------
    >>> law = Features(2, 0.1, "symmetric")
    >>> model = best_readout([[1.0, 0.0], [-1.0, 0.0]], 0.0, law, "abs")
    >>> model.W_out.round(9) + 0.0, model.b.round(9) + 0.0
    (array([[1., 1.],
           [0., 0.]]), array([0.  , 0.05]))
    """
    law, name, M = _checked_targets(law, target, mixing)
    U = validation.matrix("W_in", W_in, (None, law.n_features))
    size = float(np.abs(U).max())
    if 0.0 < size < 1e-90:
        raise ValueError(
            f"`W_in` must have a weight of at least 1e-90, or none; got {size:g} as the largest."
        )
    b = validation.numbers_or_repeat("b_in", b_in, U.shape[0])
    return Aim(law, name, M, validation.flag("bias", bias), 1e-12).network(U, b)


# --- The search ---------------------------------------------------------------------------------------------


def _naive_layers(aim: Aim, n: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield several layers (U, b_in) of n neurons that read one feature each, the most valuable ones first.

    The layers are ReLU(x_i); pairs ReLU(x_i), ReLU(-x_i); ReLU(x_i) beside a constant neuron; and ReLU(x_i +
    a) with two different a > 0. A feature's value is its importance times the variance of its target. If n
    exceeds the number of features, the remaining neurons are zero.
    """
    F = aim.law.n_features
    worth = aim.law.importance * aim.moments.covariance.diagonal()
    features = np.eye(F)[np.argsort(-worth, kind="stable")]
    pairs = np.repeat(features, 2, axis=0) * np.tile([1.0, -1.0], F)[:, None]
    scale = aim.law.scale.max()
    rows = np.vstack([features, np.zeros((max(n - F, 0), F))])[:n]
    yield rows, np.zeros(n)
    if n > 1:
        yield np.vstack([pairs, np.zeros((max(n - 2 * F, 0), F))])[:n], np.zeros(n)
        used = min(n - 1, F)
        alone = np.zeros((n, F))
        alone[:used] = features[:used]
        yield alone, np.eye(n)[used]
    yield rows, np.where(rows.any(axis=1), best_single_neuron()[0] * scale, 0.0)
    yield rows, np.where(rows.any(axis=1), scale, 0.0)  # these are linear


def _layers_to_start_from(
    aim: Aim, n: int, count: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield `count` layers (U, b_in) of n neurons to descend from: fans, then near naive ones, then random.

    In fans (`fan_network`) neurons are shared by features; in naive layers (`_naive_layers`) each serves one.
    """
    F = aim.law.n_features
    models = []
    for kind, least in (("abs", 3), ("mixed", 2)):
        if least <= n <= F:
            models += [(fan_network(F, n, target=kind, eps=eps)[0], np.zeros(n)) for eps in _EPS]
    models += [(U + 0.1 * rng.normal(size=U.shape), b) for U, b in _naive_layers(aim, n)]
    for k in range(count):
        if k < len(models):
            yield models[k]
        else:
            yield rng.normal(size=(n, F)), (k % 2) * 0.3 * rng.normal(size=n)


_LayerDescentResult = tuple[float, FloatArray, FloatArray, float]  # loss, hidden layer, largest derivative


def _unit_neurons(U: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return U and b with each neuron (U_k, b_k) divided by its length, or by 1e-12 if shorter."""
    size = np.maximum(np.sqrt((U**2).sum(axis=1) + b**2), 1e-12)
    return U / size[:, None], b / size


def _descend(
    aim: Aim, U: FloatArray, b: FloatArray, free: npt.NDArray[np.bool_], steps: int
) -> _LayerDescentResult:
    """Return (loss, U, b, largest derivative) at the end of a descent from the hidden layer ReLU(U x + b).

    The descent minimises the loss of `aim` at the best readout, in at most `steps` steps. `free`,
    (n_hidden,), marks the biases that may change. Neurons (U_k, b_k) of the result are scaled to length 1.
    The derivative is divided by the mean over features of importance times variance of the target.
    """
    n, F = U.shape

    def split(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (U, b) from the vector z of free parameters."""
        full = b.copy()
        full[free] = z[n * F :]
        return z[: n * F].reshape(n, F), full

    size = float(np.mean(aim.law.importance * aim.moments.covariance.diagonal()))

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss at the best readout and its derivatives by z, over the targets' mean variance."""
        model = aim.network(*split(z))
        loss_found = aim.loss(model, gradient=True)
        by = loss_found.gradient or {}
        return loss_found.loss / size, np.r_[by["W_in"].ravel(), by["b_in"][free]] / size

    end = minimize(
        value,
        np.r_[U.ravel(), b[free]],
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "ftol": 1e-14, "gtol": 1e-9},
    )
    U, b = _unit_neurons(*split(end.x))
    loss, slope = value(np.r_[U.ravel(), b[free]])
    return loss * size, U, b, float(np.abs(slope).max(initial=0.0))


def best_network(
    law: Features,
    n_hidden: int,
    target: str = "relu",
    *,
    mixing: npt.ArrayLike | None = None,
    bias: bool = True,
    starts: int = 12,
    steps: int = 200,
    rng: np.random.Generator | int | None = None,
) -> BestNetwork:
    r"""Return the network y = V ReLU(U x + beta) + c of least loss found by descents from many starts.

    Descents go over U and beta with V and c at their best. They start from naive networks that are moved a
    little, from fans, which compute targets as differences of shared neurons
    (`theory.computation.fan_network`), and from random ones; each runs with beta at 0 and then with beta
    free. What is found is an upper bound on the least loss; `lower_bound` is a lower one.

    Parameters
    ----------
    law : Features
        Law of at most 5 features.
    n_hidden : int
        Number of neurons, from 1 to 5.
    target, mixing : {"relu", "abs", "identity"}, (n_features, n_features) array_like of float, optional
        f and M of the targets f(x) + M x; without `mixing` they are f(x). Errors are those of `network_loss`.
    bias : bool, optional
        Whether the readout has a bias c.
    starts, steps, rng : int, int, Generator or int, optional
        Starts, steps of each descent at most, and what draws the starts.

    Returns
    -------
    BestNetwork
        The best of all ends and of the naive networks.

    Examples
    --------
    >>> found = best_network(Features(2, 0.2, "symmetric"), 1, starts=2, rng=0)
    >>> round(found.loss / found.lower_bound, 6), found.loss >= found.lower_bound * (1 - 1e-9)
    (1.0, True)
    """
    law, name, M = _checked_targets(law, target, mixing)
    F = law.n_features
    if F > _MOST:
        raise ValueError(f"`law` must be of at most {_MOST} features; got {F}.")
    n = validation.integer("n_hidden", n_hidden, 1, _MOST)
    count, most = validation.integers(starts=(starts, 1, 10_000), steps=(steps, 1))
    generator = validation.generator("rng", rng)
    aim = Aim(law, name, M, validation.flag("bias", bias), 1e-9)

    def surely(end: _LayerDescentResult) -> _LayerDescentResult:
        """Return the end with its error estimate added to its loss."""
        loss = aim.loss(aim.network(end[1], end[2]))
        return loss.loss + loss.error_estimate, *end[1:]

    ends = [surely((0.0, U, b, np.inf)) for U, b in _naive_layers(aim, n)]
    naive = min(end[0] for end in ends)
    done = []
    is_fixed = np.zeros(n, np.bool_)
    for U, b in _layers_to_start_from(aim, n, count, generator):
        first = _descend(aim, *_unit_neurons(U, b), is_fixed if not b.any() else ~is_fixed, most)
        near = np.abs(first[2]) < _NEAR
        second = _descend(aim, first[1], np.where(near, 0.0, first[2]), ~near, most)
        freed = second[2].copy()
        freed[near] = 0.05 * generator.normal(size=int(near.sum()))
        third = _descend(aim, second[1], freed, ~is_fixed, most)
        done.append(min(map(surely, (first, second, third)), key=lambda end: end[0]))
    # A descent that ends at a naive network's loss has a gradient to show for it.
    best = min([*done, *ends], key=lambda end: end[0] * (1 - _SAME * (end[3] < np.inf)))
    loss = aim.loss(model := aim.network(best[1], best[2]))
    return BestNetwork(
        model,
        loss.loss,
        loss.error_estimate,
        loss_lower_bound(law, n, name, mixing=M, bias=bias),
        naive,
        sum(end[0] <= best[0] * (1 + 2 * _SAME) for end in done),
        count,
        best[3],
        Status.CONVERGED if best[3] <= 1e-5 else Status.STEPS,
    )

"""Losses of networks beside the floor: closed forms, fans, searches, and fourth powers."""

import itertools
from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.optimize import minimize

from ....solvers.computation import best_network, best_power, best_readout, network_loss
from ....solvers.loss.methods.outputs import Law
from ....solvers.loss.network.assemble import hidden_means
from ....theory import validation
from ....theory.annotations import as_annotated
from ....theory.computation import equal_features_loss, fan_network, loss_floor, target_moments
from ....theory.features import Features, synchronous
from ....theory.model import Model
from ....theory.validation import FloatArray
from ...runner.declarations import from_rows

Size = Sequence[int]  # n_features and n_hidden
EPS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02)  # weights of fans of which the best is taken


@as_annotated
def run_unbiased(
    p: Sequence[float] = (1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
    per_neuron: Sequence[float] = (1.1, 1.5, 2.0, 4.0, 10.0),
    n_hidden: int = 50,
) -> xr.Dataset:
    """Compute what networks for ReLU(x) without output bias lose, in closed form, and the floor.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    per_neuron : sequence of float
        Features for each neuron, above 1; their number is rounded.
    n_hidden : int
        Number of neurons.

    Returns
    -------
    xarray.Dataset
        ``loss`` (p, per_neuron, network) per feature over p, of the networks of `equal_features_loss`.

    Examples
    --------
    >>> ds = run_unbiased([0.01], [2.0])
    >>> bool((ds["loss"] >= ds["loss"].sel(network="floor")).all())
    True
    """
    n = validation.integer("n_hidden", n_hidden, 1)
    ratio = validation.real("per_neuron", per_neuron, 1.0, 1e6)
    on = validation.probability("p", p)[:, None]
    names = ("floor", "unbiased", "readout", "constant")
    loss = [equal_features_loss(name, on, np.rint(ratio * n), n) / on for name in names]
    return xr.Dataset(
        {"loss": (("p", "per_neuron", "network"), np.stack(loss, axis=-1))},
        {"p": list(p), "per_neuron": list(per_neuron), "network": list(names)},
        {"n_hidden": n},
    )


@as_annotated
def run_fans(
    p: Sequence[float] = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3),
    sizes: Sequence[Size] = ((3, 3), (4, 3), (4, 4)),
    eps: Sequence[float] = EPS,
) -> xr.Dataset:
    r"""Compute what fans lose for \|x\| at their best readout, exactly, beside naive networks and the floor.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    sizes : sequence of (n_features, n_hidden)
        At most 5 features, and at least 3 neurons.
    eps : sequence of float
        Weights of the features that are computed in full, of which the best is taken.

    Returns
    -------
    xarray.Dataset
        ``floor``, ``naive`` and ``fan`` (size, p) per feature over p, ``error`` of the last, and ``eps``.

    Examples
    --------
    >>> ds = run_fans([0.01], [(3, 3)], [0.1])
    >>> bool(ds["fan"][0, 0] < 0.75 * ds["naive"][0, 0])
    True
    """
    rows = []
    for (F, n), q in itertools.product(sizes, p):
        best, error, small = _fan(F, n, q, eps)
        naive = min(float(equal_features_loss(name, q, F, n, target="abs")) for name in ("naive", "pairs"))
        floor = equal_features_loss("floor", q, F, n, target="abs")
        rows.append({"floor": floor / q, "naive": naive / q, "fan": best, "error": error, "eps": small})
    ds = from_rows(rows, size=len(sizes), p=list(p))
    F, n = np.array(sizes).T
    return ds.assign_coords(n_features=("size", F), n_hidden=("size", n))


def _fan(F: int, n: int, p: float, eps: Sequence[float] = EPS) -> tuple[float, float, float]:
    r"""Return the least loss over p of fans for \|x\|, its error, and the weight that has it."""
    law, found = Features(F, p, "symmetric"), []
    for small in eps:
        model = best_readout(fan_network(F, n, eps=small)[0], 0.0, law, "abs")
        loss = network_loss(model, law, "abs")
        found.append((loss.loss / p, loss.error_estimate / p, small))
    return min(found)


@as_annotated
def run_search(
    p: Sequence[float] = (0.01, 0.1, 0.5, 1.0),
    sizes: Sequence[Size] = ((2, 1), (3, 2)),
    *,
    starts: int = 4,
    steps: int = 60,
    seed: int = 0,
) -> xr.Dataset:
    r"""Search for the best networks, for ReLU(x) with and without output bias, and for \|x\|.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    sizes : sequence of (n_features, n_hidden)
        At most 5 of each.
    starts, steps : int
        As in `best_network`.
    seed : int
        Of the starts.

    Returns
    -------
    xarray.Dataset
        ``best``, ``floor``, ``naive`` (task, size, p) per feature over p, ``error`` of
        the first, and ``hits``.

    Examples
    --------
    >>> ds = run_search([0.5], [(2, 1)], starts=1, steps=20)
    >>> bool((ds["best"] >= ds["floor"] - ds["error"] - 1e-12).all())
    True
    """
    tasks = {"relu": ("relu", True), "relu without bias": ("relu", False), "abs": ("abs", True)}
    rows = []
    for (target, bias), (F, n), q in itertools.product(tasks.values(), sizes, p):
        law = Features(F, q, "symmetric")
        found = best_network(law, n, target, bias=bias, starts=starts, steps=steps, rng=seed)
        rows.append(
            {
                "best": found.loss / q,
                "floor": found.floor / q,
                "naive": found.naive / q,
                "error": found.error_estimate / q,
                "hits": found.hits,
            }
        )
    ds = from_rows(rows, task=list(tasks), size=len(sizes), p=list(p))
    F, n = np.array(sizes).T
    return ds.assign_coords(n_features=("size", F), n_hidden=("size", n)).assign_attrs(starts=starts)


# Tasks of the map: target, output bias, whether M = 1 is mixed in, whether features are on in pairs.
TASKS = {
    "relu": ("relu", True, False, False),
    "relu without bias": ("relu", False, False, False),
    "relu, on in pairs": ("relu", True, False, True),
    "x + relu": ("relu", True, True, False),
    "abs": ("abs", True, False, False),
}
_MOST_SHARED = 3  # features of a neuron: so many, with their targets, are exact integrals


def _envelope(neurons: FloatArray, loss: FloatArray, at: FloatArray) -> FloatArray:
    """Return the lower convex envelope of losses per feature against neurons per feature, at some places.

    A network of disjoint parts has the mean of the parts' losses, so any convex combination is attained by
    enough features. It is the largest of the lines below all points: those through two of them. More neurons
    than any part has are left idle.
    """
    found, at = np.full(at.shape, -np.inf), np.minimum(at, neurons.max())
    for i, j in itertools.combinations(range(neurons.size), 2):
        if neurons[i] != neurons[j]:
            slope = (loss[j] - loss[i]) / (neurons[j] - neurons[i])
            line = loss[i] - slope * neurons[i]
            if np.all(line + slope * neurons <= loss + 1e-12 * loss.max()):
                found = np.maximum(found, line + slope * at)
    return found


def _places(F: int, n: int, p: float, task: str, starts: int, steps: int, seed: int) -> dict[str, float]:
    """Return the best network found for a few features, beside the naive one, over p."""
    target, bias, mixed, pairs = TASKS[task]
    law = _law(F, p, pairs)
    mixing = np.eye(F) if mixed else None
    found = best_network(law, n, target, mixing=mixing, bias=bias, starts=starts, steps=steps, rng=seed)
    names = {"best": found.loss, "naive": found.naive, "floor": found.floor, "error": found.error_estimate}
    return {name: value / p for name, value in names.items()}


def _shared(g: int, n: int, p: float) -> float:
    """Return the least loss over p of n neurons alike, each of g features of its own, all read together.

    Without output bias. A neuron is ReLU(x_1 + k (x_2 + ... + x_g) + beta) of its features; outputs read
    their own neuron and the sum of all others, which knows the mean.
    """
    law = Features(g, p, "symmetric")
    known, moments = Law(law), target_moments(law)

    def loss(z: FloatArray) -> float:
        W_in = np.r_[1.0, np.full(g - 1, z[0])][None]
        model = Model(W_in, z[1], "relu", np.zeros((g, 1)), output="identity")
        found = hidden_means(model, known, "relu", 1e-10)
        m = float(found.mean[0])
        b = np.stack([found.by_targets[0], (n - 1) * m * moments.mean])
        explained = _explained(n, float(found.products[0, 0]), m * m, b)
        return float(np.mean(moments.second.diagonal() - explained))

    starts = itertools.product((0.05, 0.4), (0.0, 0.2))
    return min(minimize(loss, z, method="Nelder-Mead", options={"maxiter": 60}).fun for z in starts) / p


def _explained(n: int, own: float, other: float, b: FloatArray) -> FloatArray:
    """Return what the best readout of a neuron and the sum of the n - 1 others takes off a mean square.

    They are n neurons alike, with the mean square `own` and the mean product `other`; b are the means of the
    targets' products with the neuron and with the sum.
    """
    r = n - 1
    A = np.array([[own, r * other], [r * other, r * (own + (r - 1) * other)]])
    return np.asarray(np.sum(b * np.linalg.lstsq(A, b)[0], axis=0))


def spread(F: int, n: int, p: float, tries: int) -> tuple[float, FloatArray]:
    """Return the least loss over p of n neurons alike that receive all features, and two of their weights.

    Without biases. Neuron i has the weight 1 of feature i, one weight of the features of other neurons, and
    one of those that have no neuron.
    """
    known = Law(Features(F, p, "symmetric"))

    def loss(z: FloatArray) -> float:
        W_in = np.full((2, F), z[0])
        W_in[:, n:] = z[1]
        np.fill_diagonal(W_in, 1.0)
        model = Model(W_in, hidden="relu", W_out=np.zeros((F, 2)), output="identity")
        found = hidden_means(model, known, "relu", 1e-6)
        (own, other), by = found.products[0], found.by_targets[0]
        b = np.array([[by[0], by[-1]], [(n - 1) * by[1], (n - 1) * by[-1]]])
        explained = _explained(n, own, other, b)
        return float(p / 6 - (n * explained[0] + (F - n) * explained[1]) / F)

    simplex = np.array([[0.0, 0.0], [-0.02, 0.0], [0.0, 0.02]])
    end = minimize(
        loss,
        simplex[0],
        method="Nelder-Mead",
        options={"maxfev": tries, "initial_simplex": simplex, "xatol": 1e-5, "fatol": 1e-8 * p},
    )
    return float(end.fun) / p, end.x


def _law(F: int, p: float, pairs: bool) -> Features:
    groups = [synchronous([k, k + 1], p) for k in range(0, F, 2)] if pairs else []
    return Features(F, p, "symmetric", groups=groups)


@as_annotated
def run_map(
    p: Sequence[float] = (1e-3, 0.01, 0.1, 0.3, 1.0),
    per_neuron: Sequence[float] = (1.0, 4 / 3, 1.5, 2.0, 3.0, 5.0),
    sizes: Sequence[Size] = ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3)),
    *,
    starts: int = 3,
    steps: int = 60,
    n_hidden: int = 60,
    tries: int = 0,
    fans: Sequence[Size] = (),
    tasks: Sequence[str] = tuple(TASKS),
    seed: int = 0,
) -> xr.Dataset:
    r"""Compute what the best known networks lose over (p, features for each neuron), by task.

    Networks of a few features are searched, and joined to networks of any size: of disjoint parts, some of
    them features without a neuron, in the shares that are best. Without output bias the closed forms of
    `equal_features_loss` for `n_hidden` neurons take part, and as many neurons alike that are read together:
    of a few features each, or of all.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    per_neuron : sequence of float
        Features for each neuron, at least 1.
    sizes : sequence of (n_features, n_hidden)
        Of the parts, at most 5; where features are on in pairs those of an even number of features.
    starts, steps : int
        As in `best_network`.
    n_hidden : int
        Number of neurons in the closed forms, and of those that are alike.
    tries : int
        Losses, of a tenth of a second, that a search for neurons of all features takes; 0 for none.
    fans : sequence of (n_features, n_hidden)
        Further parts, for \|x\|: fans (`run_fans`), which are not searched.
    tasks : sequence of str
        Names in `TASKS`.
    seed : int
        Of the starts.

    Returns
    -------
    xarray.Dataset
        ``best``, ``floor``, ``naive`` and ``error`` (task, p, per_neuron), per feature over p. The naive
        network's neurons serve one feature each, at their best readout; without output bias it drops what it
        does not compute. ``excess`` (task, p) is the least loss of a part above its floor, and its error.

    Examples
    --------
    >>> ds = run_map([0.1], [2.0], [(1, 1), (2, 1)], starts=1, steps=10)
    >>> bool((ds["best"] <= ds["naive"] * (1 + 1e-9)).all())
    True
    """
    ratio = validation.real("per_neuron", per_neuron, 1.0, 1e6)
    on = validation.probability("p", p)
    n = validation.integer("n_hidden", n_hidden, 1)
    at, rows, excess = 1 / ratio, [], []
    names = validation.choices("tasks", tasks, tuple(TASKS))
    for task, q in itertools.product(names, map(float, on)):
        target, bias, mixed, pairs = TASKS[task]
        fits = [(F, m) for F, m in sizes if not (pairs and F % 2)]
        parts = [_places(F, m, q, task, starts, steps, seed) for F, m in fits]
        few = _law(2, q, pairs)
        mixing = np.eye(2) if mixed else None
        own = [loss_floor(few, m, target, mixing=mixing) / q for m in (0, 1, 2)]
        dropped = target_moments(few, target, mixing=mixing).second[0, 0] / q if not bias else own[0]
        neurons = np.r_[0.0, [m / F for F, m in fits]]
        best = np.r_[dropped, [one["best"] for one in parts]]
        if target == "abs":
            best = np.r_[best, [_fan(F, m, q)[0] for F, m in fans]]
            neurons = np.r_[neurons, [m / F for F, m in fans]]
        if not bias:
            alike = [g for g in range(2, _MOST_SHARED + 1) if g <= ratio.max()]
            best = np.r_[best, [_shared(g, n, q) for g in alike]]
            neurons = np.r_[neurons, [1 / g for g in alike]]
        found = {"best": _envelope(neurons, best, at)}
        if bias:
            alone = np.r_[dropped, [one["naive"] for one in parts]]
            found["naive"] = _envelope(neurons[: alone.size], alone, at)
        else:
            F = np.rint(ratio * n)
            found["naive"] = np.array([float(equal_features_loss("unbiased", q, k, n)) / q for k in F])
            closed = [
                [float(equal_features_loss(name, q, k, n)) / q for k in F] for name in ("readout", "constant")
            ]
            if tries:
                closed.append([spread(int(k), n, q, tries)[0] if k > n else np.inf for k in F])
            found["best"] = np.minimum(found["best"], np.min(closed, axis=0))
        found["floor"] = np.interp(at, [0.0, 0.5, 1.0], own)
        found["error"] = np.full(at.shape, max(one["error"] for one in parts))
        rows.append({name: ("per_neuron", one) for name, one in found.items()})
        over = min(one["best"] - one["floor"] + one["error"] for one in parts)
        excess.append({"excess": over})
    along = {"task": list(names), "p": list(p)}
    ds = from_rows(rows, **along).merge(from_rows(excess, **along))
    largest = max(F for F, _ in [*sizes, *fans])
    return ds.assign_coords(per_neuron=list(per_neuron)).assign_attrs(
        starts=starts, n_hidden=n, largest=largest
    )


@as_annotated
def run_powers(
    p: Sequence[float] = (1e-3, 1e-2, 0.1, 1.0),
    powers: Sequence[int] = (2, 4),
    *,
    starts: int = 1,
    seed: int = 0,
) -> xr.Dataset:
    """Search for the best neuron for two features ReLU(x), for the mean square and for a higher power.

    Parameters
    ----------
    p : sequence of float
        Probabilities that a feature is on, in (0, 1].
    powers : sequence of int
        Even powers of the error.
    starts : int
        Random starts of each search.
    seed : int
        Of the starts.

    Returns
    -------
    xarray.Dataset
        ``best`` and ``naive`` (power, p), per feature over p, and ``weight``, the smaller of the neuron's two
        weights over the larger.

    Examples
    --------
    >>> ds = run_powers([0.1], [2, 4], starts=0)
    >>> (ds["best"] / ds["naive"]).round(2).values.ravel().tolist()
    [1.0, 0.57]
    """
    rows = []
    for power, q in itertools.product(powers, p):
        found = best_power(q, power=power, starts=starts, rng=seed)
        low, high = np.sort(np.abs(found.model.W_in[0]))
        rows.append({"best": found.loss / q, "naive": found.naive / q, "weight": low / high})
    return from_rows(rows, power=list(powers), p=list(p))


# Places of the trained networks: target, output bias, n_features, n_hidden and p.
PLACES = (
    ("relu", True, 3, 2, 0.1),
    ("relu", False, 3, 2, 0.1),
    ("relu", False, 2, 1, 1.0),
    ("abs", True, 3, 3, 0.01),
)


def _trained(place: tuple[str, bool, int, int, float], seed: int, steps: int) -> dict[str, float]:
    """Train one network and return where it ended."""
    target, bias, F, n, p = place
    law, rng = Features(F, p, "symmetric"), np.random.default_rng([seed, F, n])
    sizes = ((n, F), (n,), (F, n), (F if bias else 0,))
    ends = np.cumsum([int(np.prod(size)) for size in sizes])[:-1]
    scale = float(target_moments(law, target).second.diagonal().mean())

    def model(z: FloatArray) -> Model:
        U, b, V, c = (part.reshape(size) for part, size in zip(np.split(z, ends), sizes, strict=True))
        return Model(U, b_in=b, hidden="relu", W_out=V, b=c if bias else 0.0, output="identity")

    def value(z: FloatArray) -> tuple[float, FloatArray]:
        found = network_loss(model(z), law, target, gradient=True)
        by = found.gradient or {}
        names = ("W_in", "b_in", "W_out", "b")[: 4 if bias else 3]
        return found.loss / scale, np.concatenate([by[name].ravel() for name in names]) / scale

    wide = [np.sqrt(6 / F), 0.01, np.sqrt(6 / n), 0.01]
    z = np.concatenate([w * rng.uniform(-1, 1, size).ravel() for w, size in zip(wide, sizes, strict=True)])
    end = minimize(
        value,
        z,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 4 * steps, "ftol": 1e-15, "gtol": 1e-9},
    )
    made = model(end.x)
    found = network_loss(made, law, target)
    return {
        "loss": found.loss / p,
        "error": found.error_estimate / p,
        "gradient": float(np.abs(end.jac).max()),
        "dead": int((made.b_in + np.abs(made.W_in).sum(axis=1) <= 0).sum()),
    }


@as_annotated
def run_trained(
    places: Sequence[tuple[str, bool, int, int, float]] = PLACES,
    *,
    seeds: Sequence[int] = range(20),
    steps: int = 2000,
) -> xr.Dataset:
    """Train all weights and biases by the exact gradient until it vanishes, from the usual random weights.

    Weights begin uniform with the variance 2 over a neuron's inputs (Kaiming), biases at 0 but for
    noise of a hundredth, as a hidden bias of 0 is a kink. Steps are those of L-BFGS.

    Parameters
    ----------
    places : sequence of (target, bias, n_features, n_hidden, p)
        At most 5 features.
    seeds : sequence of int
    steps : int
        At most; a run ends before where the gradient is 1e-9 of the mean square of the targets.

    Returns
    -------
    xarray.Dataset
        ``loss`` (place, seed), ``error``, ``gradient``, ``dead`` (neurons that no input turns on), and by
        place ``floor`` and ``naive``, per feature over p.

    Examples
    --------
    >>> ds = run_trained([("relu", True, 2, 1, 0.5)], seeds=[0], steps=100)
    >>> bool((ds["loss"] >= ds["floor"] - ds["error"]).all())
    True
    """
    known, rows = [], [_trained(place, seed, steps) for place, seed in itertools.product(places, seeds)]
    for target, bias, F, n, p in places:
        law = Features(F, p, "symmetric")
        naive = best_network(law, n, target, bias=bias, starts=1, steps=1, rng=0).naive
        known.append({"floor": loss_floor(law, n, target, bias=bias) / p, "naive": naive / p})
    ds = from_rows(rows, place=len(places), seed=list(seeds))
    ds = ds.merge(from_rows(known, place=len(places)))
    names = [f"{t}{'' if bias else ' without bias'}, {F} on {n}, p = {p:g}" for t, bias, F, n, p in places]
    return ds.assign_coords(name=("place", names))

"""How often a hidden neuron is on, given which features are: for one feature, for pairs, for every pattern."""

from typing import NamedTuple

import numpy as np

from ....theory.arguments import FloatArray
from ....theory.kernels import kernel
from .boxes import by_patterns
from .layer import _FALL, MOST, Setting, Unit, _none_and_one
from .table import Table

__all__ = ["Firing", "firing", "on_in_patterns"]


class Firing(NamedTuple):
    """Probabilities that a neuron is on."""

    active: float
    given: FloatArray
    """(n,): given that feature j is on."""
    given_pairs: FloatArray
    """(n, n): given that j and k are on; the diagonal is `given`."""
    error: float


@kernel
def _row_by_row(
    table: Table,
    spans: FloatArray,
    atoms: FloatArray,
    on: FloatArray,
    w: FloatArray,
    b: FloatArray,
    t: FloatArray,
    spherical: bool,
    out: FloatArray,
) -> None:
    quiet, chance = np.full(w.shape[1], np.nan), np.ones(1)
    found, by_w = np.zeros(5), np.zeros(w.shape)
    for r in range(out.size):
        found[:] = 0.0
        row = on[r : r + 1].copy()
        by_patterns(table, spans, atoms, row, chance, w, b, t, False, quiet, spherical, found, by_w)
        out[r] = found[1] - found[3]


def on_in_patterns(unit: Unit, on: FloatArray) -> FloatArray:
    """Return the probability that a neuron is on in each pattern (r, n) of features, few of them heard."""
    setting, heard = unit.setting, unit.heard
    w = np.zeros((2, heard.size))
    w[0] = unit.w[heard]
    out = np.zeros(len(on))
    spherical = setting.law.values == "normal"
    rows = np.ascontiguousarray(on[:, heard], np.float64)
    _row_by_row(
        setting.table, setting.spans, setting.atoms, rows, w, np.array([unit.b, 1.0]), np.array([unit.t, 0.0]),
        spherical, out,
    )  # fmt: skip
    return out


def firing(unit: Unit, pairs: bool = False) -> Firing:
    """Return how often a neuron is on; with `pairs` also given that two features are.

    Patterns in which at most one feature, or the pair alone, is heard are exact; for the others the transforms of
    the features are summed over a lattice of frequencies. Features must be independent.
    """
    setting, heard, p = unit.setting, unit.heard, unit.p
    n, count = setting.law.n, heard.size
    i, k = np.triu_indices(count, 1)
    alone = np.concatenate([np.zeros((1, n)), np.eye(n)[heard]])
    two = np.zeros((i.size if pairs else 0, n))
    if pairs:
        two[np.arange(i.size), heard[i]] = two[np.arange(i.size), heard[k]] = 1.0
    exact = on_in_patterns(unit, np.concatenate([alone, two]))
    off = 1.0 - p
    none, ones = _none_and_one(p)
    others = np.array([np.prod(np.delete(off, j)) for j in range(count)])
    both = np.outer(others, 1.0 / np.where(off > 0.0, off, 1.0)) if np.all(off > 0.0) else _without_two(off)
    active, given = none * exact[0] + float(ones @ exact[1 : count + 1]), others * exact[1 : count + 1]
    given_pairs = np.zeros((count, count))
    if pairs:
        given_pairs[i, k] = given_pairs[k, i] = both[i, k] * exact[count + 1 :]
    error, size = 0.0, 32
    if count >= 2:
        before = last = np.full(1 + count, np.inf)
        while True:
            s, phi = unit.frequencies(size)
            # The step's transform is 1/s, where an activation's is 1/s^2 + t/s.
            step = unit.weight(s) / (1.0 / s**2 + unit.t / s) / s * np.where(np.arange(size) == 0, 1.0, 2.0)
            factors = off[:, None] + p[:, None] * phi[0]
            factors = np.where(factors == 0.0, 1e-200, factors)
            whole = np.prod(factors, axis=0)
            rest = whole - none - ones @ phi[0]
            by_one = phi[0] * (whole / factors - others[:, None])
            now = np.r_[np.sum(step * rest).real, np.sum((step * by_one).real, axis=1)]
            change, last = np.maximum(np.abs(now - before), last / _FALL), np.abs(now - before)
            if change.max() <= setting.tol or size >= MOST:
                break
            before, size = now, 2 * size
        active, given = active + now[0], given + now[1:]
        if pairs:
            share = phi[0] / factors
            joint = ((step * whole) * share) @ share.T - both * ((step * phi[0]) @ phi[0].T)
            given_pairs += joint.real
        error = float(change.max())
    found = np.full(n, active)
    found[heard] = given
    every = np.broadcast_to(found, (n, n)).copy()  # a feature that is not heard tells nothing
    every[heard] = given[:, None]
    every[:, heard] = np.where(np.isin(np.arange(n), heard)[:, None], every[:, heard], given)
    if pairs:
        every[np.ix_(heard, heard)] = given_pairs
    np.fill_diagonal(every, found)
    return Firing(float(active), found, every, error + 2.0**-44)


def _without_two(off: FloatArray) -> FloatArray:
    return np.array([[np.prod(np.delete(off, [j, k])) for k in range(off.size)] for j in range(off.size)])

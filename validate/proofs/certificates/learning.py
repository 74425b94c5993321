"""Maker of the certificates for `check_learning.py`: local learning coefficients of minima."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ....solvers.minimise import learning, learning_coefficient
from ....theory.annotations import as_annotated
from ....theory.features import as_features
from .check_learning import KIND, Rejected
from .make import save

__all__ = ["learning_certificate"]

# Digits of the minimum, of the sides of the box around it, and of the numbers that are written.
_MINIMUM, _RADIUS, _DECIMALS = 75, 60, 80


@as_annotated
def learning_certificate(
    W_out: npt.ArrayLike,
    W_in: npt.ArrayLike,
    b: npt.ArrayLike,
    law: Any,
    *,
    path: str | Path,
    tied: bool | None = None,
) -> Fraction:
    """Write a certificate of the local learning coefficient of a minimum, and return the coefficient.

    Parameters
    ----------
    W_out, W_in, b : (n_features, n_hidden), (n_hidden, n_features), (n_features,) array_like of float
        A model ReLU(W_out W_in x + b) at or near a minimum, for which both bounds of
        `solvers.minimise.learning_coefficient` must be equal.
    law : float or Features
        Features uniform on [0, 1] or [-1, 1], independent or exactly one on. Probabilities and importances
        are the decimal fractions that are printed.
    path : path
        The JSON file.
    tied : bool, optional
        Whether the parameters are W = W_out and b alone. By default, whether W_out is W_in transposed.

    Returns
    -------
    Fraction
        The coefficient of a minimum within 1e-60 of the parameters in the file, with multiplicity 1.

    Examples
    --------
    >>> import tempfile
    >>> from superposition.solvers.minimise import minimise
    >>> from superposition.validate.proofs.certificates import check
    >>> pair = minimise(2, 1, 0.3, starts=4, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learning_certificate(pair.W_out, pair.W_in, pair.b, 0.3, path=folder + "/pair.json")
    ...     check(folder + "/pair.json").accepted
    Fraction(2, 1)
    True
    """
    coefficient = learning_coefficient(W_out, W_in, b, law, tied=tied)
    W_out, W_in, b = (np.asarray(x, float) for x in (W_out, W_in, b))
    n, m = W_out.shape
    features = as_features(law, n)
    if not (learning.has_all_digits(features) and features.values.sides in (1, 2)):
        rule = "of features uniform on [0, 1] or [-1, 1], independent or one at a time"
        raise ValueError(f"`law` must be {rule}; got {features!r}.")
    if np.isnan(coefficient.value):
        rule, got = "of a minimum whose coefficient is known", str(coefficient).rstrip(".")
        raise ValueError(f"`W_out` must be {rule}; got {got}.")
    of = learning.ParameterMap(n, m, np.array_equal(W_out, W_in.T) if tied is None else tied)
    start = of.vector(W_out, W_in, b)
    at, problem = learning.polished(of, start, features, _MINIMUM)
    if problem:
        raise ValueError(f"`W_out` must be of a minimum that is found to {_MINIMUM} digits; {problem}")
    near = at.astype(float)
    fixed = learning.fixed_parameters(of, near, features)
    moving = np.setdiff1d(np.arange(of.size), fixed)
    least = np.linalg.eigvalsh(learning.hessian_at(of, near, features)[np.ix_(moving, moving)])[0]
    value = Fraction(coefficient.codimension, 2)
    statement = {
        "kind": KIND,
        "coefficient": value,
        "codimension": coefficient.codimension,
        "importance": [Fraction(repr(float(x))) for x in features.importance],
        "low": str(int(features.values.support[0])),
        "n_features": n,
        "n_hidden": m,
        "one_at_a_time": features.exactly == 1,
        "p": learning.chances(features),
        "parameters": [_rounded(x) for x in at],
        "radius": Fraction(1, 10**_RADIUS),
        "tied": of.tied,
    }
    proof = {"fixed": fixed.tolist(), "mu": Fraction(repr(float(f"{least / 2:.1g}")))}
    try:
        save(path, "learning_certificate", statement, proof)
    except Rejected as error:
        raise ValueError(f"`W_out` must be of a minimum that the checker accepts; {error}.") from error
    return value


def _rounded(x: Decimal) -> Fraction:
    """Return a number as a fraction, rounded to the 80 decimals that certificates have."""
    return Fraction(round(Fraction(x) * 10**_DECIMALS), 10**_DECIMALS)

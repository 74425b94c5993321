"""Maker of the certificates for `check_network.py`: the least loss of networks with a hidden layer."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from ....theory import validation
from ....theory.annotations import as_annotated
from .check_network import KIND, MOST_FEATURES, TARGETS, Rejected, loss, variance
from .make import probability, save

__all__ = ["network_certificate"]


@as_annotated
def network_certificate(
    n_features: int,
    n_hidden: int,
    p: Any,
    *,
    path: str | Path,
    target: str = "relu",
    output_bias: bool = True,
) -> tuple[Fraction, Fraction]:
    r"""Write a certificate on the least loss of :math:`V\,\mathrm{ReLU}(U x + \beta) + c`; return its bounds.

    Features are independent, on with probability p, then uniform on [-1, 1]. Losses are sums over outputs.
    The lower bound is :math:`(F - n)\,\mathrm{Var}\,t` for F targets t. It holds for every linear readout of
    any n functions of the features (`theory.computation.loss_lower_bound`). The upper bound is the loss of
    the naive network, whose neurons compute as many targets as they can. Its other outputs are constant, at
    their targets' mean; without output bias they are the best multiples of the sum of the computed targets
    instead.

    Parameters
    ----------
    n_features, n_hidden : int
        F and n, with n < F <= 10.
    p : number, Fraction or text
    path : path
        The JSON file.
    target : {"relu", "abs"}, optional
        ReLU(x), which takes a neuron, or \|x\|, which takes two.
    output_bias : bool, optional
        Whether c may differ from 0.

    Returns
    -------
    tuple of Fraction
        A lower bound for all networks, and the loss of one. With output bias they are equal for "relu".

    Examples
    --------
    >>> import tempfile
    >>> from superposition.validate.proofs.certificates import check
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     network_certificate(2, 1, "1/10", path=folder + "/two.json")
    ...     check(folder + "/two.json").accepted
    (Fraction(77, 4800), Fraction(77, 4800))
    True
    """
    F = validation.integer("n_features", n_features, 2, MOST_FEATURES)
    n = validation.integer("n_hidden", n_hidden, 1, F - 1)
    chance, name = probability(p), validation.choice("target", target, tuple(TARGETS))
    U, V = ([[Fraction(0)] * n_columns for _ in range(n_rows)] for n_rows, n_columns in ((n, F), (F, n)))
    per_target = 2 if name == "abs" else 1
    for i in range(n):
        U[i][i // per_target] = Fraction((-1) ** (i % per_target))
        V[i // per_target][i] = Fraction(1)
    mean = chance / (2 if name == "abs" else 4)
    # The weight at which a dropped target is read from the targets that are kept whole (`derive_readout`).
    n_whole = n // per_target
    read = Fraction(0) if output_bias else mean**2 / (variance(chance, name) + n_whole * mean**2)
    for k in range(-(-n // per_target), F):
        V[k] = [read if i < n_whole * per_target else Fraction(0) for i in range(n)]
    c = [mean - sum(row, Fraction(0)) * chance / 4 if output_bias else Fraction(0) for row in V]
    beta = [Fraction(0)] * n
    lower, upper = (F - n) * variance(chance, name), loss(U, beta, V, c, chance, name)
    statement = {
        "kind": KIND,
        "lower": lower,
        "n_features": F,
        "n_hidden": n,
        "output_bias": output_bias,
        "p": chance,
        "target": name,
        "upper": upper,
    }
    try:
        save(path, "network_certificate", statement, {"U": U, "V": V, "beta": beta, "c": c})
    except Rejected as error:
        raise ValueError(f"`p` must be short enough for what is checked; {error}.") from error
    return lower, upper

"""The stored table of codes along p against what is solved at values of p that it does not have."""

import numpy as np
import pytest
from scipy import optimize

from superposition.solvers import codes
from superposition.solvers.loss import row_loss
from superposition.theory.codes import CODES, overlaps
from superposition.validate.experiments.codes import known_blocks, known_envelope

# Fixed before the table was made.
ERROR = 1e-5


def off(p, name):
    """Return by how much the stored loss is off the lesser of `blocks` and a descent by another method."""
    (block,) = [one for (one,) in known_blocks(p) if one.name == name]
    name = name.removesuffix(" shifted")
    code = overlaps(name)

    def loss(x):
        a, shift = np.exp(x[0]), x[2] if block.shifted else 0.0
        row = a * (code.row() - shift) / (1.0 - shift)
        row[np.abs(row) < 1e-14] = 0.0
        return np.log(row_loss(row, 0, a * x[1], p, tol=1e-12).loss)

    x = np.array([np.log(block.a), block.b / block.a, block.shift][: 2 + block.shifted])
    step = min(p, 0.01)
    corners = np.vstack([x, x + step * np.eye(x.size)])
    how = {"initial_simplex": corners, "xatol": 1e-2 * step, "fatol": 1e-9, "maxiter": 300}
    ended = float(np.exp(optimize.minimize(loss, x, method="Nelder-Mead", options=how).fun))
    return block.loss / min(ended, codes.blocks([p], [name])[block.shifted][0].loss) - 1.0


def test_a_few_losses_are_those_that_are_solved():
    rng = np.random.default_rng(5)
    for name in ("triangle", "hexagon shifted", "Petersen shifted", "Clebsch", "M22 shifted"):
        p = float(np.exp(rng.uniform(np.log(1e-6), 0.0)))
        assert abs(off(p, name)) <= ERROR, (name, p)


@pytest.mark.slow
def test_losses_are_those_that_are_solved_at_60_places():
    rng = np.random.default_rng(6)
    names = [one.name for (one,) in known_blocks(0.1)[1:]]
    places = [(str(rng.choice(names)), float(p)) for p in np.exp(rng.uniform(np.log(1e-6), 0.0, 60))]
    found = {place: off(place[1], place[0]) for place in places}
    assert {place: one for place, one in found.items() if abs(one) > ERROR} == {}


def test_all_codes_are_there():
    known = {one.name: one for (one,) in known_blocks(0.5)}
    for name in CODES:
        code = overlaps(name)
        for shifted in {False, f"{name} shifted" in known}:
            one = known.pop(name + " shifted" * shifted)
            assert (one.n_features, one.n_hidden) == (code.n_features, code.n_hidden + shifted)
    assert not known
    for p in (1e-6, 0.05, 1.0):
        assert {one.p for (one,) in known_blocks(p)} == {p}


@pytest.mark.parametrize("p", [0.45, pytest.param(0.003, marks=pytest.mark.slow)])
def test_the_envelope_is_that_of_the_solver(p):
    found = codes.blocks([p])
    for models in codes.MODELS:
        one, other = known_envelope(p, 0.25, models=models), codes.envelope_of(found, p, 0.25, models=models)
        assert one.loss == pytest.approx(other.loss, rel=2.0 * ERROR)
        assert (one.rug, one.names) == (other.rug, other.names)


def test_one_p_alone_has_what_is_found_along_p():
    """Descents from the start of least loss alone had up to seven times these losses."""
    for name, p in (
        ("McLaughlin", 0.038),
        ("quadrangle 5", 0.011),
        ("quadrangle 3", 0.152),
        ("quadrangle 5 shifted", 0.71),
    ):
        known = {one.name: one.loss for (one,) in known_blocks(p)}[name]
        row = codes.blocks([p], [name.removesuffix(" shifted")])[name.endswith(" shifted")]
        assert row[0].loss == pytest.approx(known, rel=2.0 * ERROR)

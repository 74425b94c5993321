"""Blocks at the minimum of their parameters; the envelope against its own properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superposition.solvers import codes, rug
from superposition.theory import codes as theory
from superposition.theory.rug import zero_ratio_loss

SMALL = ("pair", "triangle", "pentagon", "Petersen")


def _block(name, p, shift=False):
    return codes.blocks([p], [name])[shift][0]


def test_block_is_a_minimum_over_its_parameters():
    one = _block("Petersen", 0.02, shift=True)
    rng = np.random.default_rng(0)
    base = theory.overlaps("Petersen").row()
    for _ in range(20):
        a, b, shift = (one.a, one.b, one.shift) + 0.02 * rng.standard_normal(3)
        row = a * (base - shift) / (1 - shift)
        assert rug.row_loss(row, 0, b, 0.02, tol=1e-9).loss > one.loss * (1 - 1e-5)


def test_block_agrees_with_the_polygon_minimiser():
    from superposition.solvers.relu import best_polygon

    assert _block("pentagon", 0.05).loss == pytest.approx(best_polygon(5, 0.05).loss, rel=1e-5)


# --- The envelope -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maps():
    p = np.array([1e-3, 0.1, 0.8])
    ratio = np.linspace(0.01, 1.0, 45)
    found = codes.blocks(p, SMALL)
    return p, ratio, {one: codes.envelope_of(found, p[:, None], ratio, models=one) for one in codes.MODELS}


@pytest.mark.parametrize("models", codes.MODELS)
def test_envelope_lies_below_everything_and_above_the_bound(maps, models):
    p, ratio, found = maps
    one = found[models]
    assert np.all(one.loss <= one.structured * (1 + 1e-12))
    assert np.all(one.loss <= one.rug * (1 + 1e-12))
    assert np.all(one.rug <= one.linear * (1 + 1e-9))
    assert np.all(one.loss >= one.lower_bound)
    np.testing.assert_array_equal(one.rug, rug.optimum(p[:, None], ratio).loss)
    # that of any decoder is the larger one where p = 0.8 exceeds the ratio, that of ReLUs elsewhere
    for bound in (theory.relu_bound, theory.decoder_bound):
        assert np.all(one.lower_bound >= bound(p[:, None], ratio))
    mixture = (1 - 2 * ratio) * zero_ratio_loss(p[:, None]) + 2 * ratio * theory.antipodal_loss(p[:, None])
    below = ratio <= 0.5
    assert np.all(one.loss[:, below] <= mixture[:, below] * (1 + 1e-12))
    above = 2 * (1 - ratio) * theory.antipodal_loss(p[:, None])
    assert np.all(one.loss[:, ~below] <= above[:, ~below] * (1 + 1e-12) + 1e-18)


@pytest.mark.parametrize("models", codes.MODELS)
def test_envelope_is_convex_in_the_ratio(maps, models):
    _, _, found = maps
    for name in ("structured", "loss"):
        loss = getattr(found[models], name)
        # mixed rugs are taken from a grid of ratios, which the rug asked for is below by little
        slack = 1e-12 if name == "structured" else 1e-3
        second_difference = loss[:, :-2] + loss[:, 2:] - 2 * loss[:, 1:-1]
        assert np.all(second_difference >= -slack * loss[:, 1:-1] - 1e-17)


def test_more_models_have_a_lower_envelope(maps):
    _, _, found = maps
    assert np.all(found["balanced"].loss <= found["tied"].loss * (1 + 1e-5))
    # priority codes take the place of cut polygons
    assert np.all(found["free"].structured <= found["balanced"].structured * (1 + 1e-3))


@settings(max_examples=25)
@given(st.floats(0.01, 0.8), st.floats(0.02, 0.98))
def test_mixture_has_the_loss_of_its_parts(p, ratio):
    one = codes.envelope(p, ratio, ["pair"], models="tied")
    at = {
        "dropped": (0.0, zero_ratio_loss(p)),
        "identity": (1.0, 0.0),
        "pair": (0.5, theory.antipodal_loss(p)),
    }
    first, second = one.names[one.first], one.names[one.second]
    if "rug" not in (first, second):
        mixed = (1 - one.share) * np.array(at[first]) + one.share * np.array(at[second])
        assert (ratio, one.loss) == pytest.approx(mixed, rel=1e-12, abs=0)

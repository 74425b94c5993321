"""The roots of x - x^3 = kappa at 50 digits, down to the last double beside the critical kappa."""

import mpmath as mp
import numpy as np
import pytest

from superposition.theory.special import CRITICAL, cubic_roots
from superposition.theory.special.derive import derive_cubic_roots

BESIDE = [CRITICAL + k * 2.0**-54 for k in (-3, -2, -1, 0, 1, 2, 3)]
DECADES = [CRITICAL * (1 + sign * 10.0**-k) for sign in (1, -1) for k in range(1, 16)]
KAPPA = [
    5e-324,
    1e-300,
    1e-9,
    0.1,
    0.2,
    0.3,
    0.375,
    *BESIDE,
    *DECADES,
    0.5,
    1.0,
    np.nextafter(1, 2),
    7.0,
    1e100,
    1.7e308,
]


def polynomial_roots(kappa):
    """Low, and the others by real, then imaginary part."""
    with mp.workdps(400 if kappa < 1e-40 else 50):
        roots = mp.polyroots([1, 0, -1, mp.mpf(kappa)], maxsteps=5000, extraprec=3000)
    low = min(roots, key=mp.re)
    return [low, *sorted((z for z in roots if z is not low), key=lambda z: (mp.im(z), mp.re(z)))]


@pytest.mark.parametrize("kappa", KAPPA)
def test_roots_reach_the_stated_error(kappa):
    found = cubic_roots(kappa)
    low, middle, high = polynomial_roots(kappa)
    with mp.workdps(50):
        for have, want in zip(found, (low, middle, high, high - middle), strict=True):
            assert abs(mp.mpmathify(complex(have)) - want) <= 2e-15 * abs(want)
            for part in (mp.re, mp.im):  # each part on its own
                assert (
                    abs(part(mp.mpmathify(complex(have))) - part(want))
                    <= 2e-15 * abs(part(want)) + mp.mpf(10) ** -48
                )
    assert (found.apart.imag == 0) == (mp.mpf(kappa) < 2 / mp.sqrt(27))


@pytest.mark.parametrize("kappa", [0.0, 1e-9, 0.3, CRITICAL * (1 - 1e-12), 0.5, 7.0])
def test_the_derived_roots_are_those(kappa):
    column = derive_cubic_roots().evaluate({"kappa": kappa})
    with mp.workdps(50):
        for x in column[:3]:
            assert abs(x - x**3 - kappa) < mp.mpf(10) ** -45
        for have, derived in zip(cubic_roots(kappa), column, strict=True):
            want = derived
            if kappa > CRITICAL:  # conjugate, up to their order
                want = mp.mpc(derived.real, mp.sign(complex(have).imag) * abs(mp.im(derived)))
            assert abs(mp.mpmathify(complex(have)) - want) <= 2e-15 * abs(want) + mp.mpf(10) ** -48


def test_no_kappa_is_exact():
    found = cubic_roots(np.zeros((2, 3)))
    assert found.low.shape == found.apart.shape == (2, 3)
    assert np.all(found.middle == 0)
    assert np.allclose(
        [found.low.real, found.high.real, found.apart.real], [[[-1.0]], [[1.0]], [[1.0]]], rtol=4e-16, atol=0
    )

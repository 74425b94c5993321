"""The roots of x - x^3 = kappa at 50 digits, down to the last double beside the critical kappa."""

import mpmath as mp
import numpy as np

from superposition.theory.special import CRITICAL, cubic_roots
from superposition.theory.special.derive import derive_cubic_roots

BESIDE = [CRITICAL + k * 2.0**-54 for k in (-3, -2, -1, 0, 1, 2, 3)]
DECADES = [CRITICAL * (1 + sign * 10.0**-k) for sign in (1, -1) for k in range(1, 16)]
ALONE = [5e-324, 1e-300, 1e-9, 0.1, 0.3, 0.375, 0.5, 1.0, np.nextafter(1, 2), 7.0, 1e100, 1.7e308]


def polynomial_roots(kappa):
    """Low, and the others by real, then imaginary part."""
    with mp.workdps(400 if kappa < 1e-40 else 50):
        roots = mp.polyroots([1, 0, -1, mp.mpf(kappa)], maxsteps=5000, extraprec=3000)
    low = min(roots, key=mp.re)
    return [low, *sorted((z for z in roots if z is not low), key=lambda z: (mp.im(z), mp.re(z)))]


def test_roots_reach_the_stated_error():
    for kappa in (*ALONE, *BESIDE, *DECADES):
        found = cubic_roots(kappa)
        low, middle, high = polynomial_roots(kappa)
        with mp.workdps(50):
            for have, want in zip(found, (low, middle, high, high - middle), strict=True):
                gap = mp.mpmathify(complex(have)) - want
                assert abs(gap) <= 2e-15 * abs(want), kappa
                for part in (mp.re, mp.im):  # each part on its own
                    assert abs(part(gap)) <= 2e-15 * abs(part(want)) + mp.mpf(10) ** -48, kappa
        assert (found.gap.imag == 0) == (mp.mpf(kappa) < 2 / mp.sqrt(27))


def test_the_derived_roots_are_those():
    for kappa in (0.0, 1e-9, 0.3, CRITICAL * (1 - 1e-12), 0.5, 7.0):
        column = derive_cubic_roots().evaluate({"kappa": kappa})
        with mp.workdps(50):
            for x in column[:3]:
                assert abs(x - x**3 - kappa) < mp.mpf(10) ** -45
            for have, derived in zip(cubic_roots(kappa), column, strict=True):
                sign = mp.sign(complex(have).imag)  # beyond, they are conjugate up to their order
                want = mp.mpc(derived.real, sign * abs(mp.im(derived))) if kappa > CRITICAL else derived
                assert abs(mp.mpmathify(complex(have)) - want) <= 2e-15 * abs(want) + mp.mpf(10) ** -48


def test_no_kappa_is_exact():
    found = cubic_roots(np.zeros((2, 3)))
    assert np.all(found.middle == 0)
    for value, want in ((found.low, -1), (found.high, 1), (found.gap, 1)):
        np.testing.assert_allclose(value.real, np.full((2, 3), want), rtol=4e-16)

"""What the ledger says of the remedy, and that a wrong statement of its share does not get away."""

import numpy as np
import xarray as xr

from superposition.solvers.collisions.counts import ZERO
from superposition.theory.collisions import separated_share
from superposition.validate.experiments.collisions import VARIANTS
from superposition.validate.ledger import Verdict, verdict
from superposition.validate.ledger.lecomte_polysemantic import check_l37 as REMEDY

PAIRS = 600


def split(share, factor=1.0):
    """Return what splits would give that part with this share, on a clock that runs faster by a factor."""
    times, eps = np.array([4.0, 10.0]), [1e-3, 1e-2]
    decided = [np.sum(separated_share(times * factor, 1.0, e, left=ZERO), axis=0) for e in eps]
    apart = np.round(PAIRS * share * np.array(decided)).astype(int)[None]
    axes = ("lam", "eps", "time")
    return xr.Dataset(
        {"pairs": ("lam", [PAIRS]), "apart": (axes, apart)},
        {"lam": [0.04], "eps": eps, "time": times},
        {"n_features": 16},
    )


def variants(shares):
    """Return variants in which these shares of the pairs part, and stay together; others are undecided."""
    axes = ("variant", "lam", "eps", "time")
    apart, together = np.round(PAIRS * np.array(shares)).astype(int).T.reshape(2, -1, 1, 1, 1)
    counts = {"apart": apart, "together": together, "undecided": PAIRS - apart - together}
    return xr.Dataset(
        {"pairs": (("variant", "lam"), np.full((len(VARIANTS), 1), PAIRS))}
        | {name: (axes, value) for name, value in counts.items()},
        {"variant": list(VARIANTS), "lam": [0.16], "eps": [1e-2], "time": [10.0]},
    )


AS_PREDICTED = [(0.5, 0.5), (0.33, 0.33), (0.5, 0.5), (1.0, 0.0), (0.0, 0.0)]


def test_the_question_is_answered_by_what_is_predicted():
    assert verdict(REMEDY.check(True, split(0.5), variants(AS_PREDICTED))) is Verdict.ANSWERED


def test_a_lost_factor_in_the_clock_or_a_wrong_share_is_noticed():
    predicted = variants(AS_PREDICTED)
    for wrong in (split(0.5, np.sqrt(2)), split(0.5, np.sqrt(0.5)), split(0.6)):
        assert verdict(REMEDY.check(True, wrong, predicted)) is Verdict.UNSETTLED
    for place, shares in ((1, (0.45, 0.2)), (2, (0.7, 0.3)), (3, (0.9, 0.1)), (4, (0.01, 0.0))):
        wrong = variants([*AS_PREDICTED[:place], shares, *AS_PREDICTED[place + 1 :]])
        assert verdict(REMEDY.check(True, split(0.5), wrong)) is Verdict.UNSETTLED

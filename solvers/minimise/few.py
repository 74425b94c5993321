"""The least value of a function of few parameters, for models whose structure leaves no more of them free."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize

from ...theory.arguments import FloatArray

__all__ = ["least"]


def least(
    function: Callable[[FloatArray], float],
    starts: Sequence[npt.ArrayLike],
    bounds: Sequence[tuple[float, float]],
) -> FloatArray:
    """Return where L-BFGS-B, the method of the search, ends from the best of the starts.

    The gradient comes from differences: of one output's loss it would cost fifty losses and more. Steps are
    relative, because the best biases are as small as p².
    """
    options: Any = {"ftol": 1e-12, "gtol": 1e-7, "finite_diff_rel_step": 1e-6}
    begin = np.array(min((np.array(start) for start in starts), key=function))
    minimize: Any = optimize.minimize  # its stubs know no bounds in this form
    found = minimize(function, begin, jac="2-point", method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x)

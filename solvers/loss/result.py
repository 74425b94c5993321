"""The result of an exact loss: the number, its error, derivatives, and the methods behind them."""

from collections.abc import Iterator
from typing import Any

from ...theory.results import result
from ...theory.validation import FloatArray
from .dispatch import METHODS
from .network.assemble import ESTIMATES

__all__ = ["SAMPLES", "Loss"]

# The method of a `Loss` that is a mean over samples.
SAMPLES = "samples"


@result
class Loss:
    """Expected loss of a model, its error, and its derivatives if they were requested.

    Unpacks as ``loss, by_M, by_b``.
    """

    loss: float
    """Loss per feature: the mean over the chosen outputs of importance times `per_feature`."""
    error_estimate: float
    """Largest error of `loss`; `estimate` says how that is known."""
    per_feature: FloatArray
    """(n,): expected squared error of each output, E (x_i - y_i)^2, without importance."""
    per_feature_error: FloatArray
    """(n,): largest error of each entry of `per_feature`."""
    gradient: dict[str, FloatArray] | None = None
    """Derivatives of `loss`: by 'M' (one row for each chosen output) and by 'b'. For a `Model` also by
    'W_in', 'b_in' and, if it is not tied, 'W_out'; 'M' and 'b' are then its `M` and `bias`."""
    gradient_error: FloatArray | None = None
    """(n,): error of each derivative by an output's row of M and its b: an estimate, also where that of the
    loss is proved."""
    method: str = ""
    """The methods that were used, of `solvers.loss.methods`."""

    @property
    def by_M(self) -> FloatArray:
        """Derivatives of `loss` by M, a row for each chosen output; KeyError if they were not requested."""
        return (self.gradient or {})["M"]

    @property
    def by_b(self) -> FloatArray:
        """Derivatives of `loss` by each chosen output's bias; KeyError if they were not requested."""
        return (self.gradient or {})["b"]

    @property
    def estimate(self) -> str:
        """What `error_estimate` is for each method that was used: a proved bound, or heuristic, and why."""
        estimates = {name: method.ESTIMATE for name, method in METHODS.items()} | ESTIMATES
        estimates[SAMPLES] = "four standard errors of a mean over samples"
        return "; ".join(f"{name}: {estimates[name]}" for name in self.method.split(", "))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.loss, self.by_M, self.by_b))

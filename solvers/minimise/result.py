"""What a minimisation returns: the least model found, all minima, and how sure that is."""

from ...theory.arguments import FloatArray
from ..results import Status, result

__all__ = ["Certificate", "Local", "Minimum"]


@result
class Certificate:
    """How sure it is that a model has the least loss.

    Attributes
    ----------
    kind : str
        "branch and bound": no model with free biases has a loss below `lower_bound`, numerically: branch
        and bound in double precision; the same for all models with b = 0 if "zero bias" is added. "many
        starts": the lowest of the local minima found from `work` starts; `lower_bound` is the best that is
        proved for all models of this size (`solvers.minimise.lower_bound`), 0 where no bound is known.
    lower_bound : float
        Loss per feature that no model goes below.
    gap : float
        The model's loss minus `lower_bound`.
    work : int
        Boxes or starts used.
    """

    kind: str
    lower_bound: float
    gap: float
    work: int


@result
class Local:
    """One of the minima that were found.

    Attributes
    ----------
    objective : float
        Loss per feature and penalty.
    hits : int
        How many starts ended here, up to symmetries.
    W_out, W_in, b : ndarray of float64
        The model ReLU(W_out W_in x + b).
    """

    objective: float
    hits: int
    W_out: FloatArray
    W_in: FloatArray
    b: FloatArray


@result
class Minimum:
    """The least model ReLU(W_out W_in x + b) that was found.

    Attributes
    ----------
    W_out : (n_features, n_hidden) ndarray of float64
        Decoder.
    W_in : (n_hidden, n_features) ndarray of float64
        Encoder, the transpose of `W_out` in a tied model.
    b : (n_features,) ndarray of float64
        Bias.
    loss : float
        Exact loss per feature: the mean of importance times squared error. Without the penalty.
    error_estimate : float
        What `loss` is off by at most.
    objective : float
        The loss with the penalty.
    gradient_norm : float
        Length of the gradient of the objective by all free weights and biases, divided by the loss of the
        model that always answers 0. With an l1 penalty that of the shortest subgradient.
    gradient_error : float
        What it may be off by, without a penalty's share: by rounding, and by what the sums over frequencies
        leave out for many features.
    curvature : float or None
        Least eigenvalue of the objective's Hessian, divided in the same way, without the zeros of symmetries.
        None at kinks, or where it is expensive (from 15 features on): see `validate.codes.curvatures`.
    minima : tuple of Local
        The distinct minima of all starts, best first. Two are the same if their objectives are and their
        matrices W_out W_in and biases are, up to the order of features that the law leaves alike. From 10
        features on only the best are descended to the end (see `minimise`), and the best may have no start.
    losses : (starts,) ndarray of float64
        The objective that each start ended at, ascending; in a race of those left behind by few frequencies.
    hits : int
        Starts, but for given ones, that ended within 1e-6 of the least objective, in units of the loss of the
        zero model. A minimum that as many starts lead to would have been missed with probability e^-hits.
        In a race, starts that lead to one minimum of the samples go on as one and count together.
    starts : int
        Starts that were made: random ones, ordered ones and given ones.
    planned : int
        Starts that were to be made; more than `starts` if a budget of seconds ran out.
    arrived : int
        Starts whose gradient became as small as was asked for.
    steps : int
        Steps of all descents.
    status : Status
        How the descent ended that led to the model.
    certificate : Certificate
        How sure it is that no model of this size has a lower loss.
    """

    W_out: FloatArray
    W_in: FloatArray
    b: FloatArray
    loss: float
    error_estimate: float
    objective: float
    gradient_norm: float
    gradient_error: float
    curvature: float | None
    minima: tuple[Local, ...]
    losses: FloatArray
    hits: int
    starts: int
    planned: int
    arrived: int
    steps: int
    status: Status
    certificate: Certificate

    @property
    def W(self) -> FloatArray:
        """Encodings, one a row: the transpose of `W_in`."""
        return self.W_in.T

    @property
    def bound(self) -> float:
        """The best lower bound that is proved of all models of this size; 0 where none is known."""
        return self.certificate.lower_bound

    @property
    def certainty(self) -> str:
        """How sure it is that no model of this size is better."""
        proved = self.certificate.kind != "many starts" or self.certificate.gap <= self.error_estimate
        if proved:
            return f"Proved: no model is below {self.bound:.9g}."
        return f"{self.hits} of {self.starts} starts ended here; none is proved to be best."

    @property
    def message(self) -> str:
        """What `status` means, how many starts converged, and whether the budget ended the search."""
        said = f"{self.status.value} {self.arrived} of {self.starts} starts converged."
        short = f" The search stopped after {self.starts} of {self.planned} starts: its seconds were over."
        return said + short * (self.starts < self.planned)

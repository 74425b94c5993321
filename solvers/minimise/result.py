"""The result of a minimisation: the best model, all minima, and how certain it is that none is better."""

from ...theory.validation import FloatArray
from ..results import Status, result

__all__ = ["Certificate", "Local", "Minimum"]


@result
class Certificate:
    """Evidence that a model has the least loss: a lower bound, or how many starts agree."""

    kind: str
    """'branch and bound' (in double precision): no model with free biases has a loss below `lower_bound`;
    with 'zero bias' added, no model with b = 0. 'many starts': the model is the lowest local minimum
    found."""
    lower_bound: float
    """Lower bound of the loss per feature; for 'many starts' `solvers.minimise.lower_bound`."""
    gap: float
    """The model's loss minus `lower_bound`."""
    work: int
    """Boxes or starts used."""


@result
class Local:
    """A local minimum W_out, W_in, b at which `hits` starts ended; `objective` is its loss plus penalty."""

    objective: float
    hits: int
    W_out: FloatArray
    W_in: FloatArray
    b: FloatArray


@result
class Minimum:
    """The model ReLU(W_out W_in x + b) of least loss found, and how the search for it ended.

    Gradient and curvature are those of the objective over the loss of the zero model.
    """

    W_out: FloatArray
    """Decoder, shape (n_features, n_hidden)."""
    W_in: FloatArray
    """Encoder, shape (n_hidden, n_features); the transpose of `W_out` in a tied model."""
    b: FloatArray
    """Biases, shape (n_features,)."""
    loss: float
    """Exact loss per feature, the mean of importance times squared error, without the penalty."""
    error_estimate: float
    """Largest error of `loss`."""
    objective: float
    """The loss with the penalty."""
    gradient_norm: float
    """Length of the gradient by free weights and biases; with an l1 penalty of the shortest subgradient."""
    gradient_error: float
    """Largest error of `gradient_norm`, without that of a penalty; inf if no seconds were left for it."""
    curvature: float | None
    """Least eigenvalue of the Hessian without the zeros of symmetries. None at kinks, and from 15 features
    on, where it is expensive: see `solvers.codes.curvatures`."""
    minima: tuple[Local, ...]
    """Distinct minima of all starts, best first, up to permutations of equal features. In a race only the
    best are descended to the end, and the best may come from no single start."""
    losses: FloatArray
    """Final objective of each start, ascending, shape (starts,)."""
    hits: int
    """Random and ordered starts that ended within 1e-6 of the least objective, in units of the loss of the
    zero model. A minimum with so many hits would have been missed with probability e^-hits."""
    starts: int
    """Starts that were made: random, ordered and given ones."""
    planned: int
    """Starts that were to be made; more than `starts` if a budget of seconds ran out."""
    arrived: int
    """Starts whose gradient became as small as requested."""
    steps: int
    """Steps of all descents."""
    status: Status
    """How the descent to the model ended."""
    certificate: Certificate
    """Evidence that no model of this size has a lower loss."""

    @property
    def W(self) -> FloatArray:
        """Encodings, one a row: the transpose of `W_in`."""
        return self.W_in.T

    @property
    def unseen(self) -> float:
        """Estimated probability that a further start would end at a minimum not seen yet.

        This is Good and Turing's estimate: the share of starts whose minimum no other start found.
        """
        return sum(minimum.hits == 1 for minimum in self.minima) / max(self.starts, 1)

    @property
    def lower_bound(self) -> float:
        """The best proved lower bound of the loss of all models of this size; 0 where none is known."""
        return self.certificate.lower_bound

    @property
    def certainty(self) -> str:
        """A sentence: the lower bound if it proves the model best, else how many starts ended at it."""
        proved = self.certificate.kind != "many starts" or self.certificate.gap <= self.error_estimate
        if proved:
            return f"Proved: no model is below {self.lower_bound:.9g}."
        return f"{self.hits} of {self.starts} starts ended here; none is proved to be best."

    @property
    def message(self) -> str:
        """Sentences: what `status` means, how many starts converged, and whether seconds ended the search."""
        arrived = f"{self.arrived} of {self.starts} starts converged."
        if self.starts == self.planned:
            return f"{self.status.value} {arrived}"
        short = f"The search stopped after {self.starts} of {self.planned} starts: its seconds were over."
        # Steps run out where seconds do: then it is the seconds that are to be raised.
        end = "" if self.status is Status.STEPS else f"{self.status.value} "
        return f"{end}{arrived} {short}"

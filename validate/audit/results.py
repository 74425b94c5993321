"""The audit of a model: its numbers beside the best known ones, and sentences on them."""

from functools import cached_property

import numpy as np

from ...solvers.loss.result import SAMPLES
from ...solvers.minimise import LearningCoefficient, learning_coefficient
from ...solvers.minimise.learning import has_all_digits
from ...theory.features import Features
from ...theory.results import result
from ...theory.validation import FloatArray, IntArray

__all__ = ["COLUMNS", "REPRESENTED", "SAME", "VERDICTS", "ModelAudit"]

# Relative differences of losses below this are rounding of the weights.
SAME = 1e-6
# Share of its loss that a model saves of a feature which counts as represented. In the best models of the
# atlas 36 of 3200 features lie between 0.3 and 0.6: the others are dropped, or saved for the most part.
REPRESENTED = 0.5
# A loss with ReLUs on the hidden neurons that is below this share of the loss without is worth a word.
NONLINEAR_SHARE = 0.5
# Features up to which learning coefficients take a second or two.
LEARNING_FEATURES = 6
NOT_AT_MINIMUM = ("saddle", "unfinished", "not tried")
# What a table of models shows of each.
COLUMNS = (
    "loss", "best_known", "searched", "hits", "lower_bound", "end_loss", "gradient_norm", "represented",
    "verdict",
)  # fmt: skip
VERDICTS = (
    "proved best", "best of a search", "not beaten by a search", "stuck", "stays, not searched", "saddle",
    "flat", "unfinished", "not tried",
)  # fmt: skip


def _percent(share: float) -> str:
    """Return a share as text in per cent, with three digits."""
    return f"{100.0 * share:.3g} %"


@result
class ModelAudit:
    """A model beside the best known one of its size and law; losses are per feature, with importance."""

    instance: int
    """Its place in the file, from 0."""
    n_features: int
    n_hidden: int
    W_out: FloatArray
    """Decoder. Shape (n_features, n_hidden)."""
    W_in: FloatArray
    """Encoder. Shape (n_hidden, n_features)."""
    b: FloatArray
    """Bias. Shape (n_features,)."""
    bias_assumed: bool
    """Whether the file leaves the bias out, and `b` is that of least loss beside the weights."""
    tied: bool
    """Whether the decoder is the transpose of the encoder."""
    loss: float
    """Exact expected loss."""
    loss_error: float
    """What `loss` is off by at most; four standard errors where `method` is "samples"."""
    method: str
    """How `loss` was computed: by which `solvers.loss.methods`, or "samples" where these took too long."""
    per_feature: FloatArray
    """Mean squared error of each feature, without its importance."""
    share_saved: FloatArray
    """Share of each feature's variance, the loss of answering its mean, that the model saves."""
    zero_loss: float
    """Loss of the model that always answers 0."""
    best_known: float
    """Least loss that is known of a model of this very size."""
    best_name: str
    """Where that model comes from."""
    best_W_out: FloatArray
    """Its decoder. Shape (n_features, n_hidden)."""
    best_W_in: FloatArray
    """Its encoder. Shape (n_hidden, n_features)."""
    best_b: FloatArray
    """Its bias. Shape (n_features,)."""
    searched: int
    """Starts of searches at this size, with those of the atlas if it has this problem; 0 without a search."""
    planned: int
    """How many starts there were to be; more than `searched` if the seconds ended the search."""
    hits: int
    """How many of them ended at the best known loss."""
    unseen: float
    """Share of further starts that would end at a minimum not seen yet, by Good and Turing's estimate; nan
    without a search."""
    seconds: float
    """What the search took."""
    lower_bound: float
    """What no model of this size can beat (`solvers.minimise.lower_bound`); 0 where no bound is known."""
    rug: float
    """Macroscopic loss of the rug at this ratio; nan for features that differ."""
    limit: float
    """Least loss known in a limit, of many features or very different lengths; nan where none is known."""
    limit_name: str
    """What has it, in which limit. No model of this size need have it."""
    represented: int
    """Features of which at least half the loss is saved (`share_saved`)."""
    dimensionality: FloatArray
    """Share of a hidden dimension that each feature has (Elhage et al. 2022)."""
    structure: str
    """Which features hang together, and how; empty above 40 features."""
    gradient_norm: float
    """Length of the gradient in weights and biases over `zero_loss`; nan above 64 features, if not tried."""
    end_loss: float
    """Where descent on the exact loss from these weights ends; nan where it was not tried."""
    reset_loss: float
    """Where it ends once dead outputs have their features' means as biases; nan where none is dead."""
    dead: IntArray
    """Outputs that are 0 for every input, and stay so after a small change: no gradient reaches them."""
    hit_time_limit: bool
    """Whether the seconds ended the descent, which might go on."""
    verdict: str
    """One of `VERDICTS`."""
    loss_with_hidden_relu: float
    """Loss if its hidden neurons had a ReLU, by samples; nan where `loss` is below that of the zero model."""
    law: Features
    """Law of the data that it was audited for."""

    def excess(self, loss: float) -> str:
        """Return how far a loss is above the best known one, such as "4.1 %", or "" if it is not above."""
        none = self.best_known <= SAME * self.zero_loss  # 0, or rounding of it: no unit
        relative_excess = (loss - self.best_known) / (self.zero_loss if none else self.best_known)
        rounding = self.loss_error / max(self.best_known, self.zero_loss * SAME)
        if not relative_excess > SAME + rounding:
            return ""
        return f"{_percent(relative_excess)}{' of the zero model' if none else ''}"

    @cached_property
    def learning_coefficient(self) -> LearningCoefficient | None:
        """Local learning coefficient (singular learning theory) of a minimum, or bounds on it; else None.

        It is computed for up to 6 features that are uniform on [0, 1] and in no groups, unless descent lowers
        the loss or was not tried.
        """
        is_quick = self.n_features <= LEARNING_FEATURES and has_all_digits(self.law)
        if not is_quick or self.verdict in NOT_AT_MINIMUM:
            return None
        return learning_coefficient(self.W_out, self.W_in, self.b, self.law, tied=self.tied)

    @property
    def left_out(self) -> str:
        """Sentences on searches, descents or exact losses that the budget cut short; "" if there are none."""
        parts = []
        if self.searched < self.planned:
            parts.append(f"the search after {self.searched} of {self.planned} starts")
        if self.hit_time_limit:
            event = "it began" if np.isnan(self.end_loss) else "it came to rest"
            parts.append(f"the descent from these weights before {event}")
        sentence = f"The budget ended {' and '.join(parts)}: give more seconds." if parts else ""
        if self.method == SAMPLES:
            sentence += " " * bool(sentence) + f"The loss is sampled, to +- {self.loss_error:.1g}."
        return sentence

    @property
    def evidence(self) -> str:
        """Clause on the starts of a search at this size, and how many of them ended at the best loss."""
        if not self.searched:
            return "no search was made at this size"
        planned = f" of {self.planned} planned" if self.planned > self.searched else ""
        starts = f"{self.searched}{planned} starts were" if self.planned > 1 else "1 start was"
        return f"{starts} made at this size, {self.hits} of them ended at the best known loss"

    @property
    def gap(self) -> str:
        """Clause on how far the loss is above the best known one, or that nothing better is known."""
        above = self.excess(self.loss)
        # What is best by a search is said of the search.
        name = "" if self.best_name.startswith("a search") else f" ({self.best_name})"
        best = f"the best known, {self.best_known:.6g}{name}"
        return f"it is {above} above {best}" if above else "nothing better is known"

    @property
    def sentence(self) -> str:
        """Sentences on the verdict, the distance to the best known loss, the evidence, and the advice."""
        fall = _percent(1.0 - self.end_loss / self.loss if self.loss > 0.0 else 0.0)
        left = self.excess(self.end_loss) if self.end_loss < np.inf else ""
        rest = f", which is still {left} above the best known" if left else ""
        if self.hit_time_limit:
            rest = ", where its seconds were over"
        end = f"Descent goes on to {self.end_loss:.6g}, lower by {fall}{rest}."
        known = {
            "proved best": "The best model there can be: it attains a proved lower bound.",
            "best of a search": "The best of a search: no start ended lower.",
            "not beaten by a search": "A minimum of the loss. A search found nothing lower, but too few of "
            "its starts ended here to call it the best: search longer.",
            "stuck": "Stuck at a minimum of the loss: longer training will not help, another start may."
            if not self.end_loss < self.loss * (1.0 - SAME)
            else f"Stuck: {end} Longer training will not help, another start may.",
            "stays, not searched": "A minimum of the loss: descent stays here. How good a model could be is "
            "not known.",
            "saddle": f"At a saddle: the gradient vanishes, but the loss falls after a small kick. {end}",
            "flat": f"Flat: a dead output ({', '.join(map(str, self.dead))}); it moves only if its bias is "
            f"reset. Descent then goes on to {self.reset_loss:.6g}.",
            "unfinished": f"Not at a minimum. {end}",
            "not tried": f"Loss {self.loss:.6g}. Whether descent stays here was not tried.",
        }
        rests = f" {self.gap[0].upper()}{self.gap[1:]}; {self.evidence}."
        limit = f" For comparison: {self.limit_name}, {self.limit:.4g}." if self.limit_name else ""
        assumed = " The file has no bias: the best one for these weights is assumed." * self.bias_assumed
        left_out = f" {self.left_out}" if self.left_out else ""
        nonlinear_note = ""
        if self.loss_with_hidden_relu < NONLINEAR_SHARE * self.loss:
            nonlinear_note = (
                " Its loss is above that of answering 0, and would be about "
                f"{self.loss_with_hidden_relu:.3g} if its hidden neurons had a ReLU: if they do, this is "
                "another kind of model."
            )
        return known[self.verdict] + rests + limit + assumed + left_out + nonlinear_note

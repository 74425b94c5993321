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
    """Index of the model in its file, from 0."""
    n_features: int
    n_hidden: int
    W_out: FloatArray
    """Decoder. Shape (n_features, n_hidden)."""
    W_in: FloatArray
    """Encoder. Shape (n_hidden, n_features)."""
    b: FloatArray
    """Bias. Shape (n_features,)."""
    bias_assumed: bool
    """Whether the file has no bias; `b` is then the bias of least loss for the weights."""
    tied: bool
    """Whether the decoder is the transpose of the encoder."""
    loss: float
    """Exact expected loss."""
    loss_error: float
    """Largest error of `loss`; four standard errors if `method` is "samples"."""
    method: str
    """How `loss` was computed: a name in `solvers.loss.methods`, or "samples" if these took too long."""
    per_feature: FloatArray
    """Mean squared error of each feature, without its importance."""
    share_saved: FloatArray
    """1 - per_feature / variance, where the variance is the loss of answering the feature's mean."""
    zero_loss: float
    """Loss of the model that always answers 0."""
    best_known: float
    """Least loss that is known of a model of this very size."""
    best_name: str
    """Origin of the best known model, such as "a search of 20 starts, of which 3 ended there"."""
    best_W_out: FloatArray
    """Decoder of the best known model. Shape (n_features, n_hidden)."""
    best_W_in: FloatArray
    """Encoder of the best known model. Shape (n_hidden, n_features)."""
    best_b: FloatArray
    """Bias of the best known model. Shape (n_features,)."""
    searched: int
    """Starts of searches at this size, also those behind an entry of the atlas; 0 without a search."""
    planned: int
    """Starts that were planned; more than `searched` if the seconds ended the search."""
    hits: int
    """Number of the starts that ended at the best known loss."""
    unseen: float
    """Share of further starts that would end at a minimum not seen yet, by Good and Turing's estimate; nan
    without a search."""
    seconds: float
    """Seconds that the search took."""
    lower_bound: float
    """Proved lower bound at this size (`solvers.minimise.lower_bound`); 0 if none is known."""
    rug: float
    """Loss of the Persian rug at n_hidden / n_features, for many features; nan for unequal ones."""
    limit: float
    """Least loss known in a limit, of many features or very different lengths; nan if none is known."""
    limit_name: str
    """The model with the loss `limit`, and its limit. No model of this size need have that loss."""
    represented: int
    """Number of features with a `share_saved` of at least 1/2."""
    dimensionality: FloatArray
    """Share of a hidden dimension that each feature has (Elhage et al. 2022)."""
    structure: str
    """Groups of features that share directions, such as "antipodal pair 0-1"; empty above 40 features."""
    gradient_norm: float
    """|gradient in weights and biases| / `zero_loss`; nan above 64 features without a descent."""
    end_loss: float
    """Loss at the end of descent from these weights; nan if there was no descent."""
    reset_loss: float
    """Loss at the end of descent with dead outputs' biases set to features' means; nan if none is dead."""
    dead: IntArray
    """Outputs that are 0 for every input, and stay so after a small change: no gradient reaches them."""
    hit_time_limit: bool
    """Whether the seconds ended the descent before it converged."""
    verdict: str
    """One of `VERDICTS`."""
    loss_with_hidden_relu: float
    """Loss with a ReLU added to hidden neurons, by samples; nan if `loss` is below the zero model's."""
    law: Features
    """Law of the data for which the model was audited."""

    def excess(self, loss: float) -> str:
        """Return (loss - best_known) / best_known in per cent, such as "4.1 %"; "" if that is 0 or less."""
        none = self.best_known <= SAME * self.zero_loss  # 0, or rounding of it: no unit
        relative_excess = (loss - self.best_known) / (self.zero_loss if none else self.best_known)
        rounding = self.loss_error / max(self.best_known, self.zero_loss * SAME)
        if not relative_excess > SAME + rounding:
            return ""
        return f"{_percent(relative_excess)}{' of the zero model' if none else ''}"

    @cached_property
    def learning_coefficient(self) -> LearningCoefficient | None:
        """Local learning coefficient (singular learning theory) of a minimum, or bounds on it; else None.

        None if features are more than 6, not uniform on [0, 1] or in groups, and if descent lowers the loss
        or was not tried.
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

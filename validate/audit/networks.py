"""Audits of networks with a nonlinear hidden layer beside the naive solution."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isinf
from typing import Any

import numpy as np

from ...solvers.deadline import Deadline
from ...solvers.loss.exact import model_loss
from ...solvers.loss.network import assemble
from ...solvers.loss.network.naive import naive_loss
from ...solvers.loss.network.relu_output import covers
from ...solvers.loss.network.time_limit import OutOfTime
from ...solvers.loss.problem import Accuracy, Law
from ...solvers.loss.result import SAMPLES, Loss
from ...theory.annotations import as_annotated
from ...theory.computation import loss_lower_bound
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.results import frozen, result
from ...theory.validation import FloatArray, number

# Samples in a block; blocks at least, unless the seconds are over, and at most, until an error is small.
_BLOCK, _LEAST, _BLOCKS, _SMALL = 10_000, 40, 400, 1e-3
_NUMBERS = 4_000_000  # in a block at most
# Share of the seconds left that an exact sum may take; samples have the rest.
_SHARE = 0.75
# Seconds above which losses and measures at groups of features are means over samples.
GROUP_SECONDS = 60.0
# Seconds that an exact sum may take although none are left.
_LEAST_SECONDS = 0.1
# Samples that tell which target a network computes; standard errors, and the ratio of losses, that make
# another one closer.
_LOOK, _CLOSER, _FAR = 4_000, 5.0, 2.0


# A gradient below this, of the loss of answering the means, is that of single precision.
STILL = 1e-5


def seconds_of(seconds: Any) -> float:
    """Return a validated budget of seconds, a float of at least 0, or inf."""
    if isinstance(seconds, float) and isinf(seconds) and seconds > 0.0:
        return seconds
    return number("seconds", seconds, 0.0)


def _format_seconds(seconds: float) -> str:
    """Return seconds as text, with one digit below ten and two above."""
    return f"{seconds:.1g}" if seconds < 9.5 else f"{float(f'{seconds:.2g}'):.0f}"


@result
class NetworkAudit:
    """A network's loss beside that of the naive solution, which computes some of the targets exactly."""

    model: Model
    target: str
    """What the outputs should compute, by name."""
    loss: float
    """Expected loss: mean over outputs of importance times squared error."""
    loss_error: float
    """Largest error of `loss`; four standard errors if `method` is "samples"."""
    per_output: FloatArray
    """Expected squared error of each output, without importance."""
    method: str
    """How the loss was computed, "samples" if not exactly."""
    zero_loss: float
    """Loss of answering each output by the mean of its target."""
    naive: float
    """Loss of the naive solution; nan where features are not independent."""
    naive_features: int
    """Number of features whose targets the naive solution computes."""
    lower_bound: float
    """Lower bound of the loss of networks with so many neurons and linear outputs; nan if none is known."""
    gradient_norm: float
    """Norm of the gradient in all weights, biases, thresholds; nan if outputs are nonlinear or time ran out.

    A residual path is part of the target, and not of the weights.
    """
    closer: str
    """Name of another target that the outputs are far closer to than to `target`, or ""."""
    exact_seconds: float
    """Estimated seconds for the exact loss if the budget was too small for it; else 0."""
    gradient_seconds: float
    """Estimated seconds for the exact loss and gradient if the budget was too small for both; else 0."""

    @property
    def beats_naive(self) -> bool | None:
        """Whether the loss is below that of the naive solution; None if the loss's error leaves it open.

        The naive solution computes the targets of some features exactly and answers the others by their
        means. It is not known, and the value None, if features are not independent.
        """
        if np.isnan(self.naive) or abs(self.loss - self.naive) <= self.loss_error:
            return None
        return self.loss < self.naive

    @property
    def left_out(self) -> str:
        """Sentence on the exact loss or gradient for which the budget was too small; "" if there is none."""
        alone, both = (_format_seconds(seconds) for seconds in (self.exact_seconds, self.gradient_seconds))
        if self.exact_seconds:
            with_gradient = f", with its gradient {both}" if self.gradient_seconds else ""
            return f"The exact loss was left out: it would take about {alone} seconds{with_gradient}."
        if self.gradient_seconds:
            return f"The gradient was left out: it would take about {both} seconds."
        return ""

    @property
    def advice(self) -> str:
        """Advice on the network in a sentence, with the evidence in brackets."""
        rests = f"its loss is sampled, to +- {self.loss_error:.1g}" if self.method == SAMPLES else ""
        if np.isnan(self.gradient_norm):
            rest = "whether training is finished was not tried, as that takes the gradient"
        else:
            still = self.gradient_norm < STILL * self.zero_loss
            rest = "its gradient vanishes" if still else f"its gradient has length {self.gradient_norm:.2g}"
        basis = f"({'; '.join(reason for reason in (rest, rests, 'no search was made') if reason)})"
        if self.closer:
            return f"Check the target: its outputs are closer to {self.closer!r} {basis}."
        if self.beats_naive is None:
            is_known = not np.isnan(self.naive)
            why = "it is as good as the naive solution" if is_known else "no naive solution is known"
            return f"Not decided: {why} {basis}."
        unit, of_what = (self.naive, "") if self.naive else (self.zero_loss, " of the loss of the means")
        gap = f"{100.0 * abs(self.loss - self.naive) / unit:.3g} %{of_what}"
        if self.beats_naive:
            return f"It computes in superposition: {gap} below the naive solution {basis}."
        return (
            f"Train on or start again: it is {gap} above the naive solution, which computes "
            f"{self.naive_features} features exactly {basis}."
        )

    @property
    def sentence(self) -> str:
        """Sentences that compare the loss with the naive solution's and with the lower bound.

        The naive solution computes the targets of as many features as neurons permit. Further sentences
        follow if outputs are closer to another target, or if the budget left something out.
        """
        bound = closer = ""
        if self.lower_bound > 0.0:
            bound = f"No network with as many neurons is below {self.lower_bound:.6g}."
        if self.closer:
            closer = f"Its outputs are closer to the target {self.closer!r}: was it trained for that?"
        return " ".join(filter(None, (self._naive_comparison, bound, closer, self.left_out)))

    @property
    def _naive_comparison(self) -> str:
        """Sentence that compares the loss with that of the naive solution, in per cent of the naive loss.

        The naive solution computes the targets of as many features as neurons permit, and answers others by
        their means.
        """
        loss = f"Loss {self.loss:.6g}"
        if self.method == SAMPLES:
            loss += f" +- {self.loss_error:.1g} by samples"
        if np.isnan(self.naive):
            return f"{loss}. For features that are not independent no naive solution is known."
        naive = (
            f"the naive solution, which computes {self.naive_features} of {self.model.n_features} features "
            f"with as many neurons and answers the others by their means, {self.naive:.6g}"
        )
        if self.beats_naive is None:
            return f"{loss}, as {naive}."
        side = "below" if self.beats_naive else "above"
        by = f"{100.0 * (abs(self.loss - self.naive) / self.naive):.3g} % " if self.naive else ""
        return f"{loss}, {by}{side} {naive}."


@as_annotated
def audit_network(
    model: Model, law: Any, target: Any = "identity", *, tol: float = 1e-6, seconds: Any = 20.0
) -> NetworkAudit:
    """Return a network's loss and gradient norm beside the loss of the naive solution and a lower bound.

    The naive solution computes the targets of as many features as neurons permit, and answers the others by
    their means (`solvers.computation.naive_loss`).

    Parameters
    ----------
    model : Model
        Network with nonlinear hidden neurons.
    law : float or Features
        Law of the data, or the probability that a feature is on.
    target
        What the outputs should be: "identity" (the features), "relu", "abs" or "x+relu" of them, or arrays:
        A for A x, (A, name) for A f(x), (A, name, B) for A f(x) + B x, as for `solvers.loss.evaluator`.
    tol : float, optional
        Error to aim at for each output, in units of E x_i^2.
    seconds : float, optional
        Budget, without compilation. If the exact loss and its gradient take longer, the gradient is left out.
        The loss is sampled in the rest of the budget if the exact one takes longer, or has a larger error
        than samples. With `math.inf` the loss is exact wherever it can be, however long that takes.

    Notes
    -----
    If features are independent and outputs linear, only inputs with two or more active features are sampled;
    the part of the loss from other inputs is exact.

    Examples
    --------
    >>> neuron = Model([[1.0, 0.0]], hidden="relu", output="identity")
    >>> audited = audit_network(neuron, Features(2, 0.1, "symmetric"), "relu")
    >>> round(audited.loss, 9), round(audited.naive, 9), audited.beats_naive
    (0.008333333, 0.008020833, False)
    """
    tol, seconds = number("tol", tol, 0.0, 1.0, brackets="()"), seconds_of(seconds)
    deadline = Deadline(seconds)
    features = as_features(law, model.n_features)
    A, name, B = assemble.parse_target(target, model.n_outputs, model.n_features)
    closer = _closer_target(model, features, target)
    with_residual, (model, B) = model, assemble.without_residual_path(model, B)
    goal = (A, name) if B is None else (A, name, B)
    zero = Model(np.zeros((1, model.n_features)), W_out=np.zeros((model.n_outputs, 1)), output="identity")
    nothing = model_loss(zero, features, Accuracy(), True, target=goal)
    assert nothing.gradient is not None
    means = -0.5 * model.n_outputs * nothing.gradient["b"]  # importance times the targets' means
    importance = assemble.importance_of(Law(features), model.n_outputs)
    of_mean = np.divide(means**2, importance, out=np.zeros_like(means), where=importance > 0.0)
    naive, naive_features = np.nan, 0
    if features.independent:
        naive, naive_features = naive_loss(features, model.n_hidden, goal, model.n_outputs)
    loss, exact_seconds, gradient_seconds = _loss(model, features, goal, tol, deadline)
    length = np.nan
    if loss.gradient is not None:
        length = float(np.sqrt(sum(np.sum(derivative**2) for derivative in loss.gradient.values())))
    return NetworkAudit(
        model=with_residual,
        target=target if isinstance(target, str) else f"a matrix of {name}",
        loss=loss.loss,
        loss_error=loss.error_estimate,
        per_output=frozen(np.array(loss.per_feature)),
        method=loss.method,
        zero_loss=nothing.loss - float(np.mean(of_mean)),
        naive=naive,
        naive_features=naive_features,
        lower_bound=_lower_bound(features, model, goal),
        gradient_norm=length,
        closer=closer,
        exact_seconds=exact_seconds,
        gradient_seconds=gradient_seconds,
    )


def audit_networks(
    models: Sequence[Model], laws: Sequence[Any], target: Any, seconds: float
) -> Iterator[NetworkAudit]:
    """Yield the audits of `models`; networks of one size and law share the seconds equally.

    `laws` has one for each network. `target` is what outputs should be: "identity", "relu", "abs", "x+relu",
    or A, (A, name of f) or (A, name of f, B) for A f(x) + B x.
    """
    pairs = list(zip(models, laws, strict=True))
    keys = [(model.W_in.shape, as_features(law, model.n_features)) for model, law in pairs]
    for (model, law), key in zip(pairs, keys, strict=True):
        yield audit_network(model, law, target, seconds=seconds / keys.count(key))


def _lower_bound(law: Features, model: Model, goal: tuple[Any, ...]) -> float:
    """Return a lower bound of the loss of networks of the size of `model`; nan if none is known.

    The loss is the mean over outputs of importance times squared error. `goal`, the target, is (A, name of
    f) or (A, name of f, B) for targets A f(x) + B x. A bound is known for linear outputs and a diagonal A of
    positive entries.
    """
    A, name, B = (*goal, None)[:3]
    if model.output != "identity" or A.shape[0] != A.shape[1]:
        return np.nan
    c = A.diagonal()
    if np.any(c <= 0.0) or np.count_nonzero(A) > c.size:
        return np.nan
    try:  # c f(x) = f(c x)
        scaled = replace(law, scale=law.scale * c)
        return loss_lower_bound(scaled, model.n_hidden, name, mixing=None if B is None else B / c)
    except ValueError:  # the sizes of the values have no known law
        return np.nan


def _loss(
    model: Model, law: Features, goal: tuple[Any, ...], tol: float, deadline: Deadline
) -> tuple[Loss, float, float]:
    """Return (loss, seconds that the exact loss would take, seconds that it would take with its gradient).

    The loss is exact, or by samples if these are more accurate or the exact one takes too long. The seconds
    are estimates for what the budget left out, and 0 for what was computed. `goal` has the targets A f(x) + B
    x as (A, name of f) or (A, name of f, B); `tol` is the error to aim at for each output, in units of E
    x_i^2.
    """
    is_linear, loss, needed = model.output == "identity", None, {False: 0.0, True: 0.0}
    if not is_linear and not covers(model):
        return _sampled_loss(model, law, goal, deadline), 0.0, 0.0
    for gradient in (True, False) if is_linear else (False,):
        try:
            accuracy = Accuracy(tol, time_limit=max(_SHARE * deadline.seconds_left(), _LEAST_SECONDS))
            loss = model_loss(model, law, accuracy, gradient, target=goal)
            break
        except OutOfTime as out:
            needed[gradient] = out.seconds
        except ValueError:  # too many features that depend on each other, or values without a transform
            if law.has_exact_sums:
                raise
            return _sampled_loss(model, law, goal, deadline), 0.0, 0.0
    if loss is None or (deadline.is_limit() and loss.error_estimate > _SMALL * loss.loss):
        sampled = _sampled_loss(model, law, goal, deadline)
        if loss is None:
            loss = sampled
        elif sampled.error_estimate < loss.error_estimate:
            loss = replace(sampled, gradient=loss.gradient, gradient_error=loss.gradient_error)
    return loss, needed[False], needed[True]


def _target_matrix(x: FloatArray, A: FloatArray | None, name: str, B: FloatArray | None = None) -> FloatArray:
    """Return the targets A f(x) + B x (count, n_outputs) of samples x (count, n).

    f is `name`: "identity", "abs" or "relu". A of None is the identity, B of None is 0.
    """
    f = x if name == "identity" else (np.abs(x) if name == "abs" else np.maximum(x, 0.0))
    of_f = f if A is None else f @ A.T
    return of_f if B is None else of_f + x @ B.T


def _closer_target(model: Model, law: Features, target: Any) -> str:
    """Return the name of another target that a model's outputs fit far better than `target`, or "".

    Other targets are "identity", "relu", "abs" and "x+relu". One fits far better if its loss on samples is
    less than half as large, significantly. If `target` is given by arrays, "" is returned.
    """
    if not isinstance(target, str) or model.n_outputs != model.n_features:
        return ""
    x = law.sample(_LOOK, np.random.default_rng(0))
    y, squares = model(x), {}
    for name in (*assemble.TARGETS, assemble.RESIDUAL):
        wanted = _target_matrix(x, *assemble.parse_target(name, model.n_outputs, model.n_features))
        squares[name] = (wanted - y) ** 2 @ law.importance / model.n_outputs
    best = min(squares, key=lambda name: float(squares[name].mean()))
    excess = squares[target] - squares[best]
    sure = excess.mean() > _CLOSER * excess.std() / np.sqrt(_LOOK)
    return best if sure and squares[target].mean() > _FAR * squares[best].mean() else ""


def _loss_with_few_on(model: Model, law: Features, goal: tuple[Any, ...], deadline: Deadline) -> Loss | None:
    """Return the exact part of a model's loss from inputs with at most one active feature, or None.

    The part is P(at most one active) times the mean loss of such inputs; `goal` has the targets A f(x) + B x
    as (A, name of f) or (A, name of f, B). None if features are dependent, outputs are not linear, or time
    until `deadline` or the law do not permit it.
    """
    chances = law.sparsity_pmf()
    if not (law.independent and model.output == "identity" and law.n_features > 1 and chances[1] > 0.0):
        return None
    try:
        accuracy = Accuracy(time_limit=max(0.25 * deadline.seconds_left(), _LEAST_SECONDS))
        laws = [replace(law, exactly=k) for k in (0, 1) if chances[k] > 0.0]
        parts = [model_loss(model, conditioned_law, accuracy, target=goal) for conditioned_law in laws]
    except (OutOfTime, ValueError):  # a law whose values cannot be integrated so
        return None
    weights = [chances[k] for k in (0, 1) if chances[k] > 0.0]

    def total(name: str) -> Any:
        """Return the attribute `name` of the losses with 0 and with 1 feature on, summed by probability."""
        return sum(weight * getattr(part, name) for weight, part in zip(weights, parts, strict=True))

    errors = total("per_feature"), total("per_feature_error")
    return Loss(total("loss"), total("error_estimate"), *errors, method="pair_exact")


def _sample_several_on(law: Features, least: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return samples (count, n) of independent features, given that at least `least` (1 or 2) are on.

    The first and the last feature that are on are drawn first, then the features between them.
    """
    off = 1.0 - law.p
    none_before = np.cumprod(np.r_[1.0, off])[:-1]
    none_from = np.cumprod(np.r_[1.0, off[::-1]])[::-1]  # that none from this one on is on
    indices = np.arange(law.n_features)
    first = np.cumsum(law.p * none_before * (1.0 - none_from[1:] if least > 1 else 1.0))
    start = np.searchsorted(first / first[-1], rng.random(count))
    end = np.full(count, law.n_features)
    if least > 1:  # the last one is b or one before it with the probability that none after b is on
        u = 1.0 - (1.0 - none_from[1 + start]) * (1.0 - rng.random(count))
        end = np.clip(np.searchsorted(none_from[1:], u), start + 1, law.n_features - 1)
    on = (rng.random((count, law.n_features)) < law.p) & (indices > start[:, None]) & (indices < end[:, None])
    on |= (indices == start[:, None]) | (indices == end[:, None])
    x = on * law.scale
    x[on] *= law.values.draw(rng, np.count_nonzero(on))
    return np.asarray(x)


def _sampled_loss(model: Model, law: Features, goal: tuple[Any, ...], deadline: Deadline) -> Loss:
    """Return the loss of `model` by samples until the deadline, with four standard errors as its error.

    The part of the loss from inputs with at most one active feature is exact if `_loss_with_few_on` returns
    it; else only the part without active features is. The other inputs are sampled. Dependent features are
    sampled from their law as it is. `goal` has the targets A f(x) + B x as (A, name of f) or (A, name of f,
    B); with A None they are f(x).
    """
    rng = np.random.default_rng(0)
    importance = assemble.importance_of(Law(law), model.n_outputs)

    def errors(x: FloatArray) -> FloatArray:
        """Return the squared errors of the outputs for inputs x."""
        return np.asarray((_target_matrix(x, *goal) - model(x)) ** 2)

    rest = _loss_with_few_on(model, law, goal, deadline)
    if rest is not None:
        share, least = float(law.sparsity_pmf()[2:].sum()), 2
        base, off = np.r_[rest.per_feature, rest.loss], np.r_[rest.per_feature_error, rest.error_estimate]
    else:
        none_on = float(np.prod(1.0 - law.p)) if law.independent else 0.0
        share, least = 1.0 - none_on, 1
        at_zero = errors(np.zeros((1, law.n_features)))[0]
        base = none_on * np.r_[at_zero, importance @ at_zero / model.n_outputs]
        off = np.zeros(base.size)
    sums, count, mean, spread = np.zeros((2, model.n_outputs + 1)), 0, base, off
    block = max(min(_BLOCK, _NUMBERS // max(law.n_features, model.n_outputs)), 16)
    for done in range(_BLOCKS if share > 0.0 else 0):
        x = _sample_several_on(law, least, block, rng) if law.independent else law.sample(block, rng)
        per_output = errors(x)
        losses = np.concatenate([per_output, per_output @ importance[:, None] / model.n_outputs], axis=1)
        sums += losses.sum(axis=0), (losses**2).sum(axis=0)
        count += block
        average, square = sums / count
        mean = base + share * average
        spread = off + 4.0 * share * np.sqrt(np.maximum(square - average**2, 0.0) / count)
        late = deadline.is_over() and done > 0
        if late or (done + 1 >= _LEAST and spread[-1] <= _SMALL * mean[-1]):
            break
    return Loss(float(mean[-1]), float(spread[-1]), mean[:-1], spread[:-1], method=SAMPLES)


def sampled_loss(model: Model, law: Features, target: Any = None, *, seconds: float = 0.0) -> Loss:
    """Return a model's loss as a mean over samples; its error is four standard errors.

    At least 20,000 samples are drawn, fewer above 400 features or outputs. More, up to 4 million, are drawn
    until `seconds` are over or the error is below 0.1 % of the loss. Each call draws the same samples.
    `target` is what the outputs should be: a name such as "relu", or A, (A, name of f) or (A, name of f, B)
    for A f(x) + B x; None is the features.
    """
    goal: tuple[Any, ...] = None, "identity"
    if target is not None:
        goal = assemble.parse_target(target, model.n_outputs, model.n_features)
    return _sampled_loss(model, law, goal, Deadline(seconds))

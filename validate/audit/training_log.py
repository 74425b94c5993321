"""Records of a model in training beside the best known one and the lower bound, with advice from them."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from ...solvers.deadline import Deadline, work_seconds
from ...solvers.minimise import lower_bound
from ...solvers.minimise.objective import Objective
from ...solvers.progress import no_status_line, report_progress, status
from ...theory import validation
from ...theory.features import Features
from ..loading import Weights, load
from .descents import dead_outputs, gradient_norm
from .losses import with_losses
from .models import DESCENT_FEATURES, shares_saved
from .networks import STILL
from .results import REPRESENTED, SAME
from .search import SEARCH_SHARE, KnownModels, search_size

# Seconds for the loss of a record that is computed whatever it takes, as in an audit.
_RECORD_SECONDS = 20.0
# Seconds that an exact loss may take although the share has fewer left (`solvers.loss.budget`).
_LEAST_SECONDS = 0.3
# Steps from a record to the next, over the steps so far: some twenty records a decade.
_GROWTH = 0.12
# Looks at the clock while the steps so far double, where a record is due and the share has no time for it.
_LOOKS = 64
# Records of one loss, at least, that tell of a frozen optimiser.
_LEAST_RECORDS = 4
# The loop's own losses, at least and at most, that are compared with the exact ones.
_LEAST_LOSSES = 8
_RECENT_RECORDS = 20
# Relative difference from the exact loss that is never spoken of, and the chance that a greater one is none.
_LOSS_BOUND = 0.05
_FALSE_ALARMS = 1e-4
# Relative difference from a cause, and the chance that a cause is not named although it is the one.
_CAUSE_BOUND = 0.02
_CAUSE_MISSED = 0.01


class TrainingRecord(dict[str, float]):
    """The numbers of one step of a training loop by name, plain floats for any logger, with attributes.

    The attributes are ``step``; ``method``, how the loss was computed ("samples" if not exactly);
    ``train_loss``, the loop's own loss, nan if it was not passed; ``unweighted_loss``, the loss without
    importances; ``advice``, sentences on what is wrong, mostly empty.
    """

    def __init__(
        self, numbers: Mapping[str, float], step: int, method: str, train_loss: float, unweighted_loss: float
    ):
        super().__init__(numbers)
        self.step, self.method, self.advice = step, method, ""
        self.train_loss, self.unweighted_loss = train_loss, unweighted_loss


class Schedule:
    """The schedule of records: log-spaced in steps, within a `share` of the time since the first record."""

    def __init__(self, share: float):
        self.share = share
        self._first = self._due = 0
        self._start: float | None = None
        self._spent, self._expected = 0.0, 0.0

    def seconds_left(self) -> float:
        """Return the seconds that a record may take now, so that records take at most `share` of all time.

        A record is a measurement of the model in training. Time counts from the first one, which has a fixed
        budget. With a share of 1 there is no limit, inf.
        """
        if self.share == 1.0:
            return np.inf
        if self._start is None:
            return _LEAST_SECONDS
        return self.share * (work_seconds() - self._start) - self._spent

    def is_due(self, step: int) -> bool:
        """Return whether a record is due at a step, and time is left for one that takes as long as the last.

        A record is a measurement of the model in training; the steps at which records are due are log-spaced.
        """
        if step < self._due:
            return False
        is_due = self.seconds_left() >= self._expected
        if not is_due:
            self._due = step + 1 + (step - self._first) // _LOOKS
        return is_due

    def add(self, step: int, seconds: float, forced: bool) -> None:
        """Count a record at `step` and the `seconds` it took; the first one's, spent on loading, are free.

        The next record is expected to take as long, unless this one was `forced`, outside the schedule.
        """
        if self._start is None:
            self._first, self._start, self._expected = step, work_seconds(), seconds
        else:
            self._spent += seconds
            self._expected = self._expected if forced else seconds
        self._due = step + max(1, int(_GROWTH * (step - self._first)))


@dataclass(eq=False, repr=False)
class TrainingLog:
    """A log of a model in training, made by `watch`: call it with (model, step) in the training loop."""

    law: Features
    n_hidden: int
    draw: Callable[[xr.Dataset, Any], Any]
    known: KnownModels | None
    """The best known model and the lower bound; None until the first record searches for them."""
    seconds: float
    schedule: Schedule
    instance: int | None
    rng: np.random.Generator
    progress: Any
    records: list[TrainingRecord] = field(default_factory=list, init=False)
    _step: int = field(default=0, init=False)
    _reads_state: bool = field(default=False, init=False)

    def __call__(
        self, model: Any, step: int, *, train_loss: Any = None, force: bool = False
    ) -> TrainingRecord | None:
        """Return the record of a model at a step if one is due or `force` is set, else None without delay.

        `train_loss` is the training loop's loss of this step's batch, a number or a scalar tensor.
        """
        self._step = step if type(step) is int else validation.integer("step", step, 0)  # millions of times
        if not (force or self.schedule.is_due(self._step)):
            return None
        validation.integer("step", step, self.records[-1].step if self.records else 0)
        if hasattr(train_loss, "detach"):  # of PyTorch, on any device and in any precision
            train_loss = train_loss.detach().cpu().double()
        reported_loss = np.nan if train_loss is None else validation.number("train_loss", train_loss, 0.0)
        is_first, start = not self.records, work_seconds()
        record = self._record(self._weights(model, must_call=force or is_first), reported_loss, force)
        if is_first:  # which has loaded code: what later ones take is seen when it is done again
            start = work_seconds()
            record = self._record(self._weights(model, must_call=False), reported_loss, force)
        if self.records and self.records[-1].step == record.step:
            self.records.pop()
        self.records.append(record)
        faults = _advice_if_frozen(self.records), _advice_if_other_loss(self.records, self.law)
        record.advice = " ".join(filter(None, faults))
        self.schedule.add(record.step, work_seconds() - start, force)
        return record

    def _record(self, weights: Weights, train_loss: float, force: bool) -> TrainingRecord:
        """Return the record of a model, `weights`, at the present step; the first call makes a search.

        `train_loss` is the loop's loss of the batch; with `force` the schedule's limit of time does not hold.
        """
        if self.known is None:
            self.known = self._search(weights)
        limit = _RECORD_SECONDS if force else min(self.schedule.seconds_left(), _RECORD_SECONDS)
        return _measure(weights, self.law, self.known, Deadline(limit), self._step, train_loss)

    def finish(self, model: Any, *, train_loss: Any = None) -> TrainingRecord:
        """Return the record of the trained model at the last step, however long it takes.

        `train_loss` is the loop's loss of its last batch.
        """
        record = self(model, self._step, train_loss=train_loss, force=True)
        assert record is not None
        return record

    def lightning(self, name: str = "") -> Any:
        """Return a callback for Lightning's ``Trainer(callbacks=[...])`` that writes records to its loggers.

        `name` is the attribute of the LightningModule that is the model, by default the LightningModule.
        """
        from .lightning import lightning_callback

        return lightning_callback(self, name)

    @property
    def advice(self) -> str:
        """Sentences on faults that the last record shows; "" if there are none.

        Faults are a loss that does not change although its gradient is not 0, and a loop's loss that differs
        from the exact one.
        """
        return self.records[-1].advice if self.records else ""

    def _weights(self, model: Any, must_call: bool) -> Weights:
        """Return the weights of `model`, by a call on inputs, or from its state dict alone, which is faster.

        The state dict is trusted once it has given the same weights as a call; with `must_call` the model is
        called anyway.
        """
        if self._reads_state and not must_call:
            return self._loaded(model.state_dict())
        weights = self._loaded(model)
        self._reads_state = False
        if hasattr(model, "state_dict") and len({*weights.W_out.shape}) == 2:  # shapes tell the axes
            try:
                state = self._loaded(model.state_dict())
            except ValueError:
                return weights
            names = ("W_out", "W_in", "b", "b_saved")
            pairs = ((getattr(state, name), getattr(weights, name)) for name in names)
            self._reads_state = all(np.array_equal(*pair) for pair in pairs)
        return weights

    def _loaded(self, model: Any) -> Weights:
        """Return the weights of the watched instance of `model`; ValueError if they are of another size."""
        loaded = load(model, self.law)
        models, k = loaded.weights(), self.instance
        if k is None and len(models) > 1:
            raise ValueError(f"`instance` must say which model is watched; got None, for {loaded}.")
        weights = models[validation.integer("instance", k or 0, 0, len(models) - 1)]
        n, m = self.law.n_features, self.n_hidden
        if weights.W_out.shape != (n, m):
            raise ValueError(f"`model` must have {n} features and {m} hidden neurons; got {loaded}.")
        return weights

    def _search(self, weights: Weights) -> KnownModels:
        """Return the best known model of this size, by a search like that of `audit`, and a lower bound.

        `weights` are those of the watched model.
        """
        known = KnownModels(self.law, lower_bound(self.law.n_features, self.n_hidden, self.law))
        known.deadline = Deadline(self.seconds / SEARCH_SHARE)
        line = no_status_line() if self.progress is False else report_progress("watch", self.progress or None)
        with line as tell:
            search_size([(0, weights)], None, known, self.rng, tell or status)
        return known

    def to_dataset(self) -> xr.Dataset:
        """Return all records over ``step``, as a dataset whose attributes are law, size and search.

        Variables are the numbers of records (``loss``, ``best_known``, ``lower_bound``, ``gradient_norm`` and
        others), ``method`` (how the loss was computed), ``train_loss`` and ``advice``.
        """
        if self.known is None or not self.records:
            raise ValueError("`records` must not be empty; got none: call this in the training loop.")
        numbers = {name: ("step", [record[name] for record in self.records]) for name in self.records[0]}
        extra = ("method", "train_loss", "advice")
        numbers |= {name: ("step", [getattr(record, name) for record in self.records]) for name in extra}
        attributes = {
            "law": repr(self.law),
            "n_features": self.law.n_features,
            "n_hidden": self.n_hidden,
            "best_known_from": self.known.name,
            "starts": self.known.searched,
            "hits": self.known.hits,
            "share": self.schedule.share,
        }
        return xr.Dataset(numbers, {"step": [record.step for record in self.records]}, attributes)

    def plot(self, ax: Any = None) -> Any:
        """Draw the loss over steps beside the best known one and the lower bound; return the axes."""
        return self.draw(self.to_dataset(), ax)

    def __repr__(self) -> str:
        if not self.records:
            return f"no record yet of {self.law.n_features} features on {self.n_hidden} hidden neurons"
        last = self.records[-1]
        numbers = ", ".join(f"{name} {value:.6g}" for name, value in last.items())
        return " ".join(filter(None, (f"step {last.step}: {numbers} ({last.method}).", last.advice)))


def _measure(
    weights: Weights, law: Features, known: KnownModels, deadline: Deadline, step: int, train_loss: float
) -> TrainingRecord:
    """Return a record with an audit's numbers: exact, or by samples if the deadline leaves no time.

    The numbers are the loss, the gaps to the best known and to the lower bound, the features represented, the
    dead outputs and the gradient's norm. `weights` are those of the model at a `step` of training,
    `train_loss` the loop's loss at that step; `known` has the best known model of its size.
    """
    [(_, model)], [exact] = with_losses([(0, weights)], law, deadline)
    n, m = model.W_out.shape
    slope = np.nan
    if n <= DESCENT_FEATURES:
        slope = gradient_norm(Objective(n, m, law, model.tied), model, deadline)
    numbers: dict[str, Any] = {
        "loss": exact.loss,
        "loss_error": exact.error_estimate,
        "best_known": known.best,
        "lower_bound": known.lower,
        "gap_to_best": exact.loss - known.best,
        "gap_to_lower_bound": exact.loss - known.lower,
        "represented": np.sum(shares_saved(exact.per_feature, law) >= REPRESENTED),
        "dead": dead_outputs(model.W_out, model.W_in, model.b, law).size,
        "gradient_norm": slope,
    }
    floats = {name: float(number) for name, number in numbers.items()}
    return TrainingRecord(floats, step, exact.method, train_loss, float(np.mean(exact.per_feature)))


def _advice_if_frozen(records: Sequence[TrainingRecord]) -> str:
    """Return a sentence if the loss no longer changes although its gradient is not 0, else "".

    `records` are those of the training so far.
    """
    last = records[-1]

    def is_same(record: TrainingRecord) -> bool:
        """Return whether a record has the last loss, but for rounding."""
        return abs(record["loss"] - last["loss"]) <= SAME * last["loss"]

    same = list(itertools.takewhile(is_same, reversed(records)))
    if len(same) < _LEAST_RECORDS or not last["gradient_norm"] > STILL:
        return ""
    return (
        f"The loss has not changed since step {same[-1].step}, although its gradient has length "
        f"{last['gradient_norm']:.2g}: the learning rate is 0 or too small, or the optimiser does not have "
        "these weights."
    )


def _advice_if_other_loss(records: Sequence[TrainingRecord], law: Features) -> str:
    """Return a sentence if the loop's loss differs from the exact one, with ratio and likely causes, or "".

    The test is Student's t of the ratio (loop's loss)/(exact loss) in the last `records`. It allows for the
    change of the loss in a step, as a loop's loss is mostly that before the step, and for the error of the
    exact loss.
    """
    used = [
        record for record in records[-_RECENT_RECORDS:] if record.train_loss > 0.0 and record["loss"] > 0.0
    ]
    count = len(used)
    if count < _LEAST_LOSSES:
        return ""
    loss = np.array([record["loss"] for record in used])
    ratios = np.array([record.train_loss for record in used]) / loss
    change = np.abs(np.diff(np.log(loss))) / np.diff([record.step for record in used])
    bias = change.mean() + np.mean([record["loss_error"] for record in used] / loss)
    ratio, error = float(ratios.mean()), float(ratios.std(ddof=1)) / np.sqrt(count)

    def differs(factor: float, chance: float, bound: float) -> bool:
        """Return whether the mean ratio of losses differs from `factor` by more than `bound` * `factor`.

        `chance` is the significance level of the test.
        """
        t = -special.stdtrit(count - 1, chance / 2.0)
        return bool(abs(ratio - factor) > t * error + (bound + bias) * factor)

    if not differs(1.0, _FALSE_ALARMS, _LOSS_BOUND):
        return ""
    n, unweighted = law.n_features, float(np.mean([record.unweighted_loss for record in used] / loss))
    causes = {
        f"as a sum over the {n} features is, where the exact one is their mean": float(n),
        "as a mean without the importances is": unweighted,
        f"as a sum over the {n} features without the importances is": n * unweighted,
        "as half of it is": 0.5,
    }
    cause = min(causes, key=lambda name: abs(np.log(ratio / causes[name])))
    if differs(causes[cause], _CAUSE_MISSED, _CAUSE_BOUND):
        cause = f"and not by chance: a sum in place of a mean ({n} features, or the batch), importances, "
        cause += "or another law, such as another p"
    return f"The loop's own loss is {ratio:.3g} times the exact one in {count} records, {cause}."

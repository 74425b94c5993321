"""The settings shared by all models of one call of `train`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...theory import validation
from .engine import EPSILON, PRECISIONS, ModelState, check_memory
from .points import LARGEST_SIZE
from .schedule import BLOCK, ENDS, LIU, STOPPING_RULE, learning_rates

INITS = ("aligned", "linear", "normal")

# Best of 3e-3, 1e-2 and 3e-2, or level with the best: reference/README.md gives the measurements.
PEAK_LEARNING_RATE = 1e-2


@dataclass(frozen=True)
class TrainingSettings:
    """The validated arguments of `train` that decide its numbers; a rate of None becomes the default.

    A checkpoint is valid for these settings.
    """

    n_features: int
    tied: bool
    init: str
    schedule: str
    steps: int
    batch_size: int
    learning_rate: float | None
    """Learning rate of the phase with the stopping rule."""
    peak_learning_rate: float | None
    """Largest learning rate of the converging phase."""
    precision: str
    device: str
    """Type of the device, "cpu" or "cuda", once it is chosen."""
    weight_decay: float
    most_steps: int | None

    def __post_init__(self) -> None:
        n_features = validation.integer("n_features", self.n_features, 2, LARGEST_SIZE)
        checked = {
            "n_features": n_features,
            "init": validation.choice("init", self.init, INITS),
            "schedule": validation.choice("schedule", self.schedule, tuple(ENDS)),
            "steps": _whole_blocks("steps", self.steps),
            "batch_size": validation.integer("batch_size", self.batch_size, 1, LARGEST_SIZE),
            "learning_rate": _rate_or_default("learning_rate", self.learning_rate, 3e-3 / n_features**0.5),
            "peak_learning_rate": _rate_or_default(
                "peak_learning_rate", self.peak_learning_rate, PEAK_LEARNING_RATE
            ),
            "precision": validation.choice("precision", self.precision, tuple(PRECISIONS)),
            "most_steps": None if self.most_steps is None else _whole_blocks("most_steps", self.most_steps),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def ends(self) -> Sequence[str]:
        """Names of the ends to train to, in their order: "stopping rule", "converged" or both."""
        return ENDS[self.schedule]

    @property
    def epsilon(self) -> float:
        """Adam's epsilon; times n_features with the schedule "liu" (Liu et al.), whose loss is a mean."""
        return EPSILON * (self.n_features if self.schedule == "liu" else 1)

    def check_memory(self, n_hidden: Sequence[int]) -> None:
        """Raise ValueError if models with these n_hidden, or a batch, do not fit into memory."""
        # Weights and biases, two moments of each, and the weights at each end.
        copies = len(self.ends) + 3
        sizes = sum(self.n_features * (m * (2 - self.tied) + 1) for m in n_hidden)
        check_memory("n_features", self.n_features, copies * sizes)
        check_memory("batch_size", self.batch_size, 3 * self.batch_size * self.n_features)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name; a weight_decay of 0 and a most_steps of None are left out."""
        optional = {"weight_decay": self.weight_decay != 0.0, "most_steps": self.most_steps is not None}
        return {name: value for name, value in asdict(self).items() if optional.get(name, True)}

    def rates_of(self, model: ModelState) -> np.ndarray:
        """Return the learning rates of the next `BLOCK` = 100 batches of a model, (100,), one for each batch.

        Until the stopping rule ends the model's first phase, if the schedule has one, the rate is
        `learning_rate`. In the converging phase it rises to `peak_learning_rate` and falls again.
        """
        if STOPPING_RULE in self.ends and STOPPING_RULE not in model.status:
            return np.full(BLOCK, self.learning_rate)
        first = model.step - model.end_steps.get(STOPPING_RULE, 0)
        phase: Any = (first, BLOCK, self.steps, self.peak_learning_rate)
        if self.schedule == "liu":
            return learning_rates(*phase, warm_up=LIU[0], last=LIU[1])
        return learning_rates(*phase)


def _whole_blocks(name: str, steps: int) -> int:
    """Return validated `steps`, a multiple of `BLOCK`, the batches of a block; errors call it `name`."""
    steps = validation.integer(name, steps, BLOCK, LARGEST_SIZE)
    if steps % BLOCK:
        raise ValueError(f"`{name}` must be a multiple of {BLOCK}; got {steps}.")
    return steps


def _rate_or_default(name: str, value: float | None, default: float) -> float:
    """Return `value`, a validated learning rate, or the default for None; errors call it `name`."""
    return default if value is None else float(validation.real(name, value, 0, brackets="()"))

"""The settings that all models of one call of `train` share."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .engine import Model
from .schedule import BLOCK, ENDS, LIU, STOPPING_RULE, learning_rates


@dataclass(frozen=True)
class TrainingSettings:
    """Checked settings that decide the numbers, in the words of `train`; a checkpoint is valid for these."""

    n_features: int
    tied: bool
    init: str
    schedule: str
    steps: int
    batch_size: int
    learning_rate: float
    """Of the phase with the stopping rule."""
    peak_learning_rate: float
    """Of the converging phase."""
    precision: str
    device: str
    """Type of the device, "cpu" or "cuda"."""
    weight_decay: float
    most_steps: int | None

    @property
    def ends(self) -> Sequence[str]:
        """Ends to train to, in their order."""
        return ENDS[self.schedule]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings, without a decay of 0 and without a limit that is None."""
        optional = {"weight_decay": self.weight_decay != 0.0, "most_steps": self.most_steps is not None}
        return {name: value for name, value in asdict(self).items() if optional.get(name, True)}

    def rates_of(self, model: Model) -> np.ndarray:
        """Return the learning rates of the next block of a model."""
        if STOPPING_RULE in self.ends and STOPPING_RULE not in model.status:
            return np.full(BLOCK, self.learning_rate)
        first = model.step - model.end_steps.get(STOPPING_RULE, 0)
        phase = (first, BLOCK, self.steps, self.peak_learning_rate)
        if self.schedule == "liu":
            return learning_rates(*phase, warm_up=LIU[0], last=LIU[1])
        return learning_rates(*phase)

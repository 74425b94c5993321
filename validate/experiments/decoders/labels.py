"""Names of decoders and coordinates of cases that several experiments share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

DECODER_LABELS = {"affine": "affine", "soft": "soft threshold", "hard": "hard threshold", "relu": "ReLU"}
DECODER_LABELS |= {"jumprelu": "JumpReLU", "topk": "TopK", "bayes": "Bayes", "iterated": "iterated"}


Case = Sequence[float]  # p and ratio


def coordinates(cases: Sequence[Case], seeds: Sequence[int]) -> dict[str, Any]:
    """Return the coordinates of a dataset: p and ratio of `cases` along ``case``, and `seeds` as ``seed``."""
    p, ratio = np.array(cases, np.float64).reshape(-1, 2).T
    return {"p": ("case", p), "ratio": ("case", ratio), "seed": list(seeds)}

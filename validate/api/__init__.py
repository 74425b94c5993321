"""The front door: a dozen functions that take a model, data or a question. `superposition` hands them on."""

from ...theory.model import Model
from ..loading import autoencoder_of, model_of
from ..proofs import properties
from ..report import explorer
from .answer import CERTAINTIES, Answer
from .audit import audit
from .best import best
from .ceiling import ceiling
from .claims import claims
from .entry import entry
from .laws import laws
from .loss import loss
from .phases import phases
from .plot import plot
from .predict import predict
from .sae import sae
from .sweep import sweep

explore = entry(explorer.explore)
refute = entry(properties.refute)

__all__ = [
    "CERTAINTIES",
    "Answer",
    "Model",
    "audit",
    "autoencoder_of",
    "best",
    "ceiling",
    "claims",
    "explore",
    "laws",
    "loss",
    "model_of",
    "phases",
    "plot",
    "predict",
    "refute",
    "sae",
    "sweep",
]

"""The front door: a dozen functions that take a model, data or a question. `superposition` hands them on."""

from ...theory.models import Model
from .. import explorer, properties
from ..loading import autoencoder_of, model_of
from .advice import audit
from .answer import CERTAINTIES, Answer
from .best import best
from .ceiling import ceiling
from .entry import entry
from .exact import loss
from .foresee import predict
from .laws import laws
from .ledger import claims
from .phases import phases
from .picture import plot
from .sae import sae
from .sweeps import sweep

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

"""Best decoders: one step of each kind, iterated ones, and the losses that a law of the data allows."""

from .attainable import Attainable, attainable
from .evolution import Evolution, recovery_ratio, state_evolution
from .optimum import Decoder, TopK, optimum, topk_optimum
from .passing import Passing, message_passing

__all__ = [
    "Attainable",
    "Decoder",
    "Evolution",
    "Passing",
    "TopK",
    "attainable",
    "message_passing",
    "optimum",
    "recovery_ratio",
    "state_evolution",
    "topk_optimum",
]

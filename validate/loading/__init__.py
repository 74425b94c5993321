"""Which model is in a module, state dict, folder, file or arrays; whatever can be called is called."""

from .arrays import array_of
from .layouts import LAYOUTS, Layout, Weights
from .live import is_live
from .models import Loaded, autoencoder_of, features_alone, load, model_of, state_of, toy_model
from .networks import NETWORK_NAMES, NETWORKS, Network
from .toy import recognise

__all__ = [
    "LAYOUTS",
    "NETWORKS",
    "NETWORK_NAMES",
    "Layout",
    "Loaded",
    "Network",
    "Weights",
    "array_of",
    "autoencoder_of",
    "features_alone",
    "is_live",
    "load",
    "model_of",
    "recognise",
    "state_of",
    "toy_model",
]

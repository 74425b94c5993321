"""Models from modules, state dicts, folders, files and arrays; modules are identified by calling them."""

from .layouts import LAYOUTS, Layout, Weights
from .live import Hints
from .models import LoadedModel, autoencoder_of, load, model_of, state_of
from .networks import NETWORK_NAMES, NETWORKS, NetworkLayout
from .toy import recognise

__all__ = [
    "LAYOUTS", "NETWORKS", "NETWORK_NAMES", "Hints", "Layout", "LoadedModel", "NetworkLayout", "Weights",
    "autoencoder_of", "load", "model_of", "recognise", "state_of",
]  # fmt: skip

"""``superposition sae | ceiling``: what an autoencoder does on known features, and what decoders reach."""

import argparse
from typing import Any

from .api import check_picture, show
from .laws import LAW_OPTIONS, ONE_LAW, laws_of
from .options import RESULTS, SEED, arguments, command, option, options_of

_DICTIONARY = "the dictionary: one array (d, n_features) in an .npz file"
_NAMES = (
    "mse", "mse_error", "explained_variance", "l0", "l1", "fires", "precision", "recall", "f1", "match",
    "cosines", "dead", "p", "firing_error", "prefix_mse", "prefix_errors",
)  # fmt: skip

_CEILING_FIELDS = (
    "decoders", "target_l0", "l0", "f1", "mse", "l0_error", "f1_error", "mse_error", "explained_variance",
    "mcc", "uniqueness", "owners", "exact", "samples", "normal_f1", "mean_active", "certainty", "note",
)  # fmt: skip


@command(
    "superposition sae sae/sae_weights.safetensors --dictionary dictionary.npz --p 0.05",
    option("file", "arrays W_enc, W_dec, b_enc, b_dec (.npz), or what SAELens wrote", metavar="FILE"),
    *ONE_LAW,
    option("--dictionary", _DICTIONARY, metavar="FILE"),
    option("--target", "what a transcoder is to rebuild, in place of the dictionary", metavar="FILE"),
    *options_of("api.sae.sae", "prefixes", "l1", "l0", "seconds"),
    option("--subtract-b-dec", "whether b_dec is subtracted from the input", choices=("yes", "no")),
    *RESULTS,
)
def sae(options: argparse.Namespace) -> None:
    """Print error, L0, F1 and firing of a sparse autoencoder on known features, exactly."""
    from ..api import sae as api
    from ..loading import model_of

    check_picture(options.plot, model=options.file)
    subtracts = None if options.subtract_b_dec is None else options.subtract_b_dec == "yes"
    autoencoder = model_of(options.file, apply_b_dec_to_input=subtracts)
    dictionary = options.dictionary = _read_matrix(options.dictionary)
    n = autoencoder.n_features if dictionary is None else dictionary.shape[1]
    options.target = _read_matrix(options.target, "target")
    (law,) = laws_of(options, [n])
    answer = api.sae(autoencoder, law, **arguments("api.sae.sae", options))
    show(answer, options, _NAMES)


@command(
    "superposition ceiling dictionary.npz --p 0.05 --l0 2 4 8 --plot ceiling.png",
    option("file", _DICTIONARY, metavar="FILE"),
    *ONE_LAW,
    option(
        "--draws",
        "draws of the features, one matrix (count, n_features) in an .npz file, in place of a law",
        metavar="FILE",
    ),
    *options_of("api.ceiling.ceiling", "l0", "latents", "samples"),
    SEED,
    *RESULTS,
)
def ceiling(options: argparse.Namespace) -> None:
    """Print which F1 and error decoders reach at each L0 that know features and dictionary."""
    from ..api import ceiling as api

    check_picture(options.plot, dictionary=options.file, draws=options.draws)
    dictionary, law = _read_matrix(options.file), _read_matrix(options.draws, "draws")
    if law is None:
        (law,) = laws_of(options, [dictionary.shape[1]])
    elif others := [name for name in LAW_OPTIONS if getattr(options, name) is not None]:
        raise ValueError(f"`draws` must stand without --{others[0].replace('_', '-')}; got both.")
    settings = arguments("api.ceiling.ceiling", options)
    show(api.ceiling(law, dictionary, **settings, rng=options.seed), options, _CEILING_FIELDS)


def _read_matrix(path: str | None, name: str = "dictionary") -> Any:
    """Return the only matrix in the file at `path`, None without one; `name` is the option, for errors."""
    if path is None:
        return None
    from ..loading import state_of

    try:
        arrays = list(state_of(path).values())
    except ValueError as error:  # it speaks of a model
        raise ValueError(str(error).replace("`model`", f"`{name}`", 1)) from error
    if len(arrays) != 1 or arrays[0].ndim != 2:
        raise ValueError(f"`{name}` must be a file of one matrix; got {len(arrays)} arrays in {path!r}.")
    return arrays[0]

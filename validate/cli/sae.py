"""``superposition sae | ceiling``: what an autoencoder does on known features, and what decoders reach."""

import argparse
from typing import Any

from .api import _results, _show, check_picture
from .laws import GIVEN, add_law, laws_of
from .text import Add

_NAMES = (
    "mse", "mse_error", "explained_variance", "l0", "l1", "fires", "precision", "recall", "f1", "match",
    "cosines", "dead", "p", "firing_error", "prefix_mse", "prefix_errors",
)  # fmt: skip

_REACHED = (
    "decoders", "asked", "l0", "f1", "mse", "l0_error", "f1_error", "mse_error", "explained_variance",
    "exact", "samples", "normal_f1", "on", "certainty",
)  # fmt: skip


def add(add_command: Add) -> None:
    """Add the commands to the program."""
    option = add_command(
        "sae",
        "print error, L0, F1 and firing of a sparse autoencoder on known features, exactly",
        "superposition sae sae/sae_weights.safetensors --mixing dictionary.npz --p 0.05",
        _sae,
    ).add_argument
    option(
        "file",
        metavar="FILE",
        help="arrays W_enc, W_dec, b_enc, b_dec (.npz), or a folder or file of SAELens",
    )
    add_law(option, sizes=False)
    option("--mixing", metavar="FILE", help="the dictionary: one array (d, n_features) in an .npz file")
    option("--target", metavar="FILE", help="what a transcoder is to rebuild, in place of the dictionary")
    option("--prefixes", type=int, nargs="+", help="errors of so many first latents, too")
    choices = ("yes", "no")
    option("--subtract-b-dec", choices=choices, help="whether b_dec is subtracted from the input")
    _results(option)

    option = add_command(
        "ceiling",
        "print which F1 and error decoders reach at each L0 that know features and dictionary",
        "superposition ceiling dictionary.npz --p 0.05 --l0 2 4 8 --plot ceiling.png",
        _ceiling,
    ).add_argument
    option("file", metavar="FILE", help="the dictionary: one array (d, n_features) in an .npz file")
    add_law(option, sizes=False)
    help_text = "draws of the features, one matrix (count, n_features) in an .npz file, in place of a law"
    option("--draws", metavar="FILE", help=help_text)
    option("--l0", type=float, nargs="+", help="expected numbers of latents that are on")
    option("--samples", type=int, default=10_000, help="that fix thresholds, and that evaluate")
    option("--seed", type=int, default=0, help="of the samples (default: 0)")
    _results(option)


def _ceiling(options: argparse.Namespace) -> None:
    from ..api.ceiling import ceiling
    from ..reference import files

    check_picture(options.plot, "plot")
    if options.plot is not None:
        files.refuse_same_file(options.plot, {"mixing": options.file, "draws": options.draws}, "plot")
    mixing, law = _dictionary(options.file), _dictionary(options.draws, "draws")
    if law is None:
        law = laws_of(options, [mixing.shape[1]])[0]
    elif given := [name for name in GIVEN if getattr(options, name) is not None]:
        raise ValueError(f"`draws` must stand without --{given[0].replace('_', '-')}; got both.")
    answer = ceiling(law, mixing, options.l0, samples=options.samples, rng=options.seed)
    _show(answer, options, _REACHED)


def _sae(options: argparse.Namespace) -> None:
    from ..api.sae import sae
    from ..loading import model_of
    from ..reference import files

    check_picture(options.plot, "plot")
    if options.plot is not None:
        files.refuse_same_file(options.plot, {"model": options.file}, "plot")
    taken = {"yes": True, "no": False, None: None}[options.subtract_b_dec]
    autoencoder = model_of(options.file, apply_b_dec_to_input=taken)
    mixing = _dictionary(options.mixing)
    n = autoencoder.n_features if mixing is None else mixing.shape[1]
    target = _dictionary(options.target, "target")
    law = laws_of(options, [n])[0]
    _show(sae(autoencoder, law, mixing, target=target, prefixes=options.prefixes), options, _NAMES)


def _dictionary(path: str | None, name: str = "mixing") -> Any:
    """Return the one matrix of a file."""
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

"""The roles that names of arrays suggest in unknown code: encoder, decoder, bias, or no part of the model."""

import re

_ENCODER = {"enc", "encoder", "encode", "emb", "embed", "embedding", "in", "input", "compress", "first"}
_DECODER = {
    "dec", "decoder", "decode", "unemb", "unembed", "unembedding", "out", "output", "readout",
    "reconstruct", "last", "final",
}  # fmt: skip
# Words of vectors that scale, shift or cut something but the outputs.
_NO_BIAS = {
    "pre", "mean", "std", "var", "scale", "scales", "gain", "gamma", "threshold", "thresholds", "norm", "ln",
    "mask", "gate", "running",
}  # fmt: skip
# Last words of what public code keeps beside the weights, and that is no part of what the model computes.
_STRAYS = {
    "loss", "losses", "importance", "importances", "probability", "probabilities", "prob", "probs",
    "frequencies", "sparsity", "sparsities", "step", "steps", "epoch", "epochs", "iteration", "seed", "lr",
    "version", "ran", "nonzero",
}  # fmt: skip
_STRAY_NAMES = {
    "learning_rate", "n_features", "n_hidden", "n_instances", "num_batches_tracked", "fractional_dims",
    "feature_norms",
}  # fmt: skip


def _split_words(name: str) -> list[str]:
    """Return the words and numbers of a name.

    >>> _split_words("model.W_enc.0"), _split_words("stepSize2")
    (['model', 'w', 'enc', '0'], ['step', 'size', '2'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)]


def is_stray(name: str) -> bool:
    """Return whether an array's name is that of importance, losses, steps and the like."""
    last = name.rpartition(".")[2].lower()
    return last in _STRAY_NAMES or (_split_words(last) or [""])[-1] in _STRAYS


def may_be_bias(name: str, hidden: bool = False) -> bool:
    """Return whether a vector's name may be that of an output bias, or with `hidden` of the neurons' bias."""
    return not (_NO_BIAS if hidden else _NO_BIAS | _ENCODER) & {*_split_words(name)}


def _role(name: str) -> int:
    """Return 0 for the name of an encoder, 1 for that of a decoder, -1 for other names."""
    words = {*_split_words(name)}
    has_role = [bool(words & _ENCODER), bool(words & _DECODER)]
    return has_role.index(True) if sum(has_role) == 1 else -1


def encoder_first(left: str, right: str) -> tuple[str, str] | None:
    """Return the names `left` and `right` with that of the encoder first, or None if they tell no roles.

    The order of entries "0.weight" and so on of a `torch.nn.Sequential` counts only if they are consecutive:
    between 0 and 2 is an activation.

    >>> encoder_first("unembed.weight", "embed.weight"), encoder_first("fc1.weight", "fc2.weight")
    (('embed.weight', 'unembed.weight'), None)
    >>> encoder_first("0.weight", "1.weight"), encoder_first("0.weight", "2.weight")
    (('0.weight', '1.weight'), None)
    """
    positions = [
        int(name.removesuffix(".weight")) for name in (left, right) if re.fullmatch(r"\d\.weight", name)
    ]
    if len(positions) == 2 and abs(positions[0] - positions[1]) == 1:
        return (left, right) if positions[0] < positions[1] else (right, left)
    roles = _role(left), _role(right)
    if roles in ((0, 1), (0, -1), (-1, 1)):
        return left, right
    return (right, left) if roles in ((1, 0), (-1, 0), (1, -1)) else None

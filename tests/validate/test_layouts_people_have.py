"""Files with names, shapes and wrappings of public code, and of nobody's: read right, or asked about.

Each row lists arrays in the order of their roles, with a letter for each axis: f features, h hidden neurons,
i instances, o one; d inputs and m latents of a sparse autoencoder; t what does not belong. The oracle is an
einsum over these letters.
"""

import ast
import json
import re

import numpy as np
import pytest

import superposition as sp
from superposition.validate import loading

SIZES = {"f": 7, "h": 3, "i": 2, "o": 1, "d": 4, "m": 9, "t": 11}
RNG = np.random.default_rng(0)

# Name: (format, wrapping, arrays). Alone "npz" and "pt" are flat.
# Names of known layouts, which are recognised as such.
LAYOUTS = {
    "superposition": ("npz", "W_in:hf W_out:fh b:f"),
    "superposition, several": ("npz", "W_in:ihf W_out:ifh b:if"),
    "Anthropic notebook": ("pt", "W:ifh b_final:if"),
    "Anthropic notebook, one": ("npz", "W:fh b_final:f"),
    "ARENA": ("pth", "W:ihf b_final:if importance:f feature_probability:f"),
    "SAELens": ("safetensors", "W:hf b_final:f"),
    "adonath jax": ("npz", "w:ifh b_final:if losses:it"),
    "zroe1": ("pt", "weights:ihf bias:ifo"),
    "zfurman56": ("pt", "W:hf b:f"),
    "liuyz0/SuperpositionScaling": ("npz", "W:fh b:f"),
    "liuyz0/SuperpositionScaling, W alone": ("npz", "W:fh"),
    "darkmatter08": ("npz", "w1_2t:hf b_1t:f"),
    "darkmatter08, untied": ("pt", "w1_2t:hf w2_2t:fh b_1t:f"),
    "darkmatter08, several": ("pt", "w_3t:ifh b_2t:iof"),
    "goodfire-ai/spd": ("pth", "linear1.weight:hf linear2.weight:fh linear2.bias:f"),
    "ApolloResearch/apd": ("pth", "linear1.weight:ifh b_final:if"),
    "timaeus-research/devinterp": ("pt", "embedding.weight:hf unembedding.weight:fh unembedding.bias:f"),
    "KfirD/PersianRug": ("pt", "initial_layer.weight:hf final_layer.weight:fh final_layer.bias:f"),
    "LucasPrietoAl/correlations-feature-geometry": ("pt", "encoder.weight:hf decoder_bias:f"),
    "LucasPrietoAl/correlations-feature-geometry, untied":
        ("pt", "encoder.weight:hf decoder.weight:fh decoder.bias:f"),
    "LucasPrietoAl/correlations-feature-geometry, text": ("npz", "enc.weight:hf bias:f"),
    "tmychow/accidental-polysemanticity": ("npz", "W:ifh"),
    "tmychow/accidental-polysemanticity, untied": ("npz", "W_enc:ifh W_dec:ifh"),
}  # fmt: skip
TOYS = LAYOUTS | {
    "rashomon-gh, Flax": ("memory", "W:fh b:f", "params"),
    "tms-kit with its optimiser": ("pt", "W:ihf b_final:if", "model_state_dict optimizer_state_dict"),
    "Spectral_Superposition":
        ("npz", "weights:ihf biases:if losses:i checkpoint_steps:i fractional_dims:if feature_norms:if"),
    "one matrix under two names": ("pt", "linear.weight:hf W=linear.weight bias:f"),
    "names of one's own": ("npz", "V:hf beta:f"),
    "turned": ("npz", "V:fh beta:f"),
    "several of one's own": ("npz", "V:ifh beta:if"),
    "encoder with a bias of the outputs": ("pt", "encoder.weight:hf bias:f"),
    "prefixes": ("pt", "embed.weight:hf unembed.weight:fh unembed.bias:f importance:f", "module._orig_mod."),
    "Lightning":
        ("ckpt", "enc.weight:hf dec.weight:fh dec.bias:f",
         "model. state_dict epoch optimizer_states callbacks hyper_parameters pytorch-lightning_version"),
    "encoder and decoder, importance":
        ("pt", "encoder.weight:hf decoder.weight:fh decoder.bias:f feature_importance:f", "model config"),
    "bfloat16": ("bf16.pt", "W:hf b:f"),
    "half": ("f16.npz", "W:hf b:f"),
    "bfloat16, safetensors": ("bf16.safetensors", "W:hf b:f"),
    "a matrix": ("npy", "W:hf"),
    "both turned": ("npz", "W_in:fh W_out:hf b:f"),
    "a column": ("pt", "W:hf b_final:fo"),
    "a row": ("npz", "W:hf b:of"),
    "strays": ("npz", "W:hf b:f importance:f probabilities:f steps: train_losses:t seed:"),
    "net beside Adam's moments": ("pt", "W:fh b:f", "net opt step"),
    "final_model": ("pt", "W:hf b:f", "final_model losses args"),
    "weights": ("pt", "W:fh b:f", "weights seed"),
    "a name of one's own around": ("pt", "W:hf b_final:f", "trained optimizer"),
    "two around": ("memory", "kernel:fh offset:f", "params Toy_0."),
    "entries of a Sequential": ("pt", "0.weight:hf 1.weight:fh 1.bias:f"),
    "capitals": ("NPZ", "embed:hf readout:fh c:f"),
    "arrays of another library": ("__array__", "W:hf b_final:f"),
    "other objects beside": ("pt", "W:hf b:f", "model objects"),
    "arrays of NumPy in a .pt": ("numpy.pt", "W:hf b:f", "model objects"),
}  # fmt: skip
# With whether b_dec is subtracted from the input.
AUTOENCODERS = {
    "dictionary_learning": ("pt", "encoder.weight:md decoder.weight:dm encoder.bias:m bias:d", "", True),
    "ARENA, untied": ("pt", "W_enc:idm _W_dec:imd b_enc:im b_dec:id model.W:ihf model.b_final:if", "", True),
    "ARENA, tied": ("pt", "W_enc:idm b_enc:im b_dec:id", "", True),
    "Gemma Scope": ("params.npz", "W_enc:dm W_dec:md b_enc:m b_dec:d threshold:m", "", False),
    "SAELens, folder": ("folder", "W_enc:dm W_dec:md b_enc:m b_dec:d", "", True),
    "several in a checkpoint": ("pt", "W_enc:idm W_dec:imd b_enc:im b_dec:id", "state_dict cfg", True),
    "SAELens in a checkpoint": ("pt", "W_enc:dm W_dec:md b_enc:m b_dec:d", "state_dict cfg", True),
}
# Files that may be read in several ways.
QUESTIONS = {
    "Flax, Dense": "Dense_0.kernel:fh Dense_1.kernel:hf Dense_1.bias:f",
    "E, U, c": "E:hf U:fh c:f",
    "layers of a perceptron": "fc1.weight:hf fc2.weight:fh fc2.bias:f",
    "a bias of the hidden neurons": "enc.weight:hf dec.weight:fh dec.bias:f enc.bias:h",
    "openai": "encoder.weight:md decoder.weight:dm latent_bias:m pre_bias:d last_nonzero:t activation=ReLU",
    "dictionary_learning, April update": "encoder.weight:md decoder.weight:dm encoder.bias:m decoder.bias:d",
    "autoencoder of one's own": "enc.W:dm dec.W:md enc.b:m dec.b:d",
}


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)


class Settings:
    """An object of a class that nobody who reads its file has."""

    def __init__(self):
        self.n_hidden, self.lr = SIZES["h"], np.float64(0.1)


OTHERS = {"W": RNG.normal(size=(7, 3)), "b": RNG.normal(size=7)}
BESIDE = {
    "optimizer_state_dict": lambda: {"state": {0: {"step": 7.0, "exp_avg": OTHERS["W"]}}},
    "optimizer_states": lambda: [{"state": {0: OTHERS}, "param_groups": [{"lr": 0.1}]}],
    "opt": lambda: {"m": OTHERS, "v": OTHERS}, "optimizer": lambda: {"state": {}, "lr": 0.1},
    "epoch": lambda: 7, "step": lambda: 100, "seed": lambda: 3, "losses": lambda: [0.3, 0.1],
    "args": lambda: {"lr": 0.1}, "config": lambda: {"n_hidden": 3, "act_fn": "relu", "sparsity": 0.1},
    "callbacks": dict, "hyper_parameters": lambda: {"d_hidden": 3},
    "pytorch-lightning_version": lambda: "2.2.0", "objects": Settings,
    "cfg": lambda: {"architecture": "standard", "apply_b_dec_to_input": True},
}  # fmt: skip


def arrays_of(text):
    """Return (arrays by name, letters by name); "a=b" is a copy of b, or the word b."""
    arrays, letters = {}, {}
    for entry in text.split():
        if "=" in entry:
            name, _, other = entry.partition("=")
            arrays[name] = arrays.get(other, other)
        else:
            name, _, letters[name] = entry.partition(":")
            shape = [SIZES[axis] for axis in letters[name]]
            arrays[name] = np.asarray(RNG.normal(size=shape), np.float32)
    return arrays, letters


def oracle(arrays, letters, subtracts=None, unit=False):
    """Return the function of the last instance; of an autoencoder if `subtracts` is a bool."""
    parts = {name: np.asarray(arrays[name], float) for name in letters}
    parts = {name: part[-1] if "i" in letters[name] else part for name, part in parts.items()}
    axes = {name: text.strip("i") for name, text in letters.items()}
    wide, narrow = "fh" if subtracts is None else "dm"
    first, *others = (name for name in axes if {*axes[name]} == {wide, narrow})
    last = others[0] if others else first
    b = next((parts[name].ravel() for name in axes if axes[name].strip("o") == wide), 0.0)
    c = next((parts[name] for name in axes if axes[name] == narrow), 0.0)
    decoder = parts[last]
    if unit:
        decoder = decoder / np.linalg.norm(decoder, axis=axes[last].index(wide), keepdims=True)

    def function(x):
        z = np.einsum(f"n{wide},{axes[first]}->n{narrow}", x - b if subtracts else x, parts[first]) + c
        if subtracts is not None:
            z = np.where(z > parts.get("threshold", 0.0), np.maximum(z, 0.0), 0.0)
        y = np.einsum(f"n{narrow},{axes[last]}->n{wide}", z, decoder) + b
        return np.maximum(y, 0.0) if subtracts is None else y

    return function


def rounded(kind, array):
    """Return an array with values of so few bits, as a float32."""
    if kind == "bf16":
        return (np.asarray(array).view("<u4") & 0xFFFF0000).view("<f4")
    return array.astype(np.float16).astype(np.float32) if kind == "f16" else array


def wrapped(arrays, text):
    """Return arrays with prefixes (ending in a dot), in a container (first word), beside other entries."""
    words = [word for word in text.split() if not word.endswith(".")]
    for prefix in [word for word in text.split() if word.endswith(".")]:
        arrays = {f"{prefix}{name}": array for name, array in arrays.items()}
    beside = {word: BESIDE[word]() for word in words if word in BESIDE}
    return {words[0]: arrays, **beside} if words and words[0] not in BESIDE else {**arrays, **beside}


def written(file_format, arrays, text, folder):
    """Return a file, a folder or an object with the arrays."""
    kind, _, end = f".{file_format}".rpartition(".")
    path = folder / (file_format if kind == ".params" else f"model.{end}")
    content = wrapped(arrays, text)
    if file_format == "memory":
        return content
    if file_format == "__array__":
        return {name: Foreign(array) for name, array in content.items()}
    if end == "npy":
        np.save(path, next(iter(content.values())))
    elif end in ("npz", "NPZ"):
        half = "f2" if kind == ".f16" else None
        with path.open("wb") as file:
            np.savez(file, **{name: np.asarray(array, half) for name, array in content.items()})
    elif end in ("safetensors", "folder"):
        path = folder / "sae_weights.safetensors" if end == "folder" else path
        pytest.importorskip("safetensors.torch").save_file(tensors(content, kind), path)
        (folder / "cfg.json").write_text(json.dumps(BESIDE["cfg"]()))
        return folder if end == "folder" else path
    else:
        pytest.importorskip("torch").save(content if kind == ".numpy" else tensors(content, kind), path)
    return path


def tensors(value, kind):
    torch = pytest.importorskip("torch")
    if isinstance(value, dict):
        return {name: tensors(entry, kind) for name, entry in value.items()}
    dtype = torch.bfloat16 if kind == ".bf16" else torch.float32
    return torch.tensor(value, dtype=dtype) if isinstance(value, np.ndarray) else value


def inputs(n):
    return np.random.default_rng(1).normal(size=(50, n)) * np.geomspace(0.01, 30.0, 50)[:, None]


def test_there_is_a_file_of_every_known_layout():
    assert sorted(LAYOUTS) == sorted(layout.name for layout in loading.LAYOUTS)


@pytest.mark.parametrize("name", [*TOYS, *AUTOENCODERS])
def test_files_are_read_right(name, tmp_path):
    file_format, text, *more = {**TOYS, **AUTOENCODERS}[name]
    around, subtracts = [*more, *["", None][len(more) :]]
    arrays, letters = arrays_of(text)
    arrays = {key: rounded(file_format.split(".")[0], array) for key, array in arrays.items()}
    function = oracle(arrays, letters, subtracts, unit=name.startswith("ARENA") and subtracts is not None)
    instance = SIZES["i"] - 1 if any("i" in axes for axes in letters.values()) else None
    for order in (iter, reversed):
        given = written(file_format, {key: arrays[key] for key in order(arrays)}, around, tmp_path)
        assert name not in LAYOUTS or loading.load(given).layout == name
        model = sp.Model.of(given, instance=instance)
        x = inputs(model.n_features)
        want = function(x)
        np.testing.assert_allclose(model(x), want, rtol=0, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_the_answers_ready(name):
    arrays, letters = arrays_of(QUESTIONS[name])
    with pytest.raises(ValueError, match=r"^`model` must have (a known layout|no nonlinearity)") as caught:
        sp.loss(arrays, 0.1)
    subtracts = "m" in letters[next(iter(letters))]
    ready = [ast.literal_eval(keys) for keys in re.findall(r"keys=(\{.*?\})", str(caught.value))]
    ready = [keys for keys in ready if ("W_enc" in keys) == subtracts]
    models = [sp.Model.of(arrays, keys=keys, apply_b_dec_to_input=subtracts or None) for keys in ready]
    assert 1 <= len(models) <= 2
    x = inputs(models[0].n_features)
    want = oracle(arrays, letters, subtracts or None)(x)
    assert sum(np.allclose(model(x), want, atol=1e-6 * np.abs(want).max()) for model in models) == 1

"""Files, state dicts and arrays as people have them: read right, asked about, or refused by name."""

import ast
import json
import re
import struct
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

import superposition as sp
from superposition.validate import cli
from superposition.validate.loading import load
from superposition.validate.loading.arrays import settings_beside
from superposition.validate.loading.files import read_file
from superposition.validate.loading.settings import read_sae_settings

N, M = 5, 2
RNG = np.random.default_rng(0)
W, W_OUT, B = RNG.normal(size=(M, N)), RNG.normal(size=(N, M)), RNG.normal(size=N)
X = RNG.normal(size=(40, N))
TIED, FREE = sp.Model(W, b=B), sp.Model(W, W_out=W_OUT, b=B)


G = np.linalg.norm(W, axis=1)[:, None]
ORIGINAL = "enc.parametrizations.weight.original"


def test_tied_models_in_any_form():
    for name, form in {
        "weight norm, old": {"enc.weight_g": G, "enc.weight_v": 3 * W, "bias": B},
        "weight norm": {f"{ORIGINAL}0": G, f"{ORIGINAL}1": 0.5 * W, "bias": B},
        "one instance": {"V": W.T[None], "beta": B[None]},
        "tuple, turned": (W, B[:, None]),
    }.items():
        np.testing.assert_allclose(sp.Model.of(form)(X), TIED(X), atol=1e-12, err_msg=name)
        assert load(form).weights()[0].tied


def test_what_a_file_holds_besides_is_not_executed(torch, tmp_path):
    ran = tmp_path / "ran"

    class Harmful:
        def __reduce__(self):
            return ran.touch, ()

    arrays = {"W": torch.tensor(W), "b": torch.tensor(B)}
    path = tmp_path / "model.pt"
    torch.save({"model": arrays, "config": Harmful(), "loss": np.float64(0.1)}, path)
    np.testing.assert_allclose(sp.Model.of(path)(X), TIED(X))
    torch.load(path, weights_only=False)
    assert ran.exists(), "it would have run"
    ran.unlink()
    np.testing.assert_allclose(sp.Model.of(path)(X), TIED(X))
    assert not ran.exists()
    sparse = {"W": torch.eye(3).to_sparse(), "V": arrays["W"], "c": Harmful()}
    for content, what in ((torch.nn.Linear(2, 2), "a whole module"), (sparse, "a tensor of another kind")):
        torch.save(content, path)
        with pytest.raises(ValueError, match=rf"`model` must be .* a PyTorch file of tensors alone.*{what}"):
            sp.Model.of(path)
    torch.save({"model": arrays, "config": Harmful()}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("model/constants.pkl", b"")  # torch.load takes it for TorchScript, and would run it
    with pytest.raises(ValueError, match=r"`model` must be .* a PyTorch file of tensors alone"):
        sp.Model.of(path)


def test_lists_and_folders(torch, tmp_path):
    states = [{"W": torch.tensor(k * W), "b": torch.tensor(B)} for k in (1.0, 2.0)]
    torch.save(states, tmp_path / "runs.pt")
    np.testing.assert_array_equal([model.W_in for model in load(tmp_path / "runs.pt").models], [W, 2 * W])
    np.testing.assert_allclose(sp.Model.of(tmp_path, instance=0)(X), TIED(X))
    (tmp_path / "cfg.json").write_text(json.dumps({"activation": "gelu"}))
    with pytest.raises(ValueError, match="got 'gelu' for activation in its cfg"):
        sp.Model.of(tmp_path)
    np.save(tmp_path / "matrix.npy", W)
    message = r"or one file of weights; got the folder .* with matrix.npy, runs.pt"
    with pytest.raises(ValueError, match=message):
        sp.Model.of(tmp_path)
    np.testing.assert_allclose(sp.Model.of(tmp_path / "matrix.npy")(X), sp.Model(W)(X))
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    with pytest.raises(ValueError, match=r"`model` must be an \.npz, \.npy or"):
        sp.Model.of(tmp_path / "objects.npy")


SQUARE = RNG.normal(size=(4, 4))


def test_all_numbers_of_eight_bits_and_those_of_the_upper_half(torch, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    codes, path = np.arange(256, dtype="u1"), tmp_path / "model.safetensors"
    for kind, dtype in (("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2)):
        header = json.dumps({"W": {"dtype": kind, "shape": [256], "data_offsets": [0, 256]}}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + codes.tobytes())
        np.testing.assert_array_equal(read_file(path)["W"], torch.tensor(codes).view(dtype).float().numpy())
    W = torch.tensor([[1.5, -2.0], [3e-20, 7e30]], dtype=torch.bfloat16)
    safetensors.save_file({"W": W}, path)
    np.testing.assert_array_equal(read_file(path)["W"], W.float().numpy())


def test_a_square_matrix_is_a_question_whose_answers_are_ready():
    for given in (
        {"W": SQUARE, "b_final": np.zeros(4)}, {"V": SQUARE, "beta": np.zeros(4)},
        {"W": np.stack([SQUARE, SQUARE.T]), "b_final": np.zeros((2, 4))},
    ):  # fmt: skip
        message = r"`model` must say which axis of '.' \(.*4, 4\) is that of"
        with pytest.raises(ValueError, match=message) as caught:
            sp.loss(given, 0.1)
        ready = re.findall(r"keys=(\{.*?\})", str(caught.value))
        for keys, matrix in zip(ready, (SQUARE, SQUARE.T), strict=True):
            model = sp.Model.of(given, keys=ast.literal_eval(keys), instance=0)
            np.testing.assert_array_equal(model.W_in, matrix)


def test_a_square_matrix_of_which_both_readings_agree_and_one_in_a_tuple():
    np.testing.assert_array_equal(sp.Model.of({"W": np.eye(4), "b": np.zeros(4)}).M, np.eye(4))
    product = SQUARE @ SQUARE.T
    np.testing.assert_allclose(sp.Model.of((product, np.zeros(4))).M, product)


def test_settings_beside_a_toy_model_may_be_harmless():
    harmless = {"act_fn": "relu", "lr": 1e-3, "aggregate": "mean", "normalize": False}
    np.testing.assert_allclose(sp.Model.of({"W": W, "b_final": B, "config": harmless})(X), TIED(X))


def test_the_ready_keys_are_right():
    named, arrays = {"W_in": "enc", "W_out": "dec", "b": "c"}, {"enc": W, "dec": W_OUT, "c": B}
    for prefix in ("", "net."):
        state = {f"{prefix}{name}": array for name, array in arrays.items()}
        keys = {part: f"{prefix}{name}" for part, name in named.items()}
        np.testing.assert_allclose(sp.Model.of(state, keys=keys)(X), FREE(X))
    for encoder in (W, W.T):
        np.testing.assert_allclose(sp.Model.of((W_OUT, encoder, B))(X), FREE(X))
    tied = sp.Model.of({"V": W, "c": B, "more": np.ones(3)}, keys={"W_in": "V", "b": "c"})
    np.testing.assert_allclose(tied(X), TIED(X))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_without_plain_values_are_refused_by_name(torch):
    dense = torch.tensor(W)
    nested = torch.nested.nested_tensor([dense[0], dense[1][:3]])
    for kind, tensor in {"sparse": dense.to_sparse(), "nested": nested, "meta": dense.to("meta")}.items():
        for given in ({"W": tensor, "b_final": B}, tensor, (tensor, B)):
            with pytest.raises(ValueError, match=rf"`model` must .*{kind}"):
                sp.loss(given, 0.1)


def test_a_checkpoint_without_pytorch_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "model.pt").write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"reading '.*model\.pt' needs PyTorch: pip install -e '\.\[torch\]' in the checkout, or save"
    with pytest.raises(ImportError, match=message):
        sp.loss(tmp_path / "model.pt", 0.1)


def test_archives_that_unpack_to_much_are_not_unpacked(tmp_path, monkeypatch):
    bomb, claims, large = (tmp_path / name for name in ("bomb.npz", "claims.npz", "large.npz"))
    for path, shape, content in ((bomb, (2**11, 2**11), bytes(8 * 2**22)), (claims, (2**14, 2**12), b"")):
        compression = zipfile.ZIP_DEFLATED if content else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w", compression) as archive, archive.open("W.npy", "w") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.write(content)
    np.savez(large, W=np.zeros((3, 2**23), "u1"))
    monkeypatch.setattr(np, "load", None)
    for path, message in (
        (bomb, "MiB that unpack to 32; no weights do"),
        (claims, r"W.npy has the shape \(16384, 4096\), and 128 bytes"),
        (large, r"W.npy has the shape \(3, 8388608\)"),
    ):
        with pytest.raises(ValueError, match=message):
            sp.Model.of(path)


def folder(path, cfg, **arrays):
    from safetensors.numpy import save_file

    path.mkdir(exist_ok=True)
    rng = np.random.default_rng(3)
    shapes = {"W_enc": (3, 6), "W_dec": (6, 3), "b_enc": (6,), "b_dec": (3,)}
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()} | arrays
    save_file(arrays, path / "sae_weights.safetensors")
    (path / "cfg.json").write_text(cfg if isinstance(cfg, str) else json.dumps(cfg))
    return arrays


OLD = {  # as SAELens 5 writes it
    "architecture": "standard", "d_in": 3, "d_sae": 6, "dtype": "torch.float32", "device": "cpu",
    "model_name": "gpt2-small", "hook_name": "blocks.8.hook_resid_pre", "hook_layer": 8,
    "hook_head_index": None, "activation_fn_str": "relu", "activation_fn_kwargs": {},
    "apply_b_dec_to_input": True, "finetuning_scaling_factor": False, "sae_lens_training_version": None,
    "prepend_bos": True, "dataset_path": "Skylion007/openwebtext", "context_size": 128,
    "normalize_activations": "none", "neuronpedia_id": None, "dataset_trust_remote_code": True,
    "model_from_pretrained_kwargs": {}, "seqpos_slice": [None],
}  # fmt: skip


def test_configurations_of_saelens_that_are_read(tmp_path):
    x, factors = RNG.normal(size=(20, 3)), np.linspace(0.5, 2.0, 6)
    fine_tuned = {"finetuning_scaling_factor": factors}
    for change, subtracts, arrays in (
        ({}, True, {}),
        ({"normalize_activations": False}, True, {}),
        ({"normalize_activations": None}, True, {}),
        ({"apply_b_dec_to_input": "false"}, False, {}),
        ({"activation_fn": "relu", "l1_coefficient": 5.0, "train_batch_size": 4096, "lr": 3e-4}, True, {}),
        ({"metadata": {"sae_lens_version": "6.18.0"}, "reshape_activations": "none"}, True, {}),
        ({"finetuning_scaling_factor": True}, True, fine_tuned),
    ):
        a = folder(tmp_path / "sae", OLD | change, **arrays)
        h = np.maximum((x - subtracts * a["b_dec"]) @ a["W_enc"] + a["b_enc"], 0.0)
        wanted = (factors * h if arrays else h) @ a["W_dec"] + a["b_dec"]
        np.testing.assert_allclose(sp.Model.of(tmp_path / "sae")(x), wanted, atol=1e-12, err_msg=str(change))


def test_configurations_that_are_none(tmp_path):
    nested = "[" * 200_000 + "]" * 200_000
    texts = {nested: "too deep", "[1, 2]": "not a list", " " * 2**21: "more than 1 MiB", "{": ""}
    for text, why in texts.items():
        folder(tmp_path / "sae", text)
        message = rf"`model` must have a readable cfg.json; got .*{why}"
        with pytest.raises(ValueError, match=message) as caught:
            sp.sae(tmp_path / "sae", 0.1)
        assert len(str(caught.value)) < 600


def test_one_function_reads_for_all(tmp_path):
    """What one of them takes the others take, and messages name the arguments of the one that was called."""
    folder(tmp_path / "sae", OLD)
    law, x = sp.Features(3, 0.1, "symmetric"), RNG.normal(size=(9, 3))
    model = sp.Model.of(tmp_path / "sae")
    assert sp.loss(tmp_path / "sae", law).model(x) == pytest.approx(model(x))
    assert sp.sae(tmp_path / "sae", law).l0.shape == (6,)
    assert sp.audit(tmp_path / "sae", law, seconds=0.1).loss > 0.0
    assert cli.main(["audit", str(tmp_path / "sae"), "--p", "0.1", "--seconds", "0.1"]) == 0
    state = {"W_enc": np.eye(3), "W_dec": np.eye(3), "b_enc": np.zeros(3), "b_dec": np.ones(3)}
    assert sp.Model.of(state, apply_b_dec_to_input=True).b_in.tolist() == [-1.0, -1.0, -1.0]


def test_settings_of_a_cfg_override_others():
    beside = {"hparams": {"a": 1, "b": 1, "c": 1}, "config": SimpleNamespace(b=2, c=2), "cfg": {"c": 3}}
    within = {"state_dict": {"args": {"c": 0, "d": 4}, "W": np.eye(2)}}
    assert settings_beside(beside | within) == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert settings_beside({"W": np.eye(2)}) == {}


def test_flags_of_a_configuration_may_be_words():
    for words, expected in (
        ((True, "True", "yes", "1", 1), True), ((False, "false", "NO", "0", 0), False), ((None,), None)
    ):  # fmt: skip
        for word in words:
            assert read_sae_settings({"apply_b_dec_to_input": word}).apply_b_dec_to_input is expected, word
    for word in ("maybe", 1.0, 2):
        with pytest.raises(ValueError, match="by True or False whether apply_b_dec_to_input"):
            read_sae_settings({"apply_b_dec_to_input": word})


def test_a_name_that_tells_a_decoder_makes_the_other_one_the_encoder():
    A, B = np.ones((2, 5)), np.arange(10.0).reshape(5, 2)
    for encoder, decoder in (("proj", "decoder"), ("encoder", "proj"), ("encoder", "decoder")):
        for names in ([encoder, decoder], [decoder, encoder]):
            model = sp.Model.of({name: {encoder: A, decoder: B}[name] for name in names} | {"b": np.zeros(5)})
            np.testing.assert_array_equal(model.W_in, A)
            np.testing.assert_array_equal(model.W_out, B)

"""Networks whose hidden neurons bend: layouts of public code, and audits beside the naive solution."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest

import superposition as sp
from superposition.solvers.computation import best_readout, naive_loss, network_loss
from superposition.theory.features import Features
from superposition.theory.model import Model
from superposition.validate import audit, loading
from superposition.validate.audit import networks
from superposition.validate.cli import main
from superposition.validate.cli.audit import _format_cell
from superposition.validate.loading import Hints, load
from superposition.validate.loading.networks import _CIS, NETWORKS

RNG = np.random.default_rng(0)
INTO, OUT, B_IN, B = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 3)), RNG.normal(size=3), RNG.normal(size=4)
E, U = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 4))
UNIT = OUT.T / np.linalg.norm(OUT.T, axis=1, keepdims=True)
WIDE, WIDE_B = RNG.normal(size=(9, 4)), RNG.normal(size=9)
MLP_IN, MLP_OUT, C = RNG.normal(size=(3, 6)), RNG.normal(size=(6, 3)), RNG.normal(size=6)
MLP = {"in.weight": MLP_IN, "in.bias": B_IN, "out.weight": MLP_OUT, "out.bias": C}


@pytest.fixture(autouse=True)
def _fewer_samples(monkeypatch):
    """Let audits stop at the samples that they take at least: where nothing is lost they go on for long."""
    monkeypatch.setattr(audit.networks, "_BLOCKS", audit.networks._LEAST)


def _relu(z):
    return np.maximum(z, 0.0)


def _mlp(x):
    return _relu(x @ INTO.T + B_IN) @ OUT.T + B


# States as public code names their arrays, with what its forward pass computes.
_BIASED = {"b1": B_IN[None], "b2": B[None]}
_TWO = {"W1": INTO[None], "W2": OUT[None]}
STATES = {
    "superposition, network": ({"W_in": INTO, "W_out": OUT, "b_in": B_IN, "b": B}, _mlp),
    "Sequential(Linear, ReLU, Linear)":
        ({"0.weight": INTO, "0.bias": B_IN, "2.weight": OUT, "2.bias": B}, _mlp),
    "goodfire-ai/spd, ResidMLP":
        ({"W_E": E, "W_U": U} | {f"layers.0.mlp_{key}": array for key, array in MLP.items()},
         lambda x: (x @ E + _relu(x @ E @ MLP_IN.T + B_IN) @ MLP_OUT.T + C) @ U),
    _CIS.removesuffix(", Cis"): ({"w_in": INTO.T, "w_out": OUT.T}, lambda x: _relu(x @ INTO.T) @ OUT.T),
    f"{_CIS} with linear outputs": (_TWO | _BIASED, _mlp),
    f"{_CIS} with ReLU outputs":
        (_TWO | {"b2": B[None]}, lambda x: _relu(_relu(x @ INTO.T) @ OUT.T + B)),
    f"{_CIS} with linear outputs and a skip connection": (_TWO, lambda x: x + _relu(x @ INTO.T) @ OUT.T),
    "FranciscoHS/cis-toy-models": ({"W_in": INTO, "W_out": OUT}, lambda x: _relu(x @ INTO.T) @ OUT.T),
    "FranciscoHS/cis-toy-models, embedded":
        ({"E": E.T, "W_in": MLP_IN, "W_out": MLP_OUT}, lambda x: _relu(x @ E @ MLP_IN.T) @ MLP_OUT.T @ E.T),
    "ARENA, neurons": ({"W": INTO[None], "b_final": B[None]}, lambda x: _relu(_relu(x @ INTO.T) @ INTO + B)),
    "ARENA, computation": (_TWO | {"b_final": B[None]}, lambda x: _relu(_relu(x @ INTO.T) @ OUT.T + B)),
    "ARENA, sparse autoencoder":
        ({"W_enc": INTO.T[None], "_W_dec": 2.0 * UNIT[None], "b_enc": B_IN[None], "b_dec": B[None]},
         lambda x: _relu((x - B) @ INTO.T + B_IN) @ UNIT + B),
    "saprmarks/dictionary_learning, AutoEncoder":
        ({"encoder.weight": WIDE, "encoder.bias": WIDE_B, "decoder.weight": WIDE.T, "bias": B},
         lambda x: _relu((x - B) @ WIDE.T + WIDE_B) @ WIDE + B),
    "SAELens, transcoder": ({"W_enc": INTO.T, "b_enc": B_IN, "W_dec": OUT.T, "b_dec": B}, _mlp),
}  # fmt: skip
NAMED = [layout.name for layout in NETWORKS if layout.named]


def test_networks_of_public_code_compute_what_their_code_does():
    assert set(STATES) == {layout.name for layout in NETWORKS}
    x = RNG.uniform(-1.0, 1.0, (20, 4))
    for name, (state, forward) in STATES.items():
        loaded = load(state, None, Hints(name if name in NAMED else None))
        assert loaded.layout == name
        off = np.abs(loaded.models[0](x) - forward(x)).max()
        assert off < (1e-6 if "sparse" in name else 1e-12), name  # ε in a norm


def test_thresholds_make_a_jump():
    """Of 4 inputs and 2 outputs."""
    state = {"W_enc": INTO.T, "b_enc": B_IN, "W_dec": OUT.T[:, :2], "b_dec": B[:2]}
    model = loading.model_of(state | {"threshold": np.array([0.1, 0.2, 0.3])})
    assert model.hidden == "jumprelu"
    np.testing.assert_array_equal(model.thresholds, [0.1, 0.2, 0.3])


def test_linear_hidden_layers_multiply():
    first, middle, last = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 2)), RNG.normal(size=(4, 2))
    state = {"linear1.weight": first, "hidden_layers.0.weight": middle}
    model = loading.model_of(state | {"linear2.weight": last, "linear2.bias": B})
    x = RNG.uniform(size=(5, 4))
    np.testing.assert_allclose(model(x), _relu(x @ first.T @ middle.T @ last.T + B), atol=1e-13)
    assert model.hidden == "identity"


def _by_samples(model, law, wanted):
    """Return a loss by plain samples and its standard error."""
    x = law.sample(400_000, np.random.default_rng(3))
    each = (wanted(x) - model(x)) ** 2 @ law.importance / law.n_features
    return each.mean(), each.std() / np.sqrt(each.size)


def test_outputs_that_bend_are_exact_where_they_read_one_direction_and_sampled_elsewhere():
    model = loading.model_of(STATES["ARENA, computation"][0])
    law = Features(4, [0.1, 0.3, 0.2, 0.05], "symmetric", [1.0, 2.0, 1.0, 1.0])
    for law_of in law, Features(4, 0.1, "symmetric", exactly=2):
        found, (mean, error) = sp.audit(model, law_of, target="abs"), _by_samples(model, law_of, np.abs)
        assert abs(found.loss - mean) <= found.loss_error + 4.0 * error
        assert found.loss_error < 0.05 * found.loss
        assert found.method == "samples"
        assert np.isnan(found.gradient_norm)
    pairs = Model(  # ReLU(x) and ReLU(-x) for two of four features: as printed, and below naive by nothing
        [[1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0]], hidden="relu", b=[0, 0, 0.1, 0.025],
        W_out=[[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
    )  # fmt: skip
    exact = sp.audit(pairs, law, target="abs")
    assert exact.loss == pytest.approx((0.2 / 3 - 0.1**2 + 0.05 / 3 - 0.025**2) / 4, rel=1e-10)
    assert exact.method == "pair_exact"


@pytest.mark.parametrize("name", [f"{_CIS} with ReLU outputs", "ARENA, neurons"])
def test_what_a_live_module_computes_tells_its_layout(torch, name):
    """Names and shapes alone would leave several, and the arrays of ARENA's neurons be a linear toy model."""
    state, forward = STATES[name]

    class Live(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for key, array in state.items():
                setattr(self, key, torch.nn.Parameter(torch.as_tensor(array)))

        def forward(self, x):  # of shape (batch, instances, features), as theirs
            if x.ndim != 3:
                raise ValueError("no instances")
            return torch.as_tensor(forward(x.detach().numpy()[:, 0]))[:, None]

    loaded = load(Live())
    assert loaded.layout == name
    (model,) = loaded.models
    x = RNG.uniform(-1.0, 1.0, (20, 4))
    np.testing.assert_allclose(model(x), forward(x), atol=1e-13)
    Live.forward = lambda self, x: torch.tanh(x)
    with pytest.raises(ValueError, match=r"`model` must compute .*; got a module"):
        load(Live())


def test_a_file_of_neurons_that_was_taken_for_a_linear_toy_model_is_suspected():
    """Large negative weights silence a neuron; without its ReLU they would count with their squares."""
    W = np.array([[1.0, -3.0, 0.0], [0.0, -3.0, 1.0]])
    law = Features(3, 0.3, importance=[1.0, 0.5, 1.0])
    states = [{"W": one[None], "b_final": np.zeros((1, 3))} for one in (W, np.eye(2, 3))]
    audited, good = (audit.audit(state, law, starts=0).models[0] for state in states)
    bent = sp.audit(states[0], law, layout="ARENA, neurons")
    assert audited.loss > audited.zero_loss > bent.loss
    assert "if its hidden neurons had a ReLU" in audited.sentence
    assert audited.loss_with_hidden_relu == pytest.approx(bent.loss, rel=0.15)  # 4000 samples
    assert np.isnan(good.loss_with_hidden_relu)
    assert "ReLU" not in good.sentence


# Dense weights of 12 neurons on 12 features, whose exact loss takes seconds.
DENSE = np.random.default_rng(5)
LARGE = Model(
    np.eye(12) + 0.1 * DENSE.normal(size=(12, 12)), b_in=0.1 * DENSE.normal(size=12), hidden="relu",
    W_out=np.eye(12) + 0.1 * DENSE.normal(size=(12, 12)), b=0.05 * DENSE.normal(size=12), output="identity",
)  # fmt: skip
LARGE_LAW = Features(12, np.linspace(0.02, 0.3, 12), "symmetric", importance=np.linspace(1.0, 2.0, 12))


def test_an_audit_samples_what_takes_longer_than_its_seconds():
    audited = sp.audit(LARGE, LARGE_LAW, target="relu", seconds=1e-3)
    assert audited.method == "samples"
    assert min(audited.exact_seconds, audited.gradient_seconds) > 1e-3
    assert "The exact loss was left out: it would take about" in audited.left_out
    assert np.isnan(audited.gradient_norm)
    assert audited.loss_error < 0.02 * audited.loss
    exact = sp.audit(LARGE, LARGE_LAW, target="relu", seconds=np.inf)
    assert exact.method != "samples"
    assert exact.gradient_norm > 0.0
    assert abs(audited.loss - exact.loss) <= audited.loss_error + exact.loss_error
    np.testing.assert_allclose(audited.per_output, exact.per_output, rtol=0.1)
    wrong, error = _by_samples(LARGE, LARGE_LAW, np.abs)  # another target is told apart
    assert abs(audited.loss - wrong) > 4.0 * (audited.loss_error + 4.0 * error)


def test_the_error_by_samples_is_four_standard_errors():
    """Of 20,000 samples with two features on or more: the other inputs, most of all, are summed exactly."""
    law, model = Features(4, 0.05), Model(np.eye(4), b_in=-0.1, hidden="relu", output="identity")
    x = law.sample(400_000, np.random.default_rng(1))
    several = x[np.sum(x > 0.0, axis=1) >= 2]
    error = np.std(((model(several) - several) ** 2).mean(axis=1)) / np.sqrt(20_000) * len(several) / len(x)
    assert audit.networks.sampled_loss(model, law).error_estimate == pytest.approx(4.0 * error, rel=0.1)


def test_targets_with_a_residual_path_have_a_name():
    network = Model(np.eye(3)[:2], hidden="relu", W_out=np.eye(3)[:, :2], output="identity")
    law = Features(3, 0.2, "symmetric")
    named, whole = (sp.audit(network, law, target=t) for t in ("x+relu", (np.eye(3), "relu", np.eye(3))))
    assert named.loss == whole.loss
    assert named.target == "x+relu"
    assert named.lower_bound == pytest.approx((5 * 0.2 / 6 - 0.2**2 / 16) / 3, rel=1e-12, abs=0)
    assert named.lower_bound < named.naive


def test_an_audit_says_which_target_is_closer():
    network, law = Model(np.eye(3), hidden="relu", output="identity"), Features(3, 0.2, "symmetric")
    assert sp.audit(network, law).closer == "relu"
    assert sp.audit(network, law, target="relu").closer == ""
    assert sp.audit(network, Features(3, 0.2), target="identity").closer == ""  # the same for x >= 0


def test_lower_bounds_of_targets_that_are_scaled():
    c, law = np.array([1.0, 2.0, 0.5]), Features(3, 0.2, "symmetric", scale=[1.0, 1.0, 3.0])
    network = Model(np.eye(3)[:2], hidden="relu", W_out=np.diag(c)[:, :2], output="identity")
    audited = sp.audit(network, law, target=(np.diag(c), "relu"))
    variances = (c * law.scale) ** 2 * (0.2 / 6 - 0.2**2 / 16)
    assert audited.lower_bound == pytest.approx(np.sort(variances)[0] / 3, rel=1e-12, abs=0)
    assert np.isnan(sp.audit(network, law, target=(np.diag(-c), "relu")).lower_bound)
    assert np.isnan(sp.audit(network, law, target=np.ones((3, 3))).lower_bound)


def test_the_naive_solution_in_closed_form():
    p, n = 0.2, 5
    law, half = Features(n, p, "symmetric"), (np.eye(4), "abs", -np.eye(4))
    for found, loss, kept in (
        (naive_loss(law, 3, "relu"), (n - 3) / n * (p / 6 - (p / 4) ** 2), 3),
        (naive_loss(law, 3, "abs"), 4 / 5 * (p / 3 - (p / 2) ** 2), 1),  # two neurons each
        (naive_loss(Features(4, p, "symmetric"), 2, half), 2 * (p / 6 - p**2 / 16), 2),  # 2 ReLU(-x)
        (naive_loss(law, 3), 2 / 5 * p / 3, 3),  # one, with a bias
    ):  # fmt: skip
        assert found == (pytest.approx(loss, rel=1e-14, abs=0), kept)
    assert naive_loss(Features(n, p, "normal"), 3)[1] == 1


def test_an_audit_beside_the_naive_solution():
    law = Features(3, 0.1, "symmetric")
    b = [0, 0, 0.025]  # the third by its mean p/4
    naive = Model(np.eye(3)[:2], hidden="relu", W_out=np.eye(3)[:, :2], b=b, output="identity")
    audited = sp.audit(naive, law, target="relu")
    assert audited.loss == pytest.approx(audited.naive, rel=1e-12, abs=0)
    assert audited.beats_naive is None
    assert audited.zero_loss == pytest.approx(0.1 / 6 - 0.025**2, rel=1e-12, abs=0)
    assert f"answering the means alone: {0.1 / 6 - 0.025**2:.6g}" in audited.lines
    worse = sp.audit(Model(np.eye(3)[:2], hidden="relu", output="identity"), law, target="relu")
    assert worse.beats_naive is False
    for said in (worse.advice, worse.sentence):  # p^2/16 above p/6 - p^2/16
        assert "3.9 % above the naive solution, which computes 2" in said
    small = sp.audit(worse.model, Features(3, 0.1, "symmetric", scale=1e-4), target="relu")
    assert "its gradient has length 1.7e-06" in small.advice  # 2/3 of the mean p/4 of the third target
    lower = replace(worse.result, loss=0.4 * worse.naive)
    assert lower.advice.startswith("It computes in superposition: 60 % below the naive solution (")
    assert np.isnan(sp.audit(naive, Features(3, 0.1, "symmetric", exactly=1), target="relu").naive)


def test_an_audit_of_a_residual_network_is_of_what_its_neurons_add():
    """Embeddings of unit length pass each feature on: neurons are to add ReLU(x), and less what leaks."""
    state, _ = STATES["goodfire-ai/spd, ResidMLP"]
    W_E = E / np.linalg.norm(E, axis=1)[:, None]
    state = state | {"W_E": W_E, "W_U": W_E.T}
    law = Features(4, 0.1, "symmetric")
    target = (np.eye(4), "relu", np.eye(4))
    audited, exact = sp.audit(state, law, target=target), sp.loss(state, law, target=target)
    assert abs(audited.loss - exact.loss) <= audited.loss_error < 1e-6 * exact.loss
    M = np.eye(4) - W_E @ W_E.T
    small = Model(
        state["layers.0.mlp_in.weight"] @ W_E.T, B_IN, "relu", W_E @ state["layers.0.mlp_out.weight"],
        W_E @ C, "identity",
    )  # fmt: skip
    other = sp.audit(small, law, target=(np.eye(4), "relu", M))
    for name in ("loss", "naive", "zero_loss", "gradient_norm"):
        assert getattr(audited, name) == pytest.approx(getattr(other, name), rel=1e-10, abs=0), name
    assert audited.naive_features == 3


def test_the_naive_solution_where_features_are_mixed():
    """Its readout of three neurons ReLU(x_i) is the best one."""
    law, M = Features(4, 0.2, "symmetric", scale=[1, 2, 1, 1]), 0.1 * RNG.normal(size=(4, 4))
    loss, count = naive_loss(law, 3, (np.eye(4), "relu", M))
    of = [
        network_loss(best_readout(np.delete(np.eye(4), k, axis=0), 0.0, law, mixing=M), law, mixing=M).loss
        for k in range(4)
    ]
    assert (loss, count) == (pytest.approx(min(of), rel=1e-10, abs=0), 3)


def test_the_commands_for_networks(tmp_path, capsys):
    assert [*map(_format_cell, (True, False, None, 0.25))] == ["yes", "no", "undecided", "0.25"]
    file = tmp_path / "network.npz"
    np.savez(file, **STATES["SAELens, transcoder"][0])
    words = ["--layout", "SAELens, transcoder", "--p", "0.1", "--exactly", "1", "--seconds", "5", "--json"]
    assert main(["audit", str(file), *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["layout"] == "SAELens, transcoder"
    assert printed["models"][0]["naive"] is None  # no naive network is known: nan


def test_the_commands_take_targets_from_files(tmp_path, capsys):
    """In spd the coefficients of targets c ReLU(x) + x are saved as a list in JSON."""
    file, c, M = tmp_path / "network.npz", [1.5, 2.0, 0.5], 0.1 * RNG.normal(size=(3, 3))
    np.savez(file, w_in=np.eye(3)[:, :2], w_out=np.eye(3)[:2])
    for name, array in (("M", M), ("rows", np.ones((2, 3))), ("wide", np.ones((3, 4)))):
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "label_coeffs.json").write_text(json.dumps(c))
    (tmp_path / "bad.json").write_text("{}")

    def run(words):
        words = [f"{tmp_path}/{word}" if "." in word else word for word in words.split()]
        code = main([*words[:1], str(file), *words[1:], "--p", "0.1", "--values", "symmetric", "--json"])
        return code, capsys.readouterr()

    for name, B in (("relu", M), ("x+relu", M + np.eye(3))):
        loss = sp.loss(str(file), Features(3, 0.1, "symmetric"), target=(np.diag(c), "relu", B)).loss
        for command in ("audit", "loss"):
            words = f"{command} --target {name} --coefficients label_coeffs.json --mixing M.npy"
            answer = json.loads(run(words)[1].out)
            assert answer.get("models", [answer])[0]["loss"] == pytest.approx(loss, rel=1e-9)
    for words, message in (
        ("--coefficients none.npy", "`coefficients` must be a .npy or .json file"),
        ("--coefficients bad.json", "`coefficients` must be a .npy or .json file"),
        ("--coefficients rows.npy --target x+relu", "`coefficients` must be of 3"),
        ("--mixing wide.npy", "`mixing` must be 3 numbers, or rows of 3; got shape (3, 4)"),
        ("--html page.html", "`html` must be left out for networks"),
        ("--instances 1", "`instances` must lie between 0 and 0; got 1"),
    ):
        code, printed = run(f"audit {words}")
        assert (code, message in printed.err) == (2, True), printed.err


def test_networks_of_one_size_and_law_share_the_seconds(monkeypatch):
    used = []
    monkeypatch.setattr(networks, "audit_network", lambda *_, seconds: used.append(seconds))
    small, large = (Model(np.ones((m, 3)), hidden="relu", output="identity") for m in (1, 2))
    laws = [0.1, 0.1, 0.2, Features(3, 0.1), 0.1]
    list(networks.audit_networks([small, small, small, small, large], laws, "relu", 12.0))
    # A number is the law of that probability.
    assert used == [4.0, 4.0, 12.0, 4.0, 12.0]


@pytest.mark.parametrize("methods", [("exact", "exact"), ("exact", "samples"), ("samples", "exact")])
def test_an_audit_with_a_sampled_loss_is_measured(monkeypatch, methods):
    api = importlib.import_module("superposition.validate.api.audit")
    right = api.audit_networks

    def with_methods(*given):
        return (replace(seen, method=how) for seen, how in zip(right(*given), methods, strict=True))

    monkeypatch.setattr(api, "audit_networks", with_methods)
    neuron = {"W1": np.ones((2, 1, 2)), "W2": np.ones((2, 2, 1)), "b_final": np.zeros((2, 2))}
    answer = sp.audit(neuron, 0.1, target="abs")
    assert [seen.method for seen in answer.models] == list(methods)
    assert answer.certainty == ("measured" if "samples" in methods else "exact")

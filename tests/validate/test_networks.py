"""Networks whose hidden neurons bend: layouts of public code, and audits beside the naive solution."""

import json

import numpy as np
import pytest

from superposition.solvers.computation import best_readout, network_loss
from superposition.theory.features import Features
from superposition.theory.models import Model
from superposition.validate import audit, door
from superposition.validate.cli import main
from superposition.validate.door.models import read_models
from superposition.validate.networks import NETWORKS

RNG = np.random.default_rng(0)
INTO, OUT, B_IN, B = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 3)), RNG.normal(size=3), RNG.normal(size=4)
E, U = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 4))
MLP_IN, MLP_OUT, C = RNG.normal(size=(3, 6)), RNG.normal(size=(6, 3)), RNG.normal(size=6)


def _relu(z):
    return np.maximum(z, 0.0)


def _mlp(x):
    return _relu(x @ INTO.T + B_IN) @ OUT.T + B


# States as public code names their arrays, with what its forward pass computes.
STATES = {
    "superposition, network": ({"W_in": INTO, "W_out": OUT, "b_in": B_IN, "b": B}, _mlp),
    "Sequential(Linear, ReLU, Linear)": (
        {"0.weight": INTO, "0.bias": B_IN, "2.weight": OUT, "2.bias": B},
        _mlp,
    ),
    "goodfire-ai/spd, ResidMLP": (
        {
            "W_E": E,
            "W_U": U,
            "layers.0.mlp_in.weight": MLP_IN,
            "layers.0.mlp_in.bias": B_IN,
            "layers.0.mlp_out.weight": MLP_OUT,
            "layers.0.mlp_out.bias": C,
        },
        lambda x: (x @ E + _relu(x @ E @ MLP_IN.T + B_IN) @ MLP_OUT.T + C) @ U,
    ),
    "Stefan-Heimersheim/toy-model-of-computation-in-superposition": (
        {"w_in": INTO.T, "w_out": OUT.T},
        lambda x: _relu(x @ INTO.T) @ OUT.T,
    ),
    "Stefan-Heimersheim/toy-model-of-computation-in-superposition, Cis with linear outputs": (
        {"W1": INTO[None], "W2": OUT[None], "b1": B_IN[None], "b2": B[None]},
        _mlp,
    ),
    "ARENA, computation": (
        {"W1": INTO[None], "W2": OUT[None], "b_final": B[None]},
        lambda x: _relu(_relu(x @ INTO.T) @ OUT.T + B),
    ),
    "SAELens, transcoder": ({"W_enc": INTO.T, "b_enc": B_IN, "W_dec": OUT.T, "b_dec": B}, _mlp),
}
NAMED = [one.name for one in NETWORKS if one.named]


@pytest.mark.parametrize("name", STATES)
def test_networks_of_public_code_compute_what_their_code_does(name):
    state, forward = STATES[name]
    layout = name if name in NAMED else None
    model = door.model_of(state, layout=layout)
    x = RNG.uniform(-1.0, 1.0, (20, 4))
    np.testing.assert_allclose(model(x), forward(x), atol=1e-13)
    assert read_models(state, layout=layout)[0].startswith(name)


def test_all_layouts_are_tried():
    assert set(STATES) == {one.name for one in NETWORKS}


def test_thresholds_make_a_jump():
    state = {
        "W_enc": INTO.T,
        "b_enc": B_IN,
        "W_dec": OUT.T[:, :2],
        "b_dec": B[:2],
        "threshold": [0.1, 0.2, 0.3],
    }
    model = door.model_of({name: np.asarray(array) for name, array in state.items()})  # 4 inputs, 2 outputs
    assert model.hidden == "jumprelu"
    np.testing.assert_array_equal(model.thresholds, [0.1, 0.2, 0.3])


def test_linear_hidden_layers_multiply():
    first, middle, last = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 2)), RNG.normal(size=(4, 2))
    state = {
        "linear1.weight": first,
        "hidden_layers.0.weight": middle,
        "linear2.weight": last,
        "linear2.bias": B,
    }
    model = door.model_of(state)
    x = RNG.uniform(size=(5, 4))
    np.testing.assert_allclose(model(x), _relu(x @ first.T @ middle.T @ last.T + B), atol=1e-13)
    assert model.hidden == "identity"


def test_arrays_of_a_sparse_autoencoder_must_say_what_b_dec_does():
    with pytest.raises(ValueError, match="`model` must say whether b_dec is subtracted"):
        door.model_of(STATES["SAELens, transcoder"][0])


def test_outputs_that_bend_are_exact_where_they_read_one_direction_and_sampled_elsewhere():
    model = door.model_of(STATES["ARENA, computation"][0])
    law = Features(4, [0.1, 0.3, 0.2, 0.05], "symmetric", [1.0, 2.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"`model` must have .* neurons of one direction each; got Model\(4"):
        door.loss(model, law, target="abs")
    with pytest.raises(ValueError, match=r"`model` must have a linear output .*; got Model\(4 features"):
        door.loss(model, law, target="abs", gradient=True)
    found = door.audit(model, law, target="abs")
    x = law.sample(400_000, np.random.default_rng(1))
    each = np.mean((np.abs(x) - model(x)) ** 2, axis=1)
    assert abs(found.loss - each.mean()) <= found.loss_error + 4 * each.std() / np.sqrt(each.size)
    assert found.loss_error < 0.05 * found.loss
    assert found.method == "samples"
    assert "by samples" in str(found)
    assert np.isnan(found.gradient_norm)
    exactly = Features(4, 0.1, "symmetric", exactly=2)
    x = exactly.sample(200_000, np.random.default_rng(1))
    each = np.mean((np.abs(x) - model(x)) ** 2, axis=1)
    found = door.audit(model, exactly, target="abs")
    assert abs(found.loss - each.mean()) <= found.loss_error + 4 * each.std() / np.sqrt(each.size)
    pairs = Model(  # ReLU(x) and ReLU(-x) for two of four features: as printed, and below naive by nothing
        [[1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0]], hidden="relu", b=[0, 0, 0.1, 0.025],
        W_out=[[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
    )  # fmt: skip
    exact = door.audit(pairs, law, target="abs")
    assert exact.loss == pytest.approx((0.2 / 3 - 0.1**2 + 0.05 / 3 - 0.025**2) / 4, rel=1e-10)
    assert exact.method == "boxes"


def test_modules_are_compared_with_their_weights():
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 4))
    model = door.model_of(module)
    x = RNG.uniform(-1.0, 1.0, (7, 4)).astype(np.float32)
    np.testing.assert_allclose(model(x), module(torch.as_tensor(x)).detach().numpy(), atol=1e-6)
    other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU(), torch.nn.Linear(3, 4))
    with pytest.raises(ValueError, match=r"`model` must compute what its weights were .*another activation"):
        door.model_of(other)


def test_the_loss_of_a_network_through_the_door():
    law = Features(2, 0.1, "symmetric")
    exact = Model(np.eye(2), hidden="relu", output="identity")
    assert door.loss(exact, law, target="relu").loss < 1e-16
    found = door.loss(exact, law, target=np.eye(2), gradient=True)  # E min(x, 0)^2 = p/6
    assert found.loss == pytest.approx(0.1 / 6, rel=1e-13)
    assert found.by_W_in.shape == (2, 2)
    assert found.method == "boxes"


def test_the_naive_solution_in_closed_form():
    p, n, hidden = 0.2, 5, 3
    of_relu, kept = audit.naive_loss(Features(n, p, "symmetric"), hidden, "relu")
    assert kept == hidden
    assert of_relu == pytest.approx((n - hidden) / n * (p / 6 - (p / 4) ** 2), rel=1e-14)
    of_size, kept = audit.naive_loss(Features(n, p, "symmetric"), hidden, "abs")  # two neurons each
    assert kept == 1
    assert of_size == pytest.approx(4 / 5 * (p / 3 - (p / 2) ** 2), rel=1e-14)
    of_feature, kept = audit.naive_loss(Features(n, p, "symmetric"), hidden)  # one, with a bias
    assert (of_feature, kept) == (pytest.approx(2 / 5 * p / 3, rel=1e-14), 3)
    assert audit.naive_loss(Features(n, p, "normal"), hidden)[1] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.1, 2), "`law` must be Features; got 0.1"),
        ((Features(3, 0.1), 0), "`n_hidden` must .*; got 0"),
        ((Features(3, 0.1, exactly=1), 2), "`law` must be of independent features; got groups"),
        ((Features(3, 0.1), 2, "sine"), "`target` must be .*; got 'sine'"),
    ],
)
def test_bad_input_to_the_naive_solution_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        audit.naive_loss(*arguments)


def test_an_audit_beside_the_naive_solution():
    law = Features(3, 0.1, "symmetric")
    naive = Model(
        np.eye(3)[:2], hidden="relu", W_out=np.eye(3)[:, :2], b=[0, 0, 0.025], output="identity"
    )  # the third by its mean p/4
    found = door.audit(naive, law, target="relu")
    assert found.loss == pytest.approx(found.naive, rel=1e-12)
    assert found.beats_naive is None
    assert found.zero_loss == pytest.approx(0.1 / 6 - 0.025**2, rel=1e-12)
    assert "computes 2 of 3 features" in str(found)
    worse = door.audit(Model(np.eye(3)[:2], hidden="relu", output="identity"), law, target="relu")
    assert worse.beats_naive is False
    better = door.audit(Model(np.eye(3), hidden="relu", output="identity"), law, target="relu")
    assert better.loss < 1e-16
    groups = door.audit(naive, Features(3, 0.1, "symmetric", exactly=1), target="relu")
    assert np.isnan(groups.naive)
    assert groups.beats_naive is None
    with pytest.raises(ValueError, match="`law` must be one, or one for each of 1 instances; got 2"):
        door.audit(naive, [law, law], target="relu")


def test_an_audit_of_a_residual_network_is_of_what_its_neurons_add():
    """Embeddings of unit length pass each feature on: neurons are to add ReLU(x), and less what leaks."""
    state, _ = STATES["goodfire-ai/spd, ResidMLP"]
    W_E = E / np.linalg.norm(E, axis=1)[:, None]
    state = state | {"W_E": W_E, "W_U": W_E.T}
    law = Features(4, 0.1, "symmetric")
    target = (np.eye(4), "relu", np.eye(4))
    found, exact = door.audit(state, law, target=target), door.loss(state, law, target=target)
    assert abs(found.loss - exact.loss) <= found.loss_error < 1e-6 * exact.loss
    M = np.eye(4) - W_E @ W_E.T
    small = Model(
        state["layers.0.mlp_in.weight"] @ W_E.T, B_IN, "relu", W_E @ state["layers.0.mlp_out.weight"],
        W_E @ C, "identity",
    )  # fmt: skip
    other = door.audit(small, law, target=(np.eye(4), "relu", M))
    for name in ("loss", "naive", "zero_loss", "gradient_norm"):
        assert getattr(found, name) == pytest.approx(getattr(other, name), rel=1e-10), name
    assert found.naive_features == 3


def test_the_naive_solution_where_features_are_mixed():
    """Its readout of three neurons ReLU(x_i) is the best one."""
    law, M = Features(4, 0.2, "symmetric", scale=[1, 2, 1, 1]), 0.1 * RNG.normal(size=(4, 4))
    found, kept = audit.naive_loss(law, 3, (np.eye(4), "relu", M))
    of = [
        network_loss(best_readout(np.delete(np.eye(4), k, axis=0), 0.0, law, mixing=M), law, mixing=M).loss
        for k in range(4)
    ]
    assert (found, kept) == (pytest.approx(min(of), rel=1e-10), 3)


def test_the_commands_for_networks(tmp_path, capsys):
    file = tmp_path / "network.npz"
    np.savez(file, W_in=np.eye(2), W_out=np.eye(2), b_in=np.zeros(2), b=np.zeros(2))
    law = ["--p", "0.1", "--values", "symmetric", "--target", "relu"]
    assert main(["loss", str(file), *law, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(0.0, abs=1e-16)
    assert main(["audit", str(file), *law, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["layout"] == "superposition, network"
    assert told["models"][0]["naive_features"] == 2
    assert main(["audit", str(file), *law]) == 0
    assert "superposition, network" in capsys.readouterr().out
    assert main(["audit", str(file), *law, "--instances", "3"]) == 2
    assert "`instances` must lie between 0 and 0; got 3" in capsys.readouterr().err

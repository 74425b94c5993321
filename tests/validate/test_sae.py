"""Autoencoders in the API: SAELens' conventions against forward passes written from its formulas.

At the end the verdict: at the optimum of its objective as far as is known, above it, unfinished.
"""

import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

import superposition as sp
from superposition.solvers import sae as solver
from superposition.theory.features import Features, parent_child, synchronous
from superposition.validate import cli
from superposition.validate.loading import autoencoder_of

torch = pytest.importorskip("torch", reason="SAELens' autoencoders are PyTorch's")
api = importlib.import_module("superposition.validate.api.sae")  # the function has the same name
D, LATENTS = 5, 7


def state(rng, kind="standard", name="threshold"):
    arrays = {
        "W_enc": rng.normal(size=(D, LATENTS)), "W_dec": rng.normal(size=(LATENTS, D)),
        "b_enc": rng.normal(size=LATENTS), "b_dec": rng.normal(size=D),
    }  # fmt: skip
    if kind == "jumprelu":
        t = rng.uniform(-0.2, 1.0, size=LATENTS) if name == "threshold" else rng.normal(size=LATENTS)
        arrays[name] = t
    return {key: torch.tensor(one) for key, one in arrays.items()}


def forward(arrays, x, subtracts, kind="standard"):
    """SAELens 6.18.0 (91ca16c): process_sae_in, encode and decode, standard and JumpReLU."""
    read = x - arrays["b_dec"] if subtracts else x
    before = read @ arrays["W_enc"] + arrays["b_enc"]
    h = torch.relu(before)
    if kind == "jumprelu":
        t = torch.exp(arrays["log_threshold"]) if "log_threshold" in arrays else arrays["threshold"]
        h = h * (before > t)
    return h, h @ arrays["W_dec"] + arrays["b_dec"]


CASES = [("standard", ""), ("jumprelu", "threshold"), ("jumprelu", "log_threshold")]


@pytest.mark.parametrize("subtracts", [True, False])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_conventions(kind, name, subtracts):
    rng = np.random.default_rng(5)
    arrays = state(rng, kind, name)
    x = torch.tensor(rng.normal(size=(1000, D)))
    cfg = {"architecture": kind, "apply_b_dec_to_input": subtracts, "d_in": D}
    one, (_, out) = sp.Model.of({**arrays, "cfg": cfg}), forward(arrays, x, subtracts, kind)
    np.testing.assert_allclose(one(x.numpy()), out.numpy(), rtol=1e-12, atol=1e-12)
    # The other convention gives other outputs.
    _, other = forward(arrays, x, not subtracts, kind)
    assert np.abs(one(x.numpy()) - other.numpy()).max() > 0.1


def test_decoder_norms_are_folded_as_saelens_folds_them():
    rng = np.random.default_rng(6)
    arrays = state(rng, "jumprelu")
    norms = arrays["W_dec"].norm(dim=-1)
    by_hand = {
        "W_dec": arrays["W_dec"] / norms[:, None], "W_enc": arrays["W_enc"] * norms,
        "b_enc": arrays["b_enc"] * norms, "threshold": arrays["threshold"] * norms, "b_dec": arrays["b_dec"],
    }  # fmt: skip
    x = torch.tensor(rng.normal(size=(500, D)))
    found = solver.fold_norms(autoencoder_of(arrays, apply_b_dec_to_input=True))
    h, out = forward(by_hand, x, True, "jumprelu")
    before, _ = forward(arrays, x, True, "jumprelu")
    np.testing.assert_allclose(found(x.numpy()), out.numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(h, before * norms, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found.W_out, axis=0), 1.0)


def test_live_objects_and_folders(tmp_path):
    from safetensors.numpy import save_file

    arrays = state(np.random.default_rng(8), "jumprelu")
    x = np.random.default_rng(9).normal(size=(50, D))
    want = forward(arrays, torch.tensor(x), False, "jumprelu")[1]
    settings = {"apply_b_dec_to_input": False, "normalize_activations": "none"}
    live = torch.nn.Module()
    live.cfg = SimpleNamespace(**settings, architecture=lambda: "jumprelu")
    for name, one in arrays.items():
        setattr(live, name, torch.nn.Parameter(one))
    save_file({name: one.numpy() for name, one in arrays.items()}, tmp_path / "sae_weights.safetensors")
    (tmp_path / "cfg.json").write_text(json.dumps(settings | {"architecture": "jumprelu"}))
    for place in (live, tmp_path, tmp_path / "sae_weights.safetensors", str(tmp_path)):
        np.testing.assert_allclose(sp.Model.of(place)(x), want, atol=1e-12)


def test_the_answer():
    law = Features(2, 0.5, "binary", groups=[parent_child(0, [1], 0.5, 0.4)])
    W_in, W_out = [[1.0, -1.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]
    found = sp.sae(sp.Model(W_in, hidden="relu", W_out=W_out, output="identity"), law)
    assert found.absorbed(0, 1) == pytest.approx(1.0)
    assert found.l0 == pytest.approx([0.3, 0.2])
    assert float(found.mse) == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_array_equal(found.plot().images[0].get_array(), found.f1)
    # The parent's latent is on with the parent in 3 of 5 cases: precision 1, recall 3/5.
    for line in (
        "explained variance     100 %", "latents on             0.5 of 2, dead 0",
        "features on            0.7 of 2", "F1 of matched latents  mean 0.875, worst 0.75 (feature 0)",
        "absorption             largest 1 (feature 0 by feature 1)",
    ):  # fmt: skip
        assert line in found.lines


def test_f1_is_a_mean_over_all_features_and_over_those_that_have_a_latent():
    law = Features(4, 0.1, "binary")
    some = " F1 of matched latents mean 1, worst 1 (feature 1)"
    for bias, mean, without, matched in ((0.0, "0.5", 2, some), (-2.0, "0", 4, "")):
        model = sp.Model(np.eye(4)[[1, 3]], b_in=bias, hidden="relu", output="identity")
        words = " ".join(str(sp.sae(model, law)).split())
        latents = "without a latent of their own; at most 0.5 with 2 latents"
        assert f"F1 mean {mean} over 4 features, {without} of them {latents}{matched}" in words


def test_the_command(tmp_path, capsys):
    rng = np.random.default_rng(4)
    arrays = {name: one.numpy() for name, one in state(rng).items()}
    phi = rng.normal(size=(D, 3))
    np.savez(tmp_path / "sae.npz", **arrays)
    np.savez(tmp_path / "phi.npz", phi=phi)
    call = ["sae", str(tmp_path / "sae.npz"), "--dictionary", str(tmp_path / "phi.npz"), "--p", "0.1",
            "--subtract-b-dec", "yes"]  # fmt: skip
    assert cli.main([*call, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = solver.measure(autoencoder_of(arrays, apply_b_dec_to_input=True), Features(3, 0.1), phi)
    assert said["mse"] == pytest.approx(found.mse)
    assert said["f1"] == pytest.approx(found.f1)
    np.savez(tmp_path / "two.npz", phi=phi, more=phi)
    assert cli.main([*call[:3], str(tmp_path / "two.npz"), *call[4:]]) != 0
    assert "`dictionary` must be a file of one matrix; got 2 arrays" in capsys.readouterr().err


def test_the_ceiling(tmp_path, capsys):
    phi = np.random.default_rng(2).normal(size=(2, 3))
    found = sp.ceiling(Features(3, 0.1), phi, l0=[0.2, 0.3], samples=500, rng=4)
    same = solver.ceiling(Features(3, 0.1), phi, [0.2, 0.3], samples=500, rng=4)
    np.testing.assert_array_equal(found.f1, same.f1)
    assert found.certainty == "exact"
    assert set(found.to_frame()["certainty"]) == {"exact", "measured"}
    for what in ("f1", "mse", "explained_variance"):
        drawn = found.plot(what=what).get_lines()[0].get_ydata()
        np.testing.assert_array_equal(drawn, getattr(found, what)[0])
    assert sp.ceiling(0.1, np.random.default_rng(1).normal(size=(4, 12)), samples=300).certainty == "measured"
    np.savez(tmp_path / "phi.npz", phi=phi)
    np.savez(tmp_path / "x.npz", x=Features(3, 0.1).sample(2000, 5))
    call = ["ceiling", str(tmp_path / "phi.npz"), "--p", "0.1", "--l0", "0.2", "0.3", "--samples", "500"]
    assert cli.main([*call, "--seed", "4", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["f1"], printed["exact"]) == (found.f1.tolist(), found.exact.tolist())
    few = sp.ceiling(Features(3, 0.1).sample(2000, 5), phi, l0=[0.3], samples=500)
    assert few.lines[-1].startswith("1,000 of 2,000 draws taken")
    draws = [*call[:2], "--draws", str(tmp_path / "x.npz")]
    assert cli.main([*draws, "--l0", "0.3"]) == 0
    assert "±" in capsys.readouterr().out.splitlines()[2]
    for words, message in (
        ([*draws, "--p", "0.1"], "`draws` must stand without --p; got both"),
        ([*draws, "--values", "binary"], "`draws` must stand without --values; got both"),
        (["ceiling", str(tmp_path / "none.npz"), "--p", "0.1"], "`dictionary` must be an .npz"),
        ([*call[:4], "--l0", "9"], "`l0` must lie in (0, 3); got 9"),
    ):
        assert cli.main(words) == 2
        assert message in capsys.readouterr().err


def test_too_many_patterns_of_exactly_k_features_are_measured_on_samples(monkeypatch):
    """A latent each that takes 0.2 off: error and firing do not depend on which features go together."""
    law = Features(20, 0.1, exactly=10)
    sae = sp.Model(np.eye(20), b_in=-0.2, hidden="relu", W_out=np.eye(20), output="identity")
    measured = sp.sae(sae, law)
    assert (measured.method, measured.certainty) == ("samples", "measured")
    assert abs(measured.mse - 20 * 0.5 * (0.2**2 * 0.8 + 0.2**3 / 3)) < measured.mse_error < 0.02
    assert np.abs(measured.l0 - 0.5 * 0.8).max() < 4 * np.sqrt(0.24 / 100_000)
    assert abs(measured.fires_pairs[0, 0, 1] - 0.8) < measured.firing_error < 0.02
    assert "sampled: four standard errors are" in str(measured)
    groups = Features(20, 0.1, groups=[synchronous(range(at, at + 10), 0.2) for at in (0, 10)])
    exact = sp.sae(sae, groups)
    assert (exact.method, exact.l0) == ("exact", pytest.approx(np.full(20, 0.2 * 0.8)))
    # A minute, where it is not a test.
    monkeypatch.setattr(api, "_SECONDS", 1e-3)
    assert sp.sae(sae, groups).method == "samples"
    assert sp.sae(sae, 0.1).method == "samples"


def test_an_error_is_large_beside_the_variance_of_the_activations(monkeypatch):
    """They are (2 x_1, x_2, x_3) here, of 4 + 1 + 1 times the variance p/3 - p^2/4 of a feature."""
    asked, right = [], api.certainty_with
    monkeypatch.setattr(api, "certainty_with", lambda *given: asked.append(given) or right(*given))
    for read in (0.0, 0.5, 1.0):  # of the first direction; the last autoencoder has no error
        W = np.diag([read, 1.0, 1.0])
        arrays = {"W_enc": W, "W_dec": np.eye(3), "b_enc": np.zeros(3), "b_dec": np.zeros(3)}
        answer = sp.sae(arrays, 0.1, np.diag([2.0, 1.0, 1.0]))
        mse, error, zero = asked.pop()
        assert (mse, error) == (pytest.approx(answer.mse, abs=1e-12), answer.mse_error)
        assert mse == pytest.approx(4 * (1 - read) ** 2 * 0.1 / 3, abs=1e-12)
        assert zero == pytest.approx(6 * (0.1 / 3 - 0.1**2 / 4) if read < 1 else 0.0, rel=1e-9)


def test_absorption_is_of_pairs_that_are_on_together_more_often_than_by_chance():
    """Features 0 and 1 are on together by chance, 0 and 2 more often, 1 and 2 too seldom for samples."""
    p = np.array([0.1, 0.01, 0.05])
    pairs = np.outer(p, p) + np.array([[0, 0, 0.02], [0, 0, 3e-4], [0.02, 3e-4, 0]])
    shares = np.array([[0.0, 0.95, 0.2], [0.1, 0.0, 0.7], [0.6, 0.05, 0.0]])

    def said(method="exact", error=0.0, absorption=shares, pairs=pairs):
        found = {"p": p, "pairs": pairs, "method": method, "firing_error": error}
        return api._absorption_lines(SimpleNamespace(**found, absorption=lambda: absorption))

    largest = "absorption             largest"
    many = "; 2 pairs at 0.5 or more"
    assert said() == [f"{largest} 0.7 (feature 1 by feature 2){many}"]
    assert said("samples") == [f"{largest} 0.6 (feature 2 by feature 0)"]
    assert said(absorption=0.5 * shares) == [f"{largest} 0.35 (feature 1 by feature 2)"]
    assert said(error=0.7) == ["absorption             none"]
    assert said(pairs=np.outer(p, p)) == []


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("biases", [("b_enc", "b_dec"), ("b_enc",), ()])
def test_keys_of_matrices_either_way_round(turned, biases):
    """Without a bias of the latents there are more of them than inputs."""
    rng = np.random.default_rng(7)
    arrays = {name: array.numpy() for name, array in state(rng).items()}
    x, zero = rng.normal(size=(50, D)), {"b_enc": np.zeros(LATENTS), "b_dec": np.zeros(D)}
    whole = arrays | {name: zero[name] for name in zero if name not in biases}
    want = forward({name: torch.tensor(array) for name, array in whole.items()}, torch.tensor(x), False)[1]
    keys = {name: f"my.{name}" for name in ("W_enc", "W_dec", *biases)}
    files = {f"my.{name}": arrays[name].T if turned and name[0] == "W" else arrays[name] for name in arrays}
    found = sp.Model.of(files, keys=keys, apply_b_dec_to_input=False)
    np.testing.assert_allclose(found(x), want, atol=1e-12)


def test_a_configuration_overrules_what_gemma_scope_does(tmp_path):
    arrays = {name: array.numpy() for name, array in state(np.random.default_rng(8), "jumprelu").items()}
    np.savez(tmp_path / "params.npz", **arrays)
    x = np.random.default_rng(9).normal(size=(50, D))
    for cfg, subtracts in (({}, False), ({"apply_b_dec_to_input": True}, True), ({"d_in": D}, False)):
        (tmp_path / "cfg.json").write_text(json.dumps({"architecture": "jumprelu"} | cfg))
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}
        want = forward(tensors, torch.tensor(x), subtracts, "jumprelu")[1]
        np.testing.assert_allclose(sp.Model.of(tmp_path)(x), want, atol=1e-12)


# --- Verdict ------------------------------------------------------------------------------------------------

Objective = solver.AutoencoderObjective
BINARY_PAIR = Features(2, 0.5, "binary", groups=[parent_child(0, [1], p_parent=0.25, p_child=0.2)])
TRUE, DEAD = (sp.Model(np.eye(2), b, "relu", np.eye(2), output="identity") for b in (-0.05, -2.0))


@pytest.fixture(scope="module")
def best():
    objective = Objective(BINARY_PAIR, np.eye(2), l1=0.2)
    return solver.best_autoencoder(objective, 2, decoder_bias=False, starts=8)


def test_an_autoencoder_at_the_optimum_of_its_objective_is_left_alone(best):
    found = sp.sae(best.sae, BINARY_PAIR, l1=0.2)
    assert (found.verdict, found.objective) == ("best known", pytest.approx(best.value, abs=1e-9))
    assert found.advice.startswith("Leave it: neither descent nor")
    # The hierarchy is absorbed: by the theorem of the page the least objective shrinks each pattern.
    mu = 0.1
    least = 0.2 * (2 * mu - mu**2) + 0.05 * (2 * np.sqrt(2) * mu - mu**2)
    assert found.objective == pytest.approx(least, abs=1e-6)


def test_an_autoencoder_that_is_not_trained_is_told_to_train_on():
    found = sp.sae(TRUE, BINARY_PAIR, l1=0.2)
    assert found.verdict == "unfinished"
    assert found.objective > found.descended + 1e-3 > found.best_known
    assert "Train on: descent from here goes down by" in str(found)
    assert not hasattr(sp.sae(TRUE, BINARY_PAIR), "verdict"), "no penalty, no verdict"


def test_a_dead_autoencoder_is_stuck():
    found = sp.sae(DEAD, BINARY_PAIR, l1=0.2)
    assert found.verdict == "stuck"
    assert found.objective == pytest.approx(0.3) == found.descended
    assert "Start again from other weights" in found.advice


def test_without_time_nothing_is_known(best):
    assert sp.sae(DEAD, BINARY_PAIR, l1=0.2, seconds=0.0).verdict in {"not known", "stuck"}
    found = sp.sae(best.sae, BINARY_PAIR, l1=0.2, seconds=0.0)
    assert (found.verdict, found.advice[:23]) == ("not known", "Give it more `seconds`:")


@pytest.mark.parametrize("hidden", ["relu", "jumprelu"])
def test_a_descent_ends_below_its_start_and_where_its_objective_says(hidden):
    law, rng = Features(3, 0.3), np.random.default_rng(0)
    thresholds = np.array([0.2, 0.1]) if hidden == "jumprelu" else None
    W, V, b = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.normal(size=2)
    start = sp.Model(W, 0.1, hidden, V, b, "identity", thresholds=thresholds)
    f = Objective(law, rng.normal(size=(2, 3)), l1=0.1, l0=0.05)
    end, value = solver.descend(f, start, seconds=5.0)
    assert value == pytest.approx(f(end).value, abs=1e-12)
    assert value < f(start).value - 1e-3


def test_a_sampled_objective_has_the_verdict_of_other_samples(monkeypatch):
    def sampled(*law, samples, **settings):
        return Objective(*law, **settings | {"method": "samples", "samples": samples // 16})

    monkeypatch.setattr(api.solver, "AutoencoderObjective", sampled)
    found = sp.sae(TRUE, BINARY_PAIR, l1=0.2, seconds=2.0)
    exact = Objective(BINARY_PAIR, np.eye(2), l1=0.2)(TRUE).value
    # One number at five standard errors: a false alarm in a million.
    assert abs(found.objective - exact) < 5 * found.objective_error < 0.05 * exact
    assert found.verdict == "unfinished"
    assert "standard error" in str(found)

"""Conventions against SAELens itself, at random weights, and its own scores beside exact ones.

Its forward passes, its files and its evaluation are the oracle. `make test-saelens` installs it,
in the version of constraints.txt, in an environment of its own.
"""

from dataclasses import replace

import numpy as np
import pytest

import superposition as sp
from superposition.solvers.sae.ceiling import match_columns
from superposition.theory.features import Features
from superposition.validate.loading import autoencoder_of
from superposition.validate.loading.synthetic import synthetic_dictionary

torch = pytest.importorskip("torch", reason="SAELens' autoencoders are PyTorch's")
lens = pytest.importorskip("sae_lens", reason="it is an oracle: make test-saelens")
synthetic = pytest.importorskip("sae_lens.synthetic", reason="since SAELens 6.20 or so")

D, LATENTS = 6, 9
INFERENCE = {"standard": "StandardSAE", "jumprelu": "JumpReLUSAE"}
TRAINING = {
    "standard": ("StandardTrainingSAE", {}),
    "jumprelu": ("JumpReLUTrainingSAE", {}),
    "batchtopk": ("BatchTopKTrainingSAE", {"k": 2.0}),
    "matryoshka": ("MatryoshkaBatchTopKTrainingSAE", {"k": 2.0, "matryoshka_widths": [3, 9]}),
}


def built(form, **settings):
    settings = {"d_in": D, "d_sae": LATENTS, "dtype": "float64", "device": "cpu"} | settings
    return getattr(lens, form)(getattr(lens, form + "Config")(**settings))


def made(form, seed, **settings):
    """Return an autoencoder of SAELens with random weights, in double precision."""
    rng, one = np.random.default_rng(seed), built(form, **settings)
    with torch.no_grad():
        for name, parameter in one.named_parameters():
            low = {"log_threshold": -1.5, "threshold": 0.1}.get(name)
            shape = tuple(parameter.shape)
            parameter.copy_(
                torch.as_tensor(rng.normal(size=shape) if low is None else rng.uniform(low, 0.8, shape))
            )
        for name, buffer in one.named_buffers():
            if name == "topk_threshold":
                buffer.fill_(0.7)
    return one.eval()


def inputs(seed=1, number=2000):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(number, D)))


@pytest.mark.parametrize("subtracts", [True, False])
@pytest.mark.parametrize("kind", INFERENCE)
def test_live_objects_compute_what_saelens_computes(kind, subtracts, tmp_path):
    one = made(INFERENCE[kind], 3, apply_b_dec_to_input=subtracts)
    x = inputs()
    model = sp.Model.of(one)
    with torch.no_grad():
        h, out = one.encode(x), one(x)
    np.testing.assert_allclose(model(x.numpy()), out, rtol=1e-12, atol=1e-12)
    before = x.numpy() @ model.W_in.T + model.b_in
    ours = before * (before > (0.0 if model.thresholds is None else model.thresholds))
    np.testing.assert_allclose(ours, h, rtol=1e-12, atol=1e-12)
    # and by its files
    one.save_model(tmp_path)
    np.testing.assert_allclose(sp.Model.of(tmp_path)(x.numpy()), out, rtol=1e-12, atol=1e-12)
    # the other convention of b_dec is far off, and so are thresholds that are left out
    wrong = autoencoder_of(dict(one.state_dict()), apply_b_dec_to_input=not subtracts)
    assert np.abs(wrong(x.numpy()) - out.numpy()).max() > 0.1
    if kind == "jumprelu":
        without = {name: array for name, array in one.state_dict().items() if name != "threshold"}
        relu = autoencoder_of(without, apply_b_dec_to_input=subtracts)
        assert np.abs(relu(x.numpy()) - out.numpy()).max() > 0.1


@pytest.mark.parametrize("subtracts", [True, False])
@pytest.mark.parametrize("kind", TRAINING)
def test_what_training_saves_is_read(kind, subtracts, tmp_path):
    form, more = TRAINING[kind]
    one = made(form, 4, apply_b_dec_to_input=subtracts, **more)
    one.save_inference_model(tmp_path)
    x = inputs(2)
    loaded = lens.SAE.load_from_disk(tmp_path, device="cpu")
    with torch.no_grad():
        out = loaded(x)
    np.testing.assert_allclose(sp.Model.of(tmp_path)(x.numpy()), out, rtol=1e-9, atol=1e-9)
    if kind == "jumprelu":  # while it is trained its file would have the logarithm
        with torch.no_grad():
            np.testing.assert_allclose(sp.Model.of(one)(x.numpy()), one(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("how", ["layer_norm", "expected_average_only_in", "constant_norm_rescale"])
def test_normalised_inputs_are_refused(how, tmp_path):
    one = made("StandardSAE", 6, normalize_activations=how)
    one.save_model(tmp_path)
    with pytest.raises(ValueError, match="normalise"):
        sp.Model.of(tmp_path)
    if how != "expected_average_only_in":
        with pytest.raises(ValueError, match="`model` must compute"):
            sp.Model.of(one)
        return
    x = inputs()  # its forward pass leaves that to who trains it
    with torch.no_grad():
        np.testing.assert_allclose(sp.Model.of(one)(x.numpy()), one(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["GatedSAE", "TopKSAE", "MatchingPursuitSAE"])
def test_other_architectures_are_refused(form):
    one = made(form, 8, **({"k": 2} if form == "TopKSAE" else {}))
    with pytest.raises(ValueError, match=r"`(architecture|model)` must"):
        sp.Model.of(one)


class Drawn:
    """A generator of features as SAELens calls it, from what is sampled here."""

    def __init__(self, law, seed, kind):
        self.law, self.rng, self.kind = law, np.random.default_rng(seed), kind

    def sample(self, number):
        return torch.tensor(self.law.sample(number, self.rng), dtype=self.kind)

    __call__ = sample


def dictionary_of(phi, kind):
    """Return SAELens' dictionary with the columns of phi, without a bias."""
    d, n = phi.shape
    made = synthetic.FeatureDictionary(n, d, initializer=None)
    made.feature_vectors = torch.nn.Parameter(torch.tensor(phi.T, dtype=kind))
    made.bias = torch.nn.Parameter(torch.zeros(d, dtype=kind))
    return made


def scored(one, law, phi, seed, samples=200_000):
    """Return SAELens' own scores of a model on features of a law."""
    sae = built("JumpReLUSAE", d_in=len(phi), d_sae=len(one.b_in), apply_b_dec_to_input=False)
    jumps = np.zeros(len(one.b_in)) if one.thresholds is None else one.thresholds
    arrays = {
        "W_enc": one.W_in.T, "W_dec": one.W_out.T, "b_enc": one.b_in, "b_dec": one.b, "threshold": jumps,
    }  # fmt: skip
    with torch.no_grad():
        for name, array in arrays.items():
            getattr(sae, name).copy_(torch.tensor(array))
    drawn = Drawn(law, seed, torch.float64)
    return synthetic.eval_sae_on_synthetic_data(
        sae, dictionary_of(phi, torch.float64), drawn, samples, 20_000
    )


PARTS, TAIL = 20, 6.5  # Student's t with 19 degrees of freedom is beyond that once in 300,000 times
EVENTS = 40_000  # that a share is counted among, at least: one of them is the least that can be seen


def differs(found, parts, error=0.0):
    """Return how many standard errors a number is from the mean of SAELens' scores of `PARTS` samples."""
    spread = max(np.std(parts, ddof=1) / PARTS**0.5, 1.0 / EVENTS)
    return abs(found - np.mean(parts)) / np.hypot(spread, error)


@pytest.mark.parametrize("values", ["uniform", "binary", "half-normal"])
def test_exact_scores_are_those_of_saelens(values):
    rng = np.random.default_rng(7)
    n, d = 3, 3
    law, phi = Features(n, [0.1, 0.3, 0.2], values), np.linalg.qr(rng.normal(size=(d, d)))[0]
    one = sp.Model(
        phi.T + 0.1 * rng.normal(size=(n, d)), b_in=[-0.1, 0.05, 0.0], hidden="jumprelu",
        thresholds=[0.2, 0.1, 0.3], W_out=phi, b=0.01 * rng.normal(size=d), output="identity",
    )  # fmt: skip
    exact = sp.sae(one, law, phi)
    parts = [scored(one, law, phi, seed, 20_000) for seed in range(PARTS)]
    match = [int(np.abs(one.W_out[:, k] @ phi).argmax()) for k in range(n)]
    mine = {
        name: np.mean([getattr(exact, name)[k, j] for k, j in enumerate(match)])
        for name in ("precision", "recall", "f1")
    }
    assert differs(exact.l0.sum(), [part.sae_l0 for part in parts]) < TAIL
    assert differs(exact.explained_variance, [part.explained_variance for part in parts]) < TAIL
    for name, theirs in (("precision", "precision"), ("recall", "recall"), ("f1", "f1_score")):
        assert differs(mine[name], [getattr(part.classification, theirs) for part in parts]) < TAIL, name
    if values != "binary":  # a threshold that is off by a twentieth is seen
        off = replace(one, thresholds=one.thresholds + 0.05)
        assert differs(sp.sae(off, law, phi).l0.sum(), [part.sae_l0 for part in parts]) > TAIL


class Generated:
    """Features of SAELens' own generator, sampled as those of a law."""

    def __init__(self, generator):
        self.generator = generator

    def sample(self, number, rng):
        torch.manual_seed(int(rng.integers(2**31)))
        return self.generator.sample(number).double().numpy()


@pytest.mark.slow
def test_the_ceiling_of_saelens_synthetic_data_is_what_saelens_measures():
    """Frequencies that fall, a hierarchy, low-rank correlations, values that vary: of draws alone."""
    settings = synthetic.SyntheticModelConfig(
        num_features=100, hidden_dim=40, seed=0, std_firing_magnitudes=0.3,
        firing_probability=synthetic.ZipfianFiringProbabilityConfig(min_prob=0.2),
        hierarchy=synthetic.HierarchyConfig(total_root_nodes=10, branching_factor=3, max_depth=2),
        correlation=synthetic.LowRankCorrelationConfig(rank=8),
    )  # fmt: skip
    made = synthetic.SyntheticModel(settings)
    law, phi = Generated(made.activation_generator), made.feature_dict.feature_vectors.detach().numpy().T
    draws = law.sample(40_000, np.random.default_rng(0))
    found = sp.ceiling(draws, phi.astype(float), l0=[2.0], rng=1)
    seen = 0
    for k, (one,) in enumerate(found.models):
        parts = [scored(one, law, phi.astype(float), seed, 20_000) for seed in range(PARTS)]
        for name, theirs in (
            ("l0", [part.sae_l0 for part in parts]),
            ("f1", [part.classification.f1_score for part in parts]),
        ):
            error = found.l0_error if name == "l0" else found.f1_error
            off = differs(getattr(found, name)[k, 0], theirs, error[k, 0])
            print(found.decoders[k], name, getattr(found, name)[k, 0], np.mean(theirs), off)
            seen = max(seen, off)
    assert seen < TAIL


def test_mcc_and_uniqueness_are_those_of_saelens():
    rng = np.random.default_rng(5)
    for d, n, latents in ((3, 8, 5), (6, 8, 8), (4, 20, 7)):
        phi = rng.normal(size=(d, n))
        for V in (rng.normal(size=(d, latents)), phi[:, :latents] + 0.3 * rng.normal(size=(d, latents))):
            rows = [torch.tensor(part.T) for part in (V, phi)]
            theirs = synthetic.mean_correlation_coefficient(*rows), synthetic.feature_uniqueness(*rows)
            assert match_columns(V, phi) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.slow
def test_the_ceiling_of_fewer_latents_is_what_saelens_measures():
    """F1 over latents, explained variance and L0: a third of the features own a latent."""
    law, phi = Features(30, np.geomspace(0.3, 0.02, 30)), np.random.default_rng(2).normal(size=(12, 30))
    phi /= np.linalg.norm(phi, axis=0)
    found = sp.ceiling(law, phi, l0=[1.2], latents=10, samples=20_000, rng=1)
    for k, (one,) in enumerate(found.models):
        parts = [scored(one, law, phi, seed, 20_000) for seed in range(PARTS)]
        if found.uniqueness[k, 0] < 1.0:  # SAELens compares with the nearest feature, which is not the owner
            continue
        variance = found.mse[k, 0] / (1.0 - found.explained_variance[k, 0])
        explained = [part.explained_variance for part in parts]
        for ours, error, theirs in (
            (found.f1, found.f1_error[k, 0], [part.classification.f1_score for part in parts]),
            (found.l0, found.l0_error[k, 0], [part.sae_l0 for part in parts]),
            (found.explained_variance, found.mse_error[k, 0] / variance, explained),
        ):
            assert differs(ours[k, 0], theirs, error) < TAIL, found.decoders[k]
    assert (found.uniqueness[:-1] == 1.0).sum() >= 9


# --- Laws of configurations, against the generator they are for ---------------------------------------------
# The benchmark SynthSAEBench-16k (arXiv 2602.14687) with fewer features, parts of it as its authors ablate
# them, and SAELens' defaults. Of each, one change that has to be seen.
BENCHMARK = {
    "num_features": 48, "hidden_dim": 16, "seed": 42,
    "firing_probability": {"generator_name": "zipfian", "max_prob": 0.4, "min_prob": 0.02, "exponent": 0.5},
    "hierarchy": {
        "total_root_nodes": 2, "branching_factor": 4, "max_depth": 2, "mutually_exclusive_portion": 1.0,
        "compensate_probabilities": True, "scale_children_by_parent": True,
    },
    "mean_firing_magnitudes": {"generator_name": "linear", "start": 5.0, "end": 4.0},
    "std_firing_magnitudes": {"generator_name": "folded_normal", "mean": 0.5, "std": 0.5},
    "correlation": {"rank": 5, "correlation_scale": 0.2},
}  # fmt: skip
FLAT = {"hierarchy": {**BENCHMARK["hierarchy"], "scale_children_by_parent": False}, "correlation": None}
SPREAD = {"mean_firing_magnitudes": 1.0, "std_firing_magnitudes": 0.8}  # a tenth of the values is 0
FEW = {"total_root_nodes": 9, "branching_factor": [2, 4], "max_depth": 1, "mutually_exclusive_portion": 0.4}
RANDOM = {"firing_probability": {"generator_name": "random", "min_prob": 0.1}, "std_firing_magnitudes": 0.0}
CONFIGURATIONS = {
    "defaults": ({"num_features": 30, "hidden_dim": 8}, {"mean_firing_magnitudes": 1.01}),
    "benchmark": (BENCHMARK, {"correlation": {"rank": 5, "correlation_scale": 0.1}}),
    "no hierarchy": ({**BENCHMARK, "hierarchy": None}, {"seed": 43}),
    "one ratio of mean to spread": (
        {**BENCHMARK, **FLAT, **SPREAD},
        {"hierarchy": {**FLAT["hierarchy"], "mutually_exclusive_portion": 0.5}},
    ),
    "random trees": (
        {**BENCHMARK, **FLAT, **RANDOM, "hierarchy": FEW},
        {"hierarchy": {**FEW, "mutually_exclusive_portion": 0.3}},
    ),
}
EXACT = {"defaults", "one ratio of mean to spread", "random trees"}
DRAWS = 1_000_000
AT_LEAST = 100  # draws of a pair that is compared
FAR = 5.0  # standard errors, of the largest of 10,000 differences


def moments(draw):
    """Return the sums of x x', its square and of how often pairs are on, over `DRAWS` samples."""
    sums = 0.0
    for _ in range(20):
        x = draw(DRAWS // 20)
        x = np.hstack([x, np.ones((len(x), 1))])
        on = (x > 0).astype(float)
        sums = sums + np.array([x.T @ x, (x * x).T @ (x * x), on.T @ on])
    return sums / DRAWS


def largest_difference(law, theirs):
    """Return how many standard errors the moments of a law are from theirs at most, with those of pairs."""
    if isinstance(law, Features):
        mean, on = law.mean, law.on_probability() * (1.0 - law.values.zero)
        second = np.block([[law.second_moment_matrix(), mean[:, None]], [mean, 1.0]])
        pairs = law.pair_probability() * (1.0 - law.values.zero) ** 2
        np.fill_diagonal(pairs, on)
        ours, error = np.array([second, np.block([[pairs, on[:, None]], [on, 1.0]])]), 0.0
    else:
        rng = np.random.default_rng(3)
        first, fourth, seen = moments(lambda size: law.sample(size, rng))
        ours, error = np.array([first, seen]), np.array([fourth - first**2, seen - seen**2])
    first, fourth, seen = theirs
    error = np.sqrt((np.array([fourth - first**2, seen - seen**2]) + error) / DRAWS)
    off = np.abs(ours - [first, seen]) / np.maximum(error, 1e-7)
    return off[:, np.maximum(seen, ours[1]) >= AT_LEAST / DRAWS].max()


def made_by_saelens(settings):
    """Return SAELens' model of a configuration; its own reader wants the kind of firing probabilities."""
    full = {"firing_probability": {"generator_name": "zipfian"}, **settings}
    return synthetic.SyntheticModel(synthetic.SyntheticModelConfig.from_dict(full))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_laws_of_configurations_are_those_of_its_generator(name):
    settings, changed = CONFIGURATIONS[name]
    law, rng = sp.laws.from_saelens(settings), np.random.default_rng(1)
    assert isinstance(law, Features) == (name in EXACT)
    generated = Generated(made_by_saelens(settings).activation_generator)
    theirs = moments(lambda size: generated.sample(size, rng))
    assert largest_difference(law, theirs) < FAR
    assert largest_difference(sp.laws.from_saelens({**settings, **changed}), theirs) > FAR


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_a_configuration_draws_from_its_seed_is_what_saelens_draws(name, tmp_path):
    model = made_by_saelens(CONFIGURATIONS[name][0])
    if CONFIGURATIONS[name][0].get("seed") is not None:
        directions = {"num_steps": 100, "lr": 3e-4}
        spread = {**CONFIGURATIONS[name][0], "hidden_dim": 16, "orthogonalization": directions}
        vectors = made_by_saelens(spread).feature_dict.feature_vectors
        np.testing.assert_allclose(synthetic_dictionary(spread), vectors.detach().numpy().T, atol=3e-6)
    model.save(tmp_path)
    config = sp.laws.from_saelens(CONFIGURATIONS[name][0])
    for other in (model, model.cfg, tmp_path, tmp_path / "synthetic_model_config.json"):
        law = sp.laws.from_saelens(other)
        assert type(law) is type(config)
        for part in ("p", "scale") if isinstance(law, Features) else ("p", "mean", "std", "factor"):
            np.testing.assert_allclose(getattr(law, part), getattr(config, part), rtol=3e-6, atol=1e-7)
        if isinstance(law, Features):
            assert all(np.array_equal(a[1], b[1]) for a, b in zip(law.groups, config.groups, strict=True))
        else:
            assert law.roots == config.roots

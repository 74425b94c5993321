"""What figures draw and their units, beside formulas that stand here: of data of a few made-up numbers."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure as Canvas

from superposition.validate import experiments as ex
from superposition.validate.experiments.codes.symmetry import DRAWN_CELLS
from superposition.validate.experiments.collisions.fig3 import plot_fig3, plot_ratio
from superposition.validate.experiments.papers.cistoy import PRINTED_UNMIXED

SIZES = {"n_features": 4, "n_hidden": 6, "lam": 0.1, "threshold": 0.5}


def dataset(coords, *columns, **attrs):
    """Return a dataset of columns: a text of the name and the dimensions, and the values."""
    split = {text.split()[0]: (text.split()[1:], values) for text, values in columns}
    return xr.Dataset(split, coords, attrs)


def drawn(plot, *given, **options):
    """Return the axes, and by its label what is drawn: x and y of each point of a line, or of its markers."""
    ax = plot(*given, ax=Canvas().subplots(), **options)
    lines = [(line.get_label(), line) for line in ax.lines]
    lines += [(bars.get_label(), bars.lines[0]) for bars in ax.containers if hasattr(bars, "has_yerr")]
    return ax, {label: np.asarray(line.get_xydata(), float).T for label, line in lines}


def near(found, x=None, y=None):
    for one, wanted in zip(found, (x, y), strict=True):
        if wanted is not None:
            np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("plot", "is_ratio"), [(plot_fig3, False), (plot_ratio, True)])
def test_counts_of_collisions(plot, is_ratio):
    n, m = 8, np.array([8, 16])
    counts = ("polysemantic n_hidden run", [[1.0, 3], [1, 2]]), ("quoted n_hidden", n**2 / (4 * m))
    _, by = drawn(plot, dataset({"n_hidden": m}, *counts, n_features=n, lam=0.1))
    fine = by["n²/(4m)"][0]
    unit = 16 / fine if is_ratio else 1.0
    near(by["n²/(4m)"], y=16 / fine / unit)
    near(by["one place a feature"], fine, n * (n - 1) / (2 * (2 * fine - 1)) / unit)
    # Neither place of a neuron is empty.
    near(by["independent choice"], fine, fine * (1 - 2 * (1 - 0.5 / fine) ** n + (1 - 1 / fine) ** n) / unit)
    near(by["flow, 2 runs"], m, np.array([2.0, 1.5]) / ([2.0, 1.0] if is_ratio else 1.0))


def test_collisions_over_time_and_p():
    u = np.array([1.5, 3.0])
    t = u**3 / 3 - 1 / u + 2 / 3  # of one neuron, |D|/|E| is u²
    ratios = "norm_ratio case time run", [np.outer(u**2, [1.0, 1.2])]
    _, by = drawn(ex.collisions.plot_untied, dataset({"case": ["equal"], "time": t}, ratios, **SIZES))
    near(by["one neuron, l1 on activations"][:, [0, -1]], t, u**2)
    near(by["equal"], t, 1.1 * u**2)
    counts = ("polysemantic lam p run", [[[4.0, 4], [2, 4], [1, 1]]]), ("before lam run", [[4.0, 4]])
    at = {"p": [0.0, 0.1, 0.2], "lam": [0.4], "lam_normal": ("lam", [0.1])}
    _, by = drawn(ex.collisions.plot_cooccurrence, dataset(at, *counts, **SIZES))
    near(by["λ = 0.4, 2 seeds"], [1, 2], [0.75, 0.25])
    counts = ("count time run", [[2.0, 4], [1, 2]]), ("held time run", [[0.5, 0.5], [0.0, 0.1]])
    _, by = drawn(ex.collisions.plot_course, dataset({"time": [0.0, 1.0]}, *counts, **SIZES, expected=2.0))
    near(by["count at that time, 2 runs"], [0, 1], [1.5, 0.75])
    near(by["overlaps held at zero, share"], [0, 1], [0.5, 0.05])


def test_codes():
    ds = ex.codes.run_envelope(3, lowest=0.01, codes=("pair",))
    _, by = drawn(ex.codes.plot_bracket, ds, ratio=0.5)
    near(by["rug"], ds["p"], 3 * ds["rug"][:, 1] / ds["p"])
    near(by["proved lower bound"], ds["p"], 3 * ds["lower_bound"][:, 1] / ds["p"])
    p, ratio, seed = np.transpose([(*cell, k) for cell in DRAWN_CELLS for k in (0, 1)])
    columns = [("p model", p), ("ratio model", ratio), ("seed model", seed), ("n_features model", 64 + 0 * p)]
    ratios = "lyapunov_max end model", [[0.2, 0.4] * len(DRAWN_CELLS)]
    models = dataset({"end": ["converged"]}, *columns, ratios)
    _, by = drawn(ex.codes.plot_symmetry, models, name="lyapunov_max", label="", legend=True)
    # Of normal x the sum of n |x|³ over that of n x² to the power 3/2: E|x|³ is (8/pi)^(1/2).
    near(by["Gaussian rows, mean"], 64, np.sqrt(8 / np.pi) / 8)
    near(by["p = 0.1, ratio 0.25"], 64, 0.3)
    lowest = "lowest case n_features", [[-0.2, -0.1]]
    cases = ("p case n_features", [[0.1, 0.1]]), ("ratio case n_features", [[0.5, 0.5]])
    _, by = drawn(ex.codes.plot_curvature, dataset({"n_features": [4, 16]}, lowest, *cases))
    near(by["p = 0.1, ratio 0.5"], [4, 16], [0.2, 0.1])
    near(by["n$^{-1/2}$"] / by["n$^{-1/2}$"][:, -1:], [0.25, 1], [2, 1])


def test_computation():
    p, loss = (np.array(PRINTED_UNMIXED[name]) for name in ("p", "loss"))
    columns = [(f"{name} p", p / p / 20) for name in ("found", "readout", "lower_bound")]
    _, by = drawn(ex.papers.plot_spread, dataset({"p": p}, *columns, ("unbiased p", p / p / 12)))
    near(by["printed, trained"], p, loss * 12)
    mixed = ex.papers.run_mixed([0.0], n_features=4, n_hidden=2, seeds=range(1), starts=1, steps=5)
    ax, _ = drawn(ex.papers.plot_mixed, mixed)
    (level,) = {line.get_ydata()[0] for line in ax.lines if line.get_label().startswith("_")}
    assert level == pytest.approx(float(mixed["naive"][0, 0, 0]))
    losses = {"naive": [0.1, 0.2], "best": [0.1, 0.15], "lower_bound": [0.1, 0.05]}
    columns = [(f"{name} task p per_neuron", [[values]]) for name, values in losses.items()]
    at = {"task": ["abs"], "p": [0.1], "per_neuron": [1.0, 2.0]}
    ax, by = drawn(ex.computation.plot_map, dataset(at, *columns))
    near(by["abs"], 0.1, 0.25)
    near(ax.lines[1].get_xydata().T, 0.1, 0.75)


def test_decoders():
    at = {"p": [0.1], "ratio": [0.25], "decoder": ["soft", "hard", "relu", "jumprelu", "bayes"]}
    losses = ("loss p ratio decoder", [[[5.0, 4, 3, 2.5, 2]]]), ("iterated p ratio", [[1.0]])
    ds = dataset(at, *losses, ("recovery p", [0.2]))
    _, by = drawn(ex.decoders.plot_map, ds)
    near([by[name][1, 0] for name in ("ReLU", "iterated to its end")], 1.5, 0.5)
    _, by = drawn(ex.decoders.plot_recovery_line, ds)
    near(by["ratio = p: no decoder below"], 0.1, 0.1)
    near(by["message passing"], 0.1, 0.2)


def test_linear():
    ds = ex.linear.run_plateaus((4.0, 1.0, 0.2), 1, runs=1, trained=False, points=30)
    ax, by = drawn(ex.linear.plot_plateaus, ds)
    near(by["critical loss"], y=5.2 / 3)
    near(ax.lines[1].get_xydata().T, y=1.2 / 3)  # of the minimum: the first direction is kept
    predicted, escape = ds["predicted"].sel(model="pair"), ds["escape"][0].sel(model="pair")
    near(by["predicted escape, untied"], predicted.sel(data="expected")[0], 3.2 / 3)
    _, by = drawn(ex.linear.plot_escape, ds)
    near(by["untied, samples"], predicted.sel(data="samples")[0], (escape / predicted).sel(data="samples")[0])
    at = {"importance": ["falling"], "bias": ["bias", "no bias"], "model": ["tied", "pair"], "p": [0.1]}
    best = ("optimum importance bias p", [[[2.0], [1]]]), ("dedicated importance bias p", [[[2.0], [4]]])
    losses = [[[[[3.0, 2.5]], [[2, 6]]]], [[[[2, 4]], [[1, 9]]]]]
    _, by = drawn(ex.linear.plot_gain, dataset(at, *best, ("loss model importance bias p run", losses)))
    assert [float(y[0]) for _, y in by.values()] == [1, 1.25, 1, 0.25, 0.5, 0.25]


def test_noise():
    at = {"noise": ["bipolar", "normal"], "noise_std": [0.2], "step": [0, 100], "t": ("step", [0.0, 5.0])}
    norms = "fourth_norm noise noise_std step run", np.multiply.outer([1, 0.5], [[[0.3, 0.5], [0.8, 1]]])
    flow = "averaged noise_std step averaged_run", [[[0.4], [0.7]]]
    ds = dataset(at, norms, flow, ("predicted_time noise_std", [3.0]), n_hidden=4)
    ax, by = drawn(ex.noise.plot_fig4, ds)
    near(by["bipolar, σ = 0.2"], [0, 5], [0.4, 0.9])
    near(by["3/m"], y=0.75)
    assert [3, 0.5] in [point for line in ax.lines for point in line.get_xydata().tolist()]
    x, grown = np.array([0.1, 0.2, 0.4]), np.array([0.01, 0.1, 0.3])
    runs = 0.25 + np.stack([grown - 0.05, grown + 0.05], axis=1)[:, None]
    columns = [("by_noise noise_std step run", runs), ("noise_drop noise_std", [1.0, 0.9, 0.7])]
    columns += [("by_lam lam step run", runs), ("lam_drop lam", [1, 0.9, 0.8])]
    columns += [("quiet step run", [[0.2, 0.3]])]
    ds = dataset({"lam": x, "noise_std": x, "step": [100]}, *columns, silent_std=0.05)
    _, by = drawn(ex.noise.plot_fig5_lam, ds)
    near(by["power 1, as printed"], x, 0.25 + 0.1 * x / 0.2)  # through the growth of 0.1
    near(by["one-hot encodings"], x, [1, 0.9, 0.8])
    _, by = drawn(ex.noise.plot_fig5_noise, ds)
    near(by["power 4, as printed"], x[:2], 0.25 + 0.1 * (x[:2] / 0.2) ** 4)  # above 1 it is left out
    near(by["100 steps"], x, 0.25 + grown)
    counts = ("stuck n_features run", [[0, 1, 2, 0]]), ("sparse n_features run", [[1, 3, 2, 4]])
    _, by = drawn(ex.noise.plot_stuck, dataset({"n_features": [4]}, *counts, n_hidden=8))
    near([by[label][1, 0] for label in ("most encodings sparse", "with a stuck one")], 0.5, 0.5)


def test_relu():
    at = {"n_features": ("size", [6, 3]), "n_hidden": ("size", [2, 2])}
    losses = {"unit": [2, 1], "common": [2, 0.5], "unbiased": [2, 0.25], "biased": [2, 0.2]}
    _, by = drawn(ex.relu.plot_thomson, dataset(at, *((f"{name} size", y) for name, y in losses.items())))
    near(by["sphere, unit lengths"], [3, 6], 1)  # of losses of n/3
    near(by["minimiser with biases"], [3, 6], [0.2, 1])
    dims, above = "case run", [[1.2, 1.00002]]  # settled in the least minimum, as 1e-6 is rounding
    columns = (f"trained optimiser {dims}", [above]), (f"settled optimiser {dims}", [[[1.0, 1.000001]]])
    at = {"optimiser": ["adam"], "case": ["2 in 1"]}
    ds = dataset(at, *columns, (f"flow {dims}", above), ("least case", [1.0]))
    near(drawn(ex.relu.plot_excess, ds)[1]["trained (adam)"], y=above[0])
    _, by = drawn(ex.relu.plot_reached, ds)
    near([by[label][1, 0] for label in ("adam", "gradient flow")], 1, 0)


def test_rug():
    p, ratio, end = [0.01, 0.1], [0.05, 0.5, 0.9], {"end": ["stopping rule", "converged"]}
    zero = np.array([q / 3 - q**2 / 4 for q in p])  # the loss of the best constant
    excess = [[0.1, 0.3, 0.3], [0.2, 0.4, 0.4]]
    columns = [("n_features model", [64] * 3), ("model_p model", [*p, 0.1]), ("model_ratio model", [0.5] * 3)]
    models = dataset(end, *columns, ("trained end model", excess), ("excess end model", excess))
    ds = ex.rug.run_theory(p, ratio).merge(models)
    _, by = drawn(ex.rug.plot_loss_against_ratio, ds, p=0.1, legend=True)
    near(by["Persian rug"], ratio, ds["loss"][1] / zero[1])
    near(by["affine optimum"], ratio, 1 - np.array(ratio))
    _, by = drawn(ex.rug.plot_loss_against_p, ds, ratio=0.5, legend=True)
    near(by["small-p law"], p, [ds["asymptotic_loss"][0, 1] / zero[0], np.nan])
    near(drawn(ex.rug.plot_excess, ds, ratio=0.5)[1]["p = 0.1"], 64, 1.4)
    plane = ex.rug.run_theory([0.001, 0.01, 0.05, 0.1, 0.4], np.linspace(0.001, 1, 1000)).merge(models)
    ax, by = drawn(ex.rug.plot_onset, plane)
    near(by["p = 0.1"], plane["ratio"] / 0.1, plane["loss"][3] / zero[1])
    ticks = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "|"]
    crossover = float(plane["crossover_ratio"][3])
    height = ex.rug.run_theory([0.1], [crossover])["loss"].item() / zero[1]
    np.testing.assert_allclose(ticks[3], [crossover / 0.1, height], rtol=1e-3)  # between points of the grid
    dots = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"]
    assert dots == [[50, 0.2], [5, 0.4]]
    ax, by = drawn(ex.rug.plot_bias_map, plane := ex.rug.run_theory([0.1], [0.05, 0.5]))
    near(by["b = 0"], 0.1, crossover)
    shift = np.ravel(ax.collections[0].get_array())
    np.testing.assert_allclose(shift, np.ravel(plane["b"] / plane["a"] / plane["sigma"]), rtol=1e-12)


def test_sae_and_sparsification():
    kinds = ["dense", "true", "merged", "from dense", "from true", "from random"]
    values = np.multiply.outer(np.arange(1.0, 7), [[[0.1], [0.4]], [[0.3], [0.8]]])
    at = {"kind": kinds, "nested": [0.0, 1.0], "l1": [0.1, 0.2], "n_latents": [8]}
    _, by = drawn(ex.sae.plot_dense, dataset(at, ("objective kind nested l1 n_latents", values)))
    near(by["dense, nested 0"], [0.1, 0.2], [1, 2])
    near(by["true, nested 1"], [0.1, 0.2], [6, 8])
    t, law = np.arange(1.0, 6), np.array([10.0, 8, 6, 4, 2])
    lines = {"law_nonzeros": law, "law_nonzeros_std": law / 5, "source_nonzeros": law / 2}
    ds = dataset({"time": t}, *((f"{name} time", y) for name, y in lines.items()))
    ds["nonzeros"] = ("run", "time"), np.outer([0.9, 1.3], law)
    ax, by = drawn(ex.sparsification.plot_deviation, ds)
    near(by["source, constants 1"], t, 0.5)
    near(by["mean of 2 exact runs, 95% interval"], [1, 5], 1.1)
    assert set(ax.collections[0].get_paths()[0].vertices[:, 1].round(9)) == {0.8, 1.2}
    _, by = drawn(ex.sparsification.plot_nonzeros, ds)
    near(by["limit law"], t, law)
    near(by["their mean, 95% interval"], [1, 5], [11, 2.2])


def test_unequal():
    at = {"number_on": [1.0], "alpha": [2.0], "n_hidden": [2, 4], "kind": [*ex.unequal.codes.KINDS]}
    dims, share = "number_on alpha n_hidden kind", [[[[0.6, 0.1, 0.1, 0.1, 0.1], [0.5, 0.2, 0.1, 0.1, 0.1]]]]
    neurons = [[[[0, 0.1, 0, 0.1, 0], [0, 0, 0.1, 0, 0.3]]]]
    ds = dataset(at, (f"neurons {dims}", neurons), (f"share {dims}", share), n_features=10)
    ax, by = drawn(ex.unequal.plot_codes, ds, number_on=1.0, alpha=2.0)
    near(by["features dropped"], [0.2, 0.4], [0.6, 0.5])
    tops = {c.get_label(): {tuple(v) for v in c.get_paths()[0].vertices.round(9)} for c in ax.collections}
    assert tops["rug"] == {(0.2, 0), (0.2, 0.5), (0.4, 0)}
    assert tops["kept"] == {(0.2, 1), (0.4, 1), (0.4, 0.25)}
    at = {"kind": ("case", ["exclusive"]), "strength": ("case", [1.0]), "n_features": [8], "pairs": [1, 2]}
    codes_of = ("predicted case pairs", [[3.0, 2]]), ("priority case n_features", [[1.0]])
    models = ("trained case n_features steps seed", [[[[9.0, 9], [2, 4]]]])
    built = ("constructed case n_features matrix", [[[5.0, 7]]])
    ax, by = drawn(ex.unequal.groups.plot_groups, dataset(at, *codes_of, models, built))
    near(by["exclusive, strength 1"], 8, 1.5)
    assert [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() in ("--", ":")] == [3, 0.5]
    losses = np.full((1, 1, 2, 2, 2, 2), 9.0)
    losses[0, 0, 0, 0, 1] = 4.0, 6.0  # of free weights, without decay, trained longest
    models = ("loss alpha n_hidden tied weight_decay steps seed", losses)
    lines = [(f"{name} alpha n_hidden", [[k]]) for k, name in enumerate(("bound", "priority", "split"))]
    ds = dataset({"alpha": [1.0], "n_hidden": [2], "tied": [0, 1]}, *lines, models)
    _, by = drawn(ex.unequal.plot_width, ds, alpha=1.0)
    near(by["their mean, 95% interval"], 2, 5)
    near([by[label][1, 0] for label in ("proved bound", "priority code, exact")], 0, 1)

"""Predictions of theory for a phenomenon from its parameters, each number with its source.

A phenomenon is an entry of `PREDICTIONS`. Packages below load their modules on demand, and NumPy is imported
where a prediction is computed, so that the help of the command line is quick. Parameters are arrays of one
length, an entry for each point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import solvers, theory

__all__ = ["PREDICTIONS", "Parameter", "Prediction", "predict"]

Columns = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a prediction: its name, description and default; whole numbers have a least value."""

    name: str
    help: str
    whole: bool = False
    default: float | None = None
    least: int = 1


@dataclass(frozen=True)
class Prediction:
    """The predictions of a phenomenon: a title of one line, with the normalisation, and parameters.

    `sources` maps each predicted number to its meaning and source, in the order shown.
    ``compute(**columns) -> columns`` takes flat arrays and returns one for each name in `sources`.
    """

    title: str
    parameters: Sequence[Parameter]
    sources: Mapping[str, str]
    compute: Callable[..., Columns]


def predict(phenomenon: str, **grids: float | Sequence[float]) -> Columns:
    """Return the predictions of a phenomenon for every combination of its parameters, as flat columns.

    Parameters
    ----------
    phenomenon : str
        A key of `PREDICTIONS`, such as "rug" or "noise".
    **grids : float or sequence of float
        Value or values of each parameter of the phenomenon, such as p and ratio = n_hidden / n_features; one
        that has a default may be left out.

    Returns
    -------
    dict of str to ndarray
        A flat array for each parameter and each predicted number, with an entry for each combination.
        ``PREDICTIONS[phenomenon].sources`` says what each number is.

    Examples
    --------
    >>> table = predict("rug", p=[0.05], ratio=[0.25, 1.0])
    >>> table["loss"].round(5)
    array([0.00579, 0.     ])
    >>> predict("rug", p=0.05, ratio=0.25)["loss"].round(5)
    array([0.00579])
    """
    import numpy as np

    arguments = theory.validation
    prediction = PREDICTIONS[arguments.choice("phenomenon", phenomenon, tuple(PREDICTIONS))]
    names = [parameter.name for parameter in prediction.parameters]
    for name in grids:
        arguments.choice("parameter", name, names)
    axes = []
    for parameter in prediction.parameters:
        given_values: Any = grids.get(parameter.name, parameter.default)
        if given_values is None:
            raise ValueError(f"`{parameter.name}` must be given ({parameter.help}); got nothing.")
        values = given_values if np.ndim(given_values) else [given_values]
        if parameter.whole:
            whole = [arguments.integer(parameter.name, v, parameter.least, 10**15) for v in values]
        axes.append(np.array(whole) if parameter.whole else arguments.vector(parameter.name, values))
    columns = {n: grid.ravel() for n, grid in zip(names, np.meshgrid(*axes, indexing="ij"), strict=True)}
    computed = prediction.compute(**columns)
    for name in prediction.sources:
        column = np.asarray(computed[name])
        # A zero has no sign for a reader.
        columns[name] = column if column.dtype.kind == "U" else column + 0.0
    return columns


def _predict_rug(p: Any, ratio: Any) -> Columns:
    """Return the optimum of the Persian rug, the random-code model of Cowsik et al. (2024), as columns.

    Its outputs are ReLU(a (x_i + sigma g) + b), with standard normal interference g; the columns are "sigma",
    "a", "b" and "loss" per feature. Further columns are the losses of the best affine model ("linear_loss"),
    in the limit of small `ratio` = n_hidden / n_features ("zero_ratio_loss") and in the limit of small p
    ("asymptotic_loss").
    """
    best, rug = solvers.rug.optimum(p, ratio), theory.rug
    return {
        **{name: getattr(best, name) for name in ("sigma", "a", "b", "loss")},
        "linear_loss": rug.linear_loss(p, ratio),
        "zero_ratio_loss": rug.zero_ratio_loss(p),
        "asymptotic_loss": rug.asymptotic_loss(p, ratio),
    }


def _predict_decoders(p: Any, ratio: Any) -> Columns:
    """Return the least loss per feature of each kind of decoder of random encodings as columns.

    Features have random directions on n_hidden = `ratio` n_features neurons. Kinds are "affine", "relu",
    "jumprelu", "bayes" (posterior mean) and "iterated" (message passing). The last column, "recovery_ratio",
    is the n_hidden / n_features above which iterated decoding is exact.
    """
    decoders = solvers.decoders
    noise = theory.rug.sigma(p, theory.validation.real("ratio", ratio, 0, 1, brackets="()"))
    points = zip(p.tolist(), ratio.tolist(), strict=True)
    # First, as it names a ratio that is too small.
    iterated = [decoders.state_evolution(*point).loss for point in points]
    kinds = ("affine", "relu", "jumprelu", "bayes")
    losses: Columns = {kind: decoders.optimum(p, noise, kind).loss for kind in kinds}
    return {**losses, "iterated": iterated, "recovery_ratio": decoders.recovery_ratio(p)}


def _predict_sparsification(t: Any, lam: Any, n_hidden: Any, scale: Any) -> Columns:
    """Return expected nonzeros and l1 norm of one encoding W at a time of its l1 flow, as columns.

    The flow is dW/dt = (1 - |W|^2) W - lam sign(W), from n_hidden normal weights of s.d.
    scale/sqrt(n_hidden), at time `t`. Columns are "nonzeros" and "l1_norm", their standard deviations over
    runs "nonzeros_std" and "l1_norm_std", and "relative_variance", var/mean^2 of the absolute values of
    nonzero weights.
    """
    points = zip(t, lam.tolist(), n_hidden.tolist(), scale.tolist(), strict=True)
    laws = [solvers.sparsification.limit_law(*point) for point in points]
    columns = ("nonzeros", "nonzeros_std", "l1_norm", "l1_norm_std", "relative_variance")
    return {name: [getattr(law, name) for law in laws] for name in columns}


def _predict_collisions(n_features: Any, n_hidden: Any) -> Columns:
    """Return expected numbers of collisions and of polysemantic neurons, as columns.

    "collisions" are pairs of features with their largest first weights on one neuron (Lecomte et al. 2024),
    "polysemantic" the neurons that hold two features of opposite signs; "quoted" is the source's formula for
    these, n^2/(4 m). n_features and n_hidden are arrays of sizes n and m, one for each row.
    """
    collisions = theory.collisions
    return {
        "collisions": collisions.expected_collisions(n_features, n_hidden),
        "quoted": collisions.quoted_polysemantic(n_features, n_hidden),
        "polysemantic": collisions.expected_polysemantic(n_features, n_hidden),
    }


def _predict_relu(p: Any, importance: Any) -> Columns:
    """Return the best model of two features on one neuron as columns "phase", "w1", "w2", "b1", "b2", "loss".

    The phase is the name of its geometry; `importance` is that of the second feature, the first one's is 1.
    """
    import numpy as np

    relu = solvers.relu
    rows, columns = np.unique(p), np.unique(importance)
    diagram = relu.phase_diagram(rows, columns)
    at = np.searchsorted(rows, p), np.searchsorted(columns, importance)
    return {
        "phase": np.array(relu.PHASES)[diagram.phase[at]],
        "w1": diagram.W[at][:, 0, 0],
        "w2": diagram.W[at][:, 1, 0],
        "b1": diagram.b[at][:, 0],
        "b2": diagram.b[at][:, 1],
        "loss": diagram.loss[at],
    }


def _predict_noise(**columns: Any) -> Columns:
    """Return how fast noise on hidden neurons makes encodings sparse, as columns.

    "rate" and "regulariser_rate" are B in the force B W_j^3 on a weight, by interference crossing the ReLU's
    threshold and by the implicit regulariser of Lecomte et al. (2024). "steps" are those of gradient descent
    until the ratio of norms, |W|_4^4/|W|_2^4, of an encoding is 1/2. The parameters in `columns` are
    n_features, n_hidden, noise_std, excess_kurtosis and learning_rate, one value for each row.
    """
    noise = theory.noise
    theory.validation.real("learning_rate", columns["learning_rate"], 0.0, brackets="()")
    names = ("n_features", "n_hidden", "noise_std", "excess_kurtosis", "learning_rate")
    points = list(zip(*(columns[name].tolist() for name in names), strict=True))
    return {
        "rate": [noise.simplex_rate(n, sigma, kappa) for n, _, sigma, kappa, _ in points],
        "regulariser_rate": [noise.regulariser_rate(sigma, eta, kappa) for _, _, sigma, kappa, eta in points],
        "steps": [noise.sparsification_time(n, m, sigma, kappa) / eta for n, m, sigma, kappa, eta in points],
    }


def _predict_codes(p: Any, ratio: Any) -> Columns:
    """Return the least losses per feature of many copies of known codes as columns.

    A code is a block of a few features on neurons of its own. Losses are of models "tied", "balanced" (free
    decoder, features alike) and "free", at p and `ratio`, n_hidden / n_features. Further columns are the
    losses of random encodings ("rug") and of the best affine model ("linear"), a "lower_bound", and the names
    of the codes behind "free" ("best").
    """
    from ..experiments.codes import known_envelope

    envelopes = {models: known_envelope(p, ratio, models=models) for models in solvers.codes.MODELS}
    free = envelopes["free"]
    pairs = zip(free.first.tolist(), free.second.tolist(), strict=True)
    return {
        **{model: envelope.loss for model, envelope in envelopes.items()},
        "rug": free.rug,
        "linear": free.linear,
        "lower_bound": free.lower_bound,
        "best": [" + ".join(dict.fromkeys((free.names[a], free.names[b]))) for a, b in pairs],
    }


def _predict_unequal(alpha: Any, n_features: Any, n_hidden: Any, number_on: Any) -> Columns:
    """Return losses per feature of models for features whose frequencies fall as i^-alpha, as columns.

    Models are "tied" (random directions); the best "split" of the n_hidden dimensions into shares of the
    n_features features at normal interference, with "gap", an upper bound of (its loss - the least); mixtures
    of codes, blocks of a few features on neurons of their own ("envelope"); and models whose encodings have
    very different lengths ("priority"). Further columns are a "lower_bound", the leading order of the split's
    loss ("weak_interference"), and the numbers of features with share 1 ("kept") and 0 ("dropped") in the
    split. `number_on` is the mean number of features that are on.
    """
    solver, unequal = solvers.unequal, theory.unequal
    columns: dict[str, list[float]] = {}
    points = (column.tolist() for column in (alpha, n_features, number_on, n_hidden))
    for *shape, m in zip(*points, strict=True):
        law = unequal.power_law(*shape)
        theory.validation.integer("n_hidden", m, 1, law.n_features - 1)
        split = solver.allocate(law, m)
        forms = {
            "tied": solver.mean_field(law, m).loss,
            "split": split.loss,
            "gap": split.gap,
            "envelope": solver.allocate_codes(law, m).loss,
            "priority": unequal.priority_loss(law, m),
            "lower_bound": unequal.loss_bound(law, m),
            "weak_interference": unequal.weak_interference(law, m)[1],
            "kept": float((split.capacity == 1.0).sum()),
            "dropped": float((split.capacity == 0.0).sum()),
        }
        for name, value in forms.items():
            columns.setdefault(name, []).append(value)
    return dict(columns)


def _predict_linear(p: Any, n_features: Any, n_hidden: Any) -> Columns:
    """Return losses per feature of the best linear models with bias, "loss", and without, "unbiased_loss".

    Further columns are the two distinct eigenvalues of the second moments E x_i x_j of n_features uniform
    features: "first", the largest, and "others".
    """
    import numpy as np

    linear = theory.linear
    columns: dict[str, list[float]] = {"loss": [], "unbiased_loss": [], "first": [], "others": []}
    for q, n, d in zip(p.tolist(), n_features.tolist(), n_hidden.tolist(), strict=True):
        theory.validation.check_fits("n_features", n, n**2)
        data, represented = theory.features.SparseUniform(q), range(min(n, d))
        moments = data.covariance(n) + np.full((n, n), float(data.mean) ** 2)
        values = linear.spectrum(moments).eigenvalues
        columns["loss"].append(linear.critical_loss(data.covariance(n), represented))
        columns["unbiased_loss"].append(linear.critical_loss(moments, represented))
        columns["first"].append(float(values[0]))
        columns["others"].append(float(values[-1]))
    return columns


def _predict_computation(p: Any, n_features: Any, n_hidden: Any) -> Columns:
    r"""Return losses per feature of networks that compute ReLU(x) or \|x\| on few neurons, as columns.

    Of ReLU(x) the columns are "lower_bound"; "naive", one neuron for each feature that is computed; and
    without output bias "unbiased_naive" and the best known, "unbiased". Of \|x\| they are "abs_lower_bound",
    "abs_naive" (one or two neurons a feature) and "abs_fan", the best known to leading order in small p.
    """
    import numpy as np

    computation = theory.computation

    def loss(network: str, target: str = "relu") -> Any:
        """Return the loss per feature of a kind of `network`, as "naive", for `target` "relu" or "abs"."""
        return computation.equal_features_loss(network, p, n_features, n_hidden, target=target)

    unbiased = np.minimum(loss("readout"), loss("constant"))
    points = zip(n_features.tolist(), n_hidden.tolist(), strict=True)
    fans = [computation.rare_losses(*point, target="abs").fan for point in points]
    return {
        "lower_bound": loss("lower_bound"),
        "naive": loss("naive"),
        "unbiased_naive": loss("unbiased"),
        "unbiased": unbiased,
        "abs_lower_bound": loss("lower_bound", "abs"),
        "abs_naive": np.minimum(loss("naive", "abs"), loss("pairs", "abs")),
        "abs_fan": p * np.array(fans),
    }


def _p_parameter(allowed: str) -> Parameter:
    """Return the description of the parameter p, in the range `allowed`, a text."""
    return Parameter("p", f"probability that a feature is on, in {allowed}")


def _ratio_parameter(allowed: str) -> Parameter:
    """Return the description of the parameter n_hidden / n_features, in the range `allowed`, a text."""
    return Parameter("ratio", f"n_hidden/n_features, in {allowed}")


def _n_features_parameter(allowed: str) -> Parameter:
    """Return the description of the parameter n_features, in the range `allowed`, a text."""
    return Parameter("n_features", f"number of features, {allowed}", whole=True)


def _n_hidden_parameter(allowed: str, least: int = 1) -> Parameter:
    """Return the description of the parameter n_hidden, in the range `allowed`, a text.

    `least` is its lowest value.
    """
    return Parameter("n_hidden", f"number of hidden neurons, {allowed}", whole=True, least=least)


PREDICTIONS: dict[str, Prediction] = {
    "rug": Prediction(
        "Persian rug: optimal symmetric autoencoder, loss per feature",
        (_p_parameter("[1e-100, 1]"), _ratio_parameter("(0, 1]")),
        {
            "sigma": "least interference: Cowsik et al. (2024), Eq. 6",
            "a": "optimal scale: Cowsik et al. (2024), Eq. 16",
            "b": "optimal bias: minimum of Cowsik et al. (2024), Eq. 5",
            "loss": "optimal loss per feature: minimum of Cowsik et al. (2024), Eq. 5, large n_features",
            "linear_loss": "best affine model: Cowsik et al. (2024), sec. 2; Notes (2022), Cor. 2",
            "zero_ratio_loss": "ratio -> 0: Cowsik et al. (2024), sec. 4.3.1, corrected to p/3 - p^2/4",
            "asymptotic_loss": "p -> 0: Cowsik et al. (2024), Eq. 13, with its constants",
        },
        _predict_rug,
    ),
    "sparsification": Prediction(
        "Sparsification under l1: one encoding without interference, time and lam of the normal form",
        (
            Parameter("t", "flow time (constants 4 dropped), at least 0"),
            Parameter("lam", "strength of the l1 force (a quarter of the printed loss's), in [0, 1e6]"),
            _n_hidden_parameter("at least 8", 8),
            Parameter(
                "scale",
                "standard deviation of the first weights times sqrt(n_hidden), in [1e-6, 1e6]",
                default=0.9,
            ),
        ),
        {
            "nonzeros": "expected nonzero weights: limit law, in place of Lecomte et al. (2024), sec. 2.4",
            "nonzeros_std": "its standard deviation over single runs",
            "l1_norm": "expected l1 norm: limit law, in place of Lecomte et al. (2024), sec. 2.4",
            "l1_norm_std": "its standard deviation over single runs",
            "relative_variance": "of the nonzero weights: limit law, Lecomte et al. (2024), App. B",
        },
        _predict_sparsification,
    ),
    "collisions": Prediction(
        "Features that share a neuron after one-hot sparsification from independent normal weights",
        (_n_features_parameter("from 1 to 2 n_hidden"), _n_hidden_parameter("at least 1")),
        {
            "collisions": "pairs with their largest weight on one neuron: Lecomte et al. (2024), sec. 1.1",
            "quoted": "polysemantic neurons, n^2/(4m): Lecomte et al. (2024), sec. 2.5",
            "polysemantic": "polysemantic neurons if chance alone decides; one place per neuron and sign",
        },
        _predict_collisions,
    ),
    "relu": Prediction(
        "Two features in one dimension, ReLU(W W' x + b): the global minimum of the exact loss",
        (
            _p_parameter("[1e-4, 1]"),
            Parameter(
                "importance", "of the second feature, in [1e-4, 1e4]; the first one's is 1", default=1.0
            ),
        ),
        {
            "phase": "which features are represented, and how: Elhage et al. (2022), with free biases",
            "w1": "encoding of the first feature",
            "w2": "encoding of the second feature",
            "b1": "bias of the first output",
            "b2": "bias of the second output",
            "loss": "mean of importance times squared error, exact: Elhage et al. (2022), E L = sum of L_k",
        },
        _predict_relu,
    ),
    "linear": Prediction(
        "Linear autoencoders of sparse data: least loss per feature, eigenvalues of E xx'",
        (_p_parameter("(0, 1]"), _n_features_parameter("at least 1"), _n_hidden_parameter("at least 1")),
        {
            "loss": "best affine model: Notes (2022), Cor. 2, on the covariance",
            "unbiased_loss": "best model without bias: Notes (2022), Cor. 2, on the second moments",
            "first": "largest eigenvalue of the second moments: Notes (2022), sec. 2.1",
            "others": "all other eigenvalues, which are equal: Notes (2022), sec. 2.1",
        },
        _predict_linear,
    ),
    "codes": Prediction(
        "Structured codes and their mixtures beside the Persian rug: loss per feature for many features",
        (_p_parameter("[1e-6, 1)"), _ratio_parameter("(0, 1]")),
        {
            "tied": "least of all codes of models ReLU(W W' x + b), the rug included: an upper bound",
            "balanced": "the same if the decoder is free and all features are treated alike",
            "free": "the same if features may have weights of very different size as well",
            "rug": "Persian rug: Cowsik et al. (2024), Eq. 5 minimised",
            "linear": "best affine model: Notes (2022), Cor. 2",
            "lower_bound": "what no model of this ratio can beat, by proof",
            "best": "the code, or the mixture of two, behind `free`",
        },
        _predict_codes,
    ),
    "unequal": Prediction(
        "Features of power-law frequencies, p_i = min(1, A i^-alpha): loss per feature against n_hidden",
        (
            Parameter("alpha", "exponent of the frequencies, in [0, 20]"),
            _n_features_parameter("at least 2"),
            _n_hidden_parameter("from 1 to n_features - 1"),
            Parameter(
                "number_on",
                "mean number of features that are on, in (0, n_features]; no p_i may be below 1e-100",
                default=1.0,
            ),
        ),
        {
            "tied": "tied models of random directions, few features on: mean field, nothing fitted",
            "split": "best split into capacities, many features on: the rug for features that differ",
            "gap": "what `split` may lie above the least sum of such losses, by duality",
            "envelope": "best codes, with many copies of each feature: pairs, priority codes, the rug",
            "priority": "upper bound at this n_features: features kept and priority codes, decoder free",
            "lower_bound": "what no model of this size can beat, by proof",
            "weak_interference": "leading order of weak interference: 1/m while no feature is kept",
            "kept": "features that the best split keeps exactly",
            "dropped": "features that the best split drops",
        },
        _predict_unequal,
    ),
    "decoders": Prediction(
        "Decoders on the rug's interference: loss per feature of the best of each kind, large n_features",
        (
            _p_parameter("[1e-100, 1]"),
            _ratio_parameter("(0, 1), so that sigma of `predict rug` is at most 1000"),
        ),
        {
            "affine": "no activation: Cowsik et al. (2024), sec. 2",
            "relu": "Cowsik et al. (2024), Eq. 5 minimised",
            "jumprelu": "a y + b above a threshold, else 0; also TopK of many features",
            "bayes": "posterior mean: no function of one output is better; Cowsik et al. (2024), Eqs. 29-31",
            "iterated": "message passing to its end (state evolution); 0 where all is recovered",
            "recovery_ratio": "ratio above which message passing recovers all features",
        },
        _predict_decoders,
    ),
    "computation": Prediction(
        "n ReLU neurons with a linear readout for F functions, uniform on [-1, 1]: squared loss per feature",
        (
            _p_parameter("(0, 1]"),
            _n_features_parameter("at least 1"),
            _n_hidden_parameter("from 1 to n_features"),
        ),
        {
            "lower_bound": "for ReLU(x): no n functions are below, whatever computes them; Fan (1949)",
            "naive": "n targets from a neuron each and the means of the others: the lower bound",
            "unbiased_naive": "without output bias: n targets, and 0 for the others; Bhagat et al. (2026)",
            "unbiased": "without output bias: others read from the neurons, or a neuron that is constant",
            "abs_lower_bound": "for |x|: no n functions are below",
            "abs_naive": "for |x|: a neuron serves one feature, two for |x| in full",
            "abs_fan": "for |x|: best known network as p -> 0, to leading order in p",
        },
        _predict_computation,
    ),
    "noise": Prediction(
        "Hidden noise: how fast it makes encodings sparse, loss summed over features",
        (
            _n_features_parameter("at least 2"),
            _n_hidden_parameter("at least n_features - 1"),
            Parameter("noise_std", "standard deviation of the noise on each hidden neuron, in (0, 1e30]"),
            Parameter("excess_kurtosis", "of the noise, at least -2 (bipolar)", default=-2.0),
            Parameter("learning_rate", "of plain gradient descent, in (0, 1e60]", default=0.01),
        ),
        {
            "rate": "growth B of the force B W_j^3, first order: interference crossing the ReLU's threshold",
            "regulariser_rate": "the same by the implicit regulariser of Lecomte et al. (2024), sec. 3.2",
            "steps": "steps until |W|_4^4/|W|_2^4 is 1/2, by the first-order rate: a scaling law",
        },
        _predict_noise,
    ),
}

"""Laws and dictionaries of SAELens' synthetic data, from its configurations; as of SAELens 6.54."""

import random
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ...theory.features import Features, rectified_normal
from ...theory.features.copula import CopulaFeatures
from ...theory.features.trees import Node, count_patterns, hierarchy_group, walk
from ...theory.validation import FloatArray, choice, integer, number, short_repr
from .files import read_file, read_settings

_CONFIG_FILE, _ARRAYS_FILE, _HIERARCHY_FILE = (
    "synthetic_model_config.json", "synthetic_model.safetensors", "hierarchy.json",
)  # fmt: skip
# SAELens' keys and defaults. Those of the dictionary do not change the law of the features.
_MODEL: dict[str, Any] = {
    "num_features": None, "firing_probability": {"generator_name": "zipfian"}, "hierarchy": None,
    "correlation": None, "std_firing_magnitudes": 0.0, "mean_firing_magnitudes": 1.0, "dtype": "float32",
    "seed": None, "hidden_dim": None, "orthogonalization": None, "bias": 1.0,
}  # fmt: skip
_CHANCES: dict[str, dict[str, Any]] = {
    "zipfian": {"exponent": 1.0, "max_prob": 0.3, "min_prob": 0.01},
    "linear": {"max_prob": 0.3, "min_prob": 0.01},
    "random": {"max_prob": 0.5, "min_prob": 0.01},
    "constant": {"probability": 0.1},
}
_MAGNITUDES: dict[str, dict[str, Any]] = {
    "constant": {"value": 1.0},
    "linear": {"start": None, "end": None},
    "exponential": {"start": None, "end": None},
    "folded_normal": {"mean": 0.0, "std": 0.1, "min_value": None, "max_value": None},
}
_HIERARCHY: dict[str, Any] = {
    "total_root_nodes": 100, "branching_factor": 100, "max_depth": 2, "mutually_exclusive_portion": 0.0,
    "mutually_exclusive_min_depth": 0, "mutually_exclusive_max_depth": None,
    "compensate_probabilities": False, "scale_children_by_parent": False,
}  # fmt: skip
_NODE: dict[str, Any] = {
    "feature_index": None, "children": (), "mutually_exclusive_children": False,
    "scale_children_by_parent": False, "feature_id": None, "id": None,
}  # fmt: skip
# What SAELens adds to the seed of the configuration, for each kind of draw.
_SEED_STD, _SEED_MEAN, _SEED_HIERARCHY, _SEED_CORRELATION = 1, 2, 3, 4
_LEAST_ALONE = 0.01  # the least variance that SAELens leaves to a feature beside the common factors
_CORRELATION: dict[str, Any] = {"rank": 32, "correlation_scale": 0.1, "seed": None}
_ORTHOGONALIZATION: dict[str, Any] = {"num_steps": 200, "lr": 0.01, "chunk_size": 1024}
_ADAM_MEAN, _ADAM_SQUARE, _ADAM_LEAST = 0.9, 0.999, 1e-8  # PyTorch's defaults
_MOST_PATTERNS = 2**16 + 1  # as of `parent_child`
_MOST_LEVELS = 100


def synthetic_law(config: Any) -> Features | CopulaFeatures:
    """Return the law of the features that SAELens' generator draws, as `Features` if these can be so.

    Any other law is a `CopulaFeatures`, which can only be drawn. `config` is a configuration (mapping, path
    or object), or the live model or generator.
    """
    law = _law_of(config)
    return _exact_law(law) or law


def _exact_law(law: CopulaFeatures) -> Features | None:
    """Return the law of SAELens' generator, `law`, as `Features`; None if no `Features` has this law."""
    p, mean, std = law.p, law.mean, law.std
    trees = [root for root in law.roots if root.children]
    if np.any(law.factor) or any(count_patterns(tree) > _MOST_PATTERNS for tree in trees):
        return None
    if not np.any(std) and np.all(mean > 0):
        return Features(p.size, p, "binary", mean, groups=[hierarchy_group(tree, p) for tree in trees])
    ratio = mean[0] / std[0] if std[0] else np.inf
    scaled = any(step.scaled for step in walk(trees))
    alike = np.all(std > 0) and np.allclose(mean, ratio * std, rtol=1e-9, atol=0.0)
    if scaled or not alike or not -5.0 <= ratio <= 30.0:
        return None
    values = rectified_normal(ratio)
    if not trees:
        return Features(p.size, p, values, std)
    # A value that is 0 switches the children off: here a feature is on where its value is positive.
    on = p * (1.0 - values.zero)
    return Features(p.size, on, values.nonzero, std, groups=[hierarchy_group(tree, on) for tree in trees])


def synthetic_dictionary(config: Mapping[str, Any]) -> FloatArray:
    """Return the dictionary, (d, n_features), that SAELens makes of a configuration on a CPU.

    Random directions of length 1 take steps of Adam down the sum of squared cosines of pairs, in single
    precision. On a GPU PyTorch draws other directions from the same seed.

    >>> phi = synthetic_dictionary({"num_features": 4, "hidden_dim": 3, "seed": 0, "orthogonalization": {}})
    >>> phi.shape, (phi**2).sum(axis=0).round(3)
    ((3, 4), array([1., 1., 1., 1.]))
    """
    settings = _options("the model", config, _MODEL)
    shape = (
        integer("config['num_features']", settings["num_features"], 1),
        integer("config['hidden_dim']", settings["hidden_dim"], 1),
    )
    E = _torch_draws("dictionary", "randn", shape, settings["seed"], 0).astype(np.float32)
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    if settings["orthogonalization"] is not None:
        options = _options("orthogonalization", settings["orthogonalization"], _ORTHOGONALIZATION)
        rate = number("config['orthogonalization']['lr']", options["lr"], 0)
        steps = integer("config['orthogonalization']['num_steps']", options["num_steps"], 0)
        mean, square = np.zeros((2, *shape), np.float32)
        for step in range(1, 1 + steps):
            length = np.sum(E**2, axis=1, keepdims=True)
            # Of the sum over pairs of (e_i e_j)^2, and n times that of (|e_i|^2 - 1)^2, which keeps lengths.
            # The sum over pairs is that of the squares of E'E, which is only (d, d).
            gradient = 4.0 * (E @ (E.T @ E) - length * E) + 4.0 * shape[0] * (length - 1.0) * E
            mean += (1.0 - _ADAM_MEAN) * (gradient - mean)
            square += (1.0 - _ADAM_SQUARE) * (gradient**2 - square)
            spread = np.sqrt(square / (1.0 - _ADAM_SQUARE**step)) + _ADAM_LEAST
            E -= rate * (mean / (1.0 - _ADAM_MEAN**step)) / spread
        E /= np.linalg.norm(E, axis=1, keepdims=True)
    return np.asarray(E.T, float)


# --- Reading ------------------------------------------------------------------------------------------------


def _law_of(config: Any) -> CopulaFeatures:
    """Return the law of SAELens' generator, by its probabilities, magnitudes, correlation and hierarchy.

    `config` is as for `synthetic_law`: a configuration, or the live model or generator.
    """
    generator = getattr(config, "activation_generator", config)
    if hasattr(generator, "firing_probabilities"):
        return _law_of_generator(generator, getattr(config, "hierarchy", None))
    arrays, roots = {}, None
    if isinstance(config, str | PathLike):
        path = Path(config)
        try:
            settings = read_settings(path / _CONFIG_FILE if path.is_dir() else path)
            if path.is_dir():
                arrays = read_file(path / _ARRAYS_FILE)
            if path.is_dir() and (path / _HIERARCHY_FILE).exists():
                roots = _roots_of(read_settings(path / _HIERARCHY_FILE))
        except ValueError as error:
            raise ValueError(str(error).replace("`model`", "`config`")) from error
    else:
        settings = config.to_dict() if hasattr(config, "to_dict") else config
    return _law_of_config(settings, arrays, roots)


def _law_of_generator(generator: Any, hierarchy: Any) -> CopulaFeatures:
    """Return the law of SAELens' live generator, by its probabilities, magnitudes, correlation, hierarchy.

    `hierarchy` is that of the live model's features, None for none. A generator with a function that modifies
    activations raises a ValueError unless there is a hierarchy.
    """
    if generator.modify_activations is not None and hierarchy is None:
        rule = "a generator without `modify_activations`, whose code is not read, or the SyntheticModel"
        raise ValueError(f"`config` must be {rule}; got {short_repr(generator.modify_activations)}.")
    p, mean, std = (
        np.asarray(getattr(generator, name).cpu().double())
        for name in ("firing_probabilities", "mean_firing_magnitudes", "std_firing_magnitudes")
    )
    factor = None
    if generator.low_rank_correlation is not None:
        factor = np.asarray(generator.low_rank_correlation[0].cpu().double())
    if generator.correlation_matrix is not None:
        factor = np.linalg.cholesky(np.asarray(generator.correlation_matrix.cpu().double()))
    return CopulaFeatures(p, mean, std, factor, () if hierarchy is None else _roots_of(hierarchy.to_dict()))


def _options(where: str, settings: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` completed with SAELens' defaults; ValueError for keys that SAELens lacks.

    `where` says in the message whose settings these are.
    """
    if not isinstance(settings, Mapping):
        raise ValueError(f"`config` must have a mapping as {where}; got {short_repr(settings)}.")
    for key in [key for key in settings if key not in defaults]:
        raise ValueError(f"`config` must have keys of {where} that SAELens 6.54 has; got {short_repr(key)}.")
    return {**defaults, **settings}


def _law_of_config(config: Any, arrays: Mapping[str, Any], roots: tuple[Node, ...] | None) -> CopulaFeatures:
    """Return the law of the probabilities, magnitudes, correlation and hierarchy that a `config` makes.

    `arrays` has saved "firing_probabilities" and "correlation_factor", `roots` are the saved trees of the
    hierarchy, in which a feature is on only if its parent is. What was not saved is drawn from the seed of
    `config`.
    """
    settings = _options("the model", config, _MODEL)
    n = integer("config['num_features']", settings["num_features"], 1)
    if str(settings["dtype"]) not in ("float32", "torch.float32"):
        rule = "the dtype float32; pass the SyntheticModel itself for another"
        raise ValueError(f"`config` must have {rule}; got {short_repr(settings['dtype'])}.")
    seed = settings["seed"]
    p = _firing_probabilities(settings["firing_probability"], n, seed)
    if settings["hierarchy"] is not None:
        hierarchy = _options("hierarchy", settings["hierarchy"], _HIERARCHY)
        roots = _generated_roots(n, hierarchy, seed) if roots is None else roots
        if hierarchy["compensate_probabilities"]:
            p = _compensate_hierarchy(p, roots)
    factor = None
    if settings["correlation"] is not None:
        correlation = _options("correlation", settings["correlation"], _CORRELATION)
        saved = arrays.get("correlation_factor")
        factor = _correlation_factor(n, correlation, seed) if saved is None else saved.astype(float)
    mean, std = (
        _magnitudes(f"{name}_firing_magnitudes", settings[f"{name}_firing_magnitudes"], n, seed, offset)
        for name, offset in (("mean", _SEED_MEAN), ("std", _SEED_STD))
    )
    return CopulaFeatures(arrays.get("firing_probabilities", p).astype(float), mean, std, factor, roots or ())


def _roots_of(hierarchy: Any, levels: int = _MOST_LEVELS) -> tuple[Node, ...]:
    """Return the trees of a saved hierarchy: nodes are features, on only if the nearest one above is.

    `hierarchy` is a list of root nodes, or a mapping with this list at "roots". A node is a mapping with
    "feature_index" (None if the node only groups its children), and "children", a list of nodes. Other forms,
    or more than `levels` levels, raise a ValueError.
    """
    nodes = hierarchy.get("roots") if levels == _MOST_LEVELS and isinstance(hierarchy, Mapping) else hierarchy
    if not isinstance(nodes, Sequence) or (nodes and not levels):
        rule = f"a hierarchy of lists of nodes, {_MOST_LEVELS} levels at most"
        raise ValueError(f"`config` must have {rule}; got {short_repr(nodes)}.")
    read = [_options("a node", node, _NODE) for node in nodes]
    return tuple(
        Node(
            node["feature_index"],
            _roots_of(node["children"], levels - 1),
            bool(node["mutually_exclusive_children"]),
            bool(node["scale_children_by_parent"]),
        )
        for node in read
    )


# --- What SAELens makes of a configuration ------------------------------------------------------------------


def _torch_draws(what: str, kind: str, shape: tuple[int, ...], seed: Any, offset: int) -> FloatArray:
    """Return an array of this shape from `torch.rand` or `torch.randn`, seeded as SAELens seeds it.

    `kind` is "rand" or "randn"; `offset` is what SAELens adds to the seed for this draw; `what` names the
    drawn quantity in errors.
    """
    import torch

    generator = torch.Generator().manual_seed(_seed(what, seed, offset))
    return np.asarray(getattr(torch, kind)(*shape, generator=generator).double())


def _seed(what: str, seed: Any, offset: int) -> int:
    """Return the seed of a draw, `seed` + `offset`; ValueError for None, as the law is then random.

    `what` names the drawn quantity in the error.
    """
    if seed is None:
        rule = f"a seed, as its {what} is drawn at random; or be the SyntheticModel"
        raise ValueError(f"`config` must have {rule}; got None.")
    return integer("config['seed']", seed, 0) + offset


def _generator_settings(
    where: str, setting: Any, kinds: Mapping[str, dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """Return the name of a generator of numbers, one of `kinds`, and its settings with defaults.

    `setting` is the configuration's value at the key `where`: a mapping with name and settings.
    """
    name = setting.get("generator_name") if isinstance(setting, Mapping) else setting
    kind = choice(f"config['{where}']['generator_name']", name, tuple(kinds))
    return kind, _options(where, setting, {"generator_name": None, **kinds[kind]})


def _firing_probabilities(setting: Any, n: int, seed: Any) -> FloatArray:
    """Return the probabilities that features fire by `setting`, before a hierarchy, shape (n,).

    `setting` has the name of a generator ("zipfian", "linear", "random", "constant") and its numbers; only
    "random" uses the configuration's `seed`.
    """
    where = "firing_probability"
    kind, options = _generator_settings(where, setting, _CHANCES)

    def positive(key: str, high: float = np.inf) -> float:
        """Return the validated option `key`, above 0 and at most `high`."""
        return number(f"config['{where}']['{key}']", options[key], 0, high, brackets="(]")

    if kind == "constant":
        return np.full(n, positive("probability", 1))
    high = positive("max_prob", 1)
    low = positive("min_prob", high)
    if kind == "linear" or (n == 1 and kind != "random"):
        return np.linspace(high, low, n)
    if kind == "random":
        return low + (high - low) * _torch_draws(where, "rand", (n,), seed, 0)
    power = np.arange(1.0, n + 1) ** -positive("exponent")
    return np.asarray(low + (high - low) * (power - power[-1]) / (1.0 - power[-1]))


def _magnitudes(where: str, setting: Any, n: int, seed: Any, offset: int) -> FloatArray:
    """Return the means or standard deviations, as `where` says, of the features' values, shape (n,).

    `setting` is a number for all, or a mapping with the name of a generator, such as "folded_normal", and its
    numbers. Random ones are drawn with the configuration's `seed` plus `offset`, as SAELens does.
    """
    if not isinstance(setting, Mapping):
        return np.full(n, number(f"config['{where}']", setting))
    kind, options = _generator_settings(where, setting, _MAGNITUDES)
    first, second = (
        number(f"config['{where}']['{key}']", options[key]) if key in options else 0.0
        for key in {"constant": ("value", ""), "folded_normal": ("mean", "std")}.get(kind, ("start", "end"))
    )
    if kind == "constant":
        return np.full(n, first)
    if kind == "folded_normal":
        drawn = np.abs(first + second * _torch_draws(where, "randn", (n,), seed, offset))
        return np.clip(drawn, options["min_value"], options["max_value"])
    if min(first, second) <= 0:
        raise ValueError(f"`config['{where}']` must start and end above 0; got {first:g} and {second:g}.")
    return np.linspace(first, second, n) if kind == "linear" else np.geomspace(first, second, n)


def _correlation_factor(n: int, options: Mapping[str, Any], seed: Any) -> FloatArray:
    """Return the loadings of features on common normal factors, shape (n, rank), drawn from `seed`.

    `options` has "rank" and "correlation_scale", the standard deviation of a loading. Rows are shortened so
    that common factors make at most 0.99 of a feature's variance.
    """
    rank = integer("config['correlation']['rank']", options["rank"], 1)
    scale = number("config['correlation']['correlation_scale']", options["correlation_scale"], 0)
    factor = scale * _torch_draws("correlation", "randn", (n, rank), seed, _SEED_CORRELATION)
    square = np.sum(factor**2, axis=1, keepdims=True)
    shortened = factor * np.sqrt((1.0 - _LEAST_ALONE) / np.maximum(square, 1e-300))
    return np.where(1.0 - square < _LEAST_ALONE, shortened, factor)


def _generated_roots(n: int, options: Mapping[str, Any], seed: Any) -> tuple[Node, ...]:
    """Return the trees of n features that SAELens builds by `options`, the settings of its hierarchy.

    A node is a feature, on only if its parent is. Trees grow level by level, and features are numbered in
    this order. Numbers of children, and which parents have exclusive ones (at most one of them on), are drawn
    from the configuration's `seed`.
    """

    def whole(key: str, low: int) -> int:
        """Return the validated whole number of the option `key`, at least `low`."""
        return integer(f"config['hierarchy']['{key}']", options[key], low)

    count, depth_limit = min(whole("total_root_nodes", 1), n), whole("max_depth", 1)
    branching, least = options["branching_factor"], whole("mutually_exclusive_min_depth", 0)
    portion = number(
        "config['hierarchy']['mutually_exclusive_portion']", options["mutually_exclusive_portion"], 0, 1
    )
    most = options["mutually_exclusive_max_depth"]
    if np.ndim(branching) == 0:
        branching = [branching, branching]
    low, high = (integer("config['hierarchy']['branching_factor']", value, 2) for value in branching)
    rng = random.Random(_seed("hierarchy", seed, _SEED_HIERARCHY) if low < high or 0 < portion < 1 else 0)
    children: dict[int, range] = {}
    depths: dict[int, int] = {}
    level, used = range(count), count
    for depth in range(depth_limit):
        depths.update(dict.fromkeys(level, depth))
        first = used
        for parent in level:
            size = low if low == high else rng.randint(low, high)
            children[parent] = range(used, min(used + size, n))
            used = children[parent].stop
        level = range(first, used)
        if not level:
            break
    eligible = [
        feature for feature, depth in depths.items()
        if least <= depth and (most is None or depth <= most) and len(children[feature]) >= 2
    ]  # fmt: skip
    exclusive = {eligible[i] for i in rng.sample(range(len(eligible)), int(len(eligible) * portion))}
    scales, nodes = bool(options["scale_children_by_parent"]), dict[int, Node]()
    for feature in reversed(range(used)):
        below = tuple(nodes[child] for child in children.get(feature, ()))
        nodes[feature] = Node(feature, below, feature in exclusive, scales and feature in children)
    return tuple(nodes[feature] for feature in range(count))


def _compensate_hierarchy(p: FloatArray, roots: Sequence[Node]) -> FloatArray:
    """Return probabilities, at most 1, that make features in a hierarchy fire about as often as p (n,) says.

    A feature fires less often than its probability says, as it needs its parent on, and exclusive children of
    the same parent off. `roots` are the trees of the hierarchy.
    """
    factors = np.ones(p.size)
    for node, above, _ in walk(roots):
        p_above = 1.0 if above is None else p[above]
        if node.feature is not None:
            factors[node.feature] /= p_above
        rivals = node.rivals
        if rivals:
            p_node = p_above if node.feature is None else p[node.feature]
            factors[rivals] *= 1.0 + (p[rivals].sum() - p[rivals]) / p_node
    return np.minimum(p * factors, 1.0)

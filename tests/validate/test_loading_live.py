"""Live modules of wrong or unusual `forward`s under names of known layouts: read right, or refused by name.

The module itself, called in double precision in evaluation mode, is the oracle.
"""

import copy
import random
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import superposition as sp
from superposition.validate.loading import calling, load, parts
from superposition.validate.loading.parts import StackedModel

torch = pytest.importorskip("torch", reason="modules are PyTorch's")
nn, F = torch.nn, torch.nn.functional
N, M = 6, 3

# Of each layout: parameters by name and shape; which of them are encoder, its bias, decoder and its bias;
# whether the encoder's axes are (…, features, hidden) and the decoder's turned.
LAYOUTS = {
    "Anthropic notebook": ({"W": (2, N, M), "b_final": (2, N)}, ("W", "", "W", "b_final")),
    "SAELens": ({"W": (M, N), "b_final": (N,)}, ("W", "", "W", "b_final")),
    "liuyz0": ({"W": (N, M), "b": (N,)}, ("W", "", "W", "b")),
    "spd": ({"linear1.weight": (M, N), "linear2.weight": (N, M), "linear2.bias": (N,)},
            ("linear1.weight", "", "linear2.weight", "linear2.bias")),
    "autoencoder": ({"W_enc": (M, 2 * M), "W_dec": (2 * M, M), "b_enc": (2 * M,), "b_dec": (M,)},
                    ("W_enc", "b_enc", "W_dec", "b_dec")),
    "network": ({"W_in": (M, N), "W_out": (N, M), "b_in": (M,), "b": (N,)}, ("W_in", "b_in", "W_out", "b")),
}  # fmt: skip


def top(k):
    def f(z):
        z = torch.relu(z)
        return torch.where(z >= z.topk(k, dim=-1).values[..., -1:], z, torch.zeros_like(z))

    return f


def batch_top(z):
    z = torch.relu(z)
    return torch.where(z >= z.flatten().topk(2 * len(z)).values[-1], z, torch.zeros_like(z))


def nothing(z):
    return z


def mean_of(x):
    return x.mean(-1, keepdim=True)


def norm_of(x):
    return x.norm(dim=-1, keepdim=True).clamp(min=1e-9)


class Module(nn.Module):
    """Parameters by name; `how` gives the forward from what reads and writes."""

    def __init__(self, layout, how, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layout, self.how = layout, how
        for name, shape in LAYOUTS[layout][0].items():
            path, _, last = name.rpartition(".")
            if path and not hasattr(self, path):
                self.add_module(path, nn.Module())
            parameter = nn.Parameter(torch.randn(shape, generator=generator))
            self.get_submodule(path).register_parameter(last, parameter)

    def both(self):
        """Return encoder (…, hidden, features), its bias, decoder, its bias, and the usual activations."""
        p = dict(self.named_parameters())
        encoder, c, decoder, d = (p.get(name, 0) for name in LAYOUTS[self.layout][1])
        if self.layout in ("Anthropic notebook", "liuyz0", "autoencoder"):
            encoder = encoder.mT
        if "W" in p or self.layout == "autoencoder":
            decoder = encoder.mT if "W" in p else decoder.mT
        hidden_bends = self.layout in ("autoencoder", "network")
        return encoder, c, decoder, d, *((torch.relu, nothing) if hidden_bends else (nothing, torch.relu))

    def forward(self, x):
        return self.how(self, x)


def plain(hidden=None, output=None, before=nothing, shift=False, scale=1.0, bias=True, inner=1.0):
    def how(self, x):
        into, c, out, d, f, g = self.both()
        f, g, x = hidden or f, output or g, before(x)
        if shift:
            x = x - d
        h = f(inner * torch.einsum("...hf,...f->...h", into, x) + c)
        return scale * g(torch.einsum("...fh,...h->...f", out, h) + (d if bias else 0.0))

    return how


SCALED_WITHIN = plain(inner=0.5)
# What a forward does, and the words of the refusal; None where it is a model, and must be read right.
FORWARDS = {
    "usual": (plain(), None), "top 1": (plain(hidden=top(1)), ".*top 1"),
    "top 2": (plain(hidden=top(2)), ".*top 2"), "batch top k": (plain(hidden=batch_top), ".*top"),
    "normalised": (plain(before=lambda x: x / norm_of(x)), ".*normalises its input"),
    "layer norm": (plain(before=lambda x: F.layer_norm(x, x.shape[-1:])), "got a module"),
    "ReLUs both": (plain(hidden=torch.relu, output=torch.relu), None),
    "linear": (plain(hidden=nothing, output=nothing), None), "GELU": (plain(hidden=F.gelu), ".*GELU"),
    "GELU outputs": (plain(output=F.gelu), ".*GELU"),
    "GELU by tanh": (plain(hidden=lambda z: F.gelu(z, approximate="tanh")), r".*GELU \(by tanh\)"),
    "leaky": (plain(hidden=lambda z: F.leaky_relu(z, 0.01)), ".*leaky ReLU of slope 0.01"),
    "leaky outputs": (plain(output=lambda z: F.leaky_relu(z, 0.2)), ".*leaky ReLU of slope 0.2"),
    "tanh": (plain(hidden=torch.tanh), ".*tanh"),
    "sigmoid outputs": (plain(output=torch.sigmoid), ".*sigmoid"), "scaled": (plain(scale=2.5), None),
    "scaled within": (SCALED_WITHIN, "got a module"), "no bias": (plain(bias=False), None),
    "shifted": (plain(shift=True), None),
    "slightly leaky": (plain(hidden=lambda z: F.leaky_relu(z, 1e-3)), "got a module"),
    "clamped": (plain(output=lambda z: z.clamp(0, 6)), ".*ReLU6"),
}  # fmt: skip


def oracle(module, x):
    with torch.no_grad():
        return copy.deepcopy(module).double().eval()(torch.as_tensor(x)).numpy()


def inputs(layout, seed=5):
    rng = np.random.default_rng(seed)
    n = M if layout == "autoencoder" else N
    x = rng.normal(size=(200, n)) * np.exp(rng.uniform(-4, 4, (200, 1)))
    return np.where(rng.random(x.shape) < 0.3, 0.0, x)


def assert_same(module, layout):
    models, x = load(module).models, inputs(layout)
    several = len(models) > 1
    want = oracle(module, np.stack([x] * len(models), axis=1) if several else x)
    for k, model in enumerate(models):
        wanted = want[:, k] if several else want
        atol = 1e-6 * np.abs(wanted).max()
        np.testing.assert_allclose(model(x), wanted, rtol=1e-6, atol=atol, err_msg=layout)


@pytest.mark.parametrize(("how", "words"), FORWARDS.values(), ids=FORWARDS)
def test_a_module_is_read_right_or_refused_with_what_differs(how, words):
    for layout in LAYOUTS:
        module = Module(layout, how)
        # Of one toy model the function tells, whatever is done to its arrays.
        if words is None or (how is SCALED_WITHIN and layout in ("SAELens", "liuyz0", "spd")):
            assert_same(module, layout)
        else:
            with pytest.raises(ValueError, match=rf"`model` must compute .*; {words}"):
                load(module)


@pytest.mark.slow
def test_differences_that_few_inputs_show_are_refused():
    for how in (
        plain(hidden=lambda z: F.leaky_relu(z, 1e-4)),
        plain(output=lambda z: F.leaky_relu(z, 1e-4)),
        plain(hidden=lambda z: z * (z > 0.01)),
        plain(output=lambda z: z * (z > 0.01)),
        plain(output=lambda z: z.clamp(0, 500)),
        plain(hidden=lambda z: top(z.shape[-1] - 1)(z)),
        plain(before=lambda x: x / (x.norm(dim=-1, keepdim=True) / 10).clamp(min=1)),
        plain(before=lambda x: torch.cat([x[..., :1].relu(), x[..., 1:]], dim=-1)),
        plain(before=lambda x: x.flip(-1)),
        plain(output=lambda z: F.softplus(z, beta=200)),
        plain(before=lambda x: x - x.mean(0, keepdim=True)),
        plain(hidden=lambda z: (z * 1000).round() / 1000),
    ):
        for layout, seed in product(LAYOUTS, range(3)):
            module = Module(layout, how, seed)
            try:
                load(module)
            except ValueError:
                continue
            assert_same(module, layout)  # as where no input turns all neurons on


class Compiled(nn.Module):
    """As `torch.compile` wraps a module, without a compiler, or as another module holds it."""

    def __init__(self, module, name="_orig_mod"):
        super().__init__()
        self.add_module(name, module)

    def forward(self, x):
        (inside,) = self.children()
        return inside(x)


@pytest.mark.parametrize("how", ["double", "half", "bfloat16", "compiled", "wrapped", "training"])
def test_modules_in_other_forms(how):
    form = {
        "double": nn.Module.double, "half": nn.Module.half, "bfloat16": nn.Module.bfloat16,
        "compiled": Compiled, "wrapped": lambda module: Compiled(module, "net"), "training": nn.Module.train,
    }[how]  # fmt: skip
    wrong = plain(output=lambda z: F.leaky_relu(z, 0.05), hidden=F.gelu)
    for layout in LAYOUTS:
        assert_same(form(Module(layout, plain())), layout)
        with pytest.raises(ValueError, match="`model` must compute"):
            load(form(Module(layout, wrong)))


class Toy(nn.Module):
    """ReLU(W W' x + b) as `how` computes it."""

    def __init__(self, how=None, W=None, b=None):
        super().__init__()
        self.W = nn.Parameter(torch.randn(5, 2) if W is None else torch.as_tensor(W))
        self.b, self.how = nn.Parameter(torch.zeros(5) if b is None else torch.as_tensor(b)), how

    def forward(self, x):
        return self.how(self.W, self.b, x)


def of_features(W, b, x):
    if (x < 0).any():
        raise ValueError("features are not negative")
    return torch.relu(x @ W @ W.T + b)


def test_dropout_and_factors_are_said():
    assert load(Module("autoencoder", plain(scale=2.5))).note == "its outputs times 2.5"
    module = nn.Sequential(nn.Linear(5, 2, bias=False), nn.Dropout(0.5), nn.Linear(2, 5), nn.ReLU()).train()
    assert "in training mode, in which it is, it answers otherwise" in str(load(module))
    assert module.training
    assert module[1].training
    assert "training" not in str(load(module.eval()))
    assert "as it takes no others" in str(load(Toy(of_features)))
    with pytest.raises(ValueError, match="random outputs in evaluation mode too"):
        load(Toy(lambda W, b, x: torch.relu(F.dropout(x, 0.5) @ W @ W.T + b)).eval())


def test_a_call_leaves_no_trace():
    class Counting(Toy):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.seen, self.drop = [], nn.Dropout(0.5)

        def forward(self, x):
            self.calls += 1
            self.seen.append(np.random.random() + random.random())  # noqa: NPY002 public code
            return torch.relu(self.drop(x) @ self.W @ self.W.T + self.b)

    class Stubborn(Counting):
        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

    for kind in (Counting, Stubborn):
        module, before = kind().train(), states()
        module.drop.eval()
        load(module)
        assert states() == before
        assert (float(module.calls), module.training, module.drop.training) == (0, True, False)
        assert all(one.grad is None for one in module.parameters())
        assert kind is Stubborn or module.seen == []


def test_a_square_matrix_is_told_by_what_the_module_computes():
    generator, x = torch.Generator().manual_seed(3), np.random.default_rng(0).normal(size=(50, 4))
    V, beta = torch.randn(4, 4, generator=generator), torch.randn(4, generator=generator)
    for square in (lambda V: V @ V.T, lambda V: V.T @ V, lambda V: V.T, lambda V: V):
        module = Toy(lambda V, b, x, M=square: torch.relu(x @ M(V) + b), V, beta)
        np.testing.assert_allclose(sp.Model.of(module)(x), oracle(module, x), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"`model` must say which axis of 'W' \(4, 4\).*keys=\{'W_out': 'W'"):
        sp.Model.of(module.state_dict())


def test_forms_of_inputs_and_outputs():
    """Columns, single vectors, tuples and mappings of outputs, inputs of one sign; and other libraries."""
    rng = np.random.default_rng(1)
    W, b, x = rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=(30, 5))
    want = sp.Model(W.T, b=b)(x)
    for how in (
        lambda A, c, x: torch.relu(A @ (A.T @ x) + c[:, None]),
        lambda A, c, x: torch.relu(A @ torch.mv(A.T, x) + c),
        lambda A, c, x: (x @ A, torch.relu(x @ A @ A.T + c)),
        lambda A, c, x: {"loss": (x**2).sum(), "out": torch.relu(x @ A @ A.T + c)},
        of_features,
        lambda A, c, x: torch.relu(torch.einsum("bif,fh,gh->big", x, A, A) + c),
    ):
        np.testing.assert_allclose(sp.Model.of(Toy(how, W, b))(x), want, atol=1e-12)

    class NumPys(SimpleNamespace):
        def __call__(self, x):
            return np.maximum(x @ self.dense.kernel @ self.dense.kernel.T + self.offset, 0.0)

    numpys = NumPys(dense=SimpleNamespace(kernel=W), offset=b)
    np.testing.assert_allclose(sp.Model.of(numpys)(x), want, atol=1e-12)
    NumPys.__call__ = lambda self, x: np.tanh(x @ self.dense.kernel @ self.dense.kernel.T)
    with pytest.raises(ValueError, match=r"`model` must compute .*; got a module that "):
        sp.Model.of(numpys)


NORMALISATIONS = {  # mean that is subtracted, divisor, factor that undoes it
    "layer normalisation": (mean_of, *2 * [lambda x: (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()]),
    "layer normalisation of SAELens":
        (mean_of, lambda x: x.std(-1, keepdim=True) + 1e-5, lambda x: x.std(-1, keepdim=True)),
    "unit norm": (lambda x: 0.0, norm_of, norm_of),
    "a norm of √n": (lambda x: 0.0, *2 * [lambda x: norm_of(x) / N**0.5]),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_a_normalisation_is_named_and_whether_outputs_undo_it(name):
    """SAELens multiplies by the deviation alone, without the 1e-5 that it adds before it divides."""
    shift, size, factor = NORMALISATIONS[name]
    normalising = plain(before=lambda x: (x - shift(x)) / size(x))

    def undoing(self, x):
        return normalising(self, x) * factor(x) + shift(x)

    for how, end in ((normalising, r"\),"), (undoing, r"\) and undoes it in its outputs,")):
        with pytest.raises(ValueError, match=rf"normalises its input \({name}{end}"):
            load(Module("SAELens", how))


@pytest.mark.parametrize("kinds", [("relu", "identity"), ("jumprelu", "relu"), ("identity", "jumprelu")])
def test_stacked_models_are_the_models(kinds):
    """Outputs of each instance, and sizes of what is summed to them."""
    rng = np.random.default_rng(4)
    (hidden, output), n, m, n_out = kinds, 4, 3, 5
    count = {"jumprelu": m}.get(hidden, n_out if output == "jumprelu" else 0)
    models = [
        sp.Model(rng.normal(size=(m, n)), rng.normal(size=m), hidden, rng.normal(size=(n_out, m)),
                 rng.normal(size=n_out), output, *[rng.uniform(0.1, 0.5, count)] * (count > 0))
        for _ in range(2)
    ]  # fmt: skip
    stacked, x = StackedModel.of(models), rng.normal(size=(6, 2, n))
    y, size = parts.outputs(stacked, x), parts.magnitude(stacked, x)
    for k, (model, again) in enumerate(zip(models, stacked.models(2.5), strict=True)):
        np.testing.assert_allclose(y[:, k], model(x[:, k]), atol=1e-13)
        W_in, b_in, W_out, b = map(np.abs, (model.W_in, model.b_in, model.W_out, model.b))
        sums = (np.abs(x[:, k]) @ W_in.T + b_in) @ W_out.T + b
        np.testing.assert_allclose(size[:, k], sums, rtol=1e-13)
        np.testing.assert_allclose(again(x[:, 0]), 2.5 * model(x[:, 0]), atol=1e-12)
    tied = StackedModel.of([sp.Model(models[0].W_in)])
    assert [one.tied for one in (*tied.models(), *tied.models(2.0))] == [True, False]


def test_as_much_rounding_is_allowed_as_sums_have():
    """A sum of k products is off by (k + 2) u at most, and neurons and outputs are such sums."""
    for kind, unit in calling._ROUNDOFFS.items():
        assert unit == torch.finfo(getattr(torch, kind)).eps / 2
    for n, m in ((5, 2), (40, 7), (3, 300)):
        model = StackedModel.of([sp.Model(np.ones((m, n)))])
        for unit in (2.0**-24, 2.0**-11, 2.0**-8):
            least = max((n + 2 + m + 2) * unit, 1e-6)
            assert least <= calling.allowed_share(model, unit) <= 1.6 * least
        assert calling.allowed_share(model, 2.0**-53) == 1e-6


def test_modules_that_cast_are_compared_as_exactly_as_they_compute():
    """As SAELens does: inputs are cast to what the module was made with, whatever its weights are."""

    def casting(kind, weights, slope):
        def how(W, b, x):
            W, b = (W.to(weights), b.to(weights)) if weights else (W, b)
            return F.leaky_relu(x.to(kind) @ W @ W.T + b, slope)

        torch.manual_seed(1)
        return Toy(how, b=torch.randn(5))

    single, half = torch.float32, torch.bfloat16
    for kind, weights, slope in ((single, None, 1e-3), (single, single, 1e-3), (half, half, 0.5)):
        module = casting(kind, weights, 0.0)
        (found,) = load(module).models
        for array, tensor in ((found.W_in, module.W.T), (found.b, module.b)):
            np.testing.assert_array_equal(array, tensor.detach().double())
        with pytest.raises(ValueError, match="`model` must compute"):
            load(casting(kind, weights, slope))


def test_a_module_that_takes_values_from_0_to_1_alone_is_called_with_such():
    def strict(W, b, x):
        if ((x < 0) | (x > 1)).any():
            raise ValueError("values are from 0 to 1")
        return torch.relu(x @ W @ W.T + b)

    for seed in range(4):
        torch.manual_seed(seed)
        module = Toy(strict, b=0.3 * torch.randn(5))
        x = np.random.default_rng(seed).uniform(size=(50, 5))
        np.testing.assert_allclose(sp.Model.of(module)(x), oracle(module, x), atol=1e-6)
    with pytest.raises(ValueError, match="`model` must compute"):
        load(Toy(lambda W, b, x: strict(W, b, x) ** 1.01))


def test_a_module_whose_weights_are_computed():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(5, 2, bias=False))
    module = nn.Sequential(layer, nn.Linear(2, 5), nn.ReLU())
    with torch.no_grad():
        layer.parametrizations.weight.original0 *= 1.5
    x = np.random.default_rng(0).normal(size=(20, 5))
    named = {"W_in": "0.weight", "W_out": "1.weight", "b": "1.bias"}
    for model in (sp.Model.of(module), sp.Model.of(module.state_dict(), keys=named)):
        np.testing.assert_allclose(model(x), oracle(module, x), atol=1e-6)


def test_a_module_that_mixes_a_batch_is_not_read_by_single_inputs():
    W, b = torch.tensor([[1.0], [-1.0]]), torch.tensor([0.1, 0.2])
    # Of one input alone it subtracts what W does not see.
    with pytest.raises(ValueError, match="`model` must compute"):
        sp.Model.of(Toy(lambda W, b, x: torch.relu((x - x.mean(0)) @ W @ W.T + b), W, b))


class Computed(nn.Module):
    """A module whose weights are made of its parameters in no way that their shapes tell."""

    def __init__(self, how, output=torch.relu):
        super().__init__()
        torch.manual_seed(0)
        self.A, self.D, self.Q = (nn.Parameter(torch.randn(*shape)) for shape in ((M, N), (N, M), (M, M)))
        self.b, self.g = nn.Parameter(torch.randn(N)), nn.Parameter(torch.rand(N) + 0.5)
        self.how, self.output = how, output

    def forward(self, x):
        return self.how(self, x)


def of_unit_columns(self, x):
    W = F.normalize(self.A, dim=0)
    return self.output(x @ W.T @ W + self.b)


def with_gains(self, x):
    return self.g * self.output((x - 1.0) @ (self.A * self.g).T @ self.Q @ self.D.T + self.b)


def with_dead_outputs(self, x):
    W = F.normalize(self.A, dim=0) * (torch.arange(N) > 1).to(x)
    return self.output(x @ W.T @ W - self.b.exp())


@pytest.mark.parametrize("how", [of_unit_columns, with_gains, with_dead_outputs])
def test_a_module_whose_function_alone_tells(how):
    module = Computed(how)
    model = sp.Model.of(module)
    assert (model.n_hidden, model.tied) == (M, how is not with_gains)
    x = np.random.default_rng(0).normal(size=(200, N)) * np.geomspace(1e-2, 1e2, 200)[:, None]
    want = oracle(module, x)
    np.testing.assert_allclose(model(x), want, atol=1e-12 * np.abs(want).max())


def test_a_module_whose_function_alone_tells_is_refused_for_another_one():
    outputs = {F.gelu: "a GELU", F.leaky_relu: "a leaky ReLU", F.relu6: "", torch.abs: "", top(2): ""}
    for output, what in outputs.items():
        with pytest.raises(ValueError, match=rf"`model` must compute .*got a module that .*{what}"):
            sp.Model.of(Computed(of_unit_columns, output))


@pytest.mark.parametrize("how", ["__call__", "forward"])
def test_what_can_be_called_is_not_taken_for_the_model_that_it_has(how):
    model = sp.Model(np.ones((M, N)))
    halved = type("Halved", (), {"model": model, how: lambda self, x: 0.5 * model(x)})
    with pytest.raises(ValueError, match="`model` must be"):
        sp.Model.of(halved())

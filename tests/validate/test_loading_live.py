"""Live modules of wrong or unusual `forward`s under names of known layouts: read right, or refused by name.

The module itself, called in double precision in evaluation mode, is the oracle.
"""

import copy
import random
from itertools import product

import numpy as np
import pytest

import superposition as sp
from superposition.validate.loading import load

torch = pytest.importorskip("torch", reason="modules are PyTorch's")
nn, F = torch.nn, torch.nn.functional
N, M = 6, 3

# Parameters of six known layouts, by name and shape.
LAYOUTS = {
    "Anthropic notebook": {"W": (2, N, M), "b_final": (2, N)},
    "SAELens": {"W": (M, N), "b_final": (N,)},
    "liuyz0": {"W": (N, M), "b": (N,)},
    "spd": {"linear1.weight": (M, N), "linear2.weight": (N, M), "linear2.bias": (N,)},
    "autoencoder": {"W_enc": (M, 2 * M), "W_dec": (2 * M, M), "b_enc": (2 * M,), "b_dec": (M,)},
    "network": {"W_in": (M, N), "W_out": (N, M), "b_in": (M,), "b": (N,)},
}

# Which of them are the encoder, its bias, the decoder and its bias.
ROLES = {
    "Anthropic notebook": ("W", "", "W", "b_final"),
    "SAELens": ("W", "", "W", "b_final"),
    "liuyz0": ("W", "", "W", "b"),
    "spd": ("linear1.weight", "", "linear2.weight", "linear2.bias"),
    "autoencoder": ("W_enc", "b_enc", "W_dec", "b_dec"),
    "network": ("W_in", "b_in", "W_out", "b"),
}


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


def normalised(x):
    return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-9)


class Module(nn.Module):
    """Parameters by name; `how` gives the forward from what reads and writes."""

    def __init__(self, layout, how, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layout, self.how = layout, how
        for name, shape in LAYOUTS[layout].items():
            parameter = nn.Parameter(torch.randn(shape, generator=generator))
            *path, last = name.split(".")
            inside = self
            for part in path:
                if not hasattr(inside, part):
                    inside.add_module(part, nn.Module())
                inside = getattr(inside, part)
            inside.register_parameter(last, parameter)

    def both(self):
        """Return encoder (…, hidden, features), its bias, decoder, its bias, and the usual activations."""
        p = dict(self.named_parameters())
        encoder, c, decoder, d = (p.get(name, 0) for name in ROLES[self.layout])
        if self.layout in ("Anthropic notebook", "liuyz0", "autoencoder"):
            encoder = encoder.mT
        if "W" in p:  # tied
            decoder = encoder.mT
        if self.layout == "autoencoder":
            decoder = decoder.mT
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


# What a forward does, and the words of the refusal; None where it is a model, and must be read right.
FORWARDS = {
    "usual": (plain(), None),
    "top 1": (plain(hidden=top(1)), ".*top 1"),
    "top 2": (plain(hidden=top(2)), ".*top 2"),
    "batch top k": (plain(hidden=batch_top), ".*top"),
    "normalised": (plain(before=normalised), ".*normalises its input"),
    "layer norm": (plain(before=lambda x: F.layer_norm(x, x.shape[-1:])), "got a module"),
    "ReLUs both": (plain(hidden=torch.relu, output=torch.relu), None),
    "linear": (plain(hidden=nothing, output=nothing), None),
    "GELU": (plain(hidden=F.gelu), ".*GELU"),
    "GELU outputs": (plain(output=F.gelu), ".*GELU"),
    "leaky": (plain(hidden=lambda z: F.leaky_relu(z, 0.01)), ".*leaky ReLU of slope 0.01"),
    "leaky outputs": (plain(output=lambda z: F.leaky_relu(z, 0.2)), ".*leaky ReLU of slope 0.2"),
    "tanh": (plain(hidden=torch.tanh), ".*tanh"),
    "sigmoid outputs": (plain(output=torch.sigmoid), ".*sigmoid"),
    "scaled": (plain(scale=2.5), None),
    "scaled within": (plain(inner=0.5), "got a module"),
    "no bias": (plain(bias=False), None),
    "shifted": (plain(shift=True), None),
    "slightly leaky": (plain(hidden=lambda z: F.leaky_relu(z, 1e-3)), "got a module"),
    "clamped": (plain(output=lambda z: z.clamp(0, 6)), ".*ReLU6"),
}  # fmt: skip
# Layouts of one toy model: whatever is done to its arrays, its function tells.
OF_ONE_TOY = ("SAELens", "liuyz0", "spd")
CASES = [(layout, name) for layout in LAYOUTS for name in FORWARDS]


def oracle(module, x):
    twin = copy.deepcopy(module).double().eval()
    with torch.no_grad():
        return twin(torch.as_tensor(x)).numpy()


def inputs(layout, seed=5):
    rng = np.random.default_rng(seed)
    n = M if layout == "autoencoder" else N
    x = rng.normal(size=(200, n)) * np.exp(rng.uniform(-4, 4, (200, 1)))
    return np.where(rng.random(x.shape) < 0.3, 0.0, x)


def assert_same(module, layout):
    models, x = load(module).models, inputs(layout)
    if len(models) == 1:
        want = oracle(module, x)
        np.testing.assert_allclose(models[0](x), want, rtol=1e-6, atol=1e-6 * np.abs(want).max())
        return
    want = oracle(module, np.stack([x] * len(models), axis=1))
    for k, model in enumerate(models):
        np.testing.assert_allclose(model(x), want[:, k], rtol=1e-6, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize(("layout", "name"), CASES)
def test_a_module_is_read_right_or_refused_with_what_differs(layout, name):
    how, words = FORWARDS[name]
    module = Module(layout, how)
    if words is None or (name == "scaled within" and layout in OF_ONE_TOY):
        assert_same(module, layout)
        return
    with pytest.raises(ValueError, match=rf"`model` must compute .*; {words}"):
        load(module)


# Differences that few inputs show.
SUBTLE = {
    "a small leak": plain(hidden=lambda z: F.leaky_relu(z, 1e-4)),
    "a small leak of outputs": plain(output=lambda z: F.leaky_relu(z, 1e-4)),
    "a threshold": plain(hidden=lambda z: z * (z > 0.01)),
    "a threshold of outputs": plain(output=lambda z: z * (z > 0.01)),
    "a high clamp": plain(output=lambda z: z.clamp(0, 500)),
    "all but one": plain(hidden=lambda z: top(z.shape[-1] - 1)(z)),
    "large inputs normalised": plain(before=lambda x: x / (x.norm(dim=-1, keepdim=True) / 10).clamp(min=1)),
    "one input rectified": plain(before=lambda x: torch.cat([x[..., :1].relu(), x[..., 1:]], dim=-1)),
    "inputs turned": plain(before=lambda x: x.flip(-1)),
    "a soft kink": plain(output=lambda z: F.softplus(z, beta=200)),
    "the batch's mean": plain(before=lambda x: x - x.mean(0, keepdim=True)),
    "rounded": plain(hidden=lambda z: (z * 1000).round() / 1000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBTLE)
def test_differences_that_few_inputs_show_are_refused(name):
    for layout, seed in product(LAYOUTS, range(3)):
        module = Module(layout, SUBTLE[name], seed)
        try:
            load(module)
        except ValueError:
            continue
        assert_same(module, layout)  # as where no input turns all neurons on


def test_the_smallest_top_k_module_is_refused():
    """Its `b_dec` is 0; read as a ReLU autoencoder its loss was 51 times too high."""
    module = Module("autoencoder", plain(hidden=top(1)))
    with torch.no_grad():
        module.b_dec.zero_()
    module.cfg = {"sae_type": "topk", "top_k": 1}
    for function in (sp.loss, sp.sae, sp.audit):
        with pytest.raises(ValueError, match="got a module that takes the top 1 of its hidden neurons"):
            function(module, 0.1)


class Wrapped(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.net = module

    def forward(self, x):
        return self.net(x)


class Compiled(nn.Module):
    """As `torch.compile` wraps a module, without a compiler."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def forward(self, x):
        return self._orig_mod(x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", ["double", "half", "bfloat16", "compiled", "wrapped", "training"])
def test_modules_in_other_forms(layout, how):
    module = Module(layout, plain())
    wrong = Module(layout, plain(output=lambda z: F.leaky_relu(z, 0.05), hidden=F.gelu))
    forms = {
        "double": nn.Module.double, "half": nn.Module.half, "bfloat16": nn.Module.bfloat16,
        "compiled": Compiled, "wrapped": Wrapped, "training": nn.Module.train,
    }  # fmt: skip
    assert_same(forms[how](module), layout)
    with pytest.raises(ValueError, match="`model` must compute"):
        load(forms[how](wrong))


def test_dropout_is_read_as_in_evaluation_and_said():
    class Positive(nn.Sequential):
        def forward(self, x):
            if (x < 0).any():
                raise ValueError("features are not negative")
            return super().forward(x)

    layers = nn.Linear(5, 2, bias=False), nn.Dropout(0.5), nn.Linear(2, 5), nn.ReLU()
    assert "it takes no others; as in evaluation mode" in str(load(Positive(*layers).train()))
    module = nn.Sequential(*layers).train()
    found = load(module)
    assert "in training mode, in which it is, it answers otherwise" in str(found)
    assert module.training
    assert module[1].training
    assert "training" not in str(load(module.eval()))

    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.W, self.b = nn.Parameter(torch.randn(5, 2)), nn.Parameter(torch.zeros(5))

        def forward(self, x):
            return torch.relu(F.dropout(x, 0.5) @ self.W @ self.W.T + self.b)

    with pytest.raises(ValueError, match="random outputs in evaluation mode too"):
        load(Noisy().eval())


def test_a_call_leaves_no_trace():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.W, self.b = nn.Parameter(torch.randn(5, 2)), nn.Parameter(torch.zeros(5))
            self.register_buffer("calls", torch.zeros(()))
            self.seen, self.drop = [], nn.Dropout(0.5)

        def forward(self, x):
            self.calls += 1
            self.seen.append(np.random.random() + random.random())  # noqa: NPY002 public code
            return torch.relu(self.drop(x) @ self.W @ self.W.T + self.b)

    class Stubborn(Counting):
        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

    for kind in (Counting, Stubborn):
        module = kind().train()
        module.drop.eval()
        states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
        load(module)
        assert torch.equal(torch.get_rng_state(), states[0])
        assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
        assert random.getstate() == states[2]
        assert float(module.calls) == 0
        assert module.training
        assert not module.drop.training
        assert all(one.grad is None for one in module.parameters())
        assert kind is Stubborn or module.seen == []


def square_cases():
    generator = torch.Generator().manual_seed(3)

    class Square(nn.Module):
        def __init__(self, how):
            super().__init__()
            self.V = nn.Parameter(torch.randn(4, 4, generator=generator))
            self.beta, self.how = nn.Parameter(torch.randn(4, generator=generator)), how

        def forward(self, x):
            return torch.relu(self.how(self.V, x) + self.beta)

    return {
        "rows": Square(lambda V, x: x @ V @ V.T),
        "columns": Square(lambda V, x: x @ V.T @ V),
        "product": Square(lambda V, x: x @ V.T),
        "product turned": Square(lambda V, x: x @ V),
    }


@pytest.mark.parametrize("how", square_cases())
def test_a_square_matrix_is_told_by_what_the_module_computes(how):
    module = square_cases()[how]
    x = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_allclose(sp.Model.of(module)(x), oracle(module, x), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"`model` must say which axis of 'V' \(4, 4\).*keys=\{'W_out': 'V'"):
        sp.Model.of(module.state_dict())


def test_forms_of_inputs_and_outputs():
    """Columns, single vectors, tuples and mappings of outputs, inputs of one sign; and other libraries."""
    rng = np.random.default_rng(1)
    W, b = rng.normal(size=(5, 2)), rng.normal(size=5)

    class Form(nn.Module):
        def __init__(self, how):
            super().__init__()
            self.A, self.c, self.how = nn.Parameter(torch.tensor(W)), nn.Parameter(torch.tensor(b)), how

        def forward(self, x):
            return self.how(self.A, self.c, x)

    def positive(A, c, x):
        if (x < 0).any():
            raise ValueError("features are not negative")
        return torch.relu(x @ A @ A.T + c)

    forms = {
        "columns": lambda A, c, x: torch.relu(A @ (A.T @ x) + c[:, None]),
        "vectors": lambda A, c, x: torch.relu(A @ torch.mv(A.T, x) + c),
        "tuple": lambda A, c, x: (x @ A, torch.relu(x @ A @ A.T + c)),
        "mapping": lambda A, c, x: {"loss": (x**2).sum(), "out": torch.relu(x @ A @ A.T + c)},
        "positive": positive,
        "one instance": lambda A, c, x: torch.relu(torch.einsum("bif,fh,gh->big", x, A, A) + c),
    }
    want = sp.Model(W.T, b=b)
    x = rng.normal(size=(30, 5))
    for name, how in forms.items():
        np.testing.assert_allclose(sp.Model.of(Form(how))(x), want(x), atol=1e-12, err_msg=name)

    class NumPys:
        def __init__(self):
            self.dense = type("Dense", (), {})()
            self.dense.kernel, self.offset = W, b

        def __call__(self, x):
            return np.maximum(x @ self.dense.kernel @ self.dense.kernel.T + self.offset, 0.0)

    np.testing.assert_allclose(sp.Model.of(NumPys())(x), want(x), atol=1e-12)
    NumPys.__call__ = lambda self, x: np.tanh(x @ self.dense.kernel @ self.dense.kernel.T)
    with pytest.raises(ValueError, match=r"`model` must compute .*; got a module that "):
        sp.Model.of(NumPys())


@pytest.mark.parametrize("how", ["input", "all", "half"])
def test_modules_that_cast_are_compared_as_exactly_as_they_compute(how):
    """As SAELens does: inputs are cast to what the module was made with, whatever its weights are."""

    class Casting(nn.Module):
        def __init__(self, slope):
            super().__init__()
            self.W, self.b, self.slope = nn.Parameter(torch.randn(2, 5)), nn.Parameter(torch.randn(5)), slope

        def forward(self, x):
            kind = torch.bfloat16 if how == "half" else torch.float32
            W, b = (self.W, self.b) if how == "input" else (self.W.to(kind), self.b.to(kind))
            return F.leaky_relu(x.to(kind) @ W.T @ W + b, self.slope)

    torch.manual_seed(1)
    module = Casting(0.0)
    (found,) = load(module).models
    np.testing.assert_array_equal(found.W_in, module.W.detach().double())
    np.testing.assert_array_equal(found.b, module.b.detach().double())
    slope = 0.5 if how == "half" else 1e-3
    with pytest.raises(ValueError, match="`model` must compute"):
        load(Casting(slope))


def test_a_module_whose_weights_are_computed():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(5, 2, bias=False))
    module = nn.Sequential(layer, nn.Linear(2, 5), nn.ReLU())
    with torch.no_grad():
        layer.parametrizations.weight.original0 *= 1.5
    x = np.random.default_rng(0).normal(size=(20, 5))
    np.testing.assert_allclose(sp.Model.of(module)(x), oracle(module, x), atol=1e-6)
    named = {"W_in": "0.weight", "W_out": "1.weight", "b": "1.bias"}
    saved = sp.Model.of(module.state_dict(), keys=named)
    np.testing.assert_allclose(saved(x), oracle(module, x), atol=1e-6)


def test_a_module_that_mixes_a_batch_is_not_read_by_single_inputs():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.W, self.b = nn.Parameter(torch.tensor([[1.0, -1.0]])), nn.Parameter(torch.tensor([0.1, 0.2]))

        def forward(self, x):
            return torch.relu((x - x.mean(0)) @ self.W.T @ self.W + self.b)

    with pytest.raises(ValueError, match="`model` must compute"):
        sp.Model.of(Centred())  # of one input alone it subtracts what W does not see


class Computed(nn.Module):
    """A module whose weights are made of its parameters in no way that their shapes tell."""

    def __init__(self, output=torch.relu):
        super().__init__()
        torch.manual_seed(0)
        self.A, self.D, self.Q = (nn.Parameter(torch.randn(*shape)) for shape in ((M, N), (N, M), (M, M)))
        self.b, self.g = nn.Parameter(torch.randn(N)), nn.Parameter(torch.rand(N) + 0.5)
        self.output = output


class Normalised(Computed):
    def forward(self, x):
        W = F.normalize(self.A, dim=0)
        return self.output(x @ W.T @ W + self.b)


class WithGains(Computed):
    def forward(self, x):
        return self.g * self.output((x - 1.0) @ (self.A * self.g).T @ self.Q @ self.D.T + self.b)


class WithDeadOutputs(Computed):
    def forward(self, x):
        W = F.normalize(self.A, dim=0) * (torch.arange(N) > 1).to(x)
        return self.output(x @ W.T @ W - self.b.exp())


@pytest.mark.parametrize("kind", [Normalised, WithGains, WithDeadOutputs])
def test_a_module_whose_function_alone_tells(kind):
    module = kind()
    model = sp.Model.of(module)
    assert (model.n_hidden, model.tied) == (M, kind is not WithGains)
    x = np.random.default_rng(0).normal(size=(200, N)) * np.geomspace(1e-2, 1e2, 200)[:, None]
    want = oracle(module, x)
    np.testing.assert_allclose(model(x), want, atol=1e-12 * np.abs(want).max())


@pytest.mark.parametrize(
    ("output", "what"),
    [(F.gelu, "a GELU"), (F.leaky_relu, "a leaky ReLU"), (F.relu6, ""), (torch.abs, ""), (top(2), "")],
)
def test_a_module_whose_function_alone_tells_is_refused_for_another_one(output, what):
    with pytest.raises(ValueError, match=rf"`model` must compute .*got a module that .*{what}"):
        sp.Model.of(Normalised(output))


def test_arenas_autoencoders():
    class Arena(nn.Module):
        def __init__(self, tied):
            super().__init__()
            self.W_enc = nn.Parameter(torch.randn(2, 3, 5))
            self._W_dec = None if tied else nn.Parameter(torch.randn(2, 5, 3))
            self.b_enc, self.b_dec = nn.Parameter(torch.randn(2, 5)), nn.Parameter(torch.randn(2, 3))

        def forward(self, h):
            W_dec = self.W_enc.mT if self._W_dec is None else self._W_dec
            W_dec = W_dec / (W_dec.norm(dim=-1, keepdim=True) + 1e-8)
            z = torch.relu(torch.einsum("bid,idl->bil", h - self.b_dec, self.W_enc) + self.b_enc)
            y = torch.einsum("bil,ild->bid", z, W_dec) + self.b_dec
            return {"loss": (h - y) ** 2}, z.sum(-1), z, y

    torch.manual_seed(0)
    for tied in (False, True):
        module = Arena(tied)
        x = np.random.default_rng(0).normal(size=(30, 3))
        with torch.no_grad():
            want = module.double()(torch.as_tensor(np.stack([x, x], axis=1)))[3].numpy()
        for form in (module, module.state_dict()):
            models = load(form).models
            for k in range(2):
                np.testing.assert_allclose(models[k](x), want[:, k], atol=1e-12)

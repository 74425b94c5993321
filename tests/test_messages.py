"""What a newcomer gives first, and the message that says what to give instead."""

import itertools

import numpy as np
import pytest

import superposition as sp
from superposition.solvers import relu
from superposition.theory import validation
from superposition.validate import cli
from superposition.validate.api import predictions
from superposition.validate.proofs import certificates


def test_a_parameter_is_no_model_and_its_digits_are_not_shown():
    torch = pytest.importorskip("torch")
    from superposition.validate.audit import audit

    with pytest.raises(ValueError, match=r"`Weights\(W_out, W_in, b\)`; got Parameter of shape \(5, 2\)\.$"):
        audit(torch.nn.Parameter(torch.ones(5, 2)), 0.1)


def test_one_number_is_a_grid_of_one():
    for phenomenon, given in (("rug", {"p": 0.1, "ratio": 0.5}), ("relu", {"p": 0.1, "importance": 0.5})):
        one = predictions.predict(phenomenon, **given)
        grid = predictions.predict(phenomenon, **{name: [value] for name, value in given.items()})
        assert all(np.array_equal(one[name], grid[name]) for name in grid)
    one, grid = relu.phase_diagram(0.1, 1.0), relu.phase_diagram([0.1], [1.0])
    np.testing.assert_array_equal(one.loss, grid.loss)


def test_a_file_that_is_no_certificate_was_not_changed(tmp_path, capsys):
    path = tmp_path / "x.json"
    path.write_text("{}")
    assert cli.main(["check", str(path)]) == 1
    assert "rejected: it is no certificate" in capsys.readouterr().out


def test_a_misspelt_name_is_answered_with_the_one_that_was_meant():
    for package, name, words in (
        (sp, "fetures", "; did you mean 'Features'"),
        (sp, "valdate", "; did you mean 'validate'"),
        (sp.theory, "fetures", "; did you mean 'features'"),
        (sp, "qqq", "$"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'{words}"):
            getattr(package, name)


def test_a_path_that_is_too_long_is_shown_in_part():
    for call, ending in itertools.product(
        (sp.loss, sp.audit, sp.sae), ("", ".npz", ".npy", ".pt", ".safetensors")
    ):
        with pytest.raises(
            ValueError, match=r"^`model` must be .* \.\.\. .* \(File name too long\)\.$"
        ) as caught:
            call("x" * 100_000 + ending, 0.1)
        assert len(str(caught.value)) < 400
    with pytest.raises(ValueError, match=r"^`path` must be .* \.\.\. .* \(no such file\)\.$") as caught:
        certificates.check("x" * 100_000)
    assert len(str(caught.value)) < 400


def test_tensors_without_plain_numbers_are_refused_in_one_sentence_with_the_remedy():
    torch = pytest.importorskip("torch")
    meta, sparse = torch.ones(2, 2, device="meta"), torch.eye(2).to_sparse()
    without = "a tensor on the meta device, where it has no values: load the weights first."
    dense, law = r"a sparse tensor: pass it as \.to_dense\(\)\.", sp.Features(2, 0.1)
    for value, words in ((meta, without), ([meta[0], meta[1]], without), (sparse, dense)):
        with pytest.raises(ValueError, match=f"^`model` must be an array of numbers; got {words}$"):
            sp.loss(value, law)
    double = torch.ones(2, dtype=torch.bfloat16), r".* Pass it as \.double\(\)\."
    for value, words in ((meta, without), (sparse, dense), double):
        with pytest.raises(ValueError, match=f"^`p` must be real numbers; got {words}$"):
            sp.Features(2, value)
    rows, law = [[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]], sp.Features(3, 0.1)
    tensors = [torch.tensor(rows[0], requires_grad=True), torch.tensor(rows[1])]
    assert sp.loss(tensors, law).loss == sp.loss(rows, law).loss


def test_a_frame_is_named_by_its_shape():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", "b"], ["c", "d"]])
    for call in (lambda: sp.Features(2, frame), lambda: sp.loss(frame, sp.Features(2, 0.1))):
        with pytest.raises(ValueError, match=r"must be real numbers; got a DataFrame of shape \(2, 2\)\.$"):
            call()


def test_short_memory_names_arguments_of_the_function_that_was_called(monkeypatch):
    from superposition.theory.annotations import as_annotated

    @as_annotated
    def measure(weights, law, *, seconds=1.0, starts=None, steps=300, rng=0, progress=None):
        raise MemoryError("no room")

    monkeypatch.setattr("superposition.validate.api.audit.audit_weights", measure)
    with pytest.raises(ValueError, match=r"^`model`, `law` must be smaller: memory is short \(no room\)\.$"):
        sp.audit(np.ones((1, 2)), sp.Features(2, 0.1), seconds=1.0)


def test_memory_that_the_process_may_not_have_is_not_asked_for(monkeypatch):
    resource = pytest.importorskip("resource")
    validation.check_fits("samples", 3, 2.0**25)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**27, hard))
    with pytest.raises(ValueError, match=r"`samples` must be smaller: arrays of 0\.25 GiB .*; got 3"):
        validation.check_fits("samples", 3, 2.0**25)

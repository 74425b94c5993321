"""What a newcomer gives first, and the message that says what to give instead."""

import numpy as np
import pytest

import superposition as sp
from superposition.solvers import relu
from superposition.theory import validation
from superposition.validate.api import predictions


def test_one_number_is_a_grid_of_one():
    for phenomenon, given in (("rug", {"p": 0.1, "ratio": 0.5}), ("relu", {"p": 0.1, "importance": 0.5})):
        one = predictions.predict(phenomenon, **given)
        grid = predictions.predict(phenomenon, **{name: [value] for name, value in given.items()})
        assert all(np.array_equal(one[name], grid[name]) for name in grid)
    one, grid = relu.phase_diagram(0.1, 1.0), relu.phase_diagram([0.1], [1.0])
    np.testing.assert_array_equal(one.loss, grid.loss)


def test_a_misspelt_name_is_answered_with_the_one_that_was_meant():
    for package, name, words in (
        (sp, "fetures", "; did you mean 'Features'"),
        (sp, "valdate", "; did you mean 'validate'"),
        (sp.theory, "fetures", "; did you mean 'features'"),
        (sp, "qqq", "$"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'{words}"):
            getattr(package, name)


def test_a_list_of_tensors_with_gradients_is_a_matrix():
    torch = pytest.importorskip("torch")
    rows, law = [[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]], sp.Features(3, 0.1)
    tensors = [torch.tensor(rows[0], requires_grad=True), torch.tensor(rows[1])]
    assert sp.loss(tensors, law).loss == sp.loss(rows, law).loss


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

"""What a newcomer gives first, and the message that says what to give instead."""

import numpy as np
import pytest

from superposition.solvers import relu
from superposition.validate import cli, predictions


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

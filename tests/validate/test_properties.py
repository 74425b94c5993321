"""Strategies draw what they say, corners included; `refute` finds what is false, and only that."""

import importlib
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from superposition.theory.features import VALUES, Features, SparseUniform
from superposition.validate.proofs import properties
from superposition.validate.proofs.properties import laws, models, moves, refute, weights
from superposition.validate.proofs.properties.strategies import Range, TiedModel

NAMES = {**vars(properties), "Features": Features, "SparseUniform": SparseUniform}


def _met(strategy, count=100):
    met = []

    @settings(max_examples=count, database=None, derandomize=True)
    @given(strategy)
    def look(one):
        met.append(one)

    look()
    return met


# --- Strategies ---------------------------------------------------------------------------------------------


def test_weights_meet_all_corners():
    met = _met(weights((1, 5), (1, 3), decades=2), 200)
    assert {W.shape for W in met} == {(n, m) for n in range(1, 6) for m in range(1, 4)}
    assert max(np.abs(W).max() for W in met) <= 100

    def repeats(W, sign):
        """Whether two rows agree up to the sign."""
        return any(W[i].any() and np.array_equal(W[i], sign * W[j]) for i in range(len(W)) for j in range(i))

    def equal(W):
        s = np.linalg.svd(W, compute_uv=False)
        return s.size > 1 and np.ptp(s) < 1e-12 < s[0]

    def spread(W):
        s = np.linalg.norm(W[W.any(axis=1)], axis=1)
        return s.size and s.max() > 50 * s.min()

    kept = [W for W in met if W.shape[0] > 1]
    for name, is_corner in {
        "zero": lambda W: np.any(~W.any(axis=1)) and W.any(), "tie": lambda W: repeats(W, 1),
        "antipode": lambda W: repeats(W, -1), "equal": equal, "spread": spread,
    }.items():  # fmt: skip
        assert 5 <= sum(bool(is_corner(W)) for W in kept) < len(kept), name


def test_models_and_laws_meet_theirs():
    met = _met(models((2, 4), 2, tied=False))
    assert 0 < sum(one.decoder is None for one in met) < len(met)
    assert not any(one.b.any() or one.decoder is not None for one in _met(models(bias=False), 50))
    found = _met(laws(3, values=VALUES, dependent=True))
    assert {law.values for law in found} == set(VALUES)
    assert {law.exactly for law in found} == {None, 1, 2, 3}
    assert 10 < sum(bool(law.groups) for law in found) < 90
    p = [law.p for law in _met(laws(p=(1e-4, 0.1)))]
    assert (min(p), max(p)) == (1e-4, 0.1)


# --- The search ---------------------------------------------------------------------------------------------


def test_a_wrong_bound_is_refuted_simply_and_exactly():
    """Tr(M)^2 <= Tr(M M') takes a rank of 1: the identity of two features breaks it."""

    def rank_one(model, rank=1):
        M = model.M
        return (rank * np.sum(M * M) - np.trace(M) ** 2) / (1 + np.sum(M * M))

    given = {"model": models((1, 5), (1, 4), decades=2), "starts": 2, "examples": 80}
    found = refute(rank_one, **given)
    assert found.refuted
    model = found.arguments["model"]
    assert (model.n_features, model.n_hidden, np.count_nonzero(model.W)) == (2, 2, 2)
    assert set(np.abs(model.W.ravel())) <= set(range(10))
    assert rank_one(**eval(f"dict({found.code})", NAMES)) == found.slack < 0
    # Cauchy-Schwarz: with the rank as a factor it holds.
    right = refute(lambda model: rank_one(model, model.n_hidden), **given)
    assert not right.refuted
    assert right.slack >= -1e-9
    assert (right.examples, right.starts) == (80, 2)
    assert right.text.startswith("not refuted (80 examples, 2 descents, ")


def test_descent_finds_what_no_example_shows():
    def banana(x, y):
        x = x / math.pi
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2 - 1e-3

    ends = {"x": (-3.1, 3.1), "y": (-3.1, 9.7)}
    assert not refute(banana, **ends, starts=0).refuted
    found = refute(banana, **ends)
    assert found.refuted
    assert found.arguments["x"] == pytest.approx(math.pi, rel=0.04)  # (1 - x / pi)^2 < 1e-3


def test_descent_moves_laws_together_and_keeps_within_ranges():
    def at_least(law):
        assert np.all((law.p >= 0.02) & (law.p <= 0.3))
        return np.sum((law.p - 0.1234) ** 2) + 1.0

    found = refute(at_least, law=laws(2, p=(0.02, 0.3)), starts=2, examples=20)
    assert found.slack == pytest.approx(1.0, abs=1e-9)
    assert not found.refuted


def test_what_a_strategy_leaves_out_a_search_does_not_move():
    def of_weights(model):
        assert not model.b.any()
        return 1.0 + np.sum((model.W - 0.123) ** 2)

    def of_biases(model):
        return 1.0 + np.sum((model.b - 0.123) ** 2)

    for slack, bias in ((of_weights, False), (of_biases, True)):
        found = refute(slack, model=models(2, 1, bias=bias), starts=2, examples=10)
        assert found.slack == pytest.approx(1.0, abs=1e-6)


def test_where_an_inequality_says_nothing_is_no_counterexample():
    found = refute(lambda x: math.inf if x < 0 else x, x=(-1.0, 1.0))
    assert (found.refuted, found.slack) == (False, 0.0)


def test_the_same_seed_gives_the_same_answer_whatever_is_loaded(tmp_path, monkeypatch):
    def slack(model, x):
        return np.sin(9 * x) + abs(model.W).sum() + 0.1

    def search(rng):
        return refute(slack, model=models(decades=2), x=(-1.0, 2.0), rng=rng, starts=2, examples=40)

    first = search(7)
    (tmp_path / "constants_of_others.py").write_text("X = 0.31415, -0.123, 12345, 0.5229\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("constants_of_others")
    assert search(7) == first == search(np.random.default_rng(7))
    assert search(8) != first


# --- What is refused ----------------------------------------------------------------------------------------


def test_a_fault_of_the_inequality_says_where():
    with pytest.raises(ZeroDivisionError) as caught:
        refute(lambda x: 1 / (x - 0.5), x=(0.0, 1.0))
    assert caught.value.__notes__ == ["`inequality` was given x=0.5."]


def test_without_hypothesis_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ImportError, match=r"Hypothesis: pip install -e '\.\[properties\]' in the checkout"):
        refute(lambda x: x, x=(0.0, 1.0))


def test_nothing_is_left_in_the_users_folder(tmp_path):
    program = "import superposition as sp; assert sp.refute(lambda k: k - 1.0, k=(0.0, 9.0)).refuted"
    env = {**os.environ, "PYTHONPATH": str(Path(properties.__file__).parents[4])}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, check=True)
    assert list(tmp_path.iterdir()) == []


# --- Changes of examples ------------------------------------------------------------------------------------

EXAMPLE = {
    "x": (0.257, Range(0.03, 0.259)),
    "W": (np.array([[1.26, -0.5], [0.25, 2.0]]), Range(-3.0, 3.0)),
    "law": (Features(2, 0.26, scale=[0.5, 2.0]), Range(1e-4, 0.26)),
    "model": (TiedModel([[0.3], [-0.6]], b=[0.1, -0.7], decoder=[[0.4], [0.9]]), Range(-2.0, 2.0)),
    "n": (7, Range(3, 9)),
    "name": ("fixed", None),
}


def numbers(example):
    """Return all numbers that a search may move, by argument: in ranges these are the ends of `Range`."""
    law, model = example["law"][0], example["model"][0]
    return {
        "x": [example["x"][0]], "W": np.ravel(example["W"][0]), "law": law.p, "scale": law.scale,
        "model": [*model.W.flat, *(() if model.decoder is None else model.decoder.flat)], "b": model.b,
    }  # fmt: skip


def test_moved_numbers_are_those_that_were_put_in():
    """A p that is common is one number, and a logarithm where its range spans decades."""
    shapes = [(), (2, 2), (2,), (2,), (2, 1), (2,), (2, 1)]
    assert [*moves.array_shapes(EXAMPLE)] == shapes
    x, low, high = moves.coordinates(EXAMPLE)
    expected = [0.257, 1.26, -0.5, 0.25, 2.0, np.log(0.26), np.log(0.5), np.log(2.0), 0.3, -0.6, 0.1, -0.7]
    np.testing.assert_allclose(x, [*expected, 0.4, 0.9], rtol=1e-14)
    p, tens = [np.log(1e-4), np.log(0.26)], 2 * [[np.log(0.1), np.log(10.0)]]
    ends = [[0.03, 0.259], *4 * [[-3, 3]], p, *tens, *2 * [[-2, 2]], *2 * [[-1, 1]], *2 * [[-2, 2]]]
    np.testing.assert_allclose(np.transpose([low, high]), ends, rtol=1e-14)
    moved = moves.move_numbers(EXAMPLE, 0.9 * x + 0.1 * low)
    for name, values in numbers(moves.move_numbers(EXAMPLE, x)).items():
        np.testing.assert_allclose(values, numbers(EXAMPLE)[name], rtol=1e-14)
    np.testing.assert_allclose(moves.coordinates(moved)[0], 0.9 * x + 0.1 * low, rtol=1e-14)
    assert (moved["n"], moved["name"]) == (EXAMPLE["n"], ("fixed", None))


def test_simpler_examples_stay_within_their_ranges():
    """Rounding 0.257 to 0.26 or 0.3 would leave its range, and 0.26 is the largest p."""
    ends = {"x": (0.03, 0.259), "W": (-3, 3), "law": (1e-4, 0.26), "scale": (0.1, 10.0), "model": (-2, 2)}
    ends["b"] = (-1, 1)
    simpler = list(moves.simpler_examples(EXAMPLE))
    for example in simpler:
        for name, values in numbers(example).items():
            assert np.all((np.asarray(values) >= ends[name][0]) & (np.asarray(values) <= ends[name][1])), name
        assert len(example["law"][0].p) == len(example["model"][0].W)
    assert {example["n"][0] for example in simpler} == {7, 6, 5, 3}
    assert {np.shape(example["W"][0]) for example in simpler} == {(2, 2), (1, 2), (2, 1)}
    assert any(example["model"][0].decoder is None for example in simpler)
    assert any(example["law"][0].n_features == 1 for example in simpler)
    assert {tuple(example["law"][0].scale) for example in simpler} >= {(1.0, 1.0), (1.0, 2.0), (0.5, 1.0)}
    rounded = [np.ravel(example["W"][0]).tolist() for example in simpler]
    assert [1.0, -0.0, 0.0, 2.0] in rounded  # all at once, to whole numbers
    assert [1.3, -0.5, 0.25, 2.0] in rounded  # and one alone, to two digits


def test_a_shorter_description_is_one_of_fewer_numbers_digits_and_features():
    def length(value):
        return moves.description_length({"x": (value, Range(-99, 99))})

    for ordered in (
        [0.0, 1.0, 10.0, 13.0, 0.125, -0.125], [np.array([1.0]), np.array([1.0, 0.0])], [3, 4],
        [Features(2, 0.1), Features(2, [0.1, 0.2])],
    ):  # fmt: skip
        assert all(length(one) < length(other) for one, other in pairwise(ordered))

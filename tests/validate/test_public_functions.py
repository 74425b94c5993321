"""Public functions: whatever people come with is taken, and what they answer is the engine's."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
import xarray as xr

import superposition as sp
from superposition.solvers.loss import evaluator, exact_loss
from superposition.solvers.minimise import lower_bound, minimise
from superposition.theory.features import exclusive, synchronous
from superposition.theory.features.values import ValueDistribution
from superposition.validate import cli
from superposition.validate.api.answer import Certainty, certainty_with
from superposition.validate.api.best import cosines_of_groups, search_note
from superposition.validate.api.predict import KINDS
from superposition.validate.audit.advice import in_words
from superposition.validate.ledger import stored_verdicts
from superposition.validate.reference import read

PAIR = np.array([[1.0], [-1.0]])


def test_what_is_imported_is_what_is_needed():
    others = {"jinja2", "matplotlib", "pandas", "rich", "scipy.optimize", "sympy", "torch", "xarray"}
    program = "import sys, superposition as sp\nassert sp.loss([[1.0], [-1.0]], 0.1).loss > 0"
    command = [sys.executable, "-c", f"{program}\nprint(*{others} & sys.modules.keys())"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"
    assert not {"annotations", "Any", "lazy_submodules"} & {*dir(sp)}
    parts = {"loss", "per_feature", "plot", "to_frame", "cite", "certainty"}
    assert parts <= set(dir(sp.loss(PAIR, 0.1)))  # which editors complete


def test_models_come_from_whatever_has_one(tmp_path):
    np.savez(tmp_path / "pair.npz", W_out=PAIR, W_in=PAIR.T, b=np.zeros(2))
    for given in (
        PAIR, PAIR.T, PAIR.tolist(), PAIR.astype(np.float32), (PAIR, np.zeros(2)),
        (PAIR, PAIR.T, np.zeros(2)), (PAIR @ PAIR.T, np.zeros(2)), str(tmp_path / "pair.npz"),
    ):  # fmt: skip
        np.testing.assert_allclose(sp.Model.of(given).M, PAIR @ PAIR.T)
        assert sp.loss(given, 0.1).loss == pytest.approx(1 / 600, rel=1e-12, abs=0)


def test_a_law_tells_the_axes_of_a_matrix():
    W = np.array([[1.0, 0.2, 0.3], [0.0, 1.0, 0.5]])
    for n in (3, 2):
        law = sp.Features(n, 0.1)
        assert sp.Model.of(W, law=law).n_features == sp.Model.of(W.T, law=law).n_features == n
    # A symmetric matrix may be W or M = W W': they are the same model only where its square is itself.
    assert sp.loss(np.eye(3), 0.1).loss == 0


def test_loss_is_the_exact_one():
    law = sp.Features(3, [0.1, 0.2, 0.3], "exponential", importance=[1.0, 0.5, 2.0])
    rng = np.random.default_rng(3)
    W, b = rng.normal(size=(3, 2)), rng.normal(size=3)
    found, truth = sp.loss((W, b), law, gradient=True), exact_loss(W @ W.T, b, law)
    assert found.loss == float(found) == pytest.approx(truth.loss, rel=1e-15, abs=0)
    # With derivatives the sums have other terms at their ends.
    assert np.all(abs(found.per_feature - truth.per_feature) <= truth.per_feature_error)
    assert found.by_M.shape == (3, 3)
    assert found.certainty == "exact"
    zero = np.mean(law.importance * law.second_moment)
    assert f"relative to answering 0   {100 * truth.loss / zero:.3g} %" in found.lines
    W = np.diag([0.5, 0.2, 0.0])[:, :2]  # errors 0.75^2, 0.96^2 and 1 times p/3: importance decides
    last = sp.loss((W, np.zeros(3)), sp.Features(3, 0.1, importance=[9.0, 2.0, 1.0])).lines[-1]
    assert last == "worst feature             0, of 3: 0.01875"
    silent = sp.loss((W, 0 * b), sp.Features(3, 0.1, exactly=0))
    assert silent.loss == 0.0
    assert "answering 0" not in str(silent)


def test_best_is_what_minimise_finds_with_its_bound():
    law = sp.Features(4, 0.1, importance=0.8 ** np.arange(4))
    found, same = sp.best(law, 2, starts=8), minimise(4, 2, law, starts=8)
    assert found.loss == same.loss
    assert found.lower_bound == pytest.approx(lower_bound(4, 2, law))
    assert 0.0 < found.lower_bound < found.loss
    assert f"best of {same.starts} starts" in str(found)
    zero = np.mean(law.importance * law.second_moment)
    assert f"({100 * found.loss / zero:.3g} % of answering 0)" in found.lines[1]
    for given in (found, found.model):
        assert sp.loss(given, law).loss == pytest.approx(found.loss, rel=1e-9)
    few = sp.Features(3, 0.123)  # not of the atlas, whose starts would count as well
    assert sp.audit(sp.best(few, 2).model, few).searched == sp.best(few, 2).starts


def test_an_audit_says_its_losses():
    found = sp.audit((PAIR.T * 0.7, np.zeros(2)), sp.Features(2, 0.1))
    losses = found.loss, found.best_known, found.lower_bound
    assert found.lines[1] == "loss per feature {:.6g}, best known {:.6g}, lower bound {:.6g}".format(*losses)
    for values, said in (("uniform", "lower bound 0"), ("binary", "no lower bound but 0 known")):
        assert said in str(sp.audit(PAIR, sp.Features(2, 0.1, values), steps=0, starts=1))


def test_predictions_say_their_kind_and_keep_their_order():
    law = sp.Features(12, 0.05, importance=0.8 ** np.arange(12))
    for _, rows in sp.predict(law, [2, 4]).to_frame().groupby("n_hidden"):
        (bound,) = rows.loc[rows["kind"] == "lower bound", "loss"]
        assert bound <= rows.loc[rows["kind"].isin(["attained", "best known code", "measured"]), "loss"].min()
    best = sp.best(sp.Features(6, 0.1), 2, starts=5)
    for row in sp.predict(sp.Features(6, 0.1), 2).to_frame().itertuples():
        if row.kind == "lower bound":
            assert row.loss <= best.loss
        if row.kind == "attained" and "free" not in row.model:
            stated = 1e-5 if "copies" in row.model else 1e-9  # losses of blocks, by `known_blocks`
            assert row.loss >= best.loss * (1.0 - stated)
    sizes, law = (8, 32, 200), sp.Features(128, 0.05)
    units = sp.Features(128, 0.05, scale=2.0, importance=3.0)  # losses are 12 times those of the others
    plain, scaled = (sp.predict(one, 32).to_frame() for one in (law, units))
    assert {*plain["kind"]} == {*KINDS}
    (row,) = plain[plain["kind"] == "measured"].itertuples()
    losses = read.read("training", run=row.note.split()[-1])["loss"].values[-1]
    assert row.loss == pytest.approx(losses.mean(), rel=1e-12)
    assert f"mean of {losses.size} seeds" in row.note
    np.testing.assert_allclose(scaled["loss"], 12.0 * plain["loss"], rtol=1e-9)
    together, *alone = (sp.predict(law, m).to_frame().drop(columns="prediction") for m in (sizes, *sizes))
    assert together.values.tolist() == [row for frame in alone for row in frame.values.tolist()]


def test_the_best_affine_model_of_two_features_that_are_on_together():
    """Less the larger eigenvalue of [[v, 2c], [2c, 4v]], for importances 1 and 4."""
    law = sp.Features(2, groups=[synchronous([0, 1], 0.1)], importance=[1.0, 4.0])
    v, c = 0.1 / 3 - 0.1**2 / 4, 0.1 / 4 - 0.1**2 / 4
    (row,) = [row for row in sp.predict(law, 1).to_frame().itertuples() if "affine" in row.model]
    assert row.loss == pytest.approx((5 * v - np.sqrt(9 * v**2 + 16 * c**2)) / 4, rel=1e-12, abs=0)


def test_laws_of_public_models_are_those_of_their_sources():
    i, one = np.arange(1000), np.ones(1000)
    for name, n, p, importance in (
        ("elhage", 20, 0.1 * one, 0.7**i), ("elhage-notebook", 5, 0.05 * one, 0.9**i),
        ("uniform", 400, 0.01 * one, one), ("symmetric", 100, 0.01 * one, one),
        ("power", 1000, 1.0 / (i + 1) / np.sum(1.0 / (i + 1)), one),
    ):  # fmt: skip
        law = sp.laws(name)
        np.testing.assert_allclose([law.p, law.importance], [p[:n], importance[:n]], rtol=1e-12)
        assert np.any(law.mean) == (name != "symmetric")


def test_phases_are_those_of_the_diagram():
    found = sp.phases(grid={"sparsity": [0.1, 0.9], "importance": [1.0, 0.3]})
    data = found.to_dataset()
    for s, worth, name in ((0.9, 0.3, "antipodal"), (0.1, 0.3, "first alone"), (0.1, 1.0, "antipodal")):
        at, law = data.sel(sparsity=s, importance=worth), sp.Features(2, 1.0 - s, importance=[1.0, worth])
        W = at["W"].values
        assert at["geometry"].item() == name
        assert exact_loss(W @ W.T, at["b"].values, law).loss == pytest.approx(float(at["loss"]), rel=1e-9)
    assert " 75.0 %  antipodal" in found.lines
    flipped = sp.phases("importance", "sparsity", grid={"sparsity": [0.1, 0.9], "importance": [1.0, 0.3]})
    xr.testing.assert_allclose(data["loss"], flipped.to_dataset()["loss"].transpose(*data["loss"].dims))
    line = sp.phases("p", None, grid={"p": [0.05, 0.5]}, n_features=5, n_hidden=2, starts=4).to_dataset()
    assert line["geometry"].values[0] == "pentagon 0-1-2-3-4"
    for W, b, p, loss in zip(*(line[name].values for name in ("W", "b", "p", "loss")), strict=True):
        assert sp.loss(sp.Model(W.T, b=b), p).loss == pytest.approx(loss, rel=1e-8)


def test_the_last_feature_has_the_importance_of_a_diagram():
    given = {"grid": {"importance": [0.01]}, "n_features": 3, "n_hidden": 2, "p": 0.9, "starts": 2}
    found = sp.phases("importance", None, **given)
    lengths = np.linalg.norm(found.to_dataset()["W"].values[0], axis=1)
    assert lengths[2] < 1e-3 < 0.5 < lengths[:2].min()
    assert found.to_dataset()["hits"].item() >= 5


def test_a_line_on_many_neurons_shows_dimensionalities_and_points_of_yours():
    line = sp.phases("p", None, grid={"p": [0.05, 0.5]}, n_features=6, n_hidden=3, starts=1)
    ax = line.plot(points=([0.1, 0.4], [0.01, 0.05]), label="trained")
    (mine,) = (drawn for drawn in ax.lines if drawn.get_label() == "trained")
    np.testing.assert_allclose(mine.get_ydata(), [0.01, 0.05])
    (inset,) = ax.child_axes
    drawn = inset.lines[0].get_xydata()
    for k, p in enumerate((0.05, 0.5)):
        W = line.to_dataset()["W"].values[k]
        square, sums = np.sum(W**2, axis=1), np.sum((W @ W.T) ** 2, axis=1)
        sizes = np.divide(square**2, sums, out=np.zeros(6), where=square > 1e-12)
        np.testing.assert_allclose(drawn[drawn[:, 0] == p][:, 1], sizes, atol=1e-9)


def test_best_says_the_cosines_within_groups_and_between():
    law = sp.Features(4, groups=[exclusive([0, 3], 0.1), exclusive([1, 2], 0.1)])  # no loss as two pairs
    line = "cosines            -1 to -1 within groups, 0 to 0 between others"
    assert line in sp.best(law, 2, starts=6).lines
    assert not any(line.startswith("cosines") for line in sp.best(sp.Features(3, 0.1), 1, starts=2).lines)
    loose = sp.Features(4, [0.1, 0.1, 0.2, 0.2], groups=[exclusive([0, 1], 0.1)])  # 2 and 3 are in no group
    for W, of, cosines in (
        ([[2, 0], [0.6, 0.8], [0, 0], [0, 3]], law, "0 to 0 within groups, 0.6 to 0.8 between others"),
        ([[1, 0], [-1, 0], [3, 4], [3, -4]], loose, "-1 to -1 within groups, -0.6 to 0.6 between others"),
    ):
        assert cosines_of_groups(np.array(W), of) == [f"cosines            {cosines}"]


def test_few_hits_are_no_certainty():
    """Five are enough; with fewer a better model is likely, if any start would end at an unseen minimum."""
    for hits, unseen, better in ((5, 0.25, False), (4, 0.25, True), (4, 0.0, False)):
        assert ("a better one is likely" in search_note(20, hits, unseen)) == better, (hits, unseen)
    assert search_note(7, 6, 0.1, 20) == "7 of 20 starts (6 hits)"


def test_a_sweep_is_drawn_over_its_axes(tmp_path):
    found = sp.sweep(lambda p, k: {"loss": p * k, "name": "x"}, {"p": [0.1, 0.2], "k": [1, 2, 3]})
    ax = found.plot()
    assert (ax.get_xlabel(), ax.get_ylabel(), len(ax.lines)) == ("p", "loss", 3)
    np.testing.assert_allclose(ax.lines[2].get_ydata(), [0.3, 0.6])
    assert found.plot(x="k").get_xlabel() == "k"
    assert sp.sweep(lambda p: sp.loss(PAIR, p), {"p": [0.1, 0.2]}).to_dataset()["loss"].dims == ("p",)
    pytest.importorskip("zarr", reason="stores are Zarr's")
    words = "unequal.split", {"alpha": [1.0, 2.0], "n_hidden": [2]}
    given = {"store": tmp_path / "store", "settings": {"n_features": 8}, "jobs": 0}
    stored, again = (sp.sweep(*words, **given).to_dataset() for _ in range(2))
    assert stored["kind"].values.tolist()[0] == "dropped"  # labels of text
    xr.testing.assert_identical(stored, again)


def test_claims_have_the_last_day_on_which_one_of_them_was_judged(monkeypatch):
    rows = stored_verdicts.read(["C8", "C9", "L10"])
    for id, day in (("C8", "2026-02-03"), ("C9", "2026-01-30"), ("L10", None)):
        rows[id]["judged"] = day
    monkeypatch.setattr(stored_verdicts, "read", lambda: rows)
    monkeypatch.setattr(stored_verdicts, "sources", lambda: ("cowsik2024", "lecomte2024"))
    for given, day in (({}, " of 2026-02-03"), ({"id": "C9"}, " of 2026-01-30"), ({"id": "L10"}, "")):
        assert sp.claims(**given).note.startswith(f"from stored evidence{day};")
    frame = sp.claims(id=["C8", "L10"]).to_frame()
    assert frame["id"].tolist() == ["L10", "C8"]  # as in the ledger
    assert frame["instead"].tolist() == [rows[id]["correction"] or "" for id in ("L10", "C8")]
    assert "" in sp.claims().to_frame()["instead"].tolist()


def test_claims_are_those_of_the_command(capsys):
    found = sp.claims("lecomte2024", wrong=True)
    assert cli.main(["claims", "--source", "lecomte2024", "--wrong", "--json"]) == 0
    assert [row["id"] for row in found.rows] == [row["id"] for row in json.loads(capsys.readouterr().out)]
    assert sp.claims("lecomte", wrong=True).rows == found.rows
    frame = found.to_frame()
    for column in ("id", "source", "where", "statement", "verdict", "instead"):
        key = "correction" if column == "instead" else column
        assert frame[column].tolist() == [row[key] or "" for row in found.rows], column


# Calls of the public functions.
ANSWERS = {
    "loss": lambda: sp.loss(PAIR, 0.1),
    "best": lambda: sp.best(sp.Features(3, 0.1), 2, starts=2),
    "audit": lambda: sp.audit(PAIR, 0.1, starts=2),
    "predict, law": lambda: sp.predict(sp.Features(64, 0.05), [8, 16]),
    "predict": lambda: sp.predict("collisions", n_features=[8, 16], n_hidden=64),
    "phases": lambda: sp.phases(grid={"sparsity": [0.1, 0.9], "importance": [0.3, 1.0]}),
    "phases, line": lambda: sp.phases("p", None, grid={"p": [0.05, 0.5]}, n_features=3, n_hidden=2, starts=2),
    "how_many": lambda: sp.how_many(0.05, n_hidden=3, loss=0.001),
    "how_many, neurons": lambda: sp.how_many(0.05, n_features=9, loss=0.001),
    "sweep": lambda: sp.sweep(lambda p: p * p, {"p": [0.1, 0.2]}),
}


@pytest.mark.parametrize("make", ANSWERS.values(), ids=ANSWERS)
def test_answers_have_pictures_tables_and_sources(make):
    found = make()
    assert found.plot().has_data()
    assert found.cite()
    assert isinstance(found.certainty, Certainty)
    assert json.loads(json.dumps(found.certainty)) == found.certainty.value
    assert isinstance(found.to_dataset(), xr.Dataset)
    assert len(found.to_frame())
    assert max(map(len, str(found).splitlines())) <= 80
    with pytest.raises(AttributeError, match="this answer has no 'nothing'; it has "):
        found.nothing  # noqa: B018


def test_the_first_line_says_how_often_features_are_on():
    """A sparsity passed for p is seen at once; if one of two features is on, each is on half the time."""
    network, sae = (sp.Model(W, hidden="relu", output="identity") for W in (PAIR.T, np.eye(2)))
    for law, share in ((sp.Features(2, 0.95), 95), (sp.Features(2, 0.1, exactly=1), 50)):
        answers = [sp.loss(PAIR, law), sp.best(law, 1, starts=1), sp.audit(PAIR, law, seconds=0, steps=0)]
        answers += [sp.predict(law, 1), sp.loss(network, law), sp.audit(network, law), sp.sae(sae, law)]
        assert all(f"each feature is on in {share} % of the inputs" in found.lines[0] for found in answers)
    half = sp.Features(2, 0.5, "rectified-normal(0)")  # a value of 0 is off
    assert "each feature is on in 25 % of the inputs" in sp.loss(PAIR, half).lines[0]


def test_more_than_three_dropped_features_are_counted():
    three = "dropped 1, dropped 2, dropped 3"
    assert in_words(f"single 0, {three}, dropped 4") == "single 0, 4 dropped"
    assert in_words(three) == three


def test_commands_answer_as_the_functions_do(tmp_path, capsys):
    def answer(words):
        assert cli.main([*words.split(), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    law, model, picture = "--n-features 3 --p 0.1", tmp_path / "best.npz", tmp_path / "best.png"
    found = answer(f"best {law} --n-hidden 2 --starts 2 --out {model} --plot {picture}")
    assert found["loss"] == sp.best(sp.Features(3, 0.1), 2, starts=2).loss
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert answer(f"loss {model} --sparsity 0.9")["loss"] == pytest.approx(found["loss"], rel=1e-12, abs=0)
    steep = sp.Features(3, [36 / 49, 9 / 49, 4 / 49])  # as 1/i^2, one on on average
    want = pytest.approx(sp.loss(str(model), steep).loss, rel=1e-12, abs=0)
    assert answer(f"loss {model} --alpha 2")["loss"] == want
    path = str(tmp_path / "model.svg")
    assert answer(f"plot {model} --out {path}") == {"written": path}
    rows = answer(f"predict law {law} --n-hidden 1 2")
    assert {row["n_hidden"] for row in rows if "n_hidden" in row} == {1, 2}
    sizes = sp.how_many(0.05, n_hidden=30, loss=0.001).to_frame()["n_features"].tolist()
    assert answer("how-many --p 0.05 --n-hidden 30 --loss 0.001")["n_features"] == sizes
    few = "--p-feature 0.3 0.2 0.1 --n-hidden 1 --starts 2"  # which says how many features there are
    want = sp.best(sp.Features(3, [0.3, 0.2, 0.1]), 1, starts=2).loss
    assert answer(f"best {few}")["loss"] == pytest.approx(want, rel=1e-12, abs=0)


def test_a_loss_with_a_large_error_is_not_called_exact():
    certainty, note = certainty_with(10.8, 4.0, 12.0)
    assert (certainty, note[:19]) == ("computed", "to within 37 % only")
    assert certainty_with(1.0, 0.01, 12.0)[0] == "exact"
    assert certainty_with(1e-9, 4e-9, 1e-4)[0] == "computed"  # much beside the zero model's loss
    assert certainty_with(0.0, 1e-12, 12.0)[0] == "exact"  # rounding of an error of 0


def test_a_network_that_no_exact_sum_covers_is_sampled_and_says_so():
    """Nine of seventeen binary features have more patterns than are listed; groups instead are summed."""
    n, rng = 17, np.random.default_rng(0)
    law = sp.Features(n, 0.2, "binary", exactly=9)
    W_in, W_out = rng.normal(size=(6, n)) / 4, 0.1 * rng.normal(size=(n, 6))
    network = sp.Model(W_in, b_in=-0.1, hidden="relu", W_out=W_out, b=0.0, output="identity")
    x = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    losses = ((network(x) - x) ** 2).mean(axis=1)
    pair = np.array([[0.5, 0.3], [0.2, 0.0]])[x[:, 0], x[:, 1]]
    grouped = sp.loss(network, sp.Features(n, 0.2, "binary", groups=[exclusive([0, 1], [0.2, 0.3])]))
    assert grouped.method == "sums of atoms"
    want = (pair * np.where(x[:, 2:], 0.2, 0.8).prod(axis=1)) @ losses
    assert grouped.loss == pytest.approx(want, rel=1e-12, abs=0)
    exact, found = losses[x.sum(axis=1) == 9].mean(), sp.loss(network, law)
    assert found.method == "samples"
    assert 0.0 < abs(found.loss - exact) < found.error_estimate < 0.01 * exact
    assert "sampled loss per output" in str(found)
    assert sp.loss(network, law).loss == found.loss
    with pytest.raises(ValueError, match=r"`law` must have at most 16,384 patterns .* 17 features"):
        sp.loss(network, law, gradient=True)


def test_values_without_a_transform_are_sampled_and_say_so():
    """With the threshold 0.2 each output is off by what it takes off: E min(v, 0.2)^2, by quadrature."""
    beta = scipy.stats.beta(2, 3)
    draw = lambda rng, size: rng.beta(2, 3, size)  # noqa: E731
    law = sp.Features(3, 0.1, ValueDistribution("beta", (0, 1), beta.moment, draw, density=beta.pdf))
    true = 0.1 * beta.expect(lambda v: np.minimum(v, 0.2) ** 2)
    hidden = sp.Model(np.eye(3), b_in=-0.2, hidden="relu", W_out=np.eye(3), output="identity")
    for model in ((np.eye(3), -0.2 * np.ones(3)), hidden):
        sampled = sp.loss(model, law)
        assert (sampled.method, sampled.certainty) == ("samples", "measured")
        assert 0.0 < abs(sampled.loss - true) < sampled.error_estimate < 0.05 * true
    audited = sp.audit(hidden, law, seconds=1.0)
    assert audited.method == "samples"
    assert abs(audited.loss - true) < audited.loss_error < 0.05 * true
    with pytest.raises(ValueError, match=r"`law` must be values with .*pieces.*; got 'beta'"):
        sp.loss((np.eye(3) - 0.5, np.full(3, -0.2)), law, gradient=True)


def test_a_network_whose_exact_sum_is_poor_is_sampled(monkeypatch):
    network = sp.Model(np.eye(2), b_in=-0.1, hidden="relu", output="identity")
    exact = sp.loss(network, 0.3)
    assert exact.method != "samples"
    poor = dataclasses.replace(evaluator(0.3)(network), error_estimate=0.02 * exact.loss)
    monkeypatch.setattr("superposition.validate.api.loss.model_loss", lambda *_, **__: poor)
    found = sp.loss(network, 0.3)
    assert found.method == "samples"
    assert abs(found.loss - exact.loss) < found.error_estimate < 0.002 * exact.loss

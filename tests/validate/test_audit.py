"""Audits: layouts of public code, damaged files, and whether the four kinds of models are told apart."""

import dataclasses
import itertools
import json
import pickle
import re
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from safetensors.numpy import save_file

from superposition.solvers import rug
from superposition.solvers.deadline import Deadline
from superposition.solvers.loss import exact_gradient, exact_loss
from superposition.solvers.minimise import descend, minimise
from superposition.theory import unequal
from superposition.theory.features import Features, synchronous
from superposition.validate import audit
from superposition.validate.audit import descents, models, search
from superposition.validate.audit.advice import advice
from superposition.validate.audit.losses import best_bias
from superposition.validate.audit.page import figures_of, render
from superposition.validate.cli import main

F, H = 5, 2
rng = np.random.default_rng(0)
OUT, IN, B = rng.normal(size=(3, F, H)), rng.normal(size=(3, H, F)), rng.normal(size=(3, F))
W = OUT
ONE = {"W_out": OUT[0], "W_in": IN[0], "b": B[0]}
UNSEARCHED = {"steps": 0, "starts": 0}


def test_more_hidden_neurons_than_features_or_a_hidden_bias_are_refused():
    """Networks have arrays of the same names. If the caller names the layout, there is no nonlinearity."""
    wide = audit.Weights(np.ones((2, 3)), np.ones((3, 2)), np.zeros(2))
    plain = audit.Weights(OUT[0], IN[0], B[0])
    for kind in audit.LAYOUTS:
        cases = [(kind.arrays(wide), r"more hidden neurons \(3\)")] if kind.b_saved else []
        if kind.hidden_bias:
            cases.append((kind.arrays(plain) | {kind.hidden_bias: np.ones(H)}, "hidden neurons have a bias"))
        for state, why in cases:
            message = rf"`model` must have no nonlinearity.*{why}.*Model.of\(model, layout="
            with pytest.raises(ValueError, match=message):
                audit.recognise(state)
            assert audit.recognise(state, layout=kind.name)[0] == kind.name


def test_a_bias_of_hidden_neurons_and_a_scale_are_folded_in():
    state = {"embedding.weight": IN[0], "unembedding.weight": OUT[0], "unembedding.bias": B[0]}
    c = np.array([0.3, -0.2])
    state |= {"embedding.bias": c, "scale_factor": np.array(2.0)}
    _, (weights,) = audit.recognise(state, layout="timaeus-research/devinterp")
    np.testing.assert_allclose(weights.b, 2 * (OUT[0] @ c + B[0]))
    np.testing.assert_allclose(weights.W_out, 2 * OUT[0])


def test_a_module_that_cannot_be_called_has_no_nonlinearity_before_weights():
    torch = pytest.importorskip("torch")
    model = torch.nn.Module()  # without a forward
    model.first = torch.nn.Sequential(torch.nn.Linear(5, 2, bias=False), torch.nn.GELU())
    model.last = torch.nn.Linear(2, 5)
    keys = {"W_in": "first.0.weight", "W_out": "last.weight", "b": "last.bias"}
    with pytest.raises(ValueError, match=r"`model` must have no nonlinearity .*got a module with a GELU"):
        audit.audit(model, 0.1, keys=keys)
    assert audit.audit(model.state_dict(), 0.1, keys=keys, **UNSEARCHED).layout == "keys"


class _Evil:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


def test_damaged_and_foreign_files_are_one_line(tmp_path, capsys):
    pytest.importorskip("torch", reason="reads files of PyTorch")
    names = "a.npz", "b.npz", "c.pt", "d.safetensors", "e.safetensors", "no.npz"
    cut, objects, pickled, short, huge, _ = files = [tmp_path / name for name in names]
    np.savez(cut, **ONE)
    cut.write_bytes(cut.read_bytes()[:-200])
    np.savez(objects, W=np.array([_Evil()], object))
    pickled.write_bytes(pickle.dumps(_Evil()))
    save_file(ONE, short)
    short.write_bytes(short.read_bytes()[:-8])
    header = json.dumps({"W": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    huge.write_bytes(struct.pack("<Q", len(header)) + header)
    for path in files:
        assert main(["audit", str(path), "--p", "0.1"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("superposition audit: `model` must be")
        assert said.count("\n") == 1


def test_a_best_known_loss_of_nothing_is_no_unit():
    ring = np.exp(2j * np.pi * np.arange(8) / 8)
    size = 1 / (1 - 0.5**0.5)  # then W W' + b is 1 on the diagonal, and at most 0 elsewhere
    W_out, b = np.stack([ring.real, ring.imag], axis=1) * size**0.5, np.full(8, 1 - size)
    law = Features(8, 0.5, "binary", exactly=1)
    pair = [audit.Weights(W_out, W_out.T, bias) for bias in (b, b + 0.1)]
    best, early = audit.audit(pair, law, starts=0, steps=0).models
    assert best.loss == best.best_known == early.best_known < 1e-25
    (share,) = re.findall(r"([\d.]+) % of the zero model above the best known", early.sentence)
    np.testing.assert_allclose(float(share) / 100, early.loss / early.zero_loss, rtol=0.005)
    assert audit.audit(pair[0], law, starts=0, steps=5).models[0].verdict == "proved best"


def test_many_features_are_set_beside_codes():
    W_out = np.kron(np.eye(32), [[1.0], [-1.0]])
    (audited,) = audit.audit({"W": W_out, "b": np.zeros(64)}, 0.05, **UNSEARCHED).models
    assert (audited.verdict, audited.represented, audited.searched) == ("not tried", 64, 0)
    np.testing.assert_allclose(audited.dimensionality, 0.5)
    assert audited.lower_bound < audited.limit < audited.loss == audited.best_known < audited.zero_loss
    law = Features(64, 0.05, scale=2.0, importance=3.0)
    (scaled,) = audit.audit({"W": W_out, "b": np.zeros(64)}, law, **UNSEARCHED).models
    assert audited.rug == pytest.approx(rug.optimum(0.05, 0.5).loss, rel=1e-9)
    assert [scaled.limit, scaled.rug] == pytest.approx([12.0 * audited.limit, 12.0 * audited.rug], rel=1e-12)


def test_features_that_differ_are_set_beside_priority_codes_and_their_bound():
    """A tied model is set beside the best features, kept exactly."""
    law, rng = unequal.power_law(1.0, 10, 0.5), np.random.default_rng(0)
    start, other = rng.normal(size=(10, 3)) / 3, rng.normal(size=(3, 10)) / 3
    for into in (start.T, other):
        (audited,) = audit.audit(audit.Weights(start, into, np.zeros(10)), law, **UNSEARCHED).models
        assert 0 < audited.lower_bound == unequal.loss_bound(law, 3) < audited.best_known < audited.loss
        assert audited.best_known == pytest.approx(law.variance[3:].sum() / 10, rel=1e-14, abs=0)
        sizes, sums = np.sum(into**2, axis=0), np.sum((into.T @ into) ** 2, axis=1)
        np.testing.assert_allclose(audited.dimensionality, sizes**2 / sums)  # of the encoder
    pair = audit.Weights(np.ones((2, 1)), np.array([[1.0, -1.0]]), np.zeros(2))
    assert audit.audit(pair, 0.1, **UNSEARCHED).models[0].structure == "antipodal pair 0-1"
    assert audited.limit == unequal.priority_loss(law, 3)


def test_pairs_that_are_on_together_are_set_beside_a_code_of_theirs():
    law = unequal.independent_copies(Features(2, 0.1, groups=[synchronous([0, 1], 0.1)]), 4)
    near = audit.Weights(*unequal.priority_weights(law, 2, 1e5))
    (audited,) = audit.audit(near, law, **UNSEARCHED).models
    assert audited.limit == unequal.priority_loss(law, 2)
    assert audited.limit < audited.loss == audited.best_known < 2 * audited.limit
    assert audited.lower_bound == 0  # of features that their partners decide


def test_the_command_says_it_in_a_table_and_as_json(tmp_path, capsys):
    path = str(tmp_path / "model.npz")
    np.savez(path, W=W, b_final=B)
    words = ["audit", path, "--p", "0.1", "0.2", "0.3", "--instances", "0", "2", "--starts", "2"]
    assert main(words) == 0
    assert "2: Not at a minimum" in capsys.readouterr().out
    assert main(["audit", path, "--p", "0.1", "--steps", "0", "--starts", "0", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [model["instance"] for model in printed["models"]] == [0, 1, 2]
    assert printed["models"][0]["end_loss"] is None
    assert printed["models"][0]["law"]["p"] == [0.1] * 5


def test_a_script_fails_on_the_verdicts_that_it_names(tmp_path):
    """W of this file, drawn at random, is no minimum; the pentagon of a search is the best one."""
    path, best = str(tmp_path / "model.npz"), minimise(5, 2, 0.1, starts=20)
    for weights, bias, verdict in ((W[0], B[0], "unfinished"), (best.W_out, best.b, "best of a search")):
        np.savez(path, W_out=weights, W_in=weights.T, b=bias)
        for fail_on, status in ((verdict, 1), (f"stuck,{verdict}", 1), ("stuck,flat", 0)):
            assert main(["audit", path, "--p", "0.1", "--starts", "20", "--fail-on", fail_on]) == status


def test_a_bias_that_is_not_saved_is_the_best_one(tmp_path):
    torch = pytest.importorskip("torch", reason="reads files of PyTorch")
    best = minimise(5, 2, 0.1, starts=3)
    matrices = {0: torch.tensor(best.W_out), 1: torch.tensor(W[0][:, :1])}
    torch.save({"m_ran": [2, 1], "losses": [0.0], "W": matrices}, tmp_path / "W.pt")
    audited = audit.audit(tmp_path / "W.pt", 0.1, **UNSEARCHED)
    assert audited.layout == "liuyz0/SuperpositionScaling, W alone"
    assert [model.n_hidden for model in audited.models] == [2, 1]
    assert all(model.bias_assumed and "is assumed" in model.sentence for model in audited.models)
    np.testing.assert_allclose(audited.models[0].b, best.b, atol=1e-5)
    model = audited.models[1]
    M = model.W_out @ model.W_in
    np.testing.assert_allclose(exact_gradient(M, model.b, 0.1)[1], 0.0, atol=1e-7)
    for shift in np.linspace(-2, 1, 31):  # no other bias of any output is better
        assert np.all(exact_loss(M, model.b + shift, 0.1).per_feature >= model.per_feature - 1e-12)


def test_the_search_for_a_bias_may_end_early_with_the_best_so_far():
    law, M, looks = Features(3, 0.3, scale=[1.0, 5.0, 1.0]), np.diag([1.0, 0.0, 2.0]), itertools.count()
    exact = best_bias(M, law)
    assert exact[:2] == pytest.approx([0.0, law.mean[1]], abs=1e-4)  # kept, and dropped
    early = best_bias(M, law, SimpleNamespace(is_over=lambda: next(looks) == 32))  # after all of the grid
    assert np.all(np.abs(early - exact) <= [0.14, 0.03, 0.27])  # its steps


def test_instances_of_one_law_share_the_search_and_what_descent_finds(monkeypatch):
    calls, reached = [], []
    monkeypatch.setattr(
        search, "minimise", lambda *args, **given: calls.append(args) or minimise(*args, **given)
    )
    laws = [0.1, Features(5, 0.1), 0.2]
    audited = audit.audit({"W": W, "b_final": B}, laws, starts=1, on_audited=reached.append)
    assert (len(calls), reached) == (2, [0, 1, 2])
    first, second, _ = audited.models
    assert first.best_known == second.best_known <= min(first.end_loss, second.end_loss)
    # Without a search the better end of the two is known to both.
    models = audit.audit({"W": W[:2], "b_final": B[:2]}, Features(5, 0.1, "binary"), starts=0).models
    least = np.nanmin([[model.end_loss, model.reset_loss] for model in models])
    assert [model.best_known for model in models] == [least, least]
    names = {model.best_name.partition(" with")[0] for model in models}
    assert names in ({"descent from this model", f"descent from instance {k}"} for k in (0, 1))


@pytest.mark.parametrize(
    ("options", "law"),
    [
        ("--p .3 --importance geometric:0.5 --scale 2", {"importance": 0.5 ** np.arange(5), "scale": 2}),
        ("--p 0.1 --importance 0.8", {"importance": 0.8, "p": 0.1}),
        ("--p 0.1 --importance 0.8**i", {"importance": 0.8 ** np.arange(5), "p": 0.1}),
        ("--p 0.1 --importance 1,.8,0.6,.4 .2", {"importance": [1, 0.8, 0.6, 0.4, 0.2], "p": 0.1}),
        ("--p-feature .1 .2 .3 .4 .5 --values binary", {"p": [0.1, 0.2, 0.3, 0.4, 0.5], "values": "binary"}),
        ("--exactly 1 --importance 1 2 3 4 5", {"exactly": 1, "importance": [1, 2, 3, 4, 5]}),
    ],
)
def test_laws_of_the_command_are_those_of_features(options, law, tmp_path, capsys):
    np.savez(tmp_path / "model.npz", **ONE)
    words = f"audit {tmp_path}/model.npz {options} --steps 0 --starts 0 --json"
    assert main(words.split()) == 0
    (printed,) = json.loads(capsys.readouterr().out)["models"]
    want = exact_loss(OUT[0] @ IN[0], B[0], Features(5, **{"p": 0.3, **law})).loss
    assert printed["loss"] == pytest.approx(want, rel=1e-12, abs=0)
    assert printed["bias_assumed"] is False


def test_table_and_page_escape_what_comes_from_files(tmp_path, capsys, monkeypatch):
    evil = "<script>alert(1)</script>`\x1b[2J\udc80"
    monkeypatch.chdir(tmp_path)
    name = evil.replace("/", "\u2215") + ".npz"
    np.savez("plain.npz", W=W[:2], bias=B[:2])
    Path("plain.npz").rename(name)
    words = "--p 0.1 --instances 1 0 --steps 0 --starts 0 --html page.html"
    assert main(["audit", name, "--keys", "W_in=W", "b=bias", *words.split()]) == 0
    assert not {"\x1b", "\udc80"} & set(capsys.readouterr().out)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "Audit of &lt;script&gt;alert(1)" in text
    assert not re.search(r"""(?:src|href)=["'](?!#|data:image)""", text)  # it loads nothing


def test_the_losses_that_are_drawn_are_times_importance():
    law = Features(6, 0.1, "binary", importance=0.5 ** np.array([3, 1, 5, 0, 2, 4]))
    weights = audit.Weights(np.eye(6, 3), np.eye(3, 6), -0.1 * np.arange(6))
    (model,) = audit.audit(weights, law, **UNSEARCHED).models
    panels = {one.name: one.draw(one.dataset, Figure().subplots()) for one in figures_of(model)}
    best, mine = (line.get_ydata() for line in panels["by_feature"].lines[:2])
    assert [best.mean(), mine.mean()] == pytest.approx([model.best_known, model.loss], rel=1e-9)
    np.testing.assert_allclose(panels["weights"].lines[0].get_ydata(), [1.0] * 3 + [0.0] * 3)
    names = [label.get_text() for label in panels["losses"].get_yticklabels()]
    losses = {names[round(line.get_ydata()[0])]: line.get_xdata()[0] for line in panels["losses"].lines}
    want = {"this model": model.loss, "best known of this size": model.best_known}
    want |= {"zero model": model.zero_loss, "lower bound": model.lower_bound}
    assert losses == {name: loss for name, loss in want.items() if loss > 0.0}
    html = render("x", [model], "y")
    assert model.lower_bound == 0.0
    bounded = render("x", [dataclasses.replace(model, lower_bound=0.0123)], "y")
    for page, what, text in (
        (html, "proved lower bound", "none but 0 is known"),
        (bounded, "proved lower bound", "0.0123"),
        (html, "loss of the zero model", f"{model.zero_loss:.6g}"),
    ):
        assert re.search(rf">{what}</td>\s*<td[^>]*>{text}<", page)
    table = html.rpartition("share of the loss saved")[2]
    cells = [float(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", table)]
    rows = np.reshape(cells, (6, -1))[:, -4:]
    columns = model.per_feature, model.share_saved, model.b, model.dimensionality
    np.testing.assert_allclose(rows, np.transpose(columns), rtol=1e-2, atol=1e-3)


def test_seconds_end_search_and_descent_and_the_answer_says_so(monkeypatch):
    def descents_to_the_deadline(*arguments):
        """Return what the descents end at, when their time is over, on fast and on busy machines."""
        ends = descents.descents(*arguments[:-1], Deadline())
        while not arguments[-1].is_over():
            time.sleep(0.01)
        return ends

    law = Features(20, 0.05, importance=0.9 ** np.arange(20))
    W = 0.3 * np.random.default_rng(0).normal(size=(20, 5))
    given = audit.Weights(W, W.T, np.zeros(20))
    (none,) = audit.audit(given, law, seconds=0).models  # which compiles
    assert (none.verdict, none.searched, none.planned) == ("not tried", 0, 20)
    exact = exact_loss(given.W_out @ given.W_in, given.b, law).loss
    assert none.loss == pytest.approx(exact, abs=none.loss_error)
    assert none.loss_error < 1e-3 * none.loss
    audit.audit(given, law, seconds=0.01)
    with monkeypatch.context() as patched:
        patched.setattr(models, "descents", descents_to_the_deadline)
        (audited,) = audit.audit([given, given], law, seconds=1.0, starts=9999, instances=[1]).models
    assert audited.hit_time_limit
    assert audited.searched < audited.planned
    assert audited.verdict == "unfinished"
    assert audited.end_loss < audited.loss
    assert f" {audited.searched} of {audited.planned}" in audited.left_out
    pair = audit.Weights(np.array([[1.0], [-1.0]]), np.array([[1.0, -1.0]]), np.zeros(2))
    (whole,) = audit.audit(pair, 0.1, seconds=60.0).models
    assert (whole.hit_time_limit, whole.searched, whole.left_out) == (False, whole.planned, "")


def test_descent_within_enough_seconds_is_the_usual_one():
    law, (W, other) = Features(4, 0.2), np.random.default_rng(1).normal(size=(2, 4, 2))
    for into, tied in ((W.T, True), (other.T, False)):
        start = W, into, np.zeros(4), law
        timed, usual = (descend(*start, seconds=seconds, tied=tied) for seconds in (1e6, None))
        np.testing.assert_array_equal(timed.W_out, usual.W_out)
        early, exact = descend(*start, seconds=0, tied=tied), exact_loss(W @ into, *start[2:])
        assert usual.loss <= early.loss <= exact.loss + exact.error_estimate


def test_advice_says_what_it_rests_on():
    W = np.array([[1.0], [-0.7], [0.1]])
    for starts in (0, 2):
        (audited,) = audit.audit(audit.Weights(W, W.T, np.zeros(3)), Features(3, 0.123), starts=starts).models
        said = advice(audited)
        assert audited.verdict == "unfinished"
        assert "above the best known" in said
        assert starts == 0 or f"{audited.searched} starts were made at this size" in said
        fall = 100.0 * (1.0 - audited.end_loss / audited.loss)
        assert f"descent from here goes down by {fall:.2g} %" in said
        above = 100.0 * (audited.loss / audited.best_known - 1.0)
        assert f"it is {above:.3g} % above the best known, {audited.best_known:.6g}" in said
        assert f"{audited.end_loss:.6g}, lower by {fall:.3g} %" in audited.sentence
        for share, is_slow in ((0.96, True), (0.94, False)):
            said = advice(dataclasses.replace(audited, end_loss=share * audited.loss))
            assert ("at a tenth of the rate" in said) is is_slow


def test_a_dead_output_is_flat_and_no_saddle():
    """No kick of the weights lowers the loss; setting its bias does."""
    law, draw = Features(3, 0.1), np.random.default_rng(0)
    W, b = np.eye(3, 2), np.array([0.0, 0.0, -1.0])
    (audited,) = audit.audit(audit.Weights(W, W.T, b), law).models
    assert (audited.dead.tolist(), audited.verdict) == ([2], "flat")
    assert "a dead output (2); it moves only if its bias is reset" in audited.sentence
    assert audited.end_loss == pytest.approx(audited.loss, rel=1e-12, abs=0)
    assert audited.reset_loss < 0.95 * audited.loss
    fall = 100.0 * (1.0 - audited.reset_loss / audited.loss)
    assert f"or start again; descent then goes down by {fall:.2g} % (" in advice(audited)
    kicked = [W + 0.01 * draw.normal(size=W.shape) for _ in range(200)]
    assert min(exact_loss(V @ V.T, b, law).loss for V in kicked) > audited.loss * (1 - 1e-9)
    weights = audit.Weights(np.zeros((3, 2)), np.zeros((2, 3)), np.full(3, 1e-9))
    (audited,) = audit.audit(weights, 0.1, **UNSEARCHED).models  # whose outputs have a gradient
    assert audited.gradient_norm > 1.0
    assert audited.dead.size == 0


def test_a_feature_is_represented_by_the_share_of_its_loss_that_is_saved():
    W = np.array([[1.0, 0.0], [0.0, 1.0], [0.05, 0.05]])  # above every threshold of a norm, and worth nothing
    law = Features(3, 0.1)
    (audited,) = audit.audit(audit.Weights(W, W.T, np.zeros(3)), law, **UNSEARCHED).models
    assert audited.represented == 2
    np.testing.assert_allclose(audited.share_saved, 1 - audited.per_feature / law.variance, rtol=1e-12)
    assert audited.share_saved[2] < 0.2 < 0.5 < audited.share_saved[0]
    state = {"W": np.array([[1.0], [-1.0], [0.0]]), "b": np.array([0.0, 0.0, 0.15])}
    assert audit.audit(state, 0.3, **UNSEARCHED).models[0].represented == 2  # a constant output is none


@pytest.mark.parametrize(("scale", "tied"), [(1.0, True), (50.0, True), (1e-3, False), (0.0, True)])
def test_kicks_are_a_hundredth_of_the_weights(monkeypatch, scale, tied):
    """In units of the r.m.s. weight, or that of unit encodings if all are 0; W_in follows."""
    starts = []

    def descend(W_out, W_in, b, law, **settings):
        starts.append((W_out, W_in, settings))
        return SimpleNamespace(W_out=W_out, W_in=W_in, b=b, loss=1.0 - 0.1 * len(starts))

    monkeypatch.setattr(descents, "descend", descend)
    W = scale * np.random.default_rng(0).normal(size=(40, 30))
    model = audit.Weights(W, W.T if tied else -W.T, np.zeros(40))
    given = (Features(40, 0.1), 7, 0.5, np.random.default_rng(1), Deadline())
    end, _ = descents.descents(model, *given)
    (first, _, settings), *kicked = starts
    assert len(kicked) == 3
    assert np.array_equal(first, W)
    assert (settings["tied"], settings["steps"], settings["reset_dead"]) == (tied, 7, False)
    assert end.loss == pytest.approx(0.6)  # the least of all four
    rms = np.sqrt(np.mean(W**2)) or 1.0 / np.sqrt(30)
    for out, into, _ in kicked:
        # Of 1200 normal numbers the s.d. is good to 2 %; five times that.
        assert np.std(out - W) == pytest.approx(0.01 * rms, rel=0.1)
        if tied:
            assert np.array_equal(into, out.T)
        else:
            assert np.std(into + W.T) == pytest.approx(0.01 * rms, rel=0.1)
    starts.clear()
    descents.descents(model, given[0], 7, 2.0, *given[3:])
    assert len(starts) == 1  # descent itself lowers the loss from 2


def test_outputs_that_count_for_nothing_or_never_vary_are_not_dead():
    """Output 0 has no importance, and feature 1 is always on with one value; 3 is on where feature 3 is."""
    law = Features(4, [0.1, 1.0, 0.1, 0.1], "binary", importance=[0.0, 1.0, 1.0, 1.0])
    W_out = np.array([[0.0], [0.0], [-1.0], [1.0]])
    assert descents.dead_outputs(W_out, np.array([[0.0, 0, 0, 1]]), np.full(4, -0.5), law).tolist() == [2]
    assert descents.dead_outputs(W_out, np.array([[0.0, 0, 0, 1]]), np.full(4, -1.0), law).tolist() == [2, 3]

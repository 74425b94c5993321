"""The explorer in a real browser: its losses are the engine's, and it is used by mouse and keyboard."""

import contextlib
import io
import json
import re

import numpy as np
import pytest

import superposition as sp
from superposition.solvers.loss import exact_loss
from superposition.solvers.minimise import lower_bound
from superposition.validate.report import explorer
from superposition.validate.report.explorer import explore

from .browser import needs_browser, result_of_page

pytestmark = needs_browser

MODELS = 1000
# What the page promises, of losses between 1e-6 and 10.
PROMISED = 1e-9

# {settings} at which the lower bound and the best known model are compared, and what must be refused.
SETTINGS = [
    dict(zip(("n", "p", "r", "group"), setting, strict=True))
    for setting in (
        (5, 0.1, 1, 1), (5, 0.02, 0.9, 1), (4, 0.7, 0.5, 1), (3, 0.001, 1, 1), (4, 0.2, 1, 3),
        (5, 0.2, 0.7, 2), (6, 0.1, 1, 3), (6, 0.15, 1, 6), (2, 0.1, 1, 1),
    )
]  # fmt: skip
# Fields, and what they do not take.
REFUSED = {"p": ["abc", "", "1.5", "NaN"], "r": ["0"], "rate": ["0"], "batch": ["2.5", "1e9"]}
REFUSED["biases"] = ["Infinity"]
# Links, as what is put in place of what.
BROKEN = {
    "n=6": "n=7", "p=0.1": "p=0.5", "group=3": "group=4", "&b=": "&c=", "W=": "W=1,",
    "rate=0.001": "rate=x", "n=6&": "",
}  # fmt: skip

# Runs in the page itself, after its own script.
ACTIONS = """
<script>
const result = {};
try {
  let seed = 1; // mulberry32
  Math.random = () => { seed = seed + 0x6D2B79F5 | 0; let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t; return ((t ^ t >>> 14) >>> 0) / 4294967296; };
  const loss = one => exactLoss(one.W, one.b, makeLaw(one.p, one.importance, one.group));
  result.losses = CASES.map(one => loss(one).loss);
  result.split = CASES.slice(0, 50).map(one => sum(loss(one).byCount) / loss(one).loss);
  const page = document.documentElement;
  result.phone = [performance.getEntriesByType('resource').length, page.scrollWidth <= page.clientWidth];
  const text = id => $(id).textContent, click = id => $(id).click();
  const key = (node, name) => node.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
  const handle = () => document.querySelectorAll('.handle')[0];
  change({ n: 5, p: 0.1, r: 1, group: 1 });
  useModel({ W: [[1, 0], [-0.5, 0.8], [-0.5, -0.8], [0, 0.2], [0.1, -0.3]], b: [0, 0, 0, 0, 0] });
  result.before = text('loss');
  handle().focus();
  key(handle(), 'ArrowUp');
  result.moved = state.W[0].slice();
  result.after = text('loss');
  const plane = document.getElementById('plane').getBoundingClientRect();
  const touch = (kind, x, y) => handle().dispatchEvent(new PointerEvent(kind, { pointerId: 1, bubbles: true,
    clientX: plane.left + plane.width * x, clientY: plane.top + plane.height * y }));
  handle().setPointerCapture = () => {};
  touch('pointerdown', 0.8, 0.5); touch('pointermove', 0.5, 0.25); touch('pointerup', 0.5, 0.25);
  result.dragged = state.W[0].slice();
  touch('pointermove', 0.1, 0.1);
  result.released = state.W[0].slice();

  const exact = () => lossAt(flat(state.W, state.b), state.law);
  const samples = () => lossAt(state.trained.x, state.law);
  result.start = samples();
  click('settle');
  result.settled = exact();
  result.descent = [exact()];
  for (let k = 0; k < 60; k++) { descendOnce(); result.descent.push(exact()); }
  for (let k = 0; k < 400; k++) state.trained = train(state.trained, 0.01, 256, state.law);
  drawGaps(exact(), samples()); draw();
  result.trained = samples();
  click('copy');
  result.copied = exact();
  result.sampled = [1, 3].map(group => {
    change({ n: 6, p: 0.3, r: 0.8, group });
    useModel(randomModel(6));
    const batches = Array.from({ length: 100 }, () => sampledSlope(state.W, state.b, 500, state.law));
    return { exact: [exact(), ...slopeAt(flat(state.W, state.b), state.law)],
      batches: batches.map(one => [one.loss, ...flat(one.slopeOfW, one.slopeOfB)]) };
  });
  const first = train(state.trained, 0.01, 500, state.law);
  result.firstStep = first.x.map((x, k) => Math.abs(x - state.trained.x[k]));

  result.known = SETTINGS.map(setting => {
    change(setting);
    useModel(randomModel(setting.n));
    click('known');
    drawGaps(exact(), exact());
    return { lowerBound: bestKnown().lowerBound, loss: exact(), said: text('gap'), python: python(), link:
    link() };
  });
  usePreset(PRESETS[2]);
  state.trained = train(state.trained, 0.01, 10, state.law);
  const kept = link(), python3 = python();
  result.refused = Object.entries(REFUSED).flatMap(([id, inputs]) => inputs.map(input => {
    const field = id === 'biases' ? document.getElementById(id).children[0] : document.getElementById(id);
    field.value = input;
    field.onchange();
    const said = text('message').endsWith(`got “${input}”.`), marked = field.getAttribute('aria-invalid');
    draw();
    return [said, marked, link() === kept, field.getAttribute('aria-invalid')];
  }));
  result.broken = Object.entries(BROKEN).map(([old, other]) => {
    location.hash = kept.replace(old, other);
    follow();
    return [text('message'), link() === kept];
  });
  location.hash = kept;
  follow();
  result.restored = [link() === kept, python() === python3, text('message')];

} catch (error) { result.error = String(error) + error.stack; }
document.body.dataset.result = JSON.stringify(result);
</script>
"""


def law_of(p, importance, group):
    """Return the law of groups of neighbours of which at most one is on."""
    n, exclusive = len(p), sp.theory.features.exclusive
    if group == 1:
        return sp.Features(n, p, importance=importance)
    starts = range(0, n, group)
    groups = [exclusive(range(k, min(k + group, n)), p[k : k + group]) for k in starts]
    return sp.Features(n, importance=importance, groups=groups)


def law_at(setting):
    n = setting["n"]
    return law_of(np.full(n, setting["p"]), setting["r"] ** np.arange(n), setting["group"])


@pytest.fixture(scope="module")
def models():
    """Return random models: weights over decades, features that are nearly dropped, up to six features."""
    rng = np.random.default_rng(20)
    models = []
    for k in range(MODELS):
        n, group = int(rng.integers(2, 7)), k % 4 or 1
        W = rng.normal(size=(n, 2)) * (10.0 ** rng.uniform(-3, 0.3) if k % 3 else 1.0)
        if k % 5 == 0:
            W[rng.integers(n)] *= 10.0 ** rng.uniform(-6, 0)
        p, importance = 10.0 ** rng.uniform(-2, 0, n) / group, 10.0 ** rng.uniform(-1, 0, n)
        models.append((W, 0.3 * rng.normal(size=n), p, importance, group))
    return models


@pytest.fixture(scope="module")
def seen(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explorer")
    page = explore(folder / "page.html").read_text(encoding="utf-8")
    names = "W", "b", "p", "importance", "group"
    parts = [[np.asarray(part).tolist() for part in model] for model in models]
    fields = [dict(zip(names, model, strict=True)) for model in parts]
    inputs = {"CASES": fields, "SETTINGS": SETTINGS, "REFUSED": REFUSED, "BROKEN": BROKEN}
    given = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in inputs.items())
    tried = page.replace("</body>", f"<script>{given}</script>{ACTIONS}</body>")
    (folder / "tried.html").write_text(tried, encoding="utf-8")
    return result_of_page(folder / "tried.html", "--window-size=400,900", seconds=600)


def test_its_losses_are_the_engines(models, seen):
    truth = [exact_loss(W @ W.T, b, law_of(*law)).loss for W, b, *law in models]
    assert np.abs(np.array(seen["losses"]) / np.array(truth) - 1.0).max() < PROMISED
    wrong = [exact_loss(W @ W.T, b + 1e-7, law_of(*law)).loss for W, b, *law in models[:50]]
    off = np.abs(np.array(seen["losses"][:50]) / np.array(wrong) - 1.0)
    assert off.max() > PROMISED, "the test sees 1e-7 of a bias"
    np.testing.assert_allclose(seen["split"], 1.0, rtol=1e-12)  # by how many features are on


def test_nothing_is_loaded_and_a_phone_is_wide_enough(seen):
    assert seen["phone"] == [0, True]


def test_encodings_move_by_keys_and_by_dragging(seen):
    assert seen["moved"] == [1, 0.02]
    assert seen["before"] != seen["after"]
    np.testing.assert_allclose(seen["dragged"], [0.0, 0.8], atol=1e-6)
    assert seen["released"] == seen["dragged"]


def test_descent_and_samples_start_together_and_go_down(seen):
    descent = np.array(seen["descent"])
    assert np.all(np.diff(descent) <= 0.0)
    assert seen["settled"] < seen["start"]
    best = sp.best(sp.Features(5, 0.1), 2, starts=10).loss
    for end in (descent[-1], seen["trained"]):
        assert best * (1.0 - 1e-8) <= end < 0.6 * seen["start"]
    assert seen["copied"] == seen["trained"]


def test_samples_have_the_exact_loss_and_gradient(seen):
    """Means of 100 batches lie within 6 standard errors; the samples are the same in every run."""
    for law in seen["sampled"]:
        batches, exact = np.array(law["batches"]), np.array(law["exact"])
        error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
        off = np.abs(batches.mean(axis=0) - exact) / error
        assert off.max() < 6.0
        assert np.abs(batches.mean(axis=0) - 1.2 * exact).max() > 6.0 * error.min(), "a factor 1.2 is seen"
    np.testing.assert_allclose(seen["firstStep"], 0.01, rtol=1e-3)  # Adam's first step is its rate


def test_lower_bound_best_model_and_python_are_the_packages(seen):
    for setting, page in zip(SETTINGS, seen["known"], strict=True):
        least = lower_bound(setting["n"], 2, law_at(setting))
        assert least * (1.0 - 1e-6) <= page["lowerBound"] <= least * (1.0 + 1e-9)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(page["python"], "exported", "exec"), {})
        loss = float(printed.getvalue().split()[0])
        best = float(re.search(r"^loss per feature +(\S+)", printed.getvalue(), re.M)[1])  # seven digits
        assert page["loss"] <= best * (1.0 + 1e-6) + 1e-16
        said = "As good as the best known model" if best > 1e-15 else "The best known loss is 0."
        assert said in page["said"]
        assert loss == pytest.approx(page["loss"], rel=PROMISED, abs=1e-16)


def test_wrong_input_is_refused_and_changes_nothing(seen):
    # Quoted, marked, the same link, no mark any more.
    assert seen["refused"] == sum(map(len, REFUSED.values())) * [[True, "true", True, None]]
    for said, same in seen["broken"]:
        assert said.startswith("The link has a fault: ")
        assert same
    assert seen["restored"] == [True, True, ""]


def test_what_is_no_page_is_not_replaced(tmp_path):
    path = tmp_path / "notes.html"
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"`path` must be absent or a page, which is replaced; got .*html"):
        explore(path)
    assert path.read_text() == "mine"
    assert explore(tmp_path / "page.html") == explore(tmp_path / "page.html")


def test_numbers_of_tables_have_nine_digits():
    x = np.random.default_rng(0).normal(size=(4, 3)) * 10.0 ** np.arange(-6, 6).reshape(4, 3)
    arrays = {"table": x, "line": x[0], "count": np.array([[1, 2]]), "nested": [x, "word"]}
    data = json.loads(json.dumps(arrays, default=explorer._as_list))
    assert data["table"] == data["nested"][0]
    np.testing.assert_allclose(data["table"], x, rtol=5e-9)
    assert data["table"] != x.tolist()
    assert data["line"] == x[0].tolist()
    assert (data["count"], data["nested"][1]) == ([[1, 2]], "word")

"""The explorer in a real browser: its losses are the engine's, and it is used by mouse and keyboard."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import superposition as sp
from superposition.solvers.loss import exact_loss
from superposition.validate.report.explorer import explore

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor chromium-browser is installed")

MODELS = 1000
# What the page promises, of losses between 1e-6 and 10.
PROMISED = 1e-9

# Runs in the page itself, after its own script.
ACTIONS = """
<script>
const result = {};
try {
  result.losses = CASES.map(one => exactLoss(one.W, one.b, one.p, one.importance).loss);
  result.split = CASES.slice(0, 50).map(one => {
    const found = exactLoss(one.W, one.b, one.p, one.importance);
    return found.byCount.reduce((x, y) => x + y, 0) / found.loss;
  });
  result.loaded = performance.getEntriesByType('resource').length;
  result.width = [document.documentElement.clientWidth, document.documentElement.scrollWidth];
  const key = (node, name) => node.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
  const handle = () => document.querySelectorAll('.handle')[0];
  Object.assign(state, { W: [[1, 0], [-0.5, 0.8], [-0.5, -0.8], [0, 0.2], [0.1, -0.3]], b: [0, 0, 0, 0, 0] });
  draw();
  result.before = document.getElementById('loss').textContent;
  handle().focus();
  key(handle(), 'ArrowUp');
  result.moved = state.W[0].slice();
  result.after = document.getElementById('loss').textContent;
  const plane = document.getElementById('plane').getBoundingClientRect();
  const touch = (kind, x, y) => handle().dispatchEvent(new PointerEvent(kind, { pointerId: 1, bubbles: true,
    clientX: plane.left + plane.width * x, clientY: plane.top + plane.height * y }));
  handle().setPointerCapture = () => {};
  touch('pointerdown', 0.8, 0.5); touch('pointermove', 0.5, 0.25); touch('pointerup', 0.5, 0.25);
  result.dragged = state.W[0].slice();
  touch('pointermove', 0.1, 0.1);
  result.released = state.W[0].slice();
  settle(); draw();
  let x = flat(state.W, state.b), loss = exactLoss(state.W, state.b, chances(), worth()).loss, rate = 1;
  result.descent = [loss];
  for (let k = 0; k < 60; k++) { const next = descend(x, loss, rate, 5, 2, chances(), worth());
    x = next.x; loss = next.loss; rate = next.rate; result.descent.push(loss); }
  Object.assign(state, model(x, 5, 2)); draw(); drawGap(loss);
  result.gap = document.getElementById('gap').textContent;
  document.getElementById('known').click();
  drawGap(exactLoss(state.W, state.b, chances(), worth()).loss);
  const best = exactLoss(state.W, state.b, chances(), worth()).loss;
  result.known = [best, document.getElementById('gap').textContent];
  const picture = document.getElementById('diagram');
  result.cell = document.getElementById('cell').textContent;
  key(picture, 'ArrowRight');
  result.next = document.getElementById('cell').textContent;
  document.getElementById('q').value = 0; drawCurves();
  result.curves = document.querySelectorAll('#curves path[stroke]').length;
} catch (error) { result.error = String(error) + error.stack; }
document.body.dataset.result = JSON.stringify(result);
</script>
"""


def cases(count, seed):
    """Return random models: weights over decades, features that are nearly dropped, up to six features."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(count):
        n = int(rng.integers(2, 7))
        W = rng.normal(size=(n, 2)) * (10.0 ** rng.uniform(-3, 0.3) if k % 3 else 1.0)
        if k % 5 == 0:
            W[rng.integers(n)] *= 10.0 ** rng.uniform(-6, 0)
        found.append(
            (W, 0.3 * rng.normal(size=n), 10.0 ** rng.uniform(-2, 0, n), 10.0 ** rng.uniform(-1, 0, n))
        )
    return found


@pytest.fixture(scope="module")
def models():
    return cases(MODELS, 20)


@pytest.fixture(scope="module")
def seen(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explorer")
    page = explore(folder / "page.html").read_text(encoding="utf-8")
    told = [
        {"W": W.tolist(), "b": b.tolist(), "p": p.tolist(), "importance": i.tolist()} for W, b, p, i in models
    ]
    given = f"<script>const CASES = {json.dumps(told)};</script>{ACTIONS}</body>"
    (folder / "tried.html").write_text(page.replace("</body>", given), encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=400,900"]
    command += [f"--user-data-dir={folder / 'browser'}", "--dump-dom", (folder / "tried.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r'data-result="([^"]*)"', done.stdout)
    assert found, done.stdout[-500:] + done.stderr[-500:]
    result = json.loads(html.unescape(found[1]))
    assert "error" not in result, result["error"]
    return result


def test_its_losses_are_the_engines(models, seen):
    truth = [exact_loss(W @ W.T, b, sp.Features(len(W), p, importance=i)).loss for W, b, p, i in models]
    off = np.abs(np.array(seen["losses"]) / np.array(truth) - 1.0)
    assert len(truth) == MODELS
    assert off.max() < PROMISED
    few = models[:50]
    wrong = [exact_loss(W @ W.T, b + 1e-7, sp.Features(len(W), p, importance=i)).loss for W, b, p, i in few]
    assert np.abs(np.array(seen["losses"][:50]) / np.array(wrong) - 1.0).max() > PROMISED, (
        "the test sees 1e-7 of a bias"
    )


def test_the_split_by_features_that_are_on_adds_up(seen):
    np.testing.assert_allclose(seen["split"], 1.0, rtol=1e-12)


def test_nothing_is_loaded_and_a_phone_is_wide_enough(seen):
    assert seen["loaded"] == 0
    inner, needed = seen["width"]
    assert needed <= inner


def test_encodings_move_by_keys_and_by_dragging(seen):
    assert seen["moved"] == [1, 0.02]
    assert seen["before"] != seen["after"]
    np.testing.assert_allclose(seen["dragged"], [0.0, 0.8], atol=1e-6)
    assert seen["released"] == seen["dragged"]


def test_descent_goes_down_to_the_best_known_model(seen):
    descent = np.array(seen["descent"])
    assert np.all(np.diff(descent) <= 0.0)
    assert descent[-1] < 0.8 * descent[0]
    loss, said = seen["known"]
    assert said.startswith("As good as the best known model")
    best = sp.best(sp.Features(5, 0.1), 2, starts=10)
    assert loss == pytest.approx(best.loss, rel=1e-5)
    assert loss >= best.loss * (1.0 - 1e-8)
    assert "best known model" in seen["gap"]


def test_diagram_and_curves_answer(seen):
    assert seen["cell"] != seen["next"]
    assert "antipodal" in seen["cell"]
    assert seen["curves"] == 5


def test_what_is_no_page_is_not_replaced(tmp_path):
    with pytest.raises(ValueError, match=r"`path` must end in .html; got '.*notes.txt'"):
        explore(tmp_path / "notes.txt")
    path = tmp_path / "notes.html"
    path.write_text("mine")
    with pytest.raises(ValueError, match=r"`path` must be absent or a page, which is replaced; got .*html"):
        explore(path)
    assert path.read_text() == "mine"
    assert explore(tmp_path / "page.html") == explore(tmp_path / "page.html")

// The model under the pointer, beside the one that is trained with samples.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const SPACE = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);
const scale = 100; // of the plane: 100 units are length 1
const REACH = 1.55;

function svg(parent, name, attributes, text) {
  const node = document.createElementNS(SPACE, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
const shown = x => x === 0 ? "0" : Math.abs(x) < 1e-3 || Math.abs(x) >= 1e4 ? x.toExponential(3) : x.toPrecision(4);
function tell(text) { $("message").textContent = text; }

// --- Lower bound and best known model ---

// For each setting {lowerBound, x, loss, isSeen}: of the solved models of this size and grouping the best four, descended.
const known = new Map();
let search = { key: "", steps: null };
const settingKey = () => [state.n, state.p, state.r, state.group].join();
function* searchKnown(key) {
  const { law, n, group } = state, ends = [];
  const solved = n === 2 ? [{ W: [[1, 0], [0, 1]], b: [0, 0] }] : DATA.models.filter(one => one.W.length === n && one.group === group);
  const starts = solved.map(({ W, b }) => ({ W, b, loss: exactLoss(W, b, law).loss })).sort((x, y) => x.loss - y.loss).slice(0, 4);
  for (const { W, b } of starts) {
    let at = startDescent(W, b, law);
    for (let k = 0; k < 60 && !at.done; k++) { at = descend(at, law); yield; }
    ends.push(at);
  }
  const { x, loss } = ends.sort((x, y) => x.loss - y.loss)[0];
  known.set(key, { lowerBound: lowerBound(law), x, loss, isSeen: false });
}
// Search for so many milliseconds; return whether the best model of the setting is known.
function isKnown(milliseconds) {
  const key = settingKey(), end = performance.now() + milliseconds;
  if (search.key !== key) search = { key, steps: searchKnown(key) };
  while (!known.has(key) && performance.now() < end) search.steps.next();
  return known.has(key);
}
function bestKnown() {
  isKnown(Infinity);
  return known.get(settingKey());
}
const zeroLoss = () => state.p / 3 * sum(state.law.importance) / state.n;

// Return a sentence on a loss; a model that is better than the best known is kept as such.
function compare(x, loss) {
  const best = bestKnown(), zero = zeroLoss(), share = `${(100 * loss / zero).toPrecision(3)} % of answering 0. `;
  if (best.loss > 1e-12 * zero && loss < best.loss * (1 - 1e-6)) Object.assign(best, { x, loss, isSeen: true });
  const name = best.isSeen ? "best model seen here, better than the solved ones," : "best known model,";
  if (best.loss <= 1e-12 * zero) return `${share}The best known loss is 0.`;
  const above = loss / best.loss - 1;
  return share + (above > 1e-6 ? `${(100 * above).toPrecision(3)} % above the ${name} ${shown(best.loss)}. `
    : `As good as the ${name} ${shown(best.loss)}. `) +
    (best.lowerBound > 0 ? `Proved lower bound: ${shown(best.lowerBound)}.` : "No lower bound above 0 is proved.");
}

// --- Drawing ---

const course = { exact: [], samples: [] }; // pairs of the number of steps that were made, and the exact loss
function record(name, steps, loss) {
  const points = course[name];
  if (!points.length || steps > 1.02 * points.at(-1)[0]) points.push([steps, loss]);
}

function draw() {
  const { n, W, b, law, trained } = state, exact = exactLoss(W, b, law), sampled = lossAt(trained.x, law);
  drawFields();
  drawPlane($("plane"), W, true);
  drawPlane($("trained"), model(trained.x, n).W, false);
  $("loss").textContent = `loss per feature ${shown(exact.loss)}`;
  $("trained-loss").textContent = `loss per feature ${shown(sampled)}`;
  $("trained-steps").textContent = trained.steps
    ? `${trained.steps} steps; the last batch had ${shown(trained.batchLoss)}.` : "Starts where the arrows on the left stand.";
  const worth = exact.perFeature.map((x, i) => x * law.importance[i]), top = Math.max(...worth, 1e-300);
  bars($("features").tBodies[0], exact.perFeature.map((x, i) => ({
    cells: [`${i}`, shown(x)], share: worth[i] / top, colour: COLOURS[i],
  })));
  const most = Math.max(...exact.byCount, 1e-300);
  bars($("counts").tBodies[0], exact.byCount.map((x, k) => ({ cells: [`${k}`, shown(x)], share: x / most, colour: "#888888" })));
  drawGram();
  record("exact", descent.steps, exact.loss);
  record("samples", trained.steps, sampled);
  clearTimeout(draw.again);
  if (isKnown(12)) drawGaps(exact.loss, sampled);
  else {
    $("gap").textContent = $("trained-gap").textContent = "The best known model is looked up …";
    draw.again = setTimeout(draw, 0);
  }
  drawCourse();
  clearTimeout(draw.later);
  draw.later = setTimeout(() => {
    $("python").textContent = python();
    history.replaceState(null, "", link());
  }, 150);
}
function drawGaps(loss, sampled) {
  $("gap").textContent = compare(flat(state.W, state.b), loss);
  $("trained-gap").textContent = compare(state.trained.x, sampled);
}

function drawFields() {
  const show = (field, value) => {
    if (document.activeElement === field && field.getAttribute("aria-invalid") !== "true") return; // it is being typed in
    field.value = value;
    field.removeAttribute("aria-invalid");
  };
  $("n-out").textContent = $("n").value = state.n;
  $("p-slider").value = Math.log10(state.p);
  $("r-slider").value = state.r;
  for (const name of ["p", "r", "rate", "batch"]) show($(name), String(state[name]));
  const sizes = groupSizes(state.n), names = { 1: "independent", 2: "pairs that exclude", 3: "triples that exclude" };
  if ($("group").dataset.n !== String(state.n)) {
    $("group").dataset.n = state.n;
    $("group").replaceChildren(...sizes.map(size => new Option(size > 1 && size === state.n ? "all exclude each other" : names[size], size)));
  }
  if ($("biases").children.length !== state.n) {
    $("biases").replaceChildren(...state.b.map((_, i) => {
      const field = document.createElement("input");
      Object.assign(field, { type: "text", inputMode: "decimal", ariaLabel: `bias of feature ${i}` });
      field.style.borderColor = COLOURS[i];
      take(field, "bias", value => { state.b[i] = value; restart(); });
      return field;
    }));
  }
  $("group").value = state.group;
  state.b.forEach((bias, i) => show($("biases").children[i], shown(bias)));
}

function bars(body, rows) {
  body.replaceChildren(...rows.map(row => {
    const line = document.createElement("tr");
    for (const cell of row.cells) line.appendChild(document.createElement("td")).textContent = cell;
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${100 * row.share}%`;
    bar.style.background = row.colour;
    const holder = line.appendChild(document.createElement("td"));
    holder.className = "bars";
    holder.appendChild(bar);
    return line;
  }));
}

function drawGram() {
  const rows = gram(state.W), top = Math.max(...rows.flat().map(Math.abs), 1e-12);
  $("gram").tBodies[0].replaceChildren(...rows.map(row => {
    const line = document.createElement("tr");
    for (const x of row) {
      const cell = line.appendChild(document.createElement("td"));
      const share = Math.round(100 * Math.abs(x) / top);
      cell.textContent = (Number(x.toFixed(2)) || 0).toFixed(2); // no -0.00
      cell.style.background = `color-mix(in srgb, ${x < 0 ? "#f0a070" : "#7ab8e0"} ${share}%, #ffffff)`;
    }
    return line;
  }));
}

function drawPlane(plane, W, isFree) {
  if (plane.children.length !== W.length + 1) {
    plane.replaceChildren();
    const axes = svg(plane, "g", {});
    svg(axes, "circle", { class: "axis", r: scale });
    svg(axes, "path", { class: "axis", d: "M-155 0H155M0 -155V155" });
    W.forEach((_, i) => {
      const asHandle = { class: "handle", tabindex: 0, role: "slider", "aria-label": `feature ${i}` };
      const arrow = svg(plane, "g", isFree ? asHandle : {});
      svg(arrow, "line", { x1: 0, y1: 0, stroke: COLOURS[i], "stroke-width": 4, "stroke-linecap": "round" });
      svg(arrow, "circle", { r: isFree ? 9 : 5, fill: COLOURS[i] });
      svg(arrow, "text", { "text-anchor": "middle", "dominant-baseline": "middle" }, i);
      if (!isFree) return;
      arrow.addEventListener("pointerdown", event => grab(event, i, arrow));
      arrow.addEventListener("keydown", event => nudge(event, i));
    });
  }
  W.forEach(([u, v], i) => {
    const arrow = plane.children[i + 1], [line, dot, text] = arrow.children, x = scale * u, y = -scale * v;
    line.setAttribute("x2", x); line.setAttribute("y2", y);
    dot.setAttribute("cx", x); dot.setAttribute("cy", y);
    const length = Math.hypot(x, y) || 1;
    text.setAttribute("x", x + 18 * x / length); text.setAttribute("y", y + 18 * y / length);
    arrow.setAttribute("aria-valuetext", `${u.toFixed(2)}, ${v.toFixed(2)}`);
  });
}

// --- Runs ---

const descent = { at: null, steps: 0, isRunning: false }, training = { isRunning: false };
function descendOnce() {
  descent.at = descend(descent.at || startDescent(state.W, state.b, state.law), state.law);
  descent.steps += !descent.at.done;
  Object.assign(state, model(descent.at.x, state.n));
  if (descent.at.done) descent.isRunning = false;
}
function trainOnce() { state.trained = train(state.trained, state.rate, state.batch, state.law); }
function frame() {
  if (descent.isRunning) descendOnce();
  const end = performance.now() + 12;
  while (training.isRunning && performance.now() < end) trainOnce();
  draw();
  drawButtons();
  if (descent.isRunning || training.isRunning) requestAnimationFrame(frame);
}
function drawButtons() {
  $("go").textContent = descent.isRunning ? "Stop" : "Descend";
  $("train").textContent = training.isRunning ? "Stop" : "Train with samples";
}
function toggle(...runs) {
  const wasRunning = descent.isRunning || training.isRunning, isRunning = !runs.some(run => run.isRunning);
  for (const run of runs) run.isRunning = isRunning;
  drawButtons();
  if (isRunning && !wasRunning) requestAnimationFrame(frame);
}
// Begin anew with the model on the left: where an arrow was moved, both start there.
function restart(trained = flat(state.W, state.b)) {
  descent.isRunning = training.isRunning = false;
  Object.assign(descent, { at: null, steps: 0 });
  state.trained = startTraining(...Object.values(model(trained, state.n)));
  course.exact = []; course.samples = [];
  drawButtons();
  draw();
}

// --- Input ---

const clip = x => Math.max(-REACH, Math.min(REACH, x));
function grab(event, i, handle) {
  event.preventDefault();
  handle.focus();
  handle.setPointerCapture(event.pointerId);
  const move = one => {
    const box = $("plane").getBoundingClientRect(), unit = 320 / box.width / scale;
    state.W[i] = [clip((one.clientX - box.left - box.width / 2) * unit), clip(-(one.clientY - box.top - box.height / 2) * unit)];
    restart();
  };
  handle.addEventListener("pointermove", move);
  handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
}
function nudge(event, i) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  if (!steps) return;
  event.preventDefault();
  const size = event.shiftKey ? 0.1 : 0.02;
  state.W[i] = state.W[i].map((x, k) => clip(x + size * steps[k]));
  restart();
}

function settle() { // the best bias of each output by itself, by golden section
  const { law, W } = state, g = (Math.sqrt(5) - 1) / 2;
  state.b = gram(W).map((row, i) => {
    const at = b => sum(outputLosses(row, i, b, law));
    let grid = Array.from({ length: 41 }, (_, k) => -2 + 0.075 * k), best = 0;
    grid.forEach((b, k) => { if (at(b) < at(grid[best])) best = k; });
    let low = grid[best] - 0.075, high = grid[best] + 0.075;
    for (let k = 0; k < 40; k++) {
      const left = high - g * (high - low), right = low + g * (high - low);
      if (at(left) < at(right)) high = right; else low = left;
    }
    return (low + high) / 2;
  });
}

// Do what may be refused: the page then says why, and stays as it was.
function attempt(action, field) {
  try { tell(""); action(); } catch (error) {
    tell(error.message);
    if (field) field.setAttribute("aria-invalid", "true"); else if (state.trained) drawFields();
  }
}
function take(field, name, apply) {
  field.onchange = () => attempt(() => {
    const value = parseNumber(name, field.value);
    field.removeAttribute("aria-invalid");
    apply(value);
  }, field);
}
const applySetting = setting => { change(setting); restart(); };

function useModel({ W, b }) { Object.assign(state, { W, b }); restart(); }
function usePreset({ setting, start }) { change(setting); useModel(start()); }
function copyText(text) {
  const refused = () => tell("The browser does not let this page copy; select the text, or take it from the address bar.");
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => tell("Copied."), refused); else refused();
}

$("presets").replaceChildren(...PRESETS.map(preset => {
  const button = document.createElement("button");
  button.textContent = preset.label;
  button.onclick = () => attempt(() => usePreset(preset));
  return button;
}));
$("go").onclick = () => toggle(descent);
$("train").onclick = () => toggle(training);
$("both").onclick = () => toggle(descent, training);
$("copy").onclick = () => useModel(model(state.trained.x, state.n));
$("settle").onclick = () => { settle(); restart(); };
$("start").onclick = () => useModel(randomModel(state.n));
$("known").onclick = () => useModel(model(bestKnown().x, state.n));
$("n").oninput = event => attempt(() => {
  const n = +event.target.value;
  change({ n, group: groupSizes(n).includes(state.group) ? state.group : 1 });
  useModel(randomModel(n));
});
$("p-slider").oninput = event => attempt(() => applySetting({ p: +(10 ** +event.target.value).toPrecision(3) }));
$("r-slider").oninput = event => attempt(() => applySetting({ r: +event.target.value }));
$("group").onchange = event => attempt(() => applySetting({ group: +event.target.value }));
for (const name of ["p", "r"]) take($(name), name, value => applySetting({ [name]: value }));
for (const name of ["rate", "batch"]) take($(name), name, value => change({ [name]: value }));
$("copy-link").onclick = () => copyText(location.href.split("#")[0] + link());
$("copy-python").onclick = () => copyText(python());
function follow() {
  if (location.hash.length > 1) attempt(() => {
    let trained;
    try { trained = restore(location.hash); } catch (error) { throw new Error(`The link has a fault: ${error.message}`); }
    restart(trained);
  });
  if (!state.trained) usePreset(PRESETS[0]);
}
window.onhashchange = follow;

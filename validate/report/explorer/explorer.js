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

// --- The model ---

const state = { W: [], b: [], n: 5, p: 0.1, r: 1, running: false, rate: 1 };
const chances = () => new Array(state.n).fill(state.p);
const worth = () => Array.from({ length: state.n }, (_, i) => state.r ** i);

function random(n) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  state.W = Array.from({ length: n }, () => [0.5 * normal(), 0.5 * normal()]);
  state.b = new Array(n).fill(0);
  state.rate = 1;
}

// The atlas' best model of this size whose p is nearest, descended to this p and these importances.
const memory = new Map();
function bestKnown() {
  const key = [state.n, state.p, state.r].join();
  if (memory.has(key)) return memory.get(key);
  const p = chances(), I = worth(), m = 2;
  let best = null;
  for (const one of DATA.models) {
    if (one.W.length !== state.n) continue;
    const x = flat(one.W, one.b), loss = exactLoss(one.W, one.b, p, I).loss;
    if (best === null || loss < best.loss) best = { x, loss, rate: 1 };
  }
  for (let k = 0; k < 60 && best; k++) {
    const next = descend(best.x, best.loss, best.rate, state.n, m, p, I);
    if (next.norm === 0) break;
    best = next;
  }
  if (memory.size > 200) memory.clear();
  memory.set(key, best);
  return best;
}

function draw() {
  const n = state.n, found = exactLoss(state.W, state.b, chances(), worth());
  $("n-out").textContent = n;
  $("p-out").textContent = shown(state.p);
  $("r-out").textContent = state.r.toFixed(2);
  $("loss").textContent = `loss per feature ${shown(found.loss)}`;
  drawPlane();
  const zero = state.p / 3;
  const top = Math.max(...found.perFeature.map((x, i) => x * worth()[i]), 1e-300);
  bars($("features").tBodies[0], found.perFeature.map((x, i) => ({
    cells: [`${i}`, shown(state.b[i]), shown(x)], share: x * worth()[i] / top, colour: COLOURS[i],
  })));
  const most = Math.max(...found.byCount, 1e-300);
  bars($("counts").tBodies[0], found.byCount.map((x, k) => ({
    cells: [`${k}`, shown(x)], share: x / most, colour: "#888888",
  })));
  drawGram();
  $("gap").dataset.stale = "1";
  $("gap").textContent = `${(100 * found.loss / (zero * worth().reduce((a, c) => a + c, 0) / n)).toPrecision(3)} % of ` +
    "answering 0. The best known model is looked up …";
  clearTimeout(draw.later);
  draw.later = setTimeout(drawGap, state.running ? 800 : 60, found.loss);
}

function drawGap(loss) {
  const best = bestKnown();
  if (!best) { $("gap").textContent = "Two features fit into two neurons: the best loss is 0."; return; }
  const above = loss / best.loss - 1;
  $("gap").textContent = above > 1e-6 ? `${(100 * above).toPrecision(3)} % above the best known model, ${shown(best.loss)}.`
    : `As good as the best known model, ${shown(best.loss)}.`;
  delete $("gap").dataset.stale;
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
  const rows = state.W.map(one => state.W.map(other => one[0] * other[0] + one[1] * other[1]));
  const top = Math.max(...rows.flat().map(Math.abs), 1e-12);
  $("gram").tBodies[0].replaceChildren(...rows.map(row => {
    const line = document.createElement("tr");
    for (const x of row) {
      const cell = line.appendChild(document.createElement("td"));
      const share = Math.round(100 * Math.abs(x) / top);
      cell.textContent = x.toFixed(2);
      cell.style.background = `color-mix(in srgb, ${x < 0 ? "#f0a070" : "#7ab8e0"} ${share}%, #ffffff)`;
    }
    return line;
  }));
}

function drawPlane() {
  const plane = $("plane");
  if (plane.children.length !== state.n + 1) {
    plane.replaceChildren();
    const axes = svg(plane, "g", {});
    svg(axes, "circle", { class: "axis", r: scale });
    svg(axes, "path", { class: "axis", d: "M-155 0H155M0 -155V155" });
    for (let i = 0; i < state.n; i++) {
      const handle = svg(plane, "g", { class: "handle", tabindex: 0, role: "slider", "aria-label": `feature ${i}` });
      svg(handle, "line", { x1: 0, y1: 0, stroke: COLOURS[i], "stroke-width": 4, "stroke-linecap": "round" });
      svg(handle, "circle", { r: 9, fill: COLOURS[i] });
      svg(handle, "text", { "text-anchor": "middle", "dominant-baseline": "middle" }, i);
      handle.addEventListener("pointerdown", event => grab(event, i, handle));
      handle.addEventListener("keydown", event => nudge(event, i));
    }
  }
  state.W.forEach(([u, v], i) => {
    const handle = plane.children[i + 1], [line, dot, text] = handle.children, x = scale * u, y = -scale * v;
    line.setAttribute("x2", x); line.setAttribute("y2", y);
    dot.setAttribute("cx", x); dot.setAttribute("cy", y);
    const length = Math.hypot(x, y) || 1;
    text.setAttribute("x", x + 18 * x / length); text.setAttribute("y", y + 18 * y / length);
    handle.setAttribute("aria-valuetext", `${u.toFixed(2)}, ${v.toFixed(2)}`);
  });
}

const clip = x => Math.max(-REACH, Math.min(REACH, x));
function grab(event, i, handle) {
  event.preventDefault();
  stop();
  handle.focus();
  handle.setPointerCapture(event.pointerId);
  const move = one => {
    const box = $("plane").getBoundingClientRect(), unit = 320 / box.width / scale;
    state.W[i] = [clip((one.clientX - box.left - box.width / 2) * unit), clip(-(one.clientY - box.top - box.height / 2) * unit)];
    draw();
  };
  handle.addEventListener("pointermove", move);
  handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
}
function nudge(event, i) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  if (!steps) return;
  event.preventDefault();
  stop();
  const size = event.shiftKey ? 0.1 : 0.02;
  state.W[i] = state.W[i].map((x, k) => clip(x + size * steps[k]));
  draw();
}

function stop() { state.running = false; $("go").textContent = "Descend"; }
function run() {
  if (!state.running) return;
  const p = chances(), I = worth(), from = performance.now();
  let x = flat(state.W, state.b), loss = exactLoss(state.W, state.b, p, I).loss;
  do {
    const next = descend(x, loss, state.rate, state.n, 2, p, I);
    state.rate = next.rate; x = next.x; loss = next.loss;
    if (next.norm < 1e-9) { stop(); break; }
  } while (performance.now() - from < 30);
  Object.assign(state, model(x, state.n, 2));
  draw();
  requestAnimationFrame(run);
}

function settle() { // the best bias of each output by itself, by golden section
  const p = chances(), g = (Math.sqrt(5) - 1) / 2;
  state.b = state.b.map((_, i) => {
    const row = state.W.map(one => one[0] * state.W[i][0] + one[1] * state.W[i][1]);
    const at = b => outputLosses(row, i, b, p).reduce((x, y) => x + y, 0);
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

$("go").onclick = () => {
  state.running = !state.running;
  $("go").textContent = state.running ? "Stop" : "Descend";
  state.rate = Math.max(state.rate, 1e-3);
  run();
};
$("biases").onclick = () => { stop(); settle(); draw(); };
$("start").onclick = () => { stop(); random(state.n); draw(); };
$("known").onclick = () => {
  stop();
  const best = bestKnown();
  if (best) Object.assign(state, model(best.x, state.n, 2));
  else Object.assign(state, { W: [[1, 0], [0, 1]], b: [0, 0] });
  draw();
};
$("n").oninput = event => { stop(); state.n = +event.target.value; random(state.n); draw(); };
$("p").oninput = event => { state.p = 10 ** +event.target.value; draw(); };
$("r").oninput = event => { state.r = +event.target.value; draw(); };

// --- The phase diagram ---

const PHASE_COLOURS = ["#7fb6d9", "#dfb3c9", "#80c9ab", "#f0cf80"];
const LEFT = 78, RIGHT = 630, TOP = 15, BOTTOM = 305;

function axes(target, title, ticksX, ticksY) {
  for (const [at, text] of ticksX) svg(target, "text", { x: at, y: BOTTOM + 20, "text-anchor": "middle" }, text);
  for (const [at, text] of ticksY) svg(target, "text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, text);
  svg(target, "text", { x: (LEFT + RIGHT) / 2, y: 350, "text-anchor": "middle" }, title[0]);
  svg(target, "text", { x: 18, y: (TOP + BOTTOM) / 2, "text-anchor": "middle",
    transform: `rotate(-90 18 ${(TOP + BOTTOM) / 2})` }, title[1]);
}

const diagram = DATA.diagram, cell = { i: 0, j: 0 };
function drawDiagram() {
  const target = $("diagram"), nx = diagram.sparsity.length, ny = diagram.importance.length;
  const w = (RIGHT - LEFT) / nx, h = (BOTTOM - TOP) / ny;
  for (let i = 0; i < nx; i++) for (let j = 0; j < ny; j++) svg(target, "rect", {
    x: LEFT + i * w, y: BOTTOM - (j + 1) * h, width: w + 0.4, height: h + 0.4, fill: PHASE_COLOURS[diagram.phase[i][j]],
  });
  diagram.phases.forEach((name, k) => {
    const places = [];
    diagram.phase.forEach((column, i) => column.forEach((one, j) => { if (one === k) places.push([i, j]); }));
    if (!places.length) return;
    const [x, y] = [0, 1].map(d => places.reduce((sum, one) => sum + one[d], 0) / places.length);
    const label = { x: LEFT + (x + 0.5) * w, y: BOTTOM - (y + 0.5) * h, "text-anchor": "middle", style: "fill: #1c2024" };
    svg(target, "text", label, name);
  });
  const tick = (k, list, text) => [list === 0 ? LEFT + (k + 0.5) * w : BOTTOM - (k + 0.5) * h, text];
  const few = list => [0, Math.floor(list.length / 4), Math.floor(list.length / 2), Math.floor(3 * list.length / 4),
    list.length - 1];
  axes(target, ["sparsity S = 1 − p", "relative importance"],
    few(diagram.sparsity).map(k => tick(k, 0, diagram.sparsity[k].toFixed(2))),
    few(diagram.importance).map(k => tick(k, 1, String(+diagram.importance[k].toPrecision(2)))));
  const mark = svg(target, "rect", { width: w, height: h, fill: "none", stroke: "#000", "stroke-width": 2 });
  const show = (i, j) => {
    cell.i = Math.max(0, Math.min(nx - 1, i)); cell.j = Math.max(0, Math.min(ny - 1, j));
    mark.setAttribute("x", LEFT + cell.i * w); mark.setAttribute("y", BOTTOM - (cell.j + 1) * h);
    const W = diagram.W[cell.i][cell.j], b = diagram.b[cell.i][cell.j];
    $("cell").textContent = `S = ${diagram.sparsity[cell.i].toFixed(3)}, importance ${shown(diagram.importance[cell.j])}: ` +
      `${diagram.phases[diagram.phase[cell.i][cell.j]]}; encodings ${W.map(shown).join(" and ")}, biases ` +
      `${b.map(shown).join(" and ")}, loss ${shown(diagram.loss[cell.i][cell.j])}.`;
  };
  target.onpointermove = event => {
    const box = target.getBoundingClientRect();
    const x = (event.clientX - box.left) * 640 / box.width, y = (event.clientY - box.top) * 360 / box.height;
    if (x >= LEFT && x <= RIGHT && y >= TOP && y <= BOTTOM) show(Math.floor((x - LEFT) / w), Math.floor((BOTTOM - y) / h));
  };
  target.onpointerdown = target.onpointermove;
  target.onkeydown = event => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (step) { event.preventDefault(); show(cell.i + step[0], cell.j + step[1]); }
  };
  show(Math.floor(nx / 2), Math.floor(ny / 2));
}

// --- Loss against the ratio ---

const CURVES = [["lower_bound", "proved floor", "#888888"], ["free", "best known code, free decoder", "#D55E00"],
  ["tied", "best known code, tied", "#009E73"], ["rug", "random-code limit", "#0072B2"], ["linear", "best without ReLU", "#CC79A7"]];
function drawCurves() {
  const target = $("curves"), k = +$("q").value, widths = DATA.widths;
  $("q-out").textContent = shown(widths.p[k]);
  target.replaceChildren();
  const all = CURVES.flatMap(([name]) => widths[name][k]).filter(x => x > 1e-12);
  const low = Math.floor(Math.log10(Math.min(...all))), high = Math.ceil(Math.log10(Math.max(...all)));
  const x = r => LEFT + (RIGHT - LEFT) * r, y = loss => BOTTOM - (BOTTOM - TOP) * (Math.log10(loss) - low) / (high - low);
  const decades = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  for (const one of decades) svg(target, "path", { class: "axis", d: `M${LEFT} ${y(10 ** one)}H${RIGHT}` });
  for (const [name, , colour] of CURVES) {
    const points = widths.ratio.map((r, i) => [r, widths[name][k][i]]).filter(([, loss]) => loss > 1e-12);
    svg(target, "path", { d: points.map(([r, loss], i) => `${i ? "L" : "M"}${x(r).toFixed(1)} ${y(loss).toFixed(1)}`).join(""),
      fill: "none", stroke: colour, "stroke-width": name === "lower_bound" ? 4 : 2.5 });
  }
  axes(target, ["hidden neurons / features", "loss per feature"], [0, 0.25, 0.5, 0.75, 1].map(r => [x(r), r]),
    decades.map(one => [y(10 ** one), `1e${one}`]));
}
$("curve-key").replaceChildren(...CURVES.map(([, label, colour]) => {
  const line = document.createElement("li"), dash = document.createElement("i");
  dash.style.color = colour;
  line.append(dash, label);
  return line;
}));
$("q").max = DATA.widths.p.length - 1;
$("q").value = Math.floor(DATA.widths.p.length / 2);
$("q").oninput = drawCurves;

random(state.n);
draw();
drawDiagram();
drawCurves();

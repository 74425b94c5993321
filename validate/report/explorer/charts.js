// The phase diagram of two features on one neuron, and losses against steps, and against the number of neurons.

// --- The phase diagram ---

const PHASE_COLOURS = ["#7fb6d9", "#dfb3c9", "#80c9ab", "#f0cf80"];
const LEFT = 78, RIGHT = 612, TOP = 15, BOTTOM = 305;

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

// --- Losses, on a logarithmic axis ---

// Draw `series`, {points, colour, width} with points in units of the horizontal axis, which is [0, 1] wide.
function drawLosses(target, series, title, ticksX) {
  target.replaceChildren();
  const all = series.flatMap(({ points }) => points.map(([, loss]) => loss)).filter(loss => loss > 1e-12);
  const low = Math.floor(Math.log10(Math.min(...all))), high = Math.max(Math.ceil(Math.log10(Math.max(...all))), low + 1);
  const x = r => LEFT + (RIGHT - LEFT) * r, y = loss => BOTTOM - (BOTTOM - TOP) * (Math.log10(loss) - low) / (high - low);
  const decades = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  for (const one of decades) svg(target, "path", { class: "axis", d: `M${LEFT} ${y(10 ** one)}H${RIGHT}` });
  for (const { points, colour, width } of series) {
    const d = points.filter(([, loss]) => loss > 1e-12).map(([r, loss], i) => `${i ? "L" : "M"}${x(r).toFixed(1)} ${y(loss).toFixed(1)}`);
    svg(target, "path", { d: d.join(""), fill: "none", stroke: colour, "stroke-width": width });
  }
  axes(target, [title, "loss per feature"], ticksX.map(([r, text]) => [x(r), text]), decades.map(one => [y(10 ** one), `1e${one}`]));
}
function drawKey(target, entries) {
  target.replaceChildren(...entries.map(([, label, colour]) => {
    const line = document.createElement("li"), dash = document.createElement("i");
    dash.style.color = colour;
    line.append(dash, label);
    return line;
  }));
}

const COURSES = [["exact", "descent on the exact loss", "#0072B2"], ["samples", "training with samples", "#D55E00"],
  ["best", "best known model", "#009E73"], ["lowerBound", "lower bound", "#888888"]];
function drawCourse() {
  const most = Math.max(...Object.values(course).map(points => points.at(-1)[0])), decades = Math.max(Math.ceil(Math.log10(most + 1)), 1);
  const at = steps => Math.log10(steps + 1) / decades, best = known.get(settingKey()), level = loss => [[0, loss], [1, loss]];
  const points = {
    ...Object.fromEntries(Object.entries(course).map(([name, pairs]) => [name, pairs.map(([steps, loss]) => [at(steps), loss])])),
    ...best && { best: level(best.loss), lowerBound: level(best.lowerBound) },
  };
  drawLosses($("course"), COURSES.toReversed().filter(([name]) => points[name]).map(([name, , colour]) =>
    ({ points: points[name], colour, width: points[name] === points.lowerBound ? 4 : 2.5 })), "steps + 1",
    Array.from({ length: decades + 1 }, (_, k) => [k / decades, k < 4 ? 10 ** k : `1e${k}`]));
}
drawKey($("course-key"), COURSES);

const CURVES = [["lower_bound", "lower bound", "#888888"], ["free", "best known code, free decoder", "#D55E00"],
  ["tied", "best known code, tied", "#009E73"], ["rug", "random-code limit", "#0072B2"], ["linear", "best without ReLU", "#CC79A7"]];
function drawCurves() {
  const k = +$("q").value, widths = DATA.widths;
  $("q-out").textContent = shown(widths.p[k]);
  drawLosses($("curves"), CURVES.map(([name, , colour]) => ({
    points: widths.ratio.map((r, i) => [r, widths[name][k][i]]), colour, width: name === "lower_bound" ? 4 : 2.5,
  })), "hidden neurons / features", [0, 0.25, 0.5, 0.75, 1].map(r => [r, r]));
}
drawKey($("curve-key"), CURVES);
$("q").max = DATA.widths.p.length - 1;
$("q").value = Math.floor(DATA.widths.p.length / 2);
$("q").oninput = drawCurves;

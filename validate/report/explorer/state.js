// What the page shows: the setting, the model and the one trained with samples; as fields, a link, and Python.

const FIELDS = {
  n: { label: "features", low: 2, high: 6, whole: true },
  p: { label: "p", low: 0.001, high: 1 },
  r: { label: "r", low: 0.1, high: 1 },
  group: { label: "the size of a group", low: 1, high: 6, whole: true },
  rate: { label: "the learning rate", low: 1e-6, high: 0.1 },
  batch: { label: "the batch size", low: 1, high: 16384, whole: true },
  weight: { label: "a weight", low: -1000, high: 1000 },
  bias: { label: "a bias", low: -1000, high: 1000 },
};
const SETTING = ["n", "p", "r", "group", "rate", "batch"];
const state = { n: 5, p: 0.1, r: 1, group: 1, rate: 0.001, batch: 1024, W: [], b: [], law: null, trained: null };

function parseNumber(field, text) {
  const { label, low, high, whole } = FIELDS[field], value = text.trim() === "" ? NaN : Number(text);
  if (!(value >= low && value <= high) || whole && !Number.isInteger(value)) {
    throw new Error(`${label} must be ${whole ? "an integer" : "a number"} from ${low} to ${high}; got “${text}”.`);
  }
  return value;
}
// Sizes of the groups that can be chosen: independent features, pairs, triples, all in one.
const groupSizes = n => [...new Set([1, 2, 3, n])].filter(size => size <= n);

// Change the setting; throws an Error, and changes nothing, if it is impossible.
function change(setting) {
  const { n, p, r, group } = { ...state, ...setting };
  if (!groupSizes(n).includes(group)) throw new Error(`the size of a group must be ${groupSizes(n).join(", ")}; got ${group}.`);
  if (p * group > 1 + 1e-12) {
    throw new Error(`p must be at most 1/${group} where at most one of ${group} features is on; got ${p}.`);
  }
  Object.assign(state, setting, { law: makeLaw(new Array(n).fill(p), Array.from({ length: n }, (_, i) => r ** i), group) });
}

function randomModel(n) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return { W: Array.from({ length: n }, () => [0.5 * normal(), 0.5 * normal()]), b: new Array(n).fill(0) };
}
function pentagon() {
  const W = Array.from({ length: 5 }, (_, i) => [Math.sin(0.4 * Math.PI * i), Math.cos(0.4 * Math.PI * i)]);
  return model(descendFor(startDescent(W, new Array(5).fill(-0.3), state.law), 60, state.law).x, 5);
}
const PRESETS = [
  { label: "Elhage et al.: 5 features in 2", setting: { n: 5, p: 0.1, r: 0.9, group: 1 }, start: () => randomModel(5) },
  { label: "Regular pentagon", setting: { n: 5, p: 0.01, r: 1, group: 1 }, start: pentagon },
  { label: "Two exclusive triples", setting: { n: 6, p: 0.1, r: 1, group: 3 }, start: () => randomModel(6) },
  { label: "Importance decays", setting: { n: 6, p: 0.2, r: 0.6, group: 1 }, start: () => randomModel(6) },
];

// --- Link and Python ---

function link() {
  const numbers = { W: state.W.flat(), b: state.b, trained: state.trained.x };
  return "#" + [...SETTING.map(name => `${name}=${state[name]}`), ...Object.entries(numbers).map(([name, list]) =>
    `${name}=${list.join()}`)].join("&");
}
// Take the state of a link, and return the trained model; throws an Error, and changes nothing, if it is no such link.
function restore(hash) {
  const parts = new URLSearchParams(hash.slice(1)), text = name => parts.get(name) ?? "";
  const setting = Object.fromEntries(SETTING.map(name => [name, parseNumber(name, text(name))])), { n } = setting;
  const numbers = (name, counts) => {
    const list = text(name).split(","), count = sum(counts);
    if (list.length !== count) throw new Error(`${name} must be ${count} numbers; got ${list.length}.`);
    return list.map((entry, k) => parseNumber(k < counts[0] ? "weight" : "bias", entry));
  };
  const W = numbers("W", [2 * n]), b = numbers("b", [0, n]), trained = numbers("trained", [2 * n, n]);
  change(setting);
  Object.assign(state, model([...W, ...b], n));
  return trained;
}

function python() {
  const { n, p, r, group, W, b } = state, importance = `importance=${r} ** np.arange(${n})`;
  const law = group === 1 ? `p=${p}, ${importance}` : `${importance}, groups=[
    sp.theory.features.exclusive(range(k, min(k + ${group}, ${n})), ${p}) for k in range(0, ${n}, ${group})
]`;
  return `import numpy as np
import superposition as sp

W = np.array([  # one row a feature
${W.map(row => `    [${row.join(", ")}],\n`).join("")}])
b = np.array([${b.join(", ")}])
law = sp.Features(${n}, ${law})
print(sp.loss(sp.Model(W.T, b=b), law).loss)  # the page has ${exactLoss(W, b, state.law).loss}
print(sp.best(law, 2))
`;
}

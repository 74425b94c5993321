"use strict";
// The exact loss of ReLU(W W' x + b) for a few features that are uniform on [0, 1] when they are on, and its descent.
//
// For each pattern of features that are on, the expectation of a power of the ReLU over a cube is a sum over the
// cube's corners of truncated powers, divided by the product of the weights. That sum cancels where weights are
// small, so it is taken with two doubles a number (some 32 digits). Features whose weight is below SMALL take the two
// values of Gauss's rule, which is exact up to cubes.

const SMALL = 3e-5, NODES = [0.5 - Math.sqrt(1 / 12), 0.5 + Math.sqrt(1 / 12)];
const FACTORIAL = [1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800];

// --- Numbers of two doubles: [head, tail] (Dekker 1971; Knuth's two-sum) ---

function add(a, b) {
  const s = a[0] + b[0], v = s - a[0];
  const t = (a[0] - (s - v)) + (b[0] - v) + a[1] + b[1];
  const head = s + t;
  return [head, t - (head - s)];
}
function multiply(a, b) {
  const p = a[0] * b[0], k = 134217729;
  const ax = k * a[0], ah = ax - (ax - a[0]), al = a[0] - ah;
  const bx = k * b[0], bh = bx - (bx - b[0]), bl = b[0] - bh;
  const t = ((ah * bh - p) + ah * bl + al * bh) + al * bl + a[0] * b[1] + a[1] * b[0];
  const head = p + t;
  return [head, t - (head - p)];
}
function power(a, n) {
  if (a[0] === 0) return a;
  let found = [1, 0];
  for (let k = 0; k < n; k++) found = multiply(found, a);
  return found;
}
function quotient(a, b) {
  const first = a[0] / b[0];
  const rest = add(a, multiply([-first, 0], b));
  return first + rest[0] / b[0];
}

// --- One output ---

// Return E (x - ReLU(a x + b + sum w_j x_j))^2 with x on or off, for one pattern: the others that are on have the
// weights w. Two numbers: its feature off, its feature on.
function pattern(a, b, w) {
  const small = w.findIndex(weight => Math.abs(weight) < SMALL);
  if (small >= 0) {
    const [low, high] = NODES.map(x => pattern(a, b + x * w[small], w.toSpliced(small, 1)));
    return low.map((loss, k) => 0.5 * (loss + high[k]));
  }
  const k = w.length, corners = 2 ** k, own = Math.abs(a) >= SMALL;
  let scale = [1, 0];
  for (const one of w) scale = multiply(scale, [one, 0]);
  let square = [0, 0], product = [0, 0], squareOn = [0, 0];
  for (let corner = 0; corner < corners; corner++) {
    let s = [b, 0], sign = 1;
    for (let j = 0; j < k; j++) if (corner >> j & 1) s = add(s, [w[j], 0]); else sign = -sign;
    const signed = [sign, 0];
    const low = s[0] > 0 ? s : [0, 0], lowPower = power(low, k + 2);
    square = add(square, multiply(signed, lowPower));
    if (own) {
      const end = add(s, [a, 0]), high = end[0] > 0 ? end : [0, 0], highPower = power(high, k + 2);
      const rise = add(multiply(highPower, high), multiply([-1, 0], multiply(lowPower, low)));
      squareOn = add(squareOn, multiply(signed, rise));
      // x f(a x + s) integrated by parts, times a^2 (k + 3)!
      const parts = add(multiply(multiply([a, 0], [k + 3, 0]), highPower), multiply([-1, 0], rise));
      product = add(product, multiply(signed, parts));
    } else {
      for (const x of NODES) {
        const end = add(s, [x * a, 0]), high = end[0] > 0 ? end : [0, 0];
        squareOn = add(squareOn, multiply([0.5 * sign, 0], power(high, k + 2)));
        product = add(product, multiply([0.5 * sign * x, 0], power(high, k + 1)));
      }
    }
  }
  const off = 2 * quotient(square, multiply(scale, [FACTORIAL[k + 2], 0]));
  let first, second;
  if (own) {
    second = 2 * quotient(squareOn, multiply(multiply(scale, [FACTORIAL[k + 3], 0]), [a, 0]));
    first = quotient(product, multiply(multiply(multiply(scale, [FACTORIAL[k + 3], 0]), [a, 0]), [a, 0]));
  } else {
    second = 2 * quotient(squareOn, multiply(scale, [FACTORIAL[k + 2], 0]));
    first = quotient(product, multiply(scale, [FACTORIAL[k + 1], 0]));
  }
  return [off, 1 / 3 - 2 * first + second];
}

// Return the law of features in groups of `group` neighbours, of which one at most is on: for each output, the
// patterns of the other features with the probabilities that its own is off, and on. Groups of 1 are independent.
function makeLaw(p, importance, group) {
  const n = p.length;
  let patterns = [{ mask: 0, chance: 1 }];
  for (let from = 0; from < n; from += group) {
    const members = [...p.keys()].slice(from, from + group);
    const none = Math.max(members.reduce((left, j) => left - p[j], 1), 0);
    patterns = patterns.flatMap(({ mask, chance }) => [{ mask, chance: chance * none },
      ...members.map(j => ({ mask: mask | 1 << j, chance: chance * p[j] }))]);
  }
  const others = p.map((_, i) => {
    const chances = new Map();
    for (const { mask, chance } of patterns) {
      const rest = mask & ~(1 << i);
      if (!chances.has(rest)) chances.set(rest, [0, 0]);
      chances.get(rest)[mask >> i & 1] += chance;
    }
    return [...chances].map(([mask, [off, on]]) => ({ on: [...p.keys()].filter(j => mask >> j & 1), chances: [off, on] }));
  });
  return { n, p, importance, group, patterns, others };
}

// Return the loss of output i by the number of features that are on, not weighed by importance.
function outputLosses(row, i, b, law) {
  const byCount = new Array(law.n + 1).fill(0);
  for (const { on, chances } of law.others[i]) {
    const losses = pattern(row[i], b, on.map(j => row[j]));
    byCount[on.length] += chances[0] * losses[0];
    byCount[on.length + 1] += chances[1] * losses[1];
  }
  return byCount;
}
const sum = values => values.reduce((x, y) => x + y, 0);
const dot = (x, y) => x.reduce((total, entry, k) => total + entry * y[k], 0);
const gram = W => W.map(row => W.map(other => dot(row, other)));

// Return {loss, perFeature, byCount} of the tied model W (one row a feature), loss per feature weighed by importance.
function exactLoss(W, b, law) {
  const { n, importance } = law, byCount = new Array(n + 1).fill(0);
  const perFeature = gram(W).map((row, i) => {
    const losses = outputLosses(row, i, b[i], law);
    losses.forEach((x, k) => { byCount[k] += importance[i] * x / n; });
    return Math.max(sum(losses), 0);
  });
  return { loss: dot(importance, perFeature) / n, perFeature, byCount };
}

// --- Descent: BFGS (Nocedal and Wright 2006, algorithm 6.1) on the weights, then the biases ---

const flat = (W, b) => [...W.flat(), ...b];
function model(x, n) {
  return { W: Array.from({ length: n }, (_, i) => [x[2 * i], x[2 * i + 1]]), b: x.slice(2 * n) };
}
function lossAt(x, law) {
  const { W, b } = model(x, law.n);
  return exactLoss(W, b, law).loss;
}
// Central differences by the entries of each row of W W' and its bias, from which those by W follow.
function slopeAt(x, law) {
  const { W, b } = model(x, law.n), step = 1e-6, slopeOfW = W.map(() => [0, 0]), slopeOfB = [];
  gram(W).forEach((row, i) => {
    const at = (j, by) => sum(outputLosses(row.map((x, k) => k === j ? x + by : x), i, b[i] + (j < 0 ? by : 0), law));
    const by = j => law.importance[i] / law.n * (at(j, step) - at(j, -step)) / (2 * step);
    slopeOfB.push(by(-1));
    W.forEach((other, j) => {
      const change = by(j);
      for (const d of [0, 1]) { slopeOfW[i][d] += change * other[d]; slopeOfW[j][d] += change * W[i][d]; }
    });
  });
  return flat(slopeOfW, slopeOfB);
}
function startDescent(W, b, law) {
  const x = flat(W, b);
  return { x, loss: lossAt(x, law), slope: slopeAt(x, law), inverse: null, done: false };
}
// Return the point after one step, `done` where no step goes down; `inverse` is the Hessian's.
function descend(at, law) {
  const size = Math.hypot(...at.slope), unit = at.x.map((_, i) => at.x.map((_, j) => +(i === j)));
  if (size === 0) return { ...at, done: true };
  const inverse = at.inverse || unit.map(row => row.map(x => 0.1 * x / size));
  const step = inverse.map(row => -dot(row, at.slope)), fall = dot(step, at.slope);
  if (at.inverse && -fall < 1e-12 * at.loss) return { ...at, done: true };
  for (let rate = 1; rate > 1e-8 && fall < 0; rate /= 2) {
    const x = at.x.map((start, k) => start + rate * step[k]), loss = lossAt(x, law);
    if (!(loss < at.loss + 1e-4 * rate * fall)) continue;
    const slope = slopeAt(x, law), s = step.map(x => rate * x), y = slope.map((x, k) => x - at.slope[k]), sy = dot(s, y);
    if (sy <= 0) return { x, loss, slope, inverse: null, done: false };
    const old = at.inverse || unit.map(row => row.map(x => x * sy / dot(y, y)));
    const Hy = old.map(row => dot(row, y)), curve = (1 + dot(y, Hy) / sy) / sy;
    const next = old.map((row, i) => row.map((h, j) => h - (s[i] * Hy[j] + Hy[i] * s[j]) / sy + curve * s[i] * s[j]));
    return { x, loss, slope, inverse: next, done: false };
  }
  return { ...at, inverse: null, done: !at.inverse };
}
function descendFor(at, steps, law) {
  for (let k = 0; k < steps && !at.done; k++) at = descend(at, law);
  return at;
}

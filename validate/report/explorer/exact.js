"use strict";
// The exact loss of ReLU(W W' x + b) for a few independent features, uniform on [0, 1] when they are on.
//
// For each pattern of features that are on, the expectation of a power of the ReLU over a cube is a sum over the
// cube's corners of truncated powers, divided by the product of the weights. That sum cancels where weights are
// small, so it is taken with two doubles a number (some 32 digits). Weights below SMALL stand at their mean.

const SMALL = 3e-5;
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
function pattern(a, b, weights) {
  let start = b;
  const w = [];
  for (const one of weights) if (Math.abs(one) < SMALL) start += 0.5 * one; else w.push(one);
  const k = w.length, corners = 2 ** k, own = Math.abs(a) >= SMALL;
  let scale = [1, 0];
  for (const one of w) scale = multiply(scale, [one, 0]);
  let square = [0, 0], product = [0, 0], squareOn = [0, 0];
  for (let corner = 0; corner < corners; corner++) {
    let s = [start, 0], sign = 1;
    for (let j = 0; j < k; j++) if (corner >> j & 1) s = add(s, [w[j], 0]); else sign = -sign;
    const signed = [sign, 0];
    const low = s[0] > 0 ? s : [0, 0];
    square = add(square, multiply(signed, power(low, k + 2)));
    if (own) {
      const end = add(s, [a, 0]), high = end[0] > 0 ? end : [0, 0];
      const rise = add(power(high, k + 3), multiply([-1, 0], power(low, k + 3)));
      squareOn = add(squareOn, multiply(signed, rise));
      // x f(a x + s) integrated by parts, times a^2 (k + 3)!
      const parts = add(multiply(multiply([a, 0], [k + 3, 0]), power(high, k + 2)), multiply([-1, 0], rise));
      product = add(product, multiply(signed, parts));
    } else {
      const half = add(s, [0.5 * a, 0]), later = add(s, [2 * a / 3, 0]);
      squareOn = add(squareOn, multiply(signed, power(half[0] > 0 ? half : [0, 0], k + 2)));
      product = add(product, multiply(signed, power(later[0] > 0 ? later : [0, 0], k + 1)));
    }
  }
  const off = 2 * quotient(square, multiply(scale, [FACTORIAL[k + 2], 0]));
  let first, second;
  if (own) {
    second = 2 * quotient(squareOn, multiply(multiply(scale, [FACTORIAL[k + 3], 0]), [a, 0]));
    first = quotient(product, multiply(multiply(multiply(scale, [FACTORIAL[k + 3], 0]), [a, 0]), [a, 0]));
  } else {
    second = 2 * quotient(squareOn, multiply(scale, [FACTORIAL[k + 2], 0]));
    first = 0.5 * quotient(product, multiply(scale, [FACTORIAL[k + 1], 0]));
  }
  return [off, 1 / 3 - 2 * first + second];
}

// Return the loss of output i by the number of features that are on, not weighed by importance.
function outputLosses(row, i, b, p) {
  const n = row.length, others = [];
  for (let j = 0; j < n; j++) if (j !== i) others.push(j);
  const byCount = new Array(n + 1).fill(0);
  for (let mask = 0; mask < 2 ** others.length; mask++) {
    let chance = 1, count = 0;
    const weights = [];
    others.forEach((j, k) => {
      if (mask >> k & 1) { chance *= p[j]; count++; weights.push(row[j]); } else chance *= 1 - p[j];
    });
    if (chance === 0) continue;
    const [off, on] = pattern(row[i], b, weights);
    byCount[count] += chance * (1 - p[i]) * off;
    byCount[count + 1] += chance * p[i] * on;
  }
  return byCount;
}

// Return {loss, perFeature, byCount} of the tied model W (one row a feature), loss per feature weighed by importance.
function exactLoss(W, b, p, importance) {
  const n = W.length, byCount = new Array(n + 1).fill(0), perFeature = [];
  for (let i = 0; i < n; i++) {
    const row = W.map(other => other.reduce((sum, x, d) => sum + x * W[i][d], 0));
    const losses = outputLosses(row, i, b[i], p);
    perFeature.push(losses.reduce((x, y) => x + y, 0));
    losses.forEach((x, k) => { byCount[k] += importance[i] * x / n; });
  }
  const loss = perFeature.reduce((sum, x, i) => sum + importance[i] * x / n, 0);
  return { loss, perFeature, byCount };
}

// --- Descent ---

function flat(W, b) { return [...W.flat(), ...b]; }
function model(x, n, m) {
  const W = [];
  for (let i = 0; i < n; i++) W.push(x.slice(i * m, (i + 1) * m));
  return { W, b: x.slice(n * m) };
}
function value(x, n, m, p, importance) {
  const one = model(x, n, m);
  return exactLoss(one.W, one.b, p, importance).loss;
}
function gradient(x, n, m, p, importance) {
  const step = 1e-5;
  return x.map((_, k) => {
    const up = x.slice(), down = x.slice();
    up[k] += step; down[k] -= step;
    return (value(up, n, m, p, importance) - value(down, n, m, p, importance)) / (2 * step);
  });
}
// One step down: the rate grows while steps succeed. Returns {x, loss, rate, norm}; norm 0 where no step helps.
function descend(x, loss, rate, n, m, p, importance) {
  const slope = gradient(x, n, m, p, importance);
  const norm = Math.hypot(...slope);
  for (let k = 0; k < 40; k++) {
    const next = x.map((one, at) => one - rate * slope[at]);
    const found = value(next, n, m, p, importance);
    if (found < loss - 1e-4 * rate * norm * norm) return { x: next, loss: found, rate: 1.5 * rate, norm };
    rate *= 0.4;
  }
  return { x, loss, rate, norm: 0 };
}

if (typeof module !== "undefined") module.exports = { exactLoss, descend, flat, model, gradient };

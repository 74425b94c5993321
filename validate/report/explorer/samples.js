// Training with samples: Adam (Kingma and Ba 2015) on the mean squared error of a batch, as is usual.

function drawSample(law) {
  let left = Math.random(), k = 0;
  while (k < law.patterns.length - 1 && left >= law.patterns[k].chance) left -= law.patterns[k++].chance;
  return law.p.map((_, j) => law.patterns[k].mask >> j & 1 ? Math.random() : 0);
}

// Return {loss, slopeOfW, slopeOfB} of a batch.
function sampledSlope(W, b, batch, law) {
  const { n, importance } = law, slopeOfW = W.map(() => [0, 0]), slopeOfB = new Array(n).fill(0);
  let loss = 0;
  for (let sample = 0; sample < batch; sample++) {
    const x = drawSample(law), hidden = [0, 1].map(d => sum(x.map((value, j) => value * W[j][d]))), back = [0, 0];
    for (let i = 0; i < n; i++) {
      const z = W[i][0] * hidden[0] + W[i][1] * hidden[1] + b[i], error = Math.max(z, 0) - x[i];
      loss += importance[i] * error * error / n / batch;
      if (z <= 0) continue;
      const change = 2 * importance[i] * error / n / batch;
      slopeOfB[i] += change;
      for (const d of [0, 1]) { slopeOfW[i][d] += change * hidden[d]; back[d] += change * W[i][d]; }
    }
    for (let j = 0; j < n; j++) if (x[j] > 0) for (const d of [0, 1]) slopeOfW[j][d] += x[j] * back[d];
  }
  return { loss, slopeOfW, slopeOfB };
}

const startTraining = (W, b) => ({ x: flat(W, b), mean: [], square: [], steps: 0, batchLoss: null });
function train(at, rate, batch, law) {
  const { W, b } = model(at.x, law.n), { loss, slopeOfW, slopeOfB } = sampledSlope(W, b, batch, law);
  const slope = flat(slopeOfW, slopeOfB), steps = at.steps + 1;
  const mean = slope.map((g, k) => 0.9 * (at.mean[k] || 0) + 0.1 * g);
  const square = slope.map((g, k) => 0.999 * (at.square[k] || 0) + 0.001 * g * g);
  const x = at.x.map((x, k) => x - rate * mean[k] / (1 - 0.9 ** steps) / (Math.sqrt(square[k] / (1 - 0.999 ** steps)) + 1e-8));
  return { x, mean, square, steps, batchLoss: loss };
}

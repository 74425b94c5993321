// A lower bound of the loss of every ReLU(M x + b) with rank(M) <= 2, as `theory.unequal.loss_bound` has it: each mu,
// and each multiplier of the logarithm, gives a bound that is proved; the best of a grid is taken, refined.

const FAMILIES = [[19 / 5, 11 / 3], [81 / 25 * (1 + 1e-12), 37 / 2]];
const RANK = 2;

// Return the largest value of f on [low, high]: the best of a grid, refined by golden section.
function largest(f, low, high, count) {
  const step = (high - low) / (count - 1), golden = (Math.sqrt(5) - 1) / 2;
  const values = Array.from({ length: count }, (_, k) => f(low + k * step)), best = values.indexOf(Math.max(...values));
  let left = low + (best - 1) * step, right = low + (best + 1) * step, top = values[best];
  for (let k = 0; k < 30; k++) {
    const x = right - golden * (right - left), y = left + golden * (right - left), at = [f(x), f(y)];
    top = Math.max(top, ...at);
    if (at[0] > at[1]) right = y; else left = x;
  }
  return top;
}

// One feature of each group, given those of the groups that are left out: [{p, weight, count}].
function selections(law) {
  const groups = [];
  for (let from = 0; from < law.n; from += law.group) groups.push([...law.p.keys()].slice(from, from + law.group));
  return Array.from({ length: law.group }, (_, k) => groups.map(members => {
    const j = members[k % members.length], turns = Math.floor((law.group - 1 - k % members.length) / members.length) + 1;
    const count = 1 - sum(members.map(other => other === j ? 0 : law.p[other]));
    return { p: law.p[j] / count, weight: law.importance[j] / turns, count };
  }).filter(row => row.p < 1 && row.weight > 0 && row.count > 0));
}

const deadShare = (p, h) => p * (1 - p) / (h * (1 - p) + 2.25 * p);

// Step 7 of the proof: features cost theta of the rank each, those that save most per theta come first.
function lineBound(rows, mu, [C, h]) {
  const costs = rows.map(({ p, weight, count }) => {
    const dead = deadShare(p, h), push = p * mu / C, theta = Math.min(p * (1 - p) / mu, 1);
    return { loss: count * weight * dead * push / (dead + push), theta: count * theta };
  }).sort((x, y) => y.loss / y.theta - x.loss / x.theta);
  let left = RANK;
  return sum(costs.map(({ loss, theta }) => {
    const taken = Math.min(left / theta, 1);
    left -= taken * theta;
    return loss * (1 - taken);
  }));
}

// Step 8, at the multiplier lambda.
function logarithmBound(rows, mu, lambda, [C, h]) {
  return sum(rows.map(({ p, weight, count }) => {
    const draw = p * (1 - p) / mu, theta = Math.min(draw, -Math.expm1(-7 / 6 * draw), 1 - 1e-9);
    const dead = weight * deadShare(p, h), beta = p * mu * weight / (C * dead);
    const g = Math.log(lambda * theta / (dead * beta)), over = 0.5 / beta + Math.log(2 * beta) + 0.5 * g - 1;
    const values = [dead, lambda * theta];
    if (over >= 0) { // the larger root of u = 2 log(1 + beta u) + g
      let u = 2 * Math.log(2 * beta) + g + 2 * Math.sqrt(2 * over);
      for (let k = 0; k < 8; k++) {
        const x = Math.max(beta * u, 2 * beta - 1);
        u -= (u - 2 * Math.log1p(x) - g) / Math.max(1 - 2 * beta / (1 + x), 1e-12);
      }
      const x = beta * Math.max(u, 0);
      values.push(dead * x / (1 + x) + lambda * theta * Math.exp(-Math.max(u, 0)));
    }
    return count * Math.min(...values);
  })) - lambda * RANK;
}

function totalBound(rows) {
  const spread = rows.map(({ p }) => p * (1 - p)), number = sum(rows.map(row => row.count));
  if (number <= RANK) return 0;
  const low = Math.log(Math.min(...spread) / 4), high = Math.log(4 * dot(spread, rows.map(row => row.count)) / RANK);
  const most = Math.log(Math.max(...rows.map(({ weight }) => weight)));
  return Math.max(...FAMILIES.map(family => largest(mu => lineBound(rows, Math.exp(mu), family), low, high, 40)),
    largest(mu => largest(x => logarithmBound(rows, Math.exp(mu), Math.exp(x), FAMILIES[0]), most - 12, most + 2, 30),
      low, high, 40));
}

function lowerBound(law) {
  const { n, p, importance, group } = law, free = p[0] - RANK / n;
  const decoder = group > 1 || free <= 0 ? 0 // any decoder, for features of one p
    : free / (2 * Math.PI * Math.E) * (6 / (Math.PI * Math.E)) ** (RANK / n / free);
  return n <= RANK ? 0 : Math.max(sum(selections(law).map(totalBound)) / n, Math.min(...importance) * decoder);
}

"""The loss on common samples: a cheap objective that ranks starts before any exact loss is computed."""

from dataclasses import replace

import numpy as np

from ...theory.features import Features
from ...theory.validation import FloatArray
from ..loss.problem import Accuracy

__all__ = ["Samples"]

_MAX_DRAWS = 32  # for each sample
_MIN_MEAN_ACTIVE = 2.0  # features that are on in the mean sample at least
_MOST_MATCHED = 32  # features up to which weights of samples match all second moments, not only squares
# Share of its first weight that a sample keeps: with negative weights the loss would have no minimum.
_LEAST_WEIGHT_SHARE = 0.1
_THREAD_PRODUCT = 200_000  # multiplications of a matrix product that BLAS does by one thread


class Samples:
    """Mean loss over about `count` weighted samples, with the first and second moments of the law."""

    def __init__(self, law: Features, rng: np.random.Generator, count: int):
        # Rare features are drawn more often than they are on; inputs with none on are one sample.
        drawn, raised = law, np.maximum(law.p, min(1.0, _MIN_MEAN_ACTIVE / law.n_features))
        if law.independent:
            drawn = replace(law, p=raised)
        share_on = float(1.0 - np.prod(1.0 - drawn.p)) if law.independent else float(law.p.max())
        x = drawn.sample(int(np.ceil(count / max(share_on, 1.0 / _MAX_DRAWS))), rng)
        weights = np.full(len(x), 1.0 / len(x))
        if law.independent:
            on = x != 0.0
            off = np.divide(1.0 - law.p, 1.0 - raised, out=np.ones(raised.size), where=raised < 1.0)
            weights *= np.prod(np.where(on, law.p / raised, off), axis=1)
        any_on = x.any(axis=1)
        self.x = np.vstack([x[any_on], np.zeros((1, law.n_features))])
        self.enough = len(self.x) > count // 4
        self.weights = self._match_moments(np.append(weights[any_on], weights[~any_on].sum()), law)
        self.share = law.importance / law.n_features
        self._set_blocks()

    def _set_blocks(self) -> None:
        """Set `blocks`, (k, size, n), to k blocks of samples and `heavy`, (k, size, 1), to their weights.

        Matrix products with a block are so small that BLAS uses one thread.
        """
        count, n = self.x.shape
        size = min(max(_THREAD_PRODUCT // n**2, 16), count)
        blocks = -(-count // size)
        self.blocks, weights = np.zeros((blocks * size, n)), np.zeros(blocks * size)
        self.blocks[:count], weights[:count] = self.x, self.weights
        self.blocks, self.heavy = self.blocks.reshape(blocks, size, n), weights.reshape(blocks, size, 1)

    def _match_moments(self, weights: FloatArray, law: Features) -> FloatArray:
        """Return `weights`, changed as little as possible, with which samples have the moments of the law.

        Mean and second moments match. No weight falls below a tenth of its value, after which moments match
        only approximately.
        """
        x, n = self.x, law.n_features
        i, j = np.triu_indices(n) if n <= _MOST_MATCHED else (np.arange(n), np.arange(n))
        second = law.covariance() + np.outer(law.mean, law.mean)
        unit = np.sqrt(law.second_moment)
        parts = np.hstack([np.ones((len(x), 1)), x / unit, (x / unit)[:, i] * (x / unit)[:, j]])
        wanted = np.concatenate([[1.0], law.mean / unit, (second / np.outer(unit, unit))[i, j]])
        solved = np.linalg.lstsq((parts.T * weights) @ parts, wanted - parts.T @ weights, rcond=1e-10)[0]
        return np.asarray(weights * np.maximum(1.0 + parts @ solved, _LEAST_WEIGHT_SHARE))

    def __call__(
        self, M: FloatArray, b: FloatArray, _: Accuracy | None = None
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss per feature of ReLU(M x + b) over the samples, and its derivatives by M and b."""
        answer = self.blocks @ M.T
        answer += b
        live = answer > 0.0
        answer *= live
        answer -= self.blocks
        weighted = answer * self.heavy
        losses = np.einsum("ksi,ksi->i", weighted, answer)
        weighted *= live
        weighted *= 2.0 * self.share
        by_M = np.matmul(weighted.transpose(0, 2, 1), self.blocks).sum(axis=0)
        return float(self.share @ losses), by_M, weighted.sum(axis=(0, 1))

    def slope_errors(self, M: FloatArray, b: FloatArray, _: Accuracy | None = None) -> FloatArray:
        """Return zeros, (n,): the derivatives of a mean over samples have no errors."""
        return np.zeros(b.size)

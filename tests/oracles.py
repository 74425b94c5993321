"""Brute force that several files of tests compare with."""

import hashlib
import json
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from superposition.solvers.collisions.counts import ZERO
from superposition.theory.collisions import separated_share
from superposition.theory.features import Features
from superposition.theory.model import Model


def patterns(law: Features, number: Callable[[float], Any] = float) -> list[tuple[tuple[int, ...], Any]]:
    """Return all patterns of on and off that can occur, with their probabilities as `number`s."""
    found = []
    grouped = {j for indices, _, _ in law.groups for j in indices}
    for on in product((0, 1), repeat=law.n_features):
        chance = number(1)
        for j in set(range(law.n_features)) - grouped:
            p = number(float(law.p[j]))
            chance *= p if on[j] else 1 - p
        for indices, table, probabilities in law.groups:
            same = [q for q, row in enumerate(table) if all(row[k] == on[j] for k, j in enumerate(indices))]
            chance *= sum((number(float(probabilities[q])) for q in same), number(0))
        if chance and (law.exactly is None or sum(on) == law.exactly):
            found.append((on, chance))
    total = 1 if law.exactly is None else sum(chance for _, chance in found)
    return [(on, chance / total) for on, chance in found]


def changed_certificate(source: Path, path: Path, *changes: tuple[str, str, Any]) -> Path:
    """Write a certificate with other entries, (part, name, value), and the checksum that belongs to them."""
    content = {part: entry for part, entry in json.loads(source.read_text()).items() if part != "sha256"}
    for part, name, value in changes:
        content[part][name] = value
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, indent=1).encode()).hexdigest()
    path.write_text(json.dumps({**content, "sha256": digest}, sort_keys=True, indent=1) + "\n")
    return path


def damaged(whole: bytes, k: int) -> bytes:
    """Return one of many ways in which a file may be damaged: emptied, cut, or a bit flipped."""
    rng = random.Random(k)
    place = rng.randrange(len(whole) - 2)  # the last of a text is a line feed, which says nothing
    flipped = whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
    return b"" if k == 0 else flipped if k % 2 else whole[:place]


def predicted_splits(
    times: npt.ArrayLike, pairs: int, lam: float, share: float = 0.5, factor: float = 1.0
) -> xr.Dataset:
    """Return what splits would give of which this share parts, on a clock that runs faster by a factor."""
    eps, clock = [1e-3, 1e-2], factor * np.asarray(times)
    decided = pairs * np.array([np.sum(separated_share(clock, 1.0, e, left=ZERO), axis=0) for e in eps])
    apart, together = (np.round(part * decided).astype(int)[None] for part in (share, 1.0 - share))
    counts = {"apart": apart, "together": together, "undecided": pairs - apart - together}
    columns = {name: (("lam", "eps", "time"), value) for name, value in counts.items()}
    places = {"lam": [lam], "eps": eps, "time": times}
    return xr.Dataset(columns | {"pairs": ("lam", [pairs])}, places, {"correlation": 0.0, "n_features": 16})


def spread_simplex(n: int, m: int) -> np.ndarray:
    """Return n unit vectors with overlaps -1/(n-1), turned at random in m dimensions."""
    corners = (np.eye(n) - 1 / n) / np.sqrt(1 - 1 / n)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(m, m)))[0]
    return np.hstack([corners, np.zeros((n, m - n))]) @ turn


def autoencoder(rng: np.random.Generator, d: int, latents: int, hidden: str = "jumprelu") -> Model:
    """Return a random autoencoder of activations in d dimensions."""
    thresholds = 0.3 * np.abs(rng.normal(size=latents)) if hidden == "jumprelu" else None
    return Model(
        rng.normal(size=(latents, d)), b_in=0.3 * rng.normal(size=latents), hidden=hidden,
        W_out=rng.normal(size=(d, latents)), b=0.3 * rng.normal(size=d), output="identity",
        thresholds=thresholds,
    )  # fmt: skip


def differences(f: Callable[[Any], Any], x: Any, step: float, order: int = 2) -> np.ndarray:
    """Return derivatives of f by the entries of x, (*shape of x, *shape of f): central differences."""
    x = np.asarray(x, float)
    units = step * np.eye(x.size).reshape(-1, *x.shape)
    found = np.array([f(x + unit) - f(x - unit) for unit in units]) / (2 * step)
    if order == 4:
        found = (4 * found - np.array([f(x + 2 * unit) - f(x - 2 * unit) for unit in units]) / (4 * step)) / 3
    return found.reshape(x.shape + found.shape[1:])

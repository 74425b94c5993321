"""The stored runs of `run_grid`: models of the rug at all sizes, of which large ones need a GPU."""

from collections.abc import Iterator, Sequence
from typing import Any

from ...runner.declarations import SINGLE, ReproductionCheck, Run
from ...training.published import run_published
from ...training.run import run_grid, train

# Of `train`, but for what differs from size to size.
BUDGET = {"steps": 8000, "peak_learning_rate": 0.005, "evaluation_samples": 2**19}
# Large models want a GPU, whose tensor cores round the factors of products.
LARGE: dict[str, Any] = {"precision": "tf32"}

PANELS = (0.001, 0.01, 0.05, 0.1, 0.4, 0.6)  # Fig. 2 of Cowsik et al. (2024)
RATIOS = (0.03, 0.06, 0.12, 0.25, 0.4, 0.5, 0.55, 0.75)
FEW_P, FEW_RATIOS = (0.01, 0.05, 0.1, 0.4), (0.12, 0.25, 0.5)  # Figs. 4 to 7, against n_features
SIZES = (1024, 2048, 4096, 8192)
MOST = (8192, 0.05, 0.5)  # the cell of the longest runs, of which there is one
# Sizes and ratios of models trained on, and as the public code of the source does it.
LATER = [(n, r) for n in (2048, 4096) for r in FEW_RATIOS] + [(8192, 0.25), (8192, 0.5)]
PUBLISHED = [(2048, 0.25), (4096, 0.12), (4096, 0.25), (4096, 0.5), (8192, 0.25)]

# What the ledger and figures read of a trained model; not the diagonal and the bias of single features.
_MEANS = (
    "loss", "diagonal_mean", "diagonal_sd", "bias_mean", "bias_sd", "row_mean_mean", "row_mean_sd",
    "row_variance_mean", "row_variance_variance", "lyapunov_max", "lyapunov_mean", "dropped",
)  # fmt: skip
_EARLY = (
    "processors round products of single precision differently; the limit was chosen when the differences of "
    "two had been seen, 8e-8 at most"
)


def _paper_check(seed: int) -> ReproductionCheck:
    """Declare a check that retrains the model of p = 0.1, ratio 0.12 and `seed` up to the stopping rule.

    Its loss and weight statistics must equal the stored ones to 1e-4.
    """
    settings = {"p": [0.1], "ratio": [0.12], "seeds": [seed], "schedule": "paper"}
    return ReproductionCheck(settings, _MEANS, 1e-4, SINGLE)


_DRAWN = "a CPU draws other samples than a GPU: the mean loss of 3 10^4 or more of them differs by chance"


def _early_check(**settings: Any) -> ReproductionCheck:
    """Declare a check that retrains one model for its first 200 steps; the losses must agree to 1e-6.

    `settings` select the model (p, ratio, seeds, schedule). Later steps are checked at smaller models, by the
    same code.
    """
    settings |= {"most_steps": 200, "evaluation_samples": 2}
    return ReproductionCheck(settings, ["history"], 1e-6, _EARLY)


def _begun_check(variable: str, **settings: Any) -> ReproductionCheck:
    """Declare a check that repeats the beginning of a stored training run: losses must agree to 1 %.

    `variable` is the name of the compared losses, "history" or "epoch_losses"; `settings` are the seeds to
    train, and where training stops (most_steps or most_epochs).
    """
    return ReproductionCheck({**settings, "evaluation_samples": 2}, [variable], 1e-2, _DRAWN)


def _stored_grid(
    name: str,
    what: str,
    n: int,
    p: Sequence[float],
    ratio: Sequence[float],
    seeds: Sequence[int] = (0, 1, 2),
    check: ReproductionCheck | None = None,
    **settings: Any,
) -> tuple[str, Run]:
    """Return (name, declaration) of a stored run of `run_grid`; `what` is a line on its purpose.

    There is a model of n features for each of p × ratio × seeds, trained for 8000 steps after the stopping
    rule. `check` declares what to retrain and compare; `settings` replace or add settings of the run.
    """
    sizes = {"n_features": n, "p": list(p), "ratio": list(ratio), "seeds": list(seeds)}
    run_settings = sizes | BUDGET | settings
    return name, Run.shipped(
        "training", what, run_grid, run_settings, torch=True, check=check or ReproductionCheck()
    )


def _grid_runs() -> Iterator[tuple[str, Run]]:
    """Yield names and declarations of stored runs of trained models over (p, ratio), by size and seeds."""
    small = "Figs. 2 and 4 to 7 of Cowsik et al."
    yield _stored_grid("rug_n128", small, 128, PANELS, RATIOS, check=_paper_check(0))
    yield _stored_grid("rug_n256", small, 256, FEW_P, FEW_RATIOS, check=_paper_check(0))
    yield _stored_grid("rug_n512", small, 512, FEW_P[:3], FEW_RATIOS, check=_paper_check(0))
    yield _stored_grid("codes_n64", small, 64, FEW_P, FEW_RATIOS, check=_paper_check(0))
    fresh, later = "models that were not seen when claims were worded", (3, 4, 5)
    for n in (64, 128):
        yield _stored_grid(f"codes_n{n}_fresh", fresh, n, FEW_P[:3], FEW_RATIOS, later, _paper_check(3))
    early = _early_check(seeds=[3])
    for p in FEW_P[:3]:
        yield _stored_grid(f"codes_n256_fresh_p{p:g}", fresh, 256, [p], FEW_RATIOS, later, early)
    for p in FEW_P[1:3]:
        for r in FEW_RATIOS:
            yield _stored_grid(f"codes_n512_fresh_p{p:g}_r{r:g}", fresh, 512, [p], [r], later, early)
    new = ("codes_n512_new_p0.1_r0.25", "after C27 was worded", 512, [0.1], [0.25], (6, 7, 8))
    yield _stored_grid(*new, _early_check(seeds=[6]))
    short: dict[str, Any] = {"steps": 4000, "peak_learning_rate": None, "evaluation_samples": 2**17}
    fig3 = ("codes_fig3_n512", "Fig. 3 of Cowsik et al.", 512, [0.045], [0.2, 0.25, 0.3], [0])
    yield _stored_grid(*fig3, _early_check(ratio=[0.2]), **short)
    long: dict[str, Any] = {"steps": 40_000, "schedule": "converged", "check": _early_check(seeds=[0])}
    yield _stored_grid("codes_long", "do more steps help?", 256, [0.05], [0.25], **long)
    # One file for each size, p and ratio: models of one shape are one stack, and fit into memory.
    begun = _begun_check("history", most_steps=100, seeds=[0])
    for n in SIZES:
        for p in FEW_P:
            for r in FEW_RATIOS:
                what, exact = "Figs. 4 to 7 of Cowsik et al., large", {} if n == SIZES[0] else LARGE
                seeds = range(1 if (n, p, r) == MOST else 5)
                yield _stored_grid(f"rug_n{n}_p{p:g}_r{r:g}", what, n, [p], [r], seeds, begun, **exact)
    # With the rate above, models of 2048 features and more lose what they have learned.
    # Seeds that no other run has: limits for them were fixed when those of 100 and 101 had been looked at.
    onward: dict[str, Any] = {"schedule": "converged", "peak_learning_rate": 0.000625, "steps": 16_000}
    onward |= {**LARGE, "check": _begun_check("history", most_steps=100, seeds=[5])}
    for n, r in LATER:
        seeds = range(5, 6 if (n, r) == (MOST[0], MOST[2]) else 10)
        name = f"later_n{n}_p0.05_r{r:g}"
        yield _stored_grid(name, "after the stopping rule", n, [0.05], [r], seeds, **onward)
    check = _begun_check("epoch_losses", most_epochs=1, seeds=[5])
    for n, r in PUBLISHED:
        what, name = "where the public code of Cowsik et al. stops", f"published_n{n}_p0.05_r{r:g}"
        sizes: dict[str, Any] = {"n_features": n, "p": [0.05], "ratio": [r], "seeds": list(range(5, 10))}
        yield name, Run.shipped("training", what, run_published, sizes | LARGE, torch=True, check=check)
    for p in PANELS:
        what = "Fig. 2 of Cowsik et al. at its largest size"
        yield _stored_grid(f"rug_n8192_fig2_p{p:g}", what, 8192, [p], RATIOS, [0], **LARGE)


RUNS = {
    "grid": Run(run_grid, torch=True),
    "train": Run(train, torch=True),
    "published": Run(run_published, torch=True),
    **dict(_grid_runs()),
}

"""Sparse autoencoders on known features in public work: S1-S3, on hedging and absorption, and problem O43.

Read in November 2026: Chanin et al. (arXiv 2505.11756 v2, May 2025, on hedging) with their code
chanind/feature-hedging-paper (commit 3835c76), whose toy features are binary; and Chanin et al. (arXiv
2409.14507 v6, September 2024, on absorption). O43 is of the open problems in `problems`.
"""

import itertools

import numpy as np
import xarray as xr

from ...solvers.sae import AutoencoderObjective, best_autoencoder, measure
from ...theory import sae as theory
from ...theory.features import Features, parent_child
from ...theory.model import Model
from ...theory.sae.derive import derive_hedging
from ..experiments.sae import dense
from ..runner.declarations import span
from ..runner.findings import derived, numeric, rounding, symbolic
from .claim import Evidence, claim, corrected_statement, evidence
from .problems import SOURCE as PROBLEMS

HEDGING, ABSORPTION = "hedging2025", "absorption2024"


@claim(
    "S1",
    HEDGING,
    "code, single_latent_hedging_plots.ipynb",
    "of independent features one latent recovers one with no interference from the other, and the "
    "decoder bias has the other with the probability that it is on",
)
def check_s1(quick: bool) -> Evidence:
    law = Features(2, [0.25, 0.2], "binary")
    objective = AutoencoderObjective(law, np.eye(2), l1=1e-3)
    best = best_autoencoder(objective, 1, starts=8 if quick else 20).sae
    without = best_autoencoder(objective, 1, decoder_bias=False, starts=8).sae.W_out[:, 0]
    mixed = np.degrees(np.arctan2(without[1], without[0]))
    expression = derive_hedging().expression
    cross = next(symbol for symbol in expression.free_symbols if str(symbol) == "m_12")
    cosine = abs(best.W_out[1, 0]) / np.linalg.norm(best.W_out)
    return evidence(
        "Their features: on with probability 0.25 and 0.2, values of 1, l1 strength 0.001, a decoder bias. "
        "The error then needs the covariance, which is diagonal. The bias decides: without one the best "
        f"latent is {mixed:.1f} degrees from the first feature, though the features are independent.",
        symbolic("tan of twice the angle, without covariance", expression.subs(cross, 0)),
        numeric("cosine of the best latent found with the other feature", cosine, "<=", rounding(1e-5)),
        numeric("its decoder bias there, less 0.2", abs(best.b[1] - 0.2), "<=", rounding(1e-5)),
    )


@claim(
    "S2",
    HEDGING,
    "abstract",
    "an autoencoder narrower than the number of features merges components of correlated features",
)
def check_s2(quick: bool) -> Evidence:
    angles = []
    for first, second, share in itertools.product((0.1, 0.25, 0.5), (0.05, 0.2, 0.4), (0.0, 0.5, 0.9, 1.1)):
        low, high = max(first + second - 1.0, 0.0), min(first, second)
        both = min(share * first * second, high) if share <= 1.0 else 0.5 * (first * second + high)
        both = max(both, low)
        moment = np.array([[first, both], [both, second]])
        covariance = moment - np.outer([first, second], [first, second])
        if abs(covariance[0, 1]) > 1e-12:
            angles.append(abs(np.sin(2.0 * theory.hedging_angle(covariance))))
    law = Features(2, 0.5, "binary", groups=[parent_child(0, [1], 0.25, 0.2)])
    best = best_autoencoder(AutoencoderObjective(law, np.eye(2)), 1, starts=8 if quick else 20)
    d = best.sae.W_out[:, 0]
    covariance = law.covariance()
    least = float(np.trace(covariance) - np.linalg.eigvalsh(covariance).max())
    return evidence(
        "One latent on two features, from the reconstruction alone: with a decoder bias it is the leading "
        "eigenvector of the covariance, without one that of the second moment, which merges features that "
        "are ever on together even if they are independent.",
        numeric(f"least sine of twice the angle, {len(angles)} correlations", min(angles), ">", derived(0)),
        numeric("child's share of the best latent found", abs(d[1] / d[0]), ">", derived(0)),
        numeric("its error less what the eigenvector leaves", abs(best.value - least), "<=", rounding(1e-8)),
    )


def _leaning_pair(part: float, threshold: float) -> Model:
    """Return a JumpReLU autoencoder of two features, parent and child, with a latent for each.

    The child's latent reads x_child and adds `part` times its activation to the parent's output; the parent's
    latent reads x_parent - part x_child. Other diagonal weights are 1, other weights and biases 0. Both
    latents have the same `threshold`.
    """
    return Model(
        [[1.0, -part], [0.0, 1.0]], hidden="jumprelu", W_out=[[1.0, part], [0.0, 1.0]],
        output="identity", thresholds=[threshold, threshold],
    )  # fmt: skip


@claim(
    "S3",
    ABSORPTION,
    "abstract",
    "absorption is caused by optimizing for sparsity whenever the features form a hierarchy",
)
def check_s3(quick: bool) -> Evidence:
    chances, strengths = (0.01, 0.05, 0.2, 0.4), (1e-3, 0.1, 0.5, 1.0, 1.9)
    saved = [
        theory.true_pair_loss(parent, 0.0, both, l1) - theory.absorbing_pair(parent, 0.0, both, l1)[1]
        for parent, both, l1 in itertools.product(chances, chances, strengths)
    ]
    law = Features(2, 0.5, "binary", groups=[parent_child(0, [1], 0.25, 0.2)])
    objective = AutoencoderObjective(law, np.eye(2), l1=0.02)
    best = best_autoencoder(objective, 2, decoder_bias=False, starts=8 if quick else 20)
    absorbed = measure(best.sae, law).absorbed(0, 1)
    unpunished = theory.true_pair_loss(0.2, 0.0, 0.05, 0.0)
    low, high = theory.absorption_bracket("uniform")
    graded, part = Features(2, 0.5, groups=[parent_child(0, [1], 0.3, 1 / 3)]), 0.01
    audits = [measure(_leaning_pair(share, low**0.5), graded) for share in (0.0, part)]
    costs = [audit.mse + low * float(audit.l0.sum()) for audit in audits]
    slope = (costs[1] - costs[0]) / part / (-0.1 * low * (1 - low) / 2)
    uniform = f"uniform values, L0 strength {low:.4f}: slope in the parent's share, over the theorem's"
    return evidence(
        "Binary values, an l1 penalty: the dictionary that absorbs is the best of all autoencoders (page "
        "sae). Without a penalty the true dictionary has no error. Where values vary absorption comes by "
        "degrees. With an L0 penalty the true dictionary is then never optimal: the child's latent gains by "
        "a share of the parent. For uniform values absorption in full, one fixed latent for both features, "
        f"is worse than the true dictionary up to a strength of {low:.4f}; above {high:.4f} such a "
        "latent beats every dictionary that rebuilds both.",
        numeric(f"least that absorbing saves, {len(saved)} binary hierarchies", min(saved), ">", derived(0)),
        numeric("error of the true dictionary without a penalty", unpunished, "<=", rounding(1e-15)),
        numeric(
            "absorption of the best autoencoder found, less 1", abs(absorbed - 1.0), "<=", rounding(1e-9)
        ),
        # The next order is a tenth of the first at this part.
        numeric(uniform, slope, ">=", derived(0.9)),
    )


@claim(
    "O43",
    PROBLEMS,
    "problem O43",
    "256 features in 64 dimensions, a share of their pairs nested: at which share, l1 penalty and "
    "number of latents does a sparse autoencoder recover the features?",
    needs=["sae.dense"],
)
def check_o43(quick: bool, ds: xr.Dataset) -> Evidence:
    objective, recovered = ds["objective"], ds["recovered"]
    ratio = objective / objective.sel(kind="dense")
    true, random = ratio.sel(kind="true"), ratio.sel(kind="from random")
    from_random = recovered.sel(kind="from random")
    low = ds["l1"] * ds["length"] - ds["l1"] ** 2 / 2.0
    high = ds["l1"] * np.sqrt(ds.attrs["n_hidden"]) * ds["rms"]
    dense_share = float((objective.sel(kind="dense") / high).max())
    largest_error = float((ds["objective_error"] / objective).max())
    return evidence(
        f"Shares {span(ds['nested'], 'g')}, strengths {span(ds['l1'], 'g')}, {span(ds['n_latents'], 'g')} "
        f"latents: {true.size} places, a seed each. The dense code has the columns q and -q of an "
        "orthonormal basis, rebuilds every input and recovers none. Where latents are fewer the true "
        "dictionary is that of the features of largest second moment, and cannot recover all, by definition. "
        f"Its encoder is the better of two trained ones. Trained from random atoms, {ds.attrs['steps']} "
        f"steps of Adam, objectives are {float(random.min()):.2f} to {float(random.max()):.3g} times the "
        f"dense code's, which is exact; the others have standard errors of {largest_error:.1%} at most. The "
        "documentation (sae) proves the two bounds, and names measurements that were posted before.",
        corrected_statement(
            "at none of these places is the true dictionary what the objective prefers, as far as its "
            f"encoders were searched: it costs {float(true.min()):.2f} to {float(true.max()):.3g} times as "
            "much as a dense code that recovers no feature",
            dense.PREFERRED.finding(true, origin=ds),
        ),
        corrected_statement(
            f"training from random atoms recovers {float(from_random.max()):.0%} of the features at most",
            dense.RECOVERED.finding(from_random, origin=ds),
        ),
        corrected_statement(
            "whatever the autoencoder, the least objective is l1 E|y| - l1^2/2 or more and, from two "
            f"latents a dimension on, at most l1 sqrt({ds.attrs['n_hidden']} E|y|^2), which is "
            f"{float((high / low).max()):.2g} times as much",
            numeric("dense code / upper bound", dense_share, "<=", derived(1)),
            numeric("least objective found / lower bound", float((objective / low).min()), ">=", derived(1)),
        ),
        about="answer",
    )

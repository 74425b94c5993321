"""Cowsik et al. (2024), C32: a question that nothing here decides yet, and what would."""

from .ledger import Claim, Evidence, claim

__all__ = ["OPEN"]

SOURCE = "cowsik2024"


@claim(
    "C32",
    SOURCE,
    "5.3",
    "left open: the loss for data whose correlations are given by a sparse graph",
)
def c32(quick: bool) -> Evidence:
    return Evidence(
        "A question: it asserts nothing that a number could break. Let features be on not independently but "
        "by the law of a sparse graph, where each depends on few others. Is the loss of many features still "
        "a function of p, the ratio and a few statistics of the graph; which weights are best, those that "
        "treat all features alike or those that spare neighbours each other's interference; and do trained "
        "models find them? Missing: the law of the data; the loss without C4's step that nu_i does not "
        "depend on x_i, as neighbours give nu_i another mean and variance where feature i is on; Eq. 6 with "
        "the covariance of x in place of its variance, and when it is attained; trained models of such data. "
        "Known is the linear model for any covariance (`theory.linear`).",
        [],
    )


OPEN: tuple[Claim, ...] = (c32,)

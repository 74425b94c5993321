"""The ways to compute an exact loss with its derivatives, a file each; `solvers.loss.dispatch` chooses.

A method has `ESTIMATE`, a sentence on what its errors are; `terms(law)`, its cost in terms per output;
`estimated_seconds(problem, accuracy, gradient)` of an output; and `solve(problem, accuracy, gradient)`,
which returns `Outputs` in units of the features' scales, to this `Accuracy`, with derivatives if `gradient`.
`at_most_one_active` and `transform_sums` hold kernels that several methods share.

Numbers that many kernels share, of an output ReLU(a x + b + nu) whose target is the feature x: a, the weight
of the target; m and p, the weights of the other features and the probabilities that they are on; the
interference nu = sum_j m_j x_j; b, the bias; `p_target_active`, the probability that the target is on;
`tolerance`, the error of the loss to aim at.
"""

"""The ways to compute an exact loss with its derivatives, a file each; `solvers.loss.dispatch` chooses.

A method has `ESTIMATE`, a sentence on what its errors are; `terms(law)`, its cost in terms per output;
`estimated_seconds(problem, accuracy, gradient)` of an output; and `solve(problem, accuracy, gradient)`,
which returns `Outputs` in units of the features' scales. `at_most_one_active` and `transform_sums` hold
kernels that several methods share.
"""

"""The ways to compute an exact loss with its derivatives, a file each; `solvers.loss.evaluator` chooses.

A method has `ESTIMATE`, a sentence on what its errors are; `covers(rows, law)`, the outputs it can do;
`terms(law)`, its cost in terms per output; and `solve(rows, law, ask)`, which returns `Outputs` in units of
the features' scales. `few` and `sweep` hold kernels that several methods share.
"""

"""One evaluator for all models: toy models by `evaluator.Evaluator`, hidden layers and other targets here."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ...theory import validation
from ...theory.features import Features, as_features
from ...theory.model import Model
from ...theory.results import frozen
from ...theory.validation import number
from .evaluator import ESTIMATES, METHODS, Evaluator, Loss
from .network import assemble, relu_output

__all__ = ["Networks", "evaluator"]

ESTIMATES.update(assemble.ESTIMATES)


class Networks(Evaluator):
    """The exact loss of models at one law, those with a hidden layer included; `evaluator` makes one."""

    def __call__(
        self, model: Any, gradient: bool = False, rows: npt.ArrayLike | None = None, target: Any = "identity"
    ) -> Loss:
        """Return the `Loss` of a `Model` or of arrays (M, b) against a `target` as `evaluator` describes.

        `rows` are the indices of the outputs to use, all by default; ValueError if the model is not covered.
        """
        is_identity = isinstance(target, str) and target == "identity"
        if isinstance(model, Model) and (model.hidden != "identity" or not is_identity):
            return self._network(model, gradient, rows, target)
        if not is_identity:
            raise ValueError(f"`target` must be 'identity' for arrays; got {validation.short_repr(target)}.")
        return super().__call__(model, gradient, rows)

    def _network(self, model: Model, gradient: bool, rows: Any, target: Any) -> Loss:
        """Return the `Loss` of a model against `target`; ValueError if its outputs are not covered."""
        if model.output == model.hidden == "relu" and rows is None and not gradient:
            return self._rectified(model, target)
        if model.output != "identity":
            rule = "a linear output ('identity') unless hidden neurons are linear and targets the features"
            raise ValueError(f"`model` must have {rule}; got {model!r}.")
        if rows is not None:
            raise ValueError(f"`rows` must be None for this model; got {validation.short_repr(rows)}.")
        A, name, B = assemble.targets(target, model.n_outputs, model.n_features)
        law = self.law(model.n_features)
        importance = assemble.importance_of(law, model.n_outputs)
        if not gradient:
            model, B = assemble.rest_of(model, B)
        if model.hidden == "identity":
            network_loss = assemble.linear_loss(model, law, A, name, importance, gradient, self.tol, B)
        else:
            network_loss = assemble.network_loss(
                model, law, A, name, importance, gradient, self.tol, self.budget, self.workers, B
            )
        losses, errors, error, slopes, slope_error, method = network_loss
        if slopes is not None and model.tied:
            slopes["W_in"] = frozen(slopes["W_in"] + slopes.pop("W_out").T)
        losses = np.maximum(losses, 0.0)
        mean = float(np.mean(importance * losses))
        slope_errors = frozen(np.full(model.n_outputs, slope_error)) if gradient else None
        return Loss(mean, error, frozen(losses), frozen(errors), slopes, slope_errors, method)

    def _rectified(self, model: Model, target: Any) -> Loss:
        """Return the `Loss` of ReLU outputs, each rewritten as a linear readout; ValueError if one cannot."""
        A, name, B = assemble.targets(target, model.n_outputs, model.n_features)
        law = self.law(model.n_features)
        importance, found = assemble.importance_of(law, model.n_outputs), []
        readouts = [relu_output.linear_readout(model, k) for k in range(model.n_outputs)]
        for k, readout in enumerate(readouts):
            if readout is None:
                rule = "a linear output ('identity'), or outputs that read neurons of one direction each"
                raise ValueError(f"`model` must have {rule}; got {model!r}, and not so output {k}.")
            settings = A[k : k + 1], name, np.ones(1), False, self.tol, self.budget, self.workers
            found.append(assemble.network_loss(readout, law, *settings, None if B is None else B[k : k + 1]))
        losses = np.maximum([float(one[0][0]) for one in found], 0.0)
        errors = np.array([one[2] for one in found])
        mean, error = (float(np.mean(importance * one)) for one in (losses, errors))
        methods = ", ".join(sorted({method for one in found for method in one[5].split(", ")}))
        return Loss(mean, error, frozen(losses), frozen(errors), None, None, methods)


def evaluator(
    law: Any,
    *,
    tol: float = 1e-12,
    budget: float | None = None,
    method: str = "auto",
    workers: int | None = 1,
) -> Networks:
    """Return the function that gives the exact loss of models at one law of the data, and its gradient.

    Parameters
    ----------
    law : float or Features
        As for `exact_loss`; importance belongs to it.
    tol : float, optional
        Error to aim at for each output, in units of its loss or of E x_i^2, whichever is larger.
    budget : float, optional
        Terms of sums, of some 5 ns each, that an evaluation may take. A method that needs more is refused
        before it begins; sums over frequencies end there, with the error that leaves. By default 6.7e7 an
        output, and 8.4e6 a pair of hidden neurons if that is more.
    method : str, optional
        A method of `solvers.loss.methods` by its name; by default the first that covers an output and, where
        it loses digits, the next one too. Value and gradient come from one method.
    workers : int or None, optional
        Threads that share the outputs where a sum is long; None for all that Numba has.

    Returns
    -------
    callable
        ``f(model, gradient=False, rows=None, target="identity")``. `model` is a `theory.model.Model`, or
        arrays (M, b) of ReLU(M x + b). `rows` are the outputs to restrict the loss to. `target` is what the
        outputs should be, for a `Model` with linear outputs: the features, "relu" or "abs" of them, "x+relu",
        or A x, A f(x) or A f(x) + B x for arrays of shape (n_outputs, n_features), given as A, as (A, "relu")
        or as (A, "relu", B). It returns a `Loss`.

    Raises
    ------
    ValueError
        If an argument lies outside its range; by the callable also as `exact_loss` does, if no method covers
        the model or law, or if `budget` is too small.

    Examples
    --------
    >>> f = evaluator(0.1)
    >>> pair = f(Model([[1.0, -1.0]]), gradient=True)            # E min(u, v)^2 = 1/6 if both are on
    >>> round(pair.loss, 12), pair.gradient["W_in"].round(6), pair.method
    (0.001666666667, array([[-0.000833,  0.000833]]), 'folds')
    """
    if not isinstance(law, Features):
        as_features(law, 1)
    tol = number("tol", tol, 0.0, 1.0, brackets="()")
    budget = None if budget is None else number("budget", budget, 0.0, brackets="()")
    validation.choice("method", method, ("auto", *METHODS))
    workers = None if workers is None else validation.integer("workers", workers, 1)
    return Networks(law, tol=tol, budget=budget, method=method, workers=workers)

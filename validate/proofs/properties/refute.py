"""Search for a counterexample of an inequality: random examples, descents from some, simplification."""

import enum
import inspect
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy import optimize

from ....solvers.deadline import work_seconds
from ....solvers.progress import status, time_left
from ....theory import validation as arguments
from ....theory.annotations import as_annotated
from ....theory.results import result
from ....theory.validation import FloatArray
from . import strategies
from .moves import (
    Example,
    array_shapes,
    code,
    coordinates,
    description_length,
    move_numbers,
    simpler_examples,
)

# Evaluations of the slack: in one descent, and while a counterexample is made simple.
_DESCENT, _SIMPLIFY = 600, 3000


class Outcome(enum.Enum):
    """Outcome of a search for a counterexample: REFUTED or NOT_REFUTED."""

    REFUTED = "A counterexample was found: the slack is negative at `arguments`."
    NOT_REFUTED = "No counterexample was found, which proves nothing: `arguments` came closest."


@result
class Refutation:
    """The counterexample that a search found, or the closest example, and the effort of the search."""

    status: Outcome
    slack: float
    """The inequality's slack at `arguments`; the smallest that was met if there is no counterexample."""
    arguments: dict[str, Any]
    """The counterexample, made simple; or what came closest."""
    examples: int
    starts: int
    """Examples that were drawn, and descents."""
    evaluations: int
    """How often the inequality was evaluated in all."""
    tolerance: float
    """A slack counts as negative below minus this."""

    @property
    def refuted(self) -> bool:
        """Whether there is a counterexample."""
        return self.status is Outcome.REFUTED

    @property
    def code(self) -> str:
        """The arguments as Python keyword arguments, exact to the last digit."""
        return ",\n".join(f"{name}={code(value)}" for name, value in self.arguments.items())

    @property
    def text(self) -> str:
        """The outcome as text: whether refuted, numbers of examples and evaluations, slack, arguments.

        The slack is the inequality's value at the arguments; it fails where this is negative.
        """
        effort = f"{self.examples} examples, {self.starts} descents, {self.evaluations} evaluations"
        outcome = "refuted" if self.refuted else "not refuted"
        return f"{outcome} ({effort}); slack {self.slack:.6g} at\n{self.code}"


class _Slack:
    """The inequality's slack as a function of an example, with its count of calls and its least value.

    A slack of nan raises a ValueError.
    """

    def __init__(self, inequality: Callable[..., Any], planned: int) -> None:
        self.inequality, self.count, self.planned = inequality, 0, planned
        self.begin = work_seconds()
        self.least, self.at = np.inf, cast(Example, {})

    def __call__(self, at: Example) -> float:
        """Return the slack at an example."""
        self.count += 1
        example_arguments = {name: value for name, (value, _) in at.items()}
        try:
            slack = self.inequality(**example_arguments)
            slack_value = float(slack)
        except Exception as error:
            error.add_note(
                f"`inequality` was given {', '.join(f'{n}={code(v)}' for n, v in example_arguments.items())}."
            )
            raise
        if np.isnan(slack_value):
            raise ValueError(
                f"`inequality` must return a number, or inf where it says nothing; got nan at "
                f"{', '.join(f'{name}={code(value)}' for name, value in example_arguments.items())}."
            )
        if slack_value < self.least or not self.at:
            self.least, self.at = slack_value, at
        left = time_left(work_seconds() - self.begin, self.count, self.planned)
        status(f"{self.count} evaluations of at most {self.planned}, least slack {self.least:.3g}{left}")
        return slack_value


@as_annotated
def refute(
    inequality: Callable[..., Any],
    *,
    examples: int = 300,
    starts: int = 8,
    tolerance: float = 1e-9,
    rng: Any = 0,
    **drawn: Any,
) -> Refutation:
    """Search for a counterexample of an inequality; return a simple one, or the closest example.

    That a ReLU never makes a linear model worse (Elhage et al. 2022) needs values that are not negative:

    >>> def never_worse(x, z):
    ...     return (x - z) ** 2 - (x - max(z, 0)) ** 2
    >>> refute(never_worse, x=(0.0, 1.0), z=(-2.0, 2.0), starts=2, examples=50).refuted
    False
    >>> print(refute(never_worse, x=(-1.0, 1.0), z=(-2.0, 2.0), examples=50).code)
    x=-1.0,
    z=-1.0

    Hypothesis draws examples. From some of them, the worst of each size and random ones, SciPy descends on
    the slack, which need not be smooth. A counterexample is simplified while it stays one: fewer features and
    neurons, zeros, numbers of few digits.

    Parameters
    ----------
    inequality : callable
        Returns the slack: not negative where the inequality holds, inf where it does not apply. It is called
        with the arguments below, by name.
    examples : int, optional
        Number of examples to draw; fewer if there are no more.
    starts : int, optional
        Largest number of descents, of some 600 evaluations each.
    tolerance : float, optional
        Rounding error of the slack, which counts as negative only below -tolerance. If terms are large,
        divide the slack by their size.
    rng : int, Generator or None, optional
        Seed. The same seed gives the same answer, except for strategies of your own that draw floats: these
        depend on the modules that are loaded.
    **drawn
        For each argument of `inequality`: a range ``(low, high)`` of numbers, or of whole numbers if both
        ends are ints; a strategy, of `superposition.validate.proofs.properties` or of Hypothesis; a function
        of other arguments, by name, which returns one of these; any other value is a constant. Descents move
        values of ranges and of this package's strategies, within their limits. Others stay as drawn.
    """
    examples = arguments.integer("examples", examples, 1, 10**6)
    starts = arguments.integer("starts", starts, 0, 10**4)
    tolerance = arguments.number("tolerance", tolerance, 0)
    try:
        inspect.signature(inequality).bind(**drawn)
    except TypeError as error:
        raise ValueError(f"`inequality` must take the arguments {', '.join(drawn)}; {error}.") from error
    generator = arguments.generator("rng", rng)
    slack = _Slack(inequality, examples + starts * _DESCENT + _SIMPLIFY)
    draws = _draw(slack, drawn, examples, int(generator.integers(2**62)))
    begun = 0
    for start in _order_starts(draws, generator):
        if begun == starts:
            break
        begun += _descend_slack(slack, start)
    refuted = slack.least < -tolerance
    if refuted:
        _simplify(slack, tolerance)
    at = {name: slack.at[name][0] for name in drawn}
    status = Outcome.REFUTED if refuted else Outcome.NOT_REFUTED
    return Refutation(status, slack.least, at, len(draws), begun, slack.count, tolerance)


def _strategy(name: str, spec: Any) -> Any:
    """Return the strategy of the argument `name`.

    `spec` is a strategy, a range (low, high), or a constant.
    """
    st = strategies.hypothesis().strategies
    if isinstance(spec, st.SearchStrategy):
        return spec
    if isinstance(spec, tuple) and len(spec) == 2 and all(isinstance(end, int | float) for end in spec):
        if any(isinstance(end, float) for end in spec):
            return strategies.numbers(*spec)
        return strategies.whole_numbers(name, *spec)
    return st.just(spec)


def _check_arguments(drawn: dict[str, Any]) -> dict[str, Any]:
    """Return how to draw each argument of an inequality: a Hypothesis strategy, or a function of others.

    `drawn` has for each argument its strategy, range (low, high), constant, or function of other arguments.
    Functions come last in the result, as they are called with the other arguments. ValueError if one needs an
    argument that is not drawn before it.
    """
    ready = {name: _strategy(name, spec) for name, spec in drawn.items() if not callable(spec)}
    for name, spec in drawn.items():
        if callable(spec):
            needs = list(inspect.signature(spec).parameters)
            if not set(needs) <= set(ready):
                rule = "be a function of arguments that are no functions, or before it"
                raise ValueError(f"`{name}` must {rule}; got one of {', '.join(needs)}.")
            ready[name] = spec
    return ready


def _draw(slack: _Slack, drawn: dict[str, Any], examples: int, seed: int) -> list[tuple[float, Example]]:
    """Return (slack, example) of at most `examples` random examples; an error of the inequality is raised.

    An example maps each argument's name to (value, its range or None), and `slack` evaluates the inequality
    there; it fails where the slack is negative. `drawn` has for each argument its strategy, range, constant
    or function of earlier arguments; `seed` is that of Hypothesis.
    """
    hypothesis = strategies.hypothesis()
    draws: list[tuple[float, Example]] = []
    failures: list[Exception] = []
    fixed = _check_arguments(drawn)

    def example(draw: Any) -> Example:
        """Return an example: a value, and its range, for each argument; `draw` is that of Hypothesis.

        An array whose range depends on earlier arguments may be shrunk to one feature.
        """
        at: Example = {}
        for name, spec in fixed.items():
            if not callable(spec):
                at[name] = draw(spec), strategies.range_of(spec)
                continue
            earlier = [at[parameter][0] for parameter in inspect.signature(spec).parameters]
            strategy = _strategy(name, spec(*earlier))
            limits = strategies.range_of(strategy)
            # Its size follows that of another.
            at[name] = draw(strategy), limits and replace(limits, n_features=(1, limits.n_features[1]))
        return at

    def look(at: Example) -> None:
        """Append an example, `at`, with its slack, to `draws`, or the error that it raised to `failures`."""
        if failures:
            return
        try:
            draws.append((slack(at), at))
        except hypothesis.errors.HypothesisException:  # such as that of `assume`
            raise
        except Exception as error:
            failures.append(error)

    settings = hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(hypothesis.Phase.generate,),  # what it knows of targets and of shrinking is done here
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    search = settings(hypothesis.given(hypothesis.strategies.composite(example)())(look))
    with strategies.temporary_storage():
        hypothesis.seed(seed)(search)()
    if failures:
        raise failures[0]
    return draws


def _order_starts(examples: list[tuple[float, Example]], rng: np.random.Generator) -> list[Example]:
    """Return the examples of finite slack in the order in which descents start from them.

    `examples` are pairs (slack, example): arguments of an inequality, which fails where its slack is
    negative. Two sequences alternate: the example of least slack of each size, the least of all first; and
    random examples, one of each size in turn.
    """
    # The worst examples alone are similar, and often at corners where the inequality is tight and descents
    # stall.
    by_size: dict[Any, list[int]] = {}
    for k in sorted(range(len(examples)), key=lambda k: examples[k][0]):
        if np.isfinite(examples[k][0]):
            by_size.setdefault(array_shapes(examples[k][1]), []).append(k)
    smallest = sorted(by_size, key=lambda size: (sum(map(np.prod, size)), size))
    shuffled = [rng.permutation(by_size[size]).tolist() for size in smallest]
    any_of_one = itertools.chain(*itertools.zip_longest(*shuffled))
    worst = [group[0] for group in by_size.values()]
    turns = itertools.chain(*itertools.zip_longest(worst, any_of_one))
    return [examples[k][1] for k in dict.fromkeys(turns) if k is not None]


def _descend_slack(slack: _Slack, start: Example) -> bool:
    """Descend on an inequality's slack from `start`; return False if none of its numbers can be moved.

    The slack is negative where the inequality fails. `start` is an example of its arguments; the least slack
    and its example are recorded in the attributes `least` and `at` of `slack`.
    """
    x, low, high = coordinates(start)
    if not x.size:
        return False

    def value(y: FloatArray) -> float:
        """Return the slack if the numbers that a search may change are y, clipped to their ranges."""
        return min(slack(move_numbers(start, np.clip(y, low, high))), 1e100)

    bounds = optimize.Bounds(low, high)
    steps: dict[str, Any] = {"maxfun": _DESCENT // 2}
    minimize: Any = optimize.minimize
    first = minimize(value, x, method="L-BFGS-B", bounds=bounds, options=steps)
    y = np.clip(first.x if first.fun < value(x) else x, low, high)
    # Also where there is no slope: a simplex of steps towards the farther end, a tenth of the range at most.
    length = np.minimum(0.1 * (high - low), 0.3 * np.maximum(np.abs(y), 0.3))
    corners = y + np.diag(np.where(high - y > y - low, length, -length))
    options = {"maxfev": _DESCENT // 2, "initial_simplex": np.vstack([y, corners]), "adaptive": True}
    minimize(value, y, method="Nelder-Mead", bounds=bounds, options=options)
    return True


def _simplify(slack: _Slack, tolerance: float) -> None:
    """Replace the slack's counterexample, in its attribute `at`, by a simpler one, if one is found.

    The slack of an inequality is negative where it fails; at a counterexample it is below -`tolerance`. Some
    thousand changes are tried.
    """
    last, at, least = slack.count + _SIMPLIFY, slack.at, slack.least
    improved = True
    while improved:
        improved = False
        for candidate in simpler_examples(at):
            if slack.count >= last:
                break
            if description_length(candidate) >= description_length(at):
                continue
            try:
                value = slack(candidate)
            except Exception:  # not all shapes and numbers make sense to an inequality
                continue
            if value < -tolerance:
                at, least, improved = candidate, value, True
                break
    slack.at, slack.least = at, least

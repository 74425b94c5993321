"""What every section of the report has to do, at sizes of a test."""

import argparse
import functools
import os
import re
import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure as Canvas

from superposition.validate import ledger
from superposition.validate.cli.parser import make_parser
from superposition.validate.experiments import drawing
from superposition.validate.runner import cache, registry

from .. import snapshot

_SLOW = os.environ.get("HYPOTHESIS_PROFILE") == "random"


@pytest.fixture(autouse=True)
def _figures_are_closed():
    """Close what a test has drawn: Matplotlib warns of more than twenty open figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def _show(phenomenon, tiny, folder, renew):
    """Run a phenomenon's experiments at tiny sizes and show all its topics; return the lab and what is shown.

    Their numbers are those stored, see `snapshot.py`.
    """
    section = registry.load_section(phenomenon)
    assert section.name == phenomenon
    lab = cache.ResultCache(
        folder, overrides={f"{phenomenon}.{name}": settings for name, settings in tiny.items()}
    )
    known = {claim.id for claim in ledger.CLAIMS}
    shown, whole, numbers = {}, [], {}

    def note(place, found):
        numbers.update({f"{place}: {name}": number for name, number in found})

    for topic in section.topics:
        assert set(topic.claims) <= known
        made = shown[topic.name] = topic.content(*(lab[name] for name in topic.run_names(phenomenon)))
        note(topic.name, snapshot.of_tables(made))
        for name in topic.run_names(phenomenon):
            note(name, snapshot.of_dataset(lab[name]))
        if phenomenon not in ("codes", "collisions", "noise", "rug"):  # whose shortest runs may leave gaps
            assert not re.search(r"\bnan\b", f"{made.text} {[table.rows for table in made.tables]}")
        for table in made.tables:
            assert table.rows
            assert {len(row) for row in table.rows} == {len(table.columns)}
        for figure in made.figures:
            panels = [figure.draw] if callable(figure.draw) else figure.draw
            # The first figure of a section as the page has it, and of each topic in the slow suite. Of all
            # only what is in their axes, since placing all labels takes most of the time.
            if figure is made.figures[0] and (_SLOW or not whole):
                whole.append(figure.name)
                assert drawing.svg(figure).startswith("<svg")
            for k, panel in enumerate(panels):
                ax = panel(figure.dataset, Canvas().subplots())
                assert ax.has_data()
                if k == 0 or _SLOW:  # placing the labels takes most of the time
                    ax.figure.draw_without_rendering()
                note(f"{figure.name} {k}", snapshot.of_axes(ax))
    names = [figure.name for made in shown.values() for figure in made.figures]
    assert len(names) == len(set(names))
    snapshot.compare(phenomenon, numbers, renew)
    assert set(section.runs) >= {name for topic in section.topics for name in topic.needs if "." not in name}
    return lab, shown


def _judge(lab, ids):
    """Judge rows of the ledger on the lab's data."""
    return {id: ledger.judge(ledger.select_claims([id])[0], lab) for id in ids}


@pytest.fixture
def sections(pytestconfig):
    """Functions that tests of a section use: `show` and `judge`."""
    show = functools.partial(_show, renew=pytestconfig.getoption("--renew-numbers"))
    return SimpleNamespace(show=show, judge=_judge)


@pytest.fixture(scope="session")
def torch():
    """Return PyTorch; a test that asks for it is skipped without it."""
    return pytest.importorskip("torch", reason="training needs PyTorch")


@pytest.fixture
def commands():
    """Return the parser of each command by its words, those of the phenomena included."""
    found = {}
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, one in commands.choices.items():
        below = [a for a in one._actions if isinstance(a, argparse._SubParsersAction)]
        found |= {f"{name} {inner}": p for a in below for inner, p in a.choices.items()} or {name: one}
    return found

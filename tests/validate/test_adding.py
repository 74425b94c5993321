"""The experiment that the documentation shows to copy runs, draws, and says whether its criterion holds."""

import re
import sys
import textwrap
import types
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas

from superposition.validate.experiments import rug

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-experiment.rst"


@pytest.fixture
def module(monkeypatch):
    (code, *_) = re.findall(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", PAGE.read_text("utf-8"))
    made = types.ModuleType(f"{rug.__name__}.example")
    made.__package__ = rug.__name__
    monkeypatch.setitem(sys.modules, made.__name__, made)
    exec(compile(textwrap.dedent(code), str(PAGE), "exec"), vars(made))
    return made


def test_the_template_runs_and_shows_what_it_found(module):
    (topic,), run = module.TOPICS, module.RUNS["example"]
    (settings,) = run.piece_settings("quick", 0)
    ds = run.function(**settings)
    content = topic.content(ds)
    assert "times the macroscopic optimum" in content.text
    assert content.tables[0].rows[0][-1] == "holds"
    (figure,) = content.figures
    assert figure.draw(figure.dataset, Canvas().subplots()).get_xlabel() == "n_features"
    wrong = ds.assign_attrs(optimum=3.0 * ds.attrs["optimum"])
    assert not topic.judge(wrong)[0].passed  # its criterion can fail

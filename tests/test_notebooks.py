"""What is committed of the notebooks is executed, small and free of one machine's traces.

`make notebooks` runs all of them; here the tour alone, in `make test-all`.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from superposition.validate import ledger
from superposition.validate.runner.registry import PHENOMENA

FOLDER = Path(__file__).parents[1] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
OTHERS = {"audit", "properties"}  # of public code, and of bounds of one's own
LARGEST_FIGURE, LARGEST_NOTEBOOK = 60_000, 250_000  # bytes


def _read(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def _code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_each_is_of_a_phenomenon_or_another_question():
    assert {*NAMES} - {*PHENOMENA} == OTHERS | {"tour"}


@pytest.mark.parametrize("name", NAMES)
def test_is_short_and_ends_with_something_to_try(name):
    cells = _read(name)["cells"]
    assert 8 <= len(cells) <= 14
    assert cells[0]["cell_type"] == cells[-1]["cell_type"] == "markdown"
    assert "".join(cells[0]["source"]).startswith("# ")
    assert "## Something to try" in "".join(cells[-1]["source"])


@pytest.mark.parametrize("name", NAMES)
def test_was_run_from_top_to_bottom_without_complaint(name):
    code = _code(_read(name))
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("name", sorted({*NAMES} - OTHERS))
def test_says_what_the_source_has_wrong_by_computing_it(name):
    notebook = _read(name)
    shown = [cell for cell in _code(notebook) if "ledger.run(" in "".join(cell["source"])]
    assert len(shown) == 1
    text = "".join(line for output in shown[0]["outputs"] for line in output["text"])
    assert any(f"{verdict}: " in text for verdict in ledger.WRONG)


def test_the_audits_found_a_cause_for_each_kind_of_gap():
    outputs = [output for cell in _code(_read("audit")) for output in cell["outputs"]]
    text = "".join(line for output in outputs for line in output.get("text", ()))
    assert "Stuck at a minimum of the loss: longer training will not help" in text
    assert re.search(r"spd, random bias: [1-9] dead", text)
    assert re.search(r"spd, bias 0: 0 dead", text)
    assert re.search(r"devinterp, bias 0: 0 dead .*, [1-9] faint", text)


@pytest.mark.parametrize("name", NAMES)
def test_is_small_and_has_no_traces_of_a_machine(name):
    path = FOLDER / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < LARGEST_NOTEBOOK
    notebook = json.loads(text)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        assert not cell["metadata"]  # where execution times and the state of an editor would be
        for output in cell.get("outputs", ()):
            assert len(output.get("data", {}).get("image/png", "")) * 3 / 4 < LARGEST_FIGURE
            output.get("data", {}).pop("image/png", None)
    without_figures = json.dumps(notebook)
    assert not re.findall(
        r"(?:/(?:home|root|tmp|Users|opt|usr|var|mnt)/|[A-Z]:\\\\)[^\s\"]*", without_figures
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Jupyter's own warnings are not ours to mend
def test_the_tour_runs_without_complaint_and_leaves_nothing_behind(tmp_path):
    why = "needs nbclient and ipykernel: pip install -e '.[notebooks]'"
    nbclient = pytest.importorskip("nbclient", reason=why)
    pytest.importorskip("ipykernel", reason=why)
    nbformat = pytest.importorskip("nbformat", reason=why)
    notebook = nbformat.read(FOLDER / "tour.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises at the first cell that fails
    assert not list(tmp_path.iterdir())
    outputs = [output for cell in _code(notebook) for output in cell["outputs"]]
    assert not [output for output in outputs if output.get("name") == "stderr"]

"""The notebook of the quickstart: each cell runs, and prints what is stored below it."""

import json
import re
from pathlib import Path

import pytest
import torch

NOTEBOOK = Path(__file__).parent.parent.parent / "docs" / "quickstart.ipynb"


@pytest.fixture(scope="module")
def notebook():
    return json.loads(NOTEBOOK.read_text())


@pytest.fixture(scope="module")
def printed(notebook, hook):
    pytest.importorskip("matplotlib", reason="the notebook draws: pip install 'regard[plot]'")
    return list(hook("notebook").outputs(notebook))


def code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text(outputs):
    """What is printed; a picture is another by a bit on another machine."""
    data = [each.get("text") or each["data"]["text/plain"] for each in outputs]
    return ["".join(lines) for lines in data]


def test_every_cell_prints_what_is_stored(notebook, printed):
    if torch.cuda.is_available():
        pytest.skip("the stored outputs are those of a CPU")
    for cell, outputs in zip(code(notebook), printed, strict=True):
        assert text(outputs) == text(cell["outputs"]), "run `make notebook`"


def test_a_cell_with_a_figure_stores_a_picture(notebook, printed):
    kinds = [
        {kind for each in cell["outputs"] for kind in each.get("data", ())}
        for cell in code(notebook)
    ]
    drawn = [{kind for each in outputs for kind in each.get("data", ())} for outputs in printed]
    assert drawn == kinds and sum("image/png" in kind for kind in kinds) == 1


def test_the_notebook_stays_small(notebook):
    assert NOTEBOOK.stat().st_size < 200_000
    lines = [line for cell in code(notebook) for line in cell["source"] if " import " in line]
    assert {"attend", "look", "why", "load", "edit"} <= set(re.findall(r"\w+", " ".join(lines)))

"""Every Python block of the README and the docs runs, in order, one namespace a file."""

import json
import re
from pathlib import Path

import pytest

from regard.recipes import translate

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def pages():
    """The pages that hold a block; one that compiles is for the pass without shape checks."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text() if path.exists() else ""
        if BLOCK.search(text):
            marks = [pytest.mark.compiled] if "torch.compile(" in text else []
            yield pytest.param(path, id=path.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.parametrize("path", list(pages()))
def test_blocks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(path)


def run(path):
    """Run the blocks of a page; a failure points at the page's own line."""
    text, namespace = path.read_text(), {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(above + block[1], str(path), "exec"), namespace)


def test_blocks_share_names_and_a_failure_points_at_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n```python\nx = 1\n```\ntext\n```python\n\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as failure:
        run(page)
    last = failure.traceback[-1]
    assert (Path(last.path), last.lineno + 1) == (page, 8)


def test_the_results_of_the_readme_are_those_that_were_measured():
    found = json.loads((ROOT / "docs" / "results" / "translate.json").read_text())["lines"]
    measured = {x["command"].removeprefix("regard train translate "): x for x in found.values()}
    text = (ROOT / "README.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `… model")]
    assert len(rows) == 3
    for _, command, bleu, seconds, _ in rows:
        row = measured[command.split("`")[1].removeprefix("… ")]
        assert (bleu.strip(), seconds.strip()) == (f"{row['bleu']:.1f}", f"{row['seconds']:.0f}")
    default = measured["regard train translate"]
    assert f"| **{default['bleu']:.1f}** | {default['seconds']:.0f} |" in text


def test_the_numbers_a_recipe_expects_are_those_that_were_measured():
    found = json.loads((ROOT / "docs" / "results" / "translate.json").read_text())["lines"]
    by = {x["command"]: x["bleu"] for x in found.values()}
    default, none = by["regard train translate"], by["regard train translate model.attention=none"]
    expected = (
        f"BLEU {default:.0f} of the first on 1,000 held-out pairs, {none:.0f} without attention."
    )
    assert expected in translate.__doc__

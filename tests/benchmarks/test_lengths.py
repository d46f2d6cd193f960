"""The length curve shows the numbers of its table, each at its length."""

import numpy as np
import pytest

from benchmarks.lengths import STYLES, drawn
from regard.recipes.translate.grids import GRIDS

pytest.importorskip("matplotlib")
ATTENTION = {"1-10": 38.0, "11-20": 41.0, "31-40": 37.5}


def table() -> dict:
    curves = {"Bahdanau": ATTENTION, "no attention": {"11-20": 30.0, "31-40": 12.0}}
    rows = {k: {f"{span}.bleu_lc_tok": v for span, v in c.items()} for k, c in curves.items()}
    return {"rows": [{"label": label, "numbers": [found]} for label, found in rows.items()]}


def test_every_row_is_a_line_through_its_numbers():
    first, second = drawn(table()).axes[0].lines
    assert np.array_equal(first.get_xydata(), [(0, 38), (1, 41), (2, 37.5)])
    assert np.array_equal(second.get_xydata(), [(1, 30), (2, 12)])


def test_lengths_rows_and_what_was_learned_from_are_named():
    axes = drawn(table()).axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1–10", "11–20", "31–40"]
    assert [t.get_text() for t in axes.get_legend().texts] == ["Bahdanau", "no attention"]
    assert [t.get_text() for t in axes.texts] == ["training: up to 30 words"]
    ground = axes.patches[0].get_path().get_extents(axes.patches[0].get_patch_transform())
    assert (ground.x0, ground.x1) == (-0.5, 1.5)


def test_no_two_rows_of_the_table_look_alike():
    assert len(set(STYLES)) == len(STYLES) >= len(GRIDS["long"].rows)


def test_a_table_without_lengths_is_refused():
    rows = [{"label": "a", "numbers": [{"bleu_lc_tok": 1.0}]}]
    with pytest.raises(ValueError, match="lengths: expected numbers such as 1-10"):
        drawn({"rows": rows})

"""An arc joins a query and what it reads, and is as thick as its weight."""

import numpy as np
import pytest
import torch
from matplotlib.transforms import Bbox

from regard.view import Map, Tokens, Trace, arcs, ribbons, save_figure
from tests.view.example_traces import SOURCE, TARGET, odd, several, translation
from tests.view.figures.test_plots import LONG, texts, words

THINNEST, THICKEST = 0.5, 6.0


def attending(rows: list[list[float]]) -> Trace:
    """A sentence of a, b, c, … that looks at itself."""
    w = torch.tensor(rows)
    return Trace([Tokens("s", list("abcdefg"[: len(w)]))], [Map("m", "s", "s", w[None, None])])


def read_out(figure, queries, keys) -> dict[tuple[int, int], float]:
    """The weights of the lines, by the words that their ends stand at."""
    at = {t.get_text(): t.get_position()[0] for t in figure.axes[0].texts}
    found = {}
    for patch in figure.axes[0].patches:
        ends = patch.get_path().vertices[[0, -1], 0]
        # the feet of a loop stand to both sides of its word
        ends = [ends.mean()] * 2 if abs(ends[1] - ends[0]) < 0.13 else ends
        q, k = (
            int(np.argmin([abs(at[word] - x) for word in row]))
            for x, row in zip(ends, (queries, keys), strict=True)
        )
        found[q, k] = (patch.get_linewidth() - THINNEST) / (THICKEST - THINNEST)
    return found


def test_the_arcs_of_every_query_are_the_weights():
    trace = several(2)
    w = trace.map("map1").weights(1, 0)
    found = read_out(arcs(trace, map="map1", layer=1), SOURCE, SOURCE)
    assert found == pytest.approx({(q, k): float(w[q, k]) for q in range(8) for k in range(8)})


def test_the_lines_between_two_sentences_are_the_weights():
    trace = translation(heads=2)
    w = trace.map().weights(0, 1)
    found = read_out(arcs(trace, head=1), TARGET, SOURCE)
    assert found == pytest.approx({(q, k): float(w[q, k]) for q in range(7) for k in range(8)})


def test_a_chosen_query_reads_its_strongest_keys_and_says_how_much():
    trace = attending([[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.25, 0.125, 0.625]])
    figure = arcs(trace, query=2, max_keys=2)
    assert read_out(figure, "abc", "abc") == pytest.approx({(2, 0): 0.25, (2, 2): 0.625})
    noted = {t.get_text(): t.get_position()[0] for t in figure.axes[0].texts}
    assert noted["0.25"] == noted["a"] and noted["0.62"] == noted["c"] and "0.12" not in noted
    assert "the 2 strongest keys of query 2, none below 0.002" in words(figure.texts)


@pytest.mark.parametrize("trace", [several(1), translation()], ids=["one row", "two rows"])
def test_every_query_has_its_own_strongest_keys(trace):
    w, queries = trace.map().weights(), trace.axis(trace.map().query).labels
    found = read_out(arcs(trace, max_keys=3), queries, SOURCE)
    assert set(found) == {(q, int(k)) for q, row in enumerate(w) for k in row.topk(3).indices}


def test_what_is_next_to_nothing_is_not_drawn():
    trace = attending([[0.999, 0.001], [0.002, 0.998]])
    assert list(read_out(arcs(trace), "ab", "ab")) == [(1, 0), (1, 1), (0, 0)]
    assert not arcs(attending([[0.0, 0.0], [0.0, 0.0]])).axes[0].patches


def test_a_stronger_arc_is_darker_and_lies_on_top():
    drawn = arcs(attending([[0.1, 0.2, 0.7]] * 3), query=1).axes[0].patches
    dark = [patch.get_alpha() for patch in drawn]
    assert dark == sorted(dark) and len(set(dark)) == 3


def test_a_longer_arc_is_higher_and_none_leaves_its_place():
    axes = arcs(attending([[0.2] * 5] * 5), query=0).axes[0]
    tops = [0.75 * patch.get_path().vertices[:, 1].max() for patch in axes.patches]
    assert tops == sorted(tops) and len(set(tops)) == 5
    assert tops[-1] < axes.get_ylim()[1]


def test_an_arc_that_leads_ahead_is_dashed_where_one_could_not_tell():
    def dashed(**how):
        figure = arcs(attending([[0.5, 0.5], [0.4, 0.6]]), **how)
        said = any("dashed: to a key further on" in text for text in words(figure.texts))
        return said, [patch.get_linestyle() != "solid" for patch in figure.axes[0].patches]

    # weights 0.4 from b to a, 0.5 from a to itself, 0.5 from a to b, 0.6 from b to itself
    assert dashed() == (True, [False, False, True, False])
    assert dashed(query=0) == (False, [False, False])


def test_the_chosen_query_is_marked():
    (dot,) = arcs(translation(), query=3).axes[0].lines
    at = {t.get_text(): t.get_position()[0] for t in arcs(translation()).axes[0].texts}
    assert dot.get_xdata() == [at["pom"]]
    assert not arcs(translation()).axes[0].lines


def test_rows_are_named_as_ribbons_name_them():
    assert {"keys · source", "queries · target"} <= set(words(arcs(translation()).texts))
    assert "queries and keys · source" in words(arcs(several(1)).texts)
    assert (
        words(arcs(translation(heads=2)).texts)[-1]
        == words(ribbons(translation(heads=2)).texts)[-1]
    )


@pytest.mark.parametrize("labels", [["a"], SOURCE, LONG, ["w" * 99] * 3], ids=len)
@pytest.mark.parametrize("query", [None, 0])
@pytest.mark.parametrize("alone", [True, False])
def test_no_word_leaves_the_figure_or_covers_another(labels, query, alone):
    w = torch.full((1, 1, len(labels), len(labels)), 1 / len(labels))
    axes = [Tokens("s", labels), Tokens("t", labels)]
    figure = arcs(Trace(axes, [Map("m", "s", "s" if alone else "t", w)]), query=query)
    boxes = [text.get_window_extent() for text in texts(figure)]
    drawn, (wide, high) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0, wide - drawn.x1, high - drawn.y1) > 0.02
    shrunk = [Bbox.from_extents(b.x0 + 2, b.y0 + 2, b.x1 - 2, b.y1 - 2) for b in boxes]
    assert all(box.count_overlaps(shrunk) <= 1 for box in shrunk)


def test_of_a_thousand_words_the_chosen_and_what_it_reads_are_named():
    labels, w = [f"w{i}" for i in range(1000)], torch.zeros(1000, 1000)
    w[701, [3, 444]] = 0.5
    trace = Trace([Tokens("s", labels)], [Map("m", "s", "s", w[None, None])])
    figure = arcs(trace, query=701)
    assert {"w701", "w3", "w444"} <= set(words(figure.axes[0].texts))
    assert max(figure.get_size_inches()) < 17 and len(figure.axes[0].texts) < 200


def test_signs_of_mathematics_and_other_scripts_are_shown_as_they_are(tmp_path):
    labels = ["$x_1$", "a_b^c", "été", "السلام"]
    trace = odd(labels)
    figure = arcs(trace, query=1)
    assert not any(text.get_parse_math() for text in texts(figure))
    assert set(labels) <= set(words(figure.axes[0].texts))
    first = save_figure(figure, tmp_path / "a.svg").read_bytes()
    assert first == save_figure(arcs(trace, query=1), tmp_path / "b.svg").read_bytes()


def test_what_cannot_be_drawn_is_refused():
    for query in (-1, 7):
        with pytest.raises(ValueError, match=f"arcs: expected query from 0 to 6, got {query}"):
            arcs(translation(), query=query)
    with pytest.raises(ValueError, match="arcs: expected most of at least 1, got 0"):
        arcs(translation(), max_keys=0)
    with pytest.raises(ValueError, match="no map named 'self'; there is cross"):
        arcs(translation(), map="self")
    with pytest.raises(ValueError, match="expected head from 0 to 0, got 1"):
        arcs(translation(), head=1)

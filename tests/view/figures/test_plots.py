"""What is drawn is what was seen: cells, labels and titles."""

import jaxtyping
import numpy as np
import pytest
import torch
from matplotlib.colors import LogNorm, Normalize, PowerNorm
from matplotlib.transforms import Bbox

from regard.view import Grid, Map, Slots, Steps, Tokens, Trace, by_words, matrix, ribbons, wall
from regard.view.figures.canvas import plot_style
from tests.view.example_traces import SOURCE, TARGET, odd, several, translation


def words(labels) -> list[str]:
    return [label.get_text() for label in labels]


def texts(figure) -> list:
    """Every text of a figure that is seen."""
    with plot_style():
        figure.draw_without_rendering()
    from matplotlib.text import Text

    return [t for t in figure.findobj(Text) if t.get_text() and t.get_visible()]


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_the_cells_of_a_matrix_are_the_weights(scale):
    trace = translation(layers=2, heads=3)
    drawn = matrix(trace, layer=1, head=2, scale=scale).axes[0].images[0].get_array()
    assert np.array_equal(drawn, trace.map().weights(1, 2).numpy())


@pytest.mark.parametrize(
    ("scale", "kind"), [("linear", Normalize), ("sqrt", PowerNorm), ("log", LogNorm)]
)
def test_a_scale_goes_up_to_the_greatest_weight_that_is_drawn(scale, kind):
    trace = translation(heads=2)
    norms = [plot(trace, scale=scale).axes[0].images[0].norm for plot in (matrix, wall)]
    w = trace.map().all_weights()
    for norm, most in zip(norms, (float(w[0, 0].max()), float(w.max())), strict=True):
        assert type(norm) is kind
        assert norm.vmax == pytest.approx(most)


def test_another_scale_is_refused(monkeypatch):
    # the shape checks of the tests would refuse it first, in other words
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for plot in (matrix, wall):
        with pytest.raises(ValueError, match="expected scale linear, sqrt or log, got 'cubic'"):
            plot(translation(), scale="cubic")


def test_the_cells_of_words_are_the_merged_weights():
    trace = translation()
    drawn = matrix(trace, words=True).axes[0].images[0].get_array()
    assert np.array_equal(drawn, by_words(trace).map().weights().numpy())


def test_keys_stand_along_the_top_and_queries_down_the_left():
    axes = matrix(translation()).axes[0]
    assert words(axes.get_xticklabels()) == SOURCE
    assert words(axes.get_yticklabels()) == TARGET
    assert axes.xaxis.get_ticks_position() == "top"
    assert axes.get_xlabel() == "keys · source"
    assert axes.get_ylabel() == "queries · target"


@pytest.mark.parametrize("sizes", [(1, 1), (2, 30), (40, 3), (9, 9)])
def test_cells_are_square(sizes):
    Q, K = sizes
    trace = Trace([Slots("q", Q), Slots("k", K)], [Map("m", "q", "k", torch.ones(1, 1, Q, K) / K)])
    figure = matrix(trace)
    box = figure.axes[0].get_position().transformed(figure.dpi_scale_trans)
    wide, high = np.array([box.width, box.height]) * figure.get_size_inches()
    assert wide / K == pytest.approx(high / Q)


@pytest.mark.parametrize(
    ("layers", "heads", "title"),
    [(1, 1, "cross"), (2, 1, "cross · layer 0"), (2, 2, "cross · layer 0 · head 0")],
)
def test_the_title_says_map_layer_and_head_where_there_are_several(layers, heads, title):
    for plot in (matrix, ribbons):
        figure = plot(translation(layers=layers, heads=heads))
        assert words(figure.texts)[-1] == title


def test_a_long_title_is_cut_but_not_its_end():
    figure = matrix(translation(heads=2, title="a long story " * 30), head=1)
    assert words(figure.texts)[-1].startswith("a long story")
    assert words(figure.texts)[-1].endswith("… · cross · head 1")


def test_signs_of_mathematics_are_shown_as_they_are():
    labels = ["$x_1$", "\\frac{1}", "a_b^c", "$"]
    for figure in (matrix(odd(labels)), ribbons(odd(labels)), wall(odd(labels))):
        assert not any(text.get_parse_math() for text in texts(figure))
    assert words(matrix(odd(labels)).axes[0].get_xticklabels()) == labels


LONG = [f"word{i}" + "x" * (i % 9) for i in range(100)]


@pytest.mark.parametrize("plot", [matrix, ribbons])
@pytest.mark.parametrize("labels", [["a"], SOURCE, LONG, ["w" * 99] * 3], ids=len)
def test_no_label_leaves_the_figure_or_covers_another(plot, labels):
    figure = plot(odd(labels))
    flat = [t for t in texts(figure) if t.axes in (None, figure.axes[0]) and t.get_rotation() != 45]
    drawn, (wide, high) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0, wide - drawn.x1, high - drawn.y1) > 0.02
    boxes = [text.get_window_extent() for text in flat]
    shrunk = [Bbox.from_extents(b.x0 + 1, b.y0 + 3, b.x1 - 1, b.y1 - 3) for b in boxes]
    assert all(box.count_overlaps(shrunk) <= 1 for box in shrunk)


def test_a_hundred_words_are_all_named_and_readable():
    labels = matrix(odd(LONG)).axes[0].get_yticklabels()
    assert words(labels) == LONG
    assert min(label.get_size() for label in labels) >= 6


def test_a_thousand_words_make_a_picture_of_bearable_size():
    trace = Trace([Slots("s", 1000)], [Map("m", "s", "s", torch.eye(1000)[None, None])])
    figure = matrix(trace)
    assert max(figure.get_size_inches()) < 20
    assert len(figure.axes[0].get_xticklabels()) < 200


def test_a_wall_has_every_head_in_its_place():
    trace = translation(layers=2, heads=3)
    figure = wall(trace)
    tiles = [axes for axes in figure.axes if axes.images]
    for n, axes in enumerate(tiles[:6]):
        assert np.array_equal(axes.images[0].get_array(), trace.map().weights(n // 3, n % 3))
    assert len({axes.images[0].norm for axes in tiles[:6]}) == 1
    assert [axes.get_title() for axes in tiles[:3]] == ["head 0", "head 1", "head 2"]
    assert [axes.get_ylabel() for axes in tiles[:6:3]] == ["layer 0", "layer 1"]


def test_a_wall_shows_the_first_map_of_many_heads_or_the_one_that_is_named():
    def shown(figure):
        return words(figure.texts)[-1], sum(bool(axes.images) for axes in figure.axes)

    assert shown(wall(several(3))) == ("map1", 4)
    assert shown(wall(several(1))) == ("map0", 1)
    assert shown(wall(several(3), map="map0")) == ("map0", 1)


def test_the_words_of_a_wall_stand_along_its_top_and_down_its_left():
    tiles = [axes for axes in wall(translation(layers=2, heads=2)).axes if axes.images]
    assert [words(axes.get_xticklabels()) for axes in tiles] == [SOURCE, SOURCE, [], []]
    assert [words(axes.get_yticklabels()) for axes in tiles] == [TARGET, [], TARGET, []]


def test_no_word_of_a_wall_leaves_the_figure_or_covers_another():
    figure = wall(translation(layers=4, heads=4, title="a long story " * 30))
    drawn, (wide, high) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0, wide - drawn.x1, high - drawn.y1) > 0.02
    boxes = [text.get_window_extent() for text in texts(figure)]
    shrunk = [Bbox.from_extents(b.x0 + 2, b.y0 + 2, b.x1 - 2, b.y1 - 2) for b in boxes]
    assert all(box.count_overlaps(shrunk) <= 1 for box in shrunk)


def test_a_wall_too_large_for_words_has_none():
    trace = Trace([Slots("s", 60)], [Map("m", "s", "s", lambda i, j: torch.eye(60), 2, 12)])
    figure = wall(trace)
    assert max(figure.get_size_inches()) < 20
    assert not any(axes.get_xticklabels() for axes in figure.axes if axes.get_title())


def test_a_large_head_is_shown_by_the_greatest_weight_of_each_patch():
    w = torch.zeros(1, 1, 128, 192)
    w[0, 0, 5, 100] = 1
    trace = Trace([Slots("q", 128), Slots("k", 192)], [Map("m", "q", "k", w)])
    drawn = wall(trace).axes[0].images[0].get_array()
    assert drawn.shape == (64, 64)
    assert np.argwhere(drawn).tolist() == [[2, 33]]


def test_a_ribbon_is_as_thick_as_its_weight():
    w = torch.tensor([[0.8, 0.2, 0.0], [0.03, 0.4, 0.57]])
    trace = Trace([Slots("q", 2), Slots("k", 3)], [Map("m", "q", "k", w[None, None])])
    drawn = [patch.get_linewidth() for patch in ribbons(trace).axes[0].patches]
    thick = sorted(float(x) for x in w.flatten() if x >= 0.05)
    assert len(drawn) == 4
    assert np.allclose(np.array(drawn) / drawn[-1], np.array(thick) / thick[-1])


def test_a_ribbon_joins_its_key_and_its_query():
    w = torch.zeros(2, 4)
    w[1, 3] = 1
    trace = Trace([Slots("q", 2), Slots("k", 4)], [Map("m", "q", "k", w[None, None])])
    (ribbon,) = ribbons(trace).axes[0].patches
    assert ribbon.get_path().vertices[[0, -1]].tolist() == [[0, 0.875], [1, 0.75]]


def test_every_kind_of_axis_is_drawn():
    axes = [Grid("g", 2, 2), Steps("t", ["one", "two", "three"]), Tokens("s", ["a"])]
    maps = [
        Map("a", "t", "g", torch.ones(1, 1, 3, 4) / 4),
        Map("b", "g", "s", torch.ones(1, 1, 4, 1)),
    ]
    assert words(matrix(Trace(axes, maps), map="a").axes[0].get_xticklabels())[3] == "1,1"
    assert words(matrix(Trace(axes, maps), map="b").axes[0].get_yticklabels())[0] == "0,0"


def test_weights_that_are_all_zero_are_drawn():
    trace = Trace([Slots("s", 2)], [Map("m", "s", "s", torch.zeros(1, 1, 2, 2))])
    for scale in ("linear", "sqrt", "log"):
        texts(matrix(trace, scale=scale))
    assert not ribbons(trace).axes[0].patches


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="ribbons: expected least above 0 and up to 1, got 0"):
        ribbons(translation(), min_weight=0)
    with pytest.raises(ValueError, match="no map named 'self'; there is cross"):
        matrix(translation(), map="self")
    with pytest.raises(ValueError, match="expected head from 0 to 0, got 1"):
        matrix(translation(), head=1)

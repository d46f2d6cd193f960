"""Places are inches from the upper left corner; a title is cut where its name ends."""

from itertools import islice

import pytest
import torch
from matplotlib.colors import Normalize

from regard.view import Header, Tokens, Trace
from regard.view.figures.canvas import blank_figure, plot_style, text_widths
from regard.view.figures.panels import (
    MARGIN,
    add_axes,
    add_colour_bar,
    add_text,
    add_title,
    axis_labels,
    draw_cells,
    draw_curve,
    non_overlapping,
    round_numbers,
    title_parts,
    title_width,
)


def test_a_place_is_counted_from_the_upper_left_corner():
    figure = blank_figure(4, 2)
    box = add_axes(figure, 1, 0.5, 2, 1).get_position().bounds
    assert box == pytest.approx((0.25, 0.25, 0.5, 0.5))
    add_text(figure, 1, 0.5, "word", size=9)
    assert figure.texts[0].get_position() == (0.25, 0.75)
    assert figure.texts[0].get_size() == 9


def test_labels_are_short_and_in_signs_that_the_font_has():
    assert axis_labels(Tokens("t", ["a\nb", "\x7f", "w" * 30])) == [
        "a\\nb",
        "\\x7f",
        "w" * 19 + "…",
    ]


@pytest.mark.parametrize(
    ("header", "name"),
    [({}, ""), ({"model": "m"}, "m · "), ({"model": "m", "title": "t"}, "t · ")],
)
def test_a_title_is_the_name_of_the_trace_and_the_place_in_it(header, name):
    assert title_parts(Trace([Tokens("t", ["a"])], header=Header(**header)), "map") == (name, "map")


def test_a_long_name_is_cut_before_the_figure_is_made_wider():
    long = ("a long story " * 9 + " · ", "cross · head 1")
    with plot_style():
        figure = blank_figure(title_width(long), 1)
        add_title(figure, long)
        (title,) = figure.texts
        assert figure.get_size_inches()[0] == pytest.approx(6 + 2 * MARGIN)
        assert text_widths([title.get_text()], 11)[0] <= 6.01
    assert title.get_text().startswith("a long story")
    assert title.get_text().endswith("… · cross · head 1")


def test_a_bar_says_what_its_colours_mean():
    figure = blank_figure(2, 2)
    axes = add_axes(figure, 0, 0, 1, 1)
    for name in ("weight", "norm"):
        bar = add_axes(figure, 1.2, 0, 0.1, 1)
        add_colour_bar(figure, axes.imshow([[0, 1]]), bar, 1, name)
        assert bar.get_ylabel() == name


def test_cells_are_crisp_unless_they_are_too_small_to_be_seen():
    axes = add_axes(blank_figure(2, 2), 0, 0, 1, 1)
    for n, crisp in ((10, "none"), (100, "auto")):
        image = draw_cells(axes, torch.rand(3, n), "cividis", Normalize(0, 1), (1, 1))
        assert image.get_interpolation() == crisp


def test_of_places_that_touch_the_one_before_in_the_list_stays():
    assert non_overlapping([(5, 2.0), (4, 2.0), (3, 2.0), (0, 2.0), (7, 3.0)]) == [0, 3, 5]
    assert list(islice(round_numbers(), 6)) == [1, 2, 5, 10, 20, 50]


def test_a_curve_has_its_ends_and_is_as_thick_and_dark_as_was_asked():
    points = [(0, 0), (0, 1), (2, 1), (2, 0)]
    curve = draw_curve(add_axes(blank_figure(2, 1), 0, 0, 2, 1), points, 1.5, 0.25)
    assert curve.get_path().vertices.tolist() == [[0, 0], [0, 1], [2, 1], [2, 0]]
    assert (curve.get_linewidth(), curve.get_alpha()) == (1.5, 0.25)
    assert draw_curve(curve.axes, points, 1.5, 1.25).get_alpha() == 1

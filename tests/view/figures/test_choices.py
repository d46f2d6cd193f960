"""The matrix beside a plane: probabilities in the order of the answer, what was chosen outlined."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.view.figures.choices import matrix_columns, matrix_title
from regard.view.figures.planes import plane
from regard.view.traces.pointer_trace import as_pointer_trace
from tests.view.example_traces import pointed
from tests.view.figures.test_plots import words


def cells(figure):
    """The axes of the matrix."""
    return next(axes for axes in figure.axes if axes.images)


def corners(axes) -> list[tuple[float, float]]:
    """The upper left corners of what is outlined."""
    return [tuple(path.vertices[0]) for path in axes.collections[0].get_paths()]


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("task", ["tour", "hull", "triangles", "order"])
def test_cells_are_probabilities_and_the_last_column_is_the_end(task, ended):
    trace = pointed(task, 9, ended=ended)
    found, drawn = as_pointer_trace(trace), cells(plane(trace)).images[0].get_array()
    order = matrix_columns(found)
    assert np.allclose(drawn[:, : len(order)], found.weights[:, order])
    assert drawn.shape[1] == len(order) + ended
    assert not ended or np.allclose(drawn[:, -1], found.end_probability)


def test_columns_are_the_points_as_first_pointed_at_then_what_was_ever_probable():
    found = as_pointer_trace(pointed("triangles", 6))
    assert matrix_columns(found)[:3] == found.indices[:3]
    assert matrix_columns(found) == list(dict.fromkeys(found.indices))
    weights = torch.eye(6)[[3, 1, 4]]
    weights[1, 0] = 0.01
    weights[1, 1] = 0.99
    few = replace(found, weights=weights, indices=[3, 1, 4])
    assert matrix_columns(few) == [3, 1, 4, 0]
    assert matrix_title(few) == "4 of 6 points, as first pointed at"
    assert matrix_title(found) == "6 points, as first pointed at"
    assert matrix_title(as_pointer_trace(pointed("tour", 1))) == "1 point, as first pointed at"


def test_the_cell_of_what_was_chosen_is_outlined():
    tour = cells(plane(pointed("tour", 7)))
    assert corners(tour) == [(t - 0.5, t - 0.5) for t in range(7)]
    hull = pointed("hull", 9, ended=True)
    last = len(matrix_columns(as_pointer_trace(hull)))
    assert corners(cells(plane(hull)))[-1] == (
        last - 0.5,
        len(as_pointer_trace(hull).indices) - 0.5,
    )


def test_the_step_is_marked_and_named_in_red():
    axes = cells(plane(pointed("tour", 7), step=3))
    heights = {line.get_ydata()[0] for line in axes.lines}
    assert {2.5, 3.5} <= heights
    red = [label.get_text() for label in axes.get_yticklabels() if label.get_color() == "#d8432b"]
    assert red == [pointed("tour", 7).axis("steps").labels[3]]


def test_where_there_is_no_room_for_what_steps_did_they_are_numbered():
    few, many = (cells(plane(pointed("tour", n), step=2)) for n in (7, 90))
    assert words(few.get_yticklabels())[0].startswith("→ ")
    assert {"2", "40"} <= set(words(many.get_yticklabels()))
    assert len(words(many.get_xticklabels())) < 30


def test_the_end_has_its_name():
    assert words(cells(plane(pointed("hull", 200, ended=True))).get_xticklabels())[-1] == "end"

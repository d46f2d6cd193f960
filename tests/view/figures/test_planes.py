"""A plane shows the way so far, the rest of it faint, and how probable each next point is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from regard.view import Points, plane, save_figure
from regard.view.traces.pointer_trace import as_pointer_trace
from tests.view.example_traces import pointed, translation
from tests.view.figures.test_plots import texts, words


def collections(figure, kind) -> list:
    return [each for each in figure.axes[0].collections if type(each) is kind]


def lines(figure) -> tuple[list, list, list]:
    """The faint lines of a plane, the dark ones, and those of the fan."""
    faint, dark, *fan = [each.get_segments() for each in collections(figure, LineCollection)]
    return faint, dark, fan[0] if fan else []


def marks(figure, name: str) -> list[list[float]]:
    """The places that have this mark."""
    drawn = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
    return drawn[name]


def test_the_way_is_dark_up_to_the_step_and_faint_behind_it():
    found = as_pointer_trace(pointed("tour", 9))
    faint, dark, _ = lines(plane(pointed("tour", 9), step=4))
    way = [found.xy[[e.start, e.end]] for e in found.edges]
    assert np.allclose(dark, torch.stack(way[:3]))
    assert np.allclose(faint, torch.stack(way[3:]))


def test_the_newest_line_ends_in_an_arrow():
    found, figure = as_pointer_trace(pointed("tour", 9)), plane(pointed("tour", 9), step=4)
    (arrow,) = figure.axes[0].findobj(Annotation)
    assert np.allclose(arrow.xy, found.xy[found.indices[3]])
    assert np.allclose(arrow.xyann, found.xy[found.indices[2]])
    assert not plane(pointed("tour", 9), step=1).axes[0].findobj(Annotation)


def test_the_fan_goes_from_the_last_point_and_is_as_wide_and_dark_as_points_are_probable():
    found, figure = as_pointer_trace(pointed("tour", 9)), plane(pointed("tour", 9), step=2)
    *_, fan = collections(figure, LineCollection)
    w = found.weights[2].sort().values
    w = w[w >= 0.01]
    assert len(w) > 3
    assert np.allclose([segment[0] for segment in fan.get_segments()], found.xy[found.indices[1]])
    assert np.allclose(fan.get_linewidths(), 0.8 + 7 * w)
    assert np.allclose(fan.get_colors()[:, 3], 0.2 + 0.7 * w)


def test_the_three_most_probable_points_and_the_chosen_one_have_their_share():
    found, figure = (
        as_pointer_trace(pointed("hull", 12, ended=True)),
        plane(pointed("hull", 12, ended=True)),
    )
    step = found.select_step()
    top = {*found.weights[step].topk(3).indices.tolist(), found.indices[step]}
    shares = {f"{i} · {100 * float(found.weights[step, i]):.0f} %" for i in top}
    assert {word for word in words(figure.axes[0].texts) if "%" in word} == shares


def test_before_anything_is_pointed_at_discs_take_the_place_of_the_fan():
    figure = plane(pointed("tour", 9), step=0)
    assert lines(figure)[1:] == ([], [])
    sizes = figure.axes[0].collections[-1].get_sizes()
    w = as_pointer_trace(pointed("tour", 9)).weights[0].sort().values
    assert np.allclose(sizes, 40 + 400 * w[w >= 0.01])


def test_points_are_marked_by_what_was_done_with_them():
    found, figure = as_pointer_trace(pointed("hull", 12)), plane(pointed("hull", 12), step=3)
    at = {"start": [0], "pointed at": [0, 1, 2], "last": [2], "chosen now": [3]}
    for name, steps in at.items():
        there = found.xy[[found.indices[t] for t in steps]].tolist()
        assert sorted(marks(figure, name)) == sorted(there), name
    assert len(marks(figure, "not yet")) == 9
    assert words(figure.axes[0].get_legend().get_texts())[-1] == "chosen now"


def test_a_last_step_that_ends_the_answer_chooses_no_point_and_says_how_sure_it_is():
    trace = pointed("hull", 12, ended=True)
    found = as_pointer_trace(trace)
    figure = plane(trace, step=len(found.indices))
    assert marks(figure, "chosen now") == []
    assert f"end · {100 * float(found.end_probability[-1]):.0f} %" in words(figure.texts)


def test_triangles_are_filled_the_one_at_work_most_and_those_to_come_not():
    (filled,) = collections(plane(pointed("triangles", 6), step=4), PolyCollection)
    assert filled.get_facecolors()[:, 3].tolist() == [0.16, 0.42, 0.0, 0.0]
    assert not len(collections(plane(pointed("tour", 6)), PolyCollection)[0].get_paths())


def test_numbers_to_be_sorted_stand_over_their_places():
    trace = pointed("order", 8)
    figure, xy = plane(trace), as_pointer_trace(trace).xy
    stems = collections(figure, LineCollection)[0].get_segments()
    assert np.allclose([stem[1] for stem in stems], xy)
    assert {float(stem[0][1]) for stem in stems} == {0.0}
    assert "value over place" in words(figure.texts)
    assert words(figure.axes[0].get_xticklabels())[0] == "0"


def test_a_unit_is_as_long_across_as_up_unless_points_are_almost_on_a_line():
    trace = pointed("tour", 12)
    for stretch, even in ((1.0, True), (4.0, True), (1000.0, False)):
        xy = trace.axis("points").xy * torch.tensor([stretch, 1.0])
        figure = plane(replace(trace, axes=[trace.axes[0], Points("points", xy)]))
        axes, (W, H) = figure.axes[0], figure.get_size_inches()
        across = axes.get_position().width * W / np.ptp(axes.get_xlim())
        up = axes.get_position().height * H / np.ptp(axes.get_ylim())
        assert bool(across == pytest.approx(up)) is even


def test_the_step_is_the_one_in_doubt_or_the_one_asked_for():
    for step, figure in ((2, plane(pointed())), (5, plane(pointed(), step=5))):
        label = pointed().axis("steps").labels[step]
        assert f"step {step}, “{label}”" in words(figure.texts)
        assert words(figure.texts)[-1] == f"pointer · step {step}"


SHAPES = [
    ("tour", {"points": 1}),
    ("order", {"points": 2, "ended": True}),
    ("hull", {"points": 12, "ended": True, "title": "a long story " * 30}),
    ("tour", {"points": 50}),
    ("triangles", {"points": 30, "ended": True}),
    ("order", {"points": 40}),
    ("tour", {"points": 300}),
]


@pytest.mark.parametrize(("task", "shape"), SHAPES, ids=lambda given: str(given))
@pytest.mark.parametrize("step", [None, 0, -1])
def test_no_word_leaves_the_figure_or_covers_another(task, shape, step):
    trace = pointed(task, **shape)
    last = trace.axis("steps").size - 1
    figure = plane(trace, step=last if step == -1 else step)
    seen = texts(figure)
    drawn, (wide, high) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0, wide - drawn.x1, high - drawn.y1) > 0.02
    assert max(wide, high) < 20
    boxes = [text.get_window_extent() for text in seen]
    shrunk = [Bbox.from_extents(b.x0 + 2, b.y0 + 2, b.x1 - 2, b.y1 - 2) for b in boxes]
    assert all(box.count_overlaps(shrunk) <= 1 for box in shrunk)


@pytest.mark.parametrize("form", ["one place", "a line", "far away"])
def test_points_of_any_form_are_drawn(form):
    trace, across = pointed("tour", 5), torch.linspace(0, 1, 5, dtype=torch.float64)
    xy = {
        "one place": torch.ones(5, 2),
        "a line": torch.stack([across, torch.zeros(5).double()], 1),
        "far away": torch.stack([5e6 + across, -2e4 * across], 1),
    }[form]
    figure = plane(replace(trace, axes=[trace.axes[0], Points("points", xy)]))
    axes = figure.axes[0]
    for (low, high), places in zip((axes.get_xlim(), axes.get_ylim()), xy.T, strict=True):
        assert low < float(places.min()) <= float(places.max()) < high


def test_of_many_points_only_those_that_matter_are_numbered():
    figure = plane(pointed("tour", 300), step=100)
    assert 3 <= len(words(figure.axes[0].texts)) <= 7


def test_the_same_plane_is_the_same_bytes(tmp_path):
    a, b = (save_figure(plane(pointed()), tmp_path / f"{n}.svg").read_bytes() for n in "ab")
    assert a == b


def test_what_has_no_plane_is_refused():
    with pytest.raises(ValueError, match="plane: expected a trace with points, got tokens"):
        plane(translation())
    with pytest.raises(ValueError, match="plane: expected step from 0 to 11, got -1"):
        plane(pointed(), step=-1)

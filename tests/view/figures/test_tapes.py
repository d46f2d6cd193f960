"""A tape shows what a machine did: all panels share their steps, and below them their slots."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.transforms import Bbox

from regard.view import save_figure, tape
from regard.view.traces.memory_trace import as_memory_trace, used_slots
from tests.view.example_traces import copying, translation
from tests.view.figures.test_plots import texts, words

UPPER = ("inputs", "targets", "outputs", "memory", "write head", "read head")


def images(figure) -> list:
    """The panels with cells, from top to bottom; the last is the memory up close."""
    found = [axes for axes in figure.axes if axes.images]
    return sorted(found, key=lambda axes: -axes.get_position().y1)


def stages(figure) -> list:
    """The panels of the read head, then those of the write head, in their order."""
    found = [axes for axes in figure.axes if "\n" in axes.get_title()]
    return sorted(found, key=lambda axes: axes.get_position().x0)


def shifts(figure) -> list:
    found = [axes for axes in figure.axes if axes.get_xlabel() == "shift s"]
    return sorted(found, key=lambda axes: axes.get_position().x0)


def test_the_cells_over_time_are_what_the_trace_holds():
    trace = copying(slots=128)
    panels, found = images(tape(trace)), as_memory_trace(trace)
    slots = list(range(9))  # two on each side of those from 2 to 6 that are written and read
    series = {each.id: each.values for each in trace.series}
    held = [series[id].T for id in UPPER[:3]] + [found.memory.norm(dim=2).T[slots]]
    held += [head.weights.T[slots] for head in (found.write_head, found.read_head)]
    for panel, values in zip(panels, held, strict=False):
        assert np.allclose(panel.images[0].get_array(), values)
    assert np.allclose(panels[-1].images[0].get_array(), found.memory[4, slots])


def test_time_runs_to_the_right_in_line_and_the_step_is_marked():
    figure = tape(copying(), step=3)
    boxes = [axes.get_position() for axes in images(figure)[:6]]
    assert len({(box.x0, box.x1) for box in boxes}) == 1
    (line,) = figure.artists
    assert line.get_xdata() == pytest.approx([boxes[0].x0 + 3.5 / 8 * boxes[0].width] * 2)
    assert line.get_ydata()[0] > boxes[0].y1
    assert line.get_ydata()[1] == pytest.approx(boxes[-1].y0)
    assert words(images(figure)[5].get_xticklabels()) == ["start", *"012", "end", *"012"]


def test_panels_are_named_and_say_how_many_slots_there_are():
    said = words(tape(copying(slots=128)).texts)
    assert set(UPPER) <= set(said)
    assert said.count("9 of 128 slots") == 3
    assert "slots that get less than 1 % in every panel are left out; outlined: the" in " ".join(
        said
    )
    assert words(tape(copying(slots=10)).texts).count("10 slots") == 3


def test_slots_that_go_over_the_end_of_the_ring_stay_in_one_piece():
    memory = images(tape(copying(slots=128, first=126)))[-1]
    assert words(memory.get_yticklabels())[:6] == ["124", "125", "126", "127", "0", "1"]
    assert not memory.lines


def test_a_line_stands_where_slots_are_left_out():
    trace = copying(slots=128)
    maps = [
        replace(m, cells=m.cells.roll(60, -1)) if m.id.startswith("write") else m
        for m in trace.maps
    ]
    figure = tape(replace(trace, maps=maps))
    (line,) = images(figure)[-1].lines
    assert line.get_ydata()[0] == 7.5  # after the slots from 0 to 7, before those from 60 on


def test_the_step_up_close_is_where_the_read_head_jumps_or_the_one_asked_for():
    for figure, said in (
        (tape(copying()), "step 4, “end”"),
        (tape(copying(), step=2), "step 2, “1”"),
    ):
        assert said in words(figure.texts)
        assert words(figure.texts)[-1] == f"tape · {said.split(',')[0]}"


def test_four_stages_of_each_head_are_drawn_with_their_numbers():
    trace = copying(heads=2)
    figure, found = tape(trace, head=1), as_memory_trace(trace, head=1)
    slots = used_slots(found.read_head.weights, min_weight=0, margin=0)
    for head, four in (
        (found.read_head, stages(figure)[:4]),
        (found.write_head, stages(figure)[4:]),
    ):
        for n, axes in enumerate(four):
            assert np.allclose(axes.patches[0].get_data().values, head.stages[n, 4, slots])
    said = [axes.get_title() for axes in stages(figure)]
    assert said[:2] == ["content\nβ = 21.5", "gated\ng = 0.97"]
    assert said[2:4] == ["shifted\ns(0) = 0.97", "sharpened\nγ = 8.25"]
    assert said[6] == "shifted\ns(+1) = 0.97"
    assert {"read head 1", "write head 1"} <= set(words(figure.texts))


def test_beside_what_is_gated_stand_the_weights_before():
    trace = copying(slots=10)
    before = as_memory_trace(trace).read_head.weights[3]
    drawn = [len(axes.patches) for axes in stages(tape(trace))]
    assert drawn == [1, 2, 1, 1] * 2
    assert np.allclose(stages(tape(trace))[1].patches[1].get_data().values, before)
    assert {len(axes.patches) for axes in stages(tape(trace, step=0))} == {1}


def test_shifts_are_named():
    figure = tape(copying())
    assert [words(axes.get_xticklabels()) for axes in shifts(figure)] == [["−1", "0", "+1"]] * 2
    heights = [bar.get_height() for bar in shifts(figure)[1].patches]
    assert heights == pytest.approx([0.01, 0.02, 0.97])


def test_slots_stand_in_line_below():
    figure = tape(copying())
    boxes = [axes.get_position() for axes in (images(figure)[-1], *stages(figure))]
    assert len({(box.y0, box.y1) for box in boxes}) == 1
    assert len({axes.get_ylim() for axes in (images(figure)[-1], *stages(figure))}) == 1


SHAPES = [
    {"vectors": 1, "slots": 1, "width": 1, "bits": 1},
    {"vectors": 10, "bits": 8, "slots": 128, "width": 20, "title": "a long story " * 30},
    {"vectors": 40, "slots": 300, "first": 280, "heads": 3, "width": 64},
    {"vectors": 120, "bits": 8, "slots": 256, "width": 20},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape["vectors"]))
@pytest.mark.parametrize("step", [None, 0, -1])
def test_no_word_leaves_the_figure_or_covers_another(shape, step):
    last = 2 * shape["vectors"] + 1
    figure = tape(copying(**shape), step=last if step == -1 else step)
    seen = texts(figure)
    drawn, (wide, high) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0, wide - drawn.x1, high - drawn.y1) > 0.02
    assert max(wide, high) < 20
    boxes = [text.get_window_extent() for text in seen]
    shrunk = [Bbox.from_extents(b.x0 + 2, b.y0 + 2, b.x1 - 2, b.y1 - 2) for b in boxes]
    assert all(box.count_overlaps(shrunk) <= 1 for box in shrunk)


def test_what_goes_in_and_out_is_drawn_as_far_as_it_is_there():
    trace = copying()
    series = [s for s in trace.series if s.id not in ("inputs", "targets", "outputs")]
    assert len(images(tape(replace(trace, series=series)))) == 4


def test_the_same_tape_is_the_same_bytes(tmp_path):
    a, b = (save_figure(tape(copying()), tmp_path / f"{n}.png").read_bytes() for n in "ab")
    assert a == b


def test_what_has_no_tape_is_refused():
    with pytest.raises(ValueError, match="tape: expected a trace with slots of a memory, got tok"):
        tape(translation())
    with pytest.raises(ValueError, match="tape: expected step from 0 to 7, got -1"):
        tape(copying(), step=-1)
    with pytest.raises(ValueError, match="Map 'read': expected head from 0 to 0, got 1"):
        tape(copying(), head=1)

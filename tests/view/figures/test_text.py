"""An alignment as text keeps to its width, its shades and its labels."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.view import Map, Points, Slots, Steps, Tokens, Trace, alignment
from regard.view.figures.text import shade
from regard.view.traces.labels import display_width
from tests.view.example_traces import copying, odd, translation


def small() -> Trace:
    w = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.4, 0.6]])
    axes = [Tokens("source", ["a", "green", "apple"]), Tokens("target", ["une", "pomme"])]
    return Trace(axes, [Map("cross", "target", "source", w[None, None])])


def test_words_that_fit_stand_above_their_cells():
    assert alignment(small()).splitlines()[2:5] == [
        "      a  green apple",
        "  une ██ ░░░░░   ·",
        "pomme ·  ▒▒▒▒▒ ▓▓▓▓▓",
    ]


def test_words_that_do_not_fit_are_written_downwards():
    trace = Trace(
        [Tokens("s", ["un", "pommier", "très", "verdoyant"] * 2), Slots("q", 1)],
        [Map("m", "q", "s", torch.eye(8)[None, None, :1])],
    )
    lines = alignment(trace, width=40).splitlines()[2:-2]
    assert lines[0] == "        v       v"
    assert lines[-2] == "  n r s t n r s t"
    assert lines[-1] == "0 ██· · · · · · ·"


def test_what_is_too_wide_even_so_comes_in_bands():
    trace = Trace([Slots("s", 40)], [Map("m", "s", "s", torch.eye(40)[None, None])])
    text = alignment(trace, width=30)
    assert text.count("██") == 40
    assert len(text.split("\n\n")) == 2 + 4


def test_slots_that_nobody_looks_at_nor_beside_are_left_out():
    text = alignment(copying(slots=128, vectors=1))
    assert text.splitlines()[:4] == [
        "read: steps (down) looks at slots (across), 4 of 128 shown",
        "",
        "      1  2  3  4",
        "start ·  ██ ·  ·",
    ]
    assert alignment(copying(slots=4, first=0)).startswith(
        "read: steps (down) looks at slots (across)\n"
    )


def test_only_slots_are_left_out():
    w = torch.zeros(1, 1, 2, 30)
    w[..., 3] = 1
    trace = Trace([Tokens("s", ["a"] * 30), Slots("q", 2)], [Map("m", "q", "s", w)])
    assert alignment(trace).splitlines()[2].split() == ["a"] * 30


@given(st.lists(st.text(max_size=30), min_size=1, max_size=20), st.integers(30, 100))
def test_no_line_is_wider_than_the_terminal_and_nothing_in_it_acts(labels, width):
    text = alignment(odd(labels), width=width)
    assert max(display_width(line) for line in text.split("\n")) <= width
    assert not any(ord(c) < 32 and c != "\n" for c in text)


def test_escapes_never_reach_the_terminal():
    text = alignment(odd(["\x1b[2J", "\x9b31m", "\r\n", "\u202e"]))
    assert "␛[2J" in text
    assert not set("\x1b\x9b\r\u202e") & set(text)


def test_wide_letters_keep_the_columns_straight():
    axes = [Tokens("source", ["林檎", "ab", "cde"]), Tokens("target", ["苹", "une"])]
    w = torch.tensor([[0.3, 0.7, 0.0], [0.0, 0.1, 0.9]])
    text = alignment(Trace(axes, [Map("m", "target", "source", w[None, None])]))
    assert text.splitlines()[2:5] == [
        "    林檎 ab cde",
        " 苹 ▒▒▒▒ ▓▓  ·",
        "une  ·   ░░ ███",
    ]


def test_the_legend_is_as_long_as_there_is_room():
    long = "· below 5 %   ░ to 25 %   ▒ to 50 %   ▓ to 75 %   █ above"
    short = "·<5 ░≤25 ▒≤50 ▓≤75 █>75 %"
    for width, legend in ((30, short), (56, short), (57, long), (80, long)):
        assert alignment(small(), width=width).splitlines()[-1] == legend


def test_points_that_none_looks_at_are_left_out_and_the_others_keep_their_order():
    w = torch.zeros(1, 1, 2, 5)
    w[0, 0, 0, 0], w[0, 0, 1, 4] = 0.9, 0.9
    points = Points("points", torch.rand(5, 2))
    drawn = alignment(Trace([Steps("steps", ["a", "b"]), points], [Map("m", "steps", "points", w)]))
    title, band, _ = drawn.split("\n\n")
    assert title == "m: steps (down) looks at points (across), 2 of 5 shown"
    assert band.splitlines() == ["  0  4", "a ██ ·", "b ·  ██"]


def test_a_cell_is_as_dark_as_its_weight():
    assert [shade(w) for w in (0, 0.049, 0.05, 0.3, 0.6, 0.9, 1.0001)] == list("··░▒▓██")


def test_layer_and_head_are_named_where_there_are_several():
    assert alignment(translation()).startswith("cross: target (down) looks at source (across)\n")
    several = alignment(translation(layers=2, heads=2), layer=1)
    assert several.startswith("cross · layer 1 · head 0: target")


def test_words_are_drawn_as_one():
    assert "apple" not in alignment(translation())
    assert "apple" in alignment(translation(), words=True)


def test_a_terminal_too_narrow_is_refused():
    with pytest.raises(ValueError, match="alignment: expected a width of at least 30, got 29"):
        alignment(small(), width=29)

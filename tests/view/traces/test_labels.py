"""Labels are shown so that nothing in them acts."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.view.traces.labels import (
    display_width,
    escape_invisible,
    grapheme_clusters,
    pad_text,
    truncate_text,
)


@given(st.text(max_size=30))
def test_nothing_that_is_shown_can_act(label):
    shown = escape_invisible(label)
    kinds = {unicodedata.category(c) for c in shown if c not in "\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert shown.strip()


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("\x7f", "␡"),
        ("\x9b1m", "\\u009b1m"),
        ("\u202eabc", "\\u202eabc"),
        ("\U000e0001", "\\U000e0001"),
        ("\u00a0x", "␣x"),
        ("  ", "␣␣"),
        ("a b", "a b"),
        ("नमस्ते", "नमस्ते"),
    ],
)
def test_what_cannot_be_seen_is_spelled(label, shown):
    assert escape_invisible(label) == shown


@given(st.text(max_size=60), st.integers(2, 20))
def test_what_is_cut_fits(label, width):
    short = truncate_text(label, width)
    assert display_width(short) <= width
    assert short == label or short.endswith("…")


def test_a_tower_of_marks_is_cut():
    assert len(truncate_text("a" + "\u0301" * 10_000, 10)) <= 41


def test_a_letter_keeps_its_marks():
    assert grapheme_clusters("e\u0301t") == ["e\u0301", "t"]
    assert grapheme_clusters("\u0301") == ["\u0301"]


def test_wide_letters_are_padded_by_their_columns():
    assert pad_text("林", 4) == "林  "
    assert pad_text("林", 4, align_right=True) == "  林"

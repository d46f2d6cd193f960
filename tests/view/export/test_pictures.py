"""The ending of a path chooses the kind of a picture."""

from dataclasses import replace

import pytest

from regard.view import Trace, matrix, page, save_figure, save_picture
from tests.view.example_traces import translation

START = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".html": b"<!doctype html>"}


@pytest.mark.parametrize("ending", [*START, ".PNG", ".Html"])
def test_the_ending_chooses_the_kind(ending, tmp_path):
    path = save_picture(translation(), tmp_path / f"a{ending}", words=True)
    assert path.read_bytes().startswith(START[ending.lower()])


def several() -> Trace:
    trace = translation(layers=2, heads=2)
    return replace(trace, maps=[replace(trace.map(), id="first"), trace.map()])


def test_a_page_in_a_file_is_the_page(tmp_path):
    trace, chosen = several(), {"map": "cross", "layer": 1, "head": 1, "words": True}
    path = save_picture(trace, tmp_path / "a.html", **chosen)
    assert path.read_text(encoding="utf-8") == page(trace, **chosen)


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_a_picture_in_a_file_is_the_matrix(ending, tmp_path):
    chosen = {"map": "cross", "layer": 1, "head": 1, "scale": "log", "words": True}
    trace = several()
    given = save_picture(trace, tmp_path / f"a{ending}", **chosen)
    drawn = save_figure(matrix(trace, **chosen), tmp_path / f"b{ending}")
    assert given.read_bytes() == drawn.read_bytes()


def test_a_page_refuses_a_scale_it_would_ignore(tmp_path):
    expected = r"save_picture: expected scale linear for \.html, got sqrt; the page lets you choose"
    with pytest.raises(ValueError, match=expected):
        save_picture(translation(), tmp_path / "a.html", scale="sqrt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.gif", "a", "png", ".png"])
def test_other_endings_are_refused(name, tmp_path):
    expected = r"save_picture: expected a path that ends in \.png, \.svg, \.pdf, \.html, got"
    with pytest.raises(ValueError, match=expected):
        save_picture(translation(), tmp_path / name)
    assert not list(tmp_path.iterdir())

"""The ending of a path chooses the kind of a picture."""

import pytest

from regard.view import page, save_picture
from tests.view.traces import translation

START = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".html": b"<!doctype html>"}


@pytest.mark.parametrize("ending", [*START, ".PNG", ".Html"])
def test_the_ending_chooses_the_kind(ending, tmp_path):
    path = save_picture(translation(), tmp_path / f"a{ending}", words=True, scale="sqrt")
    assert path.read_bytes().startswith(START[ending.lower()])


def test_a_page_in_a_file_is_the_page(tmp_path):
    trace = translation(heads=2)
    path = save_picture(trace, tmp_path / "a.html", head=1)
    assert path.read_text(encoding="utf-8") == page(trace, head=1)


@pytest.mark.parametrize("name", ["a.gif", "a", "png", ".png"])
def test_other_endings_are_refused(name, tmp_path):
    expected = r"save_picture: expected a path that ends in \.png, \.svg, \.pdf, \.html, got"
    with pytest.raises(ValueError, match=expected):
        save_picture(translation(), tmp_path / name)
    assert not list(tmp_path.iterdir())

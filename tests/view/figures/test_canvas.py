"""Figures are the same bytes every time, leave nothing behind, and keep text as text."""

import pickle
import re
import sys
import warnings

import matplotlib
import pytest

from regard.view import matrix, save_figure
from regard.view.figures.canvas import blank_figure, plot_style, text_widths
from tests.view.example_traces import odd, translation


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_picture_is_the_same_bytes(ending, tmp_path):
    trace = translation()
    a, b = (save_figure(matrix(trace), tmp_path / f"{n}.{ending}").read_bytes() for n in "ab")
    assert a == b
    assert a.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])


DATES = {"png": b"Creation Time", "svg": b"<dc:date>", "pdf": b"CreationDate"}


@pytest.mark.parametrize("ending", DATES)
def test_a_picture_names_neither_its_day_nor_what_drew_it(ending, tmp_path):
    data = save_figure(matrix(translation()), tmp_path / f"a.{ending}").read_bytes()
    assert b"Matplotlib" not in data
    assert DATES[ending] not in data


def test_text_in_svg_is_text(tmp_path):
    path = save_figure(matrix(odd(["<b>&", "$x_1$", "été"])), tmp_path / "picture.SVG")
    texts = re.findall(r"<text[^>]*>([^<]*)<", path.read_text(encoding="utf-8"))
    assert {"&lt;b&gt;&amp;", "$x_1$", "été", "weight"} <= set(texts)


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"save_figure: expected .* \.png, \.svg, \.pdf, got"):
        save_figure(blank_figure(1, 1), tmp_path / "picture.gif")


def test_a_picture_that_is_not_drawn_leaves_the_old_one(tmp_path):
    path = save_figure(matrix(translation()), tmp_path / "a.png")
    before, broken = path.read_bytes(), blank_figure(1, 1)
    broken.text(0, 0, "$\\frac$", parse_math=True)
    with pytest.raises(ValueError):
        save_figure(broken, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_global_changes(tmp_path):
    before, loaded = dict(matplotlib.rcParams), "matplotlib.pyplot" in sys.modules
    save_figure(matrix(translation()), tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_the_style_in_use_does_not_change_the_picture(tmp_path):
    trace = translation()
    plain = save_figure(matrix(trace), tmp_path / "a.svg").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "figure.facecolor": "black"}):
        assert save_figure(matrix(trace), tmp_path / "b.svg").read_bytes() == plain


def test_a_figure_shows_itself_in_a_notebook():
    assert matrix(translation())._repr_png_().startswith(b"\x89PNG")


def test_a_figure_can_be_pickled():
    assert pickle.loads(pickle.dumps(matrix(translation()))).axes[0].get_xlabel() == "keys · source"


def test_scripts_without_a_font_draw_in_silence(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(matrix(odd(["林檎", "سلام", "ᚠᚢᚦ", "🍏", "ꙮ"])), tmp_path / "a.png")


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"plots need matplotlib: pip install 'regard\[p"):
        matrix(translation())


def test_a_text_twice_as_large_is_twice_as_wide():
    with plot_style():
        small, large = text_widths(["word"], 10.0)[0], text_widths(["word"], 20.0)[0]
    assert large == pytest.approx(2 * small, rel=0.05)

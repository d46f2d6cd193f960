"""What is printed is as wide as it was asked for, says where it comes from, and is the figure."""

import io
import re
import zlib

import matplotlib.image
import numpy as np
import pytest
from PIL import Image

from regard.view import Header, matrix, wall
from regard.view.export.paper import provenance_line, render_for_paper
from regard.view.figures.canvas import save_figure
from tests.view.example_traces import translation

KINDS = ("png", "svg", "pdf")
TOLD = Header(model="small </m>", title="A title", seed=3, versions={"torch": "2.13"})
PLAIN = Header()


def inches(data: bytes, kind: str) -> tuple[float, float]:
    """How wide and high a file says it is."""
    if kind == "png":
        picture = Image.open(io.BytesIO(data))
        wide, high = (side / 300 for side in picture.size)
        assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.01)
        return wide, high
    form, unit = {
        "svg": (rb'<svg [^>]*width="([\d.]+)mm" height="([\d.]+)mm"', 25.4),
        "pdf": (rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", 72),
    }[kind]
    wide, high = map(float, re.search(form, data).groups())
    return wide / unit, high / unit


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [85, 178])
def test_a_picture_is_as_wide_as_the_column(kind, width):
    figure = wall(translation(layers=3, heads=5))
    w, h = figure.get_size_inches()
    assert w > 178 / 25.4
    wide, high = inches(render_for_paper(figure, kind, width=width, header=PLAIN), kind)
    assert wide == pytest.approx(width / 25.4, abs=0.5 / 300)
    assert high == pytest.approx(h * wide / w, abs=1 / 300)


@pytest.mark.parametrize("kind", KINDS)
def test_a_narrow_figure_keeps_its_size_and_stands_in_the_middle(kind):
    figure = matrix(translation())
    h = figure.get_size_inches()[1]
    wide, high = inches(render_for_paper(figure, kind, width=178, header=PLAIN), kind)
    assert wide == pytest.approx(178 / 25.4, abs=0.5 / 300)
    assert high == pytest.approx(h, abs=1 / 300)


def test_the_pixels_are_those_of_the_figure_with_room_at_both_sides(tmp_path):
    figure = matrix(translation())
    given = np.array(
        Image.open(io.BytesIO(render_for_paper(figure, "png", width=178, header=PLAIN)))
    )
    alone = matplotlib.image.imread(save_figure(figure, tmp_path / "alone.png"))
    inside = (given[..., :3] < 250).any((0, 2)).nonzero()[0]
    left, right = inside[0], given.shape[1] - 1 - inside[-1]
    drawn = (alone[..., :3] < 250 / 255).any((0, 2)).nonzero()[0]
    assert len(range(inside[0], inside[-1])) == pytest.approx(1.5 * (drawn[-1] - drawn[0]), abs=4)
    assert abs(int(left) - int(right)) < 300 * 0.5


def test_a_smaller_pdf_is_drawn_smaller_with_everything_in_it():
    figure = wall(translation(layers=3, heads=5))
    data = render_for_paper(figure, "pdf", width=85, header=PLAIN)
    streams = re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL)
    drawn = b"".join(zlib.decompress(s) for s in streams if s.startswith(b"x"))
    (scale,) = re.findall(rb"^([\d.]+) 0 0 \1 0 0 cm", drawn, re.MULTILINE)
    assert float(scale) == pytest.approx(85 / 25.4 / figure.get_size_inches()[0], abs=1e-5)


def test_the_file_says_where_it_comes_from():
    line = "small </m> · seed 3 · torch 2.13"
    assert provenance_line(TOLD) == line
    figure = matrix(translation())
    info = Image.open(io.BytesIO(render_for_paper(figure, "png", width=85, header=TOLD))).info
    assert (info["Title"], info["Description"]) == ("A title", line)
    svg = render_for_paper(figure, "svg", width=85, header=TOLD).decode()
    assert f"<dc:description>{line.replace('<', '&lt;').replace('>', '&gt;')}" in svg
    assert b"/Title (A title)" in render_for_paper(figure, "pdf", width=85, header=TOLD)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_picture_is_the_same_bytes(kind):
    trace = translation()
    first, second = (render_for_paper(matrix(trace), kind, width=85, header=TOLD) for _ in range(2))
    assert first == second
    assert b"CreationDate" not in first and b"<dc:date>" not in first


def test_printing_leaves_a_figure_as_it_was(tmp_path):
    figure = matrix(translation())
    before = save_figure(figure, tmp_path / "a.png").read_bytes()
    for kind in KINDS:
        render_for_paper(figure, kind, width=85, header=TOLD)
    assert save_figure(figure, tmp_path / "b.png").read_bytes() == before
    assert figure.dpi == 100


def test_letters_stay_letters():
    assert b">mange</text>" in render_for_paper(
        matrix(translation()), "svg", width=85, header=PLAIN
    )

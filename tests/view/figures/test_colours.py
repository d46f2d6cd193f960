"""Colours are those of the page, and cividis near enough that nobody sees the difference."""

import re
from pathlib import Path

import jaxtyping
import matplotlib
import pytest
from matplotlib.colors import to_hex, to_rgb

from regard.view.figures.colours import (
    CIVIDIS,
    MIN_LOG_WEIGHT,
    colormap,
    hex_colour,
    weight_norm,
)

PAGE = Path(__file__).parents[3] / "page" / "src" / "lib" / "colour.ts"


@pytest.mark.parametrize("share", [i / 40 for i in range(41)])
def test_colours_are_cividis(share):
    theirs = matplotlib.colormaps["cividis"](share)[:3]
    assert max(abs(a - b) for a, b in zip(colormap()(share), theirs, strict=False)) < 0.05


def test_the_page_mixes_the_same_colours():
    stops = re.search(r"const CIVIDIS = \[(.*?)\];", PAGE.read_text(), re.DOTALL)[1]
    assert tuple(re.findall(r"0x(\w{6})", stops)) == tuple(c.removeprefix("#") for c in CIVIDIS)
    assert f"LEAST = {MIN_LOG_WEIGHT:.0e};".replace("e-04", "e-4") in PAGE.read_text()


@pytest.mark.parametrize(
    ("share", "mixed"),
    [
        (-1.0, "#00224e"),
        (0.0, "#00224e"),
        (0.5, "#7d7c78"),
        (0.515625, "#817f78"),
        (2.0, "#fee838"),
    ],
)
def test_between_two_stops_a_colour_is_mixed(share, mixed):
    assert hex_colour(share) == to_hex(colormap()(share)) == mixed


def test_figures_round_at_most_one_step_otherwise_than_the_page():
    for share in (i / 997 for i in range(998)):
        pairs = zip(to_rgb(hex_colour(share)), colormap()(share), strict=False)
        assert max(abs(a - b) for a, b in pairs) <= 1 / 255


@pytest.mark.parametrize(
    ("scale", "shares"),
    [("linear", [0, 0.01, 0.25, 1]), ("sqrt", [0, 0.1, 0.5, 1]), ("log", [0, 0.5, 0.84949, 1])],
)
def test_a_scale_says_how_a_weight_becomes_a_share(scale, shares):
    assert list(weight_norm(1.0, scale)([0, 0.01, 0.25, 1])) == pytest.approx(shares, abs=1e-5)


def test_the_logarithm_begins_at_the_same_weight_whatever_the_greatest_is():
    assert list(weight_norm(0.01, "log")([1e-5, 1e-4, 1e-3, 1e-2])) == pytest.approx([0, 0, 0.5, 1])
    assert list(weight_norm(1e-5, "log")([0, 1e-5])) == [0, 0]


def test_weights_of_nothing_are_dark():
    assert [float(weight_norm(0.0, scale)([0.0])[0]) for scale in ("linear", "sqrt", "log")] == [
        0,
        0,
        0,
    ]


def test_another_scale_is_refused(monkeypatch):
    # the shape checks of the tests would refuse it first, in other words
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="expected scale linear, sqrt or log, got 'cubic'"):
        weight_norm(1.0, "cubic")

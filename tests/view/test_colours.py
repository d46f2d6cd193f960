"""Colours are matplotlib's, near enough that nobody sees the difference."""

import matplotlib
import pytest
from matplotlib.colors import to_rgb

from regard.view.colours import CIVIDIS, colour


@pytest.mark.parametrize("share", [i / 40 for i in range(41)])
def test_colours_are_cividis(share):
    theirs = matplotlib.colormaps["cividis"](share)[:3]
    assert max(abs(a - b) for a, b in zip(to_rgb(colour(share)), theirs, strict=True)) < 0.05


def test_more_is_brighter():
    light = [sum(to_rgb(colour(i / 100))) for i in range(101)]
    assert light == sorted(light)


def test_what_is_outside_has_the_nearest_colour():
    assert colour(-1.0) == CIVIDIS[0]
    assert colour(2.0) == CIVIDIS[-1]

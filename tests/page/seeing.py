"""Where a cell is on the screen, which colour it has there, and which it should have."""

import math
import time

from regard.view.figures.colours import hex_colour as mixed

LEAST = 1e-4


def cell(page, canvas, q, k):
    """The middle of a cell on the screen."""
    x, y = within(canvas, q, k)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    return box["x"] + x, box["y"] + y


def within(canvas, q, k):
    """The middle of a cell on its canvas."""
    left, top = (float(canvas.get_attribute(f"data-{name}")) for name in ("left", "top"))
    wide, high = map(float, canvas.get_attribute("data-cell").split())
    return left + (k + 0.5) * wide, top + (q + 0.5) * high


def pixel(page, canvas, q, k):
    """The colour that is drawn there."""
    x, y = within(canvas, q, k)
    script = """(over, [x, y]) => {
        const canvas = over.previousElementSibling, by = canvas.width / canvas.clientWidth;
        const context = canvas.getContext("2d");
        return [...context.getImageData(Math.round(x * by), Math.round(y * by), 1, 1).data];
    }"""
    return canvas.evaluate(script, [x, y])[:3]


def colour(weight, most, scale):
    """The colour of a weight by arithmetic of our own; bytes hold its root."""
    weight = (round(255 * math.sqrt(weight)) / 255) ** 2
    share = weight / most
    if scale == "sqrt":
        share = math.sqrt(share)
    elif scale == "log":
        share = math.log(weight / LEAST) / math.log(most / LEAST) if weight >= LEAST else 0.0
    hexed = mixed(share)
    return [int(hexed[i : i + 2], 16) for i in (1, 3, 5)]


def until(page, script, seconds=30):
    """Wait for a script to give what is true; the page's policy lets nothing wait inside of it."""
    end = time.monotonic() + seconds
    while not page.evaluate(script):
        assert time.monotonic() < end, f"never: {script}"
        page.wait_for_timeout(50)


def read(page, q, k):
    """The weight that is read out, once it is that of this cell."""
    places = page.locator(f"[data-readout]:has-text('query {q}'):has-text('key {k}')")
    places.locator("[data-weight]:not([data-weight=''])").wait_for()
    return float(places.locator("[data-weight]").get_attribute("data-weight"))

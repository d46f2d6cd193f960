"""What a person reads off the page is what was computed: pixels, read-outs, tables."""

import numpy as np
import pytest

from tests.page.seeing import cell, colour, pixel, read

ASKED = {"view": "heads", "scale": "sqrt"}


def matrix(page, field):
    found = page.locator(f"canvas[data-field='{field}']")
    found.wait_for(timeout=60_000)
    page.wait_for_load_state("networkidle")
    return found


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_the_pixels_of_a_cell_have_the_colour_of_its_weight(scale, served, chromium, said):
    map = said("translate-en-de").map("cross")
    w = map.weights(1, 3)
    asked = ASKED | {"map": "cross", "layer": "1", "head": "3", "scale": scale}
    with served.open(chromium, "w/translate-en-de", ask=asked) as page:
        canvas = matrix(page, "cross/1/3")
        for q, k in ((0, 0), (2, 3), divmod(int(w.argmax()), w.shape[1])):
            wanted = colour(float(w[q, k]), float(w.max()), scale)
            assert np.abs(np.subtract(pixel(page, canvas, q, k), wanted)).max() <= 3


def test_the_read_out_of_a_cell_is_its_exact_weight(served, chromium, said):
    w = said("translate-en-de-rnn").map().weights()
    with served.open(chromium, "w/translate-en-de-rnn", ask=ASKED) as page:
        canvas = matrix(page, f"{said('translate-en-de-rnn').map().id}/0/0")
        for q, k in ((0, 0), (3, 1), (len(w) - 1, w.shape[1] - 1)):
            page.mouse.move(*cell(page, canvas, q, k))
            assert np.float32(read(page, q, k)) == w[q, k].numpy()


def test_the_table_twin_says_the_largest_weights_of_each_query(served, chromium, said):
    w = said("translate-en-de-rnn").map().weights()
    with served.open(chromium, "w/translate-en-de-rnn", ask=ASKED) as page:
        page.locator("[data-answer]").wait_for(timeout=60_000)
        page.get_by_text("Show as table").first.click()
        first = page.locator("details[open] tbody tr").first
        first.wait_for()
        assert f"{float(w[0].max()):.4f}" in first.inner_text()

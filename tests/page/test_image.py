"""A trace whose keys are a grid is seen over its image: the right place, the exact weight."""

import base64
import io

import numpy as np
import pytest

from regard.view import page as saved_page
from regard.view import save
from tests.browser import opened
from tests.view.example_traces import captioned

PIXEL = """(canvas, [column, row]) => {
  const [x, y] = [(column + 0.5) / 4 * canvas.width, (row + 0.5) / 3 * canvas.height];
  return Array.from(canvas.getContext("2d").getImageData(x, y, 1, 1).data).slice(0, 3);
}"""


@pytest.fixture
def shown(chromium, tmp_path):
    """Opens a trace as a saved file; its first view is the one over the image."""

    def open_saved(trace, at=""):
        path = tmp_path / "image.html"
        path.write_text(saved_page(trace), encoding="utf-8")
        return opened(chromium, path.as_uri() + at, offline=True)

    return open_saved


def red():
    """The file of an image of one colour."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 10, 20)).save(file, "PNG")
    return file.getvalue()


def drawn(page):
    page.locator("canvas[data-image]").wait_for()
    page.wait_for_timeout(200)
    return page.locator("canvas[data-image]")


def test_the_place_that_is_looked_at_is_light_and_the_others_dim(shown):
    with shown(captioned(), "#/?step=1&scale=linear") as page:
        canvas = drawn(page)
        light, dim = (canvas.evaluate(PIXEL, place) for place in ([1, 1], [2, 1]))
    # row 1, column 1 of the image as it is; beside it the same image under a veil
    assert np.allclose(light, [255 * (1 - 14.5 / 39), 255 * (1 - 14.5 / 29), 102], atol=8)
    assert dim[2] < 30


def test_the_steps_move_the_light_and_hover_reads_the_exact_weight(shown):
    trace = captioned()
    with shown(trace, "#/?step=1") as page:
        box = drawn(page).bounding_box()
        page.keyboard.press(".")
        page.wait_for_function("location.hash.includes('step=2')")
        page.mouse.move(box["x"] + 2.5 / 4 * box["width"], box["y"] + 2.5 / 3 * box["height"])
        weight = page.locator("[data-weight]:not([data-weight=''])").get_attribute("data-weight")
        assert "hat" in page.locator("[data-readout]").inner_text()
    assert float(weight) == float(trace.map().weights()[2, 10]) == 0.75


def test_the_keys_do_what_the_mouse_does(shown):
    with shown(captioned()) as page:
        drawn(page).focus()
        for press in ("ArrowRight", "ArrowDown", "ArrowRight", "p"):
            page.keyboard.press(press)
        page.wait_for_function("location.hash.includes('pin=0.5')")
        assert "1,1" in page.locator("[data-readout]").inner_text()


def test_a_place_can_be_looked_from(shown):
    with shown(captioned(), "#/?view=image&map=self") as page:
        drawn(page).focus()
        for press in ("ArrowRight", "ArrowDown", "Enter"):
            page.keyboard.press(press)
        page.wait_for_function("location.hash.includes('step=4')")


def test_edges_may_be_smooth_and_weights_in_colour(shown):
    with shown(captioned(image=False), "#/?step=0&scale=linear") as page:
        sharp = drawn(page).evaluate(PIXEL, [0, 0])
        page.get_by_label("Edges").select_option("smooth")
        page.wait_for_function("location.hash.includes('edges=smooth')")
    assert sharp == [0xFE, 0xE8, 0x38]


def test_an_image_can_be_laid_under_a_grid(served, chromium, tmp_path):
    trace = save(captioned(image=False), tmp_path / "bare.safetensors")
    given = {"name": "a.png", "mimeType": "image/png", "buffer": red()}
    with served.open(chromium) as page:
        page.locator("input[accept='.safetensors']").set_input_files(trace)
        page.get_by_role("button", name="Image under it…").wait_for()
        before = page.url
        page.locator("input[accept^='image/']").set_input_files(given)
        page.get_by_role("button", name="Another image…").wait_for()
        assert page.url != before
        page.wait_for_timeout(200)
        assert drawn(page).evaluate(PIXEL, [0, 0]) == [200, 10, 20]


DROP = """(canvas, letters) => {
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([bytes], "a.png", { type: "image/png" }));
  canvas.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
}"""


def test_an_image_that_is_dropped_on_a_grid_lies_under_it(served, chromium, tmp_path):
    trace = save(captioned(image=False), tmp_path / "bare.safetensors")
    with served.open(chromium) as page:
        page.locator("input[accept='.safetensors']").set_input_files(trace)
        drawn(page).evaluate(DROP, base64.b64encode(red()).decode())
        page.get_by_role("button", name="Another image…").wait_for()
        page.wait_for_timeout(200)
        assert drawn(page).evaluate(PIXEL, [0, 0]) == [200, 10, 20]


def test_what_is_no_image_is_refused_in_a_sentence(served, chromium, tmp_path):
    trace = save(captioned(image=False), tmp_path / "bare.safetensors")
    given = {"name": "a.png", "mimeType": "image/png", "buffer": b"no image"}
    with served.open(chromium, refused=400) as page:
        page.locator("input[accept='.safetensors']").set_input_files(trace)
        page.get_by_role("button", name="Image under it…").wait_for()
        page.locator("input[accept^='image/']").set_input_files(given)
        page.get_by_role("alert").wait_for()
        assert "expected a PNG" in page.get_by_role("alert").inner_text()

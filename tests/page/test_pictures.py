"""The pictures of the README are of the page itself: `pytest tests/page --pictures docs/images`."""

import io

import pytest

SCREENS = {
    "gallery": ("", "main article canvas, main li canvas, main canvas"),
    "heads": ("w/translate-en-de?view=wall&map=cross&layer=2&head=2&pin=3.3", "[data-answer]"),
    "tape": ("w/copy?input=01101001%2011110000%2000111100%2010000001&step=7", "[data-answer]"),
    "plane": ("w/tsp?step=6", "[data-answer]"),
    "lesson": ("p", "main h1"),
}
SIZES = {"": {"width": 1280, "height": 800}, "-phone": {"width": 390, "height": 844}}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_is_a_picture_of_more_than_its_ground(screen, size, served, chromium, request):
    from PIL import Image

    address, ready = SCREENS[screen]
    with served.open(chromium, address, viewport=SIZES[size]) as page:
        page.locator(ready).first.wait_for(timeout=60_000)
        page.wait_for_timeout(4000 if screen == "gallery" else 1200)
        taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    assert taken.size == tuple(SIZES[size].values())
    assert len(taken.getcolors(2**20)) > 100
    folder = request.config.getoption("--pictures")
    if folder and not size:
        # few colours make small files; a page has few
        taken.quantize(128).save(f"{folder}/page-{screen}.png", optimize=True)

"""The page is for everyone: by keys alone, in both themes, on a phone, and read aloud."""

import pytest

from tests.page.seeing import read, until, within

SCREENS = {
    "gallery": ("", "main a"),
    "bench": ("w/translate-en-de?view=wall", "[data-answer]"),
    "matrix": ("w/translate-en-de-rnn?view=heads", "[data-answer]"),
    "ribbons": ("w/translate-en-de-rnn?view=ribbons", "[data-answer]"),
    "tape": ("w/copy", "[data-answer]"),
    "plane": ("w/hull", "[data-answer]"),
    "compare": ("c/translate-en-de-rnn/translate-en-de-rnn", "canvas[data-field]"),
    "playground": ("p", "main h1"),
}
PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_serious(screen, theme, served, chromium):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    address, ready = SCREENS[screen]
    with served.open(chromium, address, color_scheme=theme) as page:
        page.locator(ready).first.wait_for(timeout=60_000)
        page.wait_for_timeout(500)
        found = axe.run(page).response["violations"]
        grave = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in GRAVE]
        assert not grave


GRAVE = ("serious", "critical")


@pytest.mark.parametrize("screen", SCREENS)
def test_a_phone_shows_it_without_scrolling_sideways(screen, served, chromium):
    address, ready = SCREENS[screen]
    with served.open(chromium, address, viewport=PHONE, has_touch=True) as page:
        page.locator(ready).first.wait_for(timeout=60_000)
        page.wait_for_timeout(300)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"]


def test_keys_alone_run_a_model_read_a_weight_and_ablate_a_head(served, chromium, said):
    w = said("translate-en-de-rnn", "I see a dog.").map().weights()
    with served.open(chromium, "w/translate-en-de-rnn?view=heads") as page:
        page.locator("[data-answer]").wait_for(timeout=60_000)
        before = page.locator("[data-answer]").inner_text()
        page.keyboard.press("/")
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type("I see a dog.")
        page.keyboard.press("Enter")
        until(page, f"document.querySelector('[data-answer]').innerText !== {before!r}")
        _tab_to(page, "canvas[data-field]")
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        assert read(page, 1, 1) == pytest.approx(float(w[1, 1]), abs=1e-7)
        page.keyboard.press("a")
        page.locator("[data-before]").wait_for(timeout=30_000)


def _tab_to(page, wanted):
    for _ in range(60):
        if page.evaluate(f"document.activeElement.matches({wanted!r})"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {wanted}")


def test_what_has_the_focus_can_be_seen(served, chromium):
    with served.open(chromium) as page:
        page.locator("main a").first.wait_for()
        page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(style) != "none"


def test_the_cells_of_a_matrix_are_told_to_who_does_not_see_them(served, chromium):
    with served.open(chromium, "w/translate-en-de-rnn?view=heads") as page:
        canvas = page.locator("canvas[data-field]").first
        canvas.wait_for(timeout=60_000)
        assert canvas.get_attribute("role") == "application"
        assert "Arrow keys" in canvas.get_attribute("aria-label")
        assert within(canvas, 0, 0)[0] > 0
        assert page.locator("[data-readout]").get_attribute("aria-live") == "polite"

"""The Playground as a person plays it: every drag and key gives the numbers of the library."""

import json
import re
from urllib.parse import unquote

import pytest

from regard.view.lessons import LESSONS

PHONE = {"width": 390, "height": 844}
# What each lesson shows once it has an answer.
FIGURE = "section.figure > *:not(.waiting)"
SETTLED = 600
GRAVE = ("serious", "critical")


def lesson(served, chromium, name, ask=None, **context):
    return served.open(chromium, f"p/{name}", ask=ask, **context)


def weights(page):
    """The weights on the screen, once they are the same twice: a busy machine answers late."""
    before, now = None, []
    while before != now:
        page.wait_for_timeout(SETTLED)
        texts = page.locator("td.number").all_inner_texts()
        before, now = now, [float(text) for text in texts]
    return now


def given(page):
    """What the address says of the lesson."""
    query = unquote(page.url.partition("#")[2].partition("?")[2])
    return dict(part.split("=", 1) for part in query.split("&") if part)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_opens_and_axe_finds_nothing_serious(name, theme, served, chromium):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with lesson(served, chromium, name, color_scheme=theme) as page:
        page.locator(FIGURE).first.wait_for()
        for twin in page.locator("details").all():
            twin.evaluate("twin => (twin.open = true)")
        found = axe.run(page).response["violations"]
        assert not [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in GRAVE]


@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_fits_a_phone_and_a_finger(name, served, chromium):
    small = """[...document.querySelectorAll("main :is(button, input, select, summary, [role])")]
        .map(e => [e, e.getBoundingClientRect()]).filter(([e, r]) => r.width && e.tabIndex >= 0
        && Math.min(r.width, r.height) < 24).map(([e]) => e.outerHTML.slice(0, 100))"""
    with lesson(served, chromium, name, viewport=PHONE, has_touch=True) as page:
        page.locator(FIGURE).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.evaluate(small) == []


@pytest.mark.parametrize("name", LESSONS)
def test_the_code_on_the_page_is_the_code_of_the_lesson(name, served, chromium):
    with lesson(served, chromium, name) as page:
        page.locator("pre").wait_for()
        assert page.locator("pre").inner_text().strip() == LESSONS[name].answer({})["code"]


def test_a_query_that_is_dragged_gets_the_weights_of_the_library(served, chromium):
    with lesson(served, chromium, "dictionary") as page:
        query = page.get_by_role("button", name="The query at")
        box = query.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 90, y + 60, steps=12)
        page.mouse.up()
        shown = weights(page)
        there = json.loads(given(page)["query"])
        assert there != [0.3, 0.4]
        assert shown == pytest.approx(
            LESSONS["dictionary"].answer({"query": there})["weights"], abs=6e-4
        )


def test_a_query_moves_by_keys_and_a_link_restores_it(served, chromium):
    with lesson(served, chromium, "dictionary") as page:
        page.get_by_role("button", name="The query at").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Shift+ArrowDown")
        shown = weights(page)
        assert json.loads(given(page)["query"]) == [0.35, 0.15]
    with lesson(served, chromium, "dictionary", ask={"query": "[0.35,0.15]"}) as page:
        assert weights(page) == shown
        page.get_by_role("button", name="Reset").click()
        assert weights(page) != shown and given(page) == {}


def test_an_edit_is_on_the_screen_within_a_tenth_of_a_second(served, chromium):
    timed = """() => { window.took = []; new MutationObserver(() => {
        if (window.since) { window.took.push(performance.now() - window.since); window.since = 0; }
        }).observe(document.querySelector("td.number"), {characterData: true, subtree: true}); }"""
    with lesson(served, chromium, "dictionary") as page:
        page.get_by_role("button", name="The query at").focus()
        page.evaluate(timed)
        for _ in range(12):
            page.evaluate("window.since = performance.now()")
            page.keyboard.press("ArrowLeft")
            page.wait_for_timeout(200)
        took = sorted(page.evaluate("window.took"))
        assert len(took) >= 10 and took[len(took) // 2] < 100


def test_cells_of_a_mask_are_painted_by_a_stroke_and_by_keys(served, chromium):
    with lesson(served, chromium, "masking") as page:
        cells = page.get_by_role("button", name=re.compile("may see"))
        first, last = cells.nth(1).bounding_box(), cells.nth(3).bounding_box()
        page.mouse.move(first["x"] + 9, first["y"] + 9)
        page.mouse.down()
        page.mouse.move(last["x"] + 9, last["y"] + 9, steps=10)
        page.mouse.up()
        page.wait_for_timeout(SETTLED)
        assert json.loads(given(page)["painted"]) == [1, 2, 3]
        cells.nth(3).focus()
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
        page.wait_for_timeout(SETTLED)
        assert json.loads(given(page)["painted"]) == [1, 2, 9]


def test_a_word_is_moved_by_keys_and_keeps_the_focus(served, chromium):
    with lesson(served, chromium, "permuting", ask={"order": "[0,1,2]"}) as page:
        page.get_by_role("button", name=re.compile("^dog, token 1")).focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(SETTLED)
        assert json.loads(given(page)["order"]) == [1, 2, 0]
        assert page.evaluate("document.activeElement.innerText").strip() == "dog"


def test_one_guesses_first_and_is_told_after(served, chromium):
    asked = LESSONS["costs"]
    with lesson(served, chromium, "costs") as page:
        page.get_by_role("button", name="8 times", exact=True).wait_for()
        assert page.get_by_text(asked.aha).count() == 0
        page.get_by_role("button", name="16 times").click()
        page.get_by_text("Not so.").wait_for()
        page.get_by_role("button", name=asked.guesses[asked.right]).click()
        page.get_by_text("Right.").wait_for()
        assert page.get_by_text(asked.aha).is_visible()


def test_back_comes_back_to_what_was_played(served, chromium):
    with lesson(served, chromium, "heads") as page:
        page.get_by_role("radio", name="two of 2").check()
        page.wait_for_timeout(SETTLED)
        page.get_by_role("link", name="Soft, hard, local →").click()
        page.get_by_role("heading", name="Soft, hard, local").wait_for()
        page.go_back()
        page.locator(".big").first.wait_for()
        page.wait_for_timeout(SETTLED)
        assert page.locator(".big").first.inner_text() == "0.000"


@pytest.mark.parametrize("name", ["alignment", "tape", "pointing"])
def test_lessons_of_models_lead_to_models_that_there_are(name, served, chromium):
    from regard.zoo.catalogue import names

    with lesson(served, chromium, name) as page:
        page.locator("a.open").first.wait_for()
        links = [link.get_attribute("href") for link in page.locator("a.open").all()]
        assert len(links) == 3
        for link in links:
            assert set(link.partition("?")[0].split("/")[2:]) <= set(names())

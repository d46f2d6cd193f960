"""Every model of the zoo on the page: it is there, it runs, and it says what Python says."""

import pytest

from regard import zoo


@pytest.mark.parametrize("name", zoo.names())
def test_a_model_of_the_gallery_answers_what_the_library_answers(name, served, chromium, said):
    with served.open(chromium, f"w/{name}") as page:
        shown = page.locator("[data-answer]")
        shown.wait_for(timeout=60_000)
        assert shown.inner_text() == said(name).outputs["text"]


def test_the_gallery_has_a_card_for_every_model_that_leads_to_its_bench(served, chromium):
    with served.open(chromium) as page:
        page.locator("a[href^='#/w/']").first.wait_for()
        links = page.locator("main a[href^='#/w/']").evaluate_all("all => all.map(a => a.hash)")
        assert {link.removeprefix("#/w/") for link in links} >= set(zoo.names())


def test_a_gallery_card_shows_the_attention_of_its_example(served, chromium):
    with served.open(chromium) as page:
        picture = page.locator("main canvas, main svg[data-thumb]").first
        picture.wait_for(timeout=60_000)
        assert picture.bounding_box()["width"] > 40


def test_a_text_that_is_typed_is_run_by_enter(served, chromium, said):
    text = "Two dogs are running on the beach."
    with served.open(chromium, "w/translate-en-de-rnn") as page:
        page.locator("[data-answer]").wait_for(timeout=60_000)
        page.locator("#regard-input").fill(text)
        page.keyboard.press("Enter")
        wanted = said("translate-en-de-rnn", text).outputs["text"]
        page.locator("[data-answer]", has_text=wanted).wait_for(timeout=30_000)


def test_a_link_restores_what_was_on_the_screen(served, chromium):
    asked = {"view": "heads", "map": "cross", "layer": "2", "head": "3", "scale": "log"}
    with served.open(chromium, "w/translate-en-de", ask=asked) as page:
        page.locator("canvas[data-field='cross/2/3']").wait_for(timeout=60_000)
        assert page.locator("label:has-text('Scale') select").first.input_value() == "log"


def test_the_licence_of_a_model_stands_on_its_gallery_card_and_its_bench(served, chromium):
    licence = zoo.card("translate-en-de")["licence"]
    with served.open(chromium) as page:
        card = page.locator("[data-card='translate-en-de'] [data-licence]")
        card.first.wait_for()
        assert licence["weights"]["name"] in card.first.inner_text()
    with served.open(chromium, "w/translate-en-de") as page:
        told = page.locator("details[data-licence]")
        told.locator("summary", has_text=licence["weights"]["name"]).click()
        for part in ("weights", "data"):
            assert licence[part]["means"] in told.inner_text()

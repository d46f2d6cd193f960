"""What is edited on the page changes the answer as the same edit in Python does."""

import json

import pytest

import regard
from regard import edits

NAME = "translate-en-de"
TEXT = "A man is riding a bicycle."
AT = "decoder.blocks.3.cross"
RNN = "translate-en-de-rnn"
HIDDEN = [[None, 0], [None, 1], [None, 5]]
EDITS = {
    "ablate": ({"heads": [0]}, edits.ablate(0)),
    "hide": ({"cells": HIDDEN, "heads": None}, edits.hide([(q, k) for q, k in HIDDEN])),
    "score": ({"score": "cosine"}, edits.score(regard.scores.Cosine())),
    "select": ({"select": "hard"}, edits.select(regard.selects.hard)),
    "heat": ({"temperature": 8.0}, edits.heat(8.0)),
    "force": ({"query": 2, "key": 0, "weight": 1.0, "heads": None}, edits.force(2, 0, 1.0)),
}


def attention(said):
    return said(RNN).map().names[0]


@pytest.mark.parametrize("do", EDITS)
def test_an_edit_answers_and_weighs_as_the_python_call_does(do, served, chromium, said):
    given, change = EDITS[do]
    at = attention(said)
    with regard.edit(said.model(RNN), {at: change}):
        wanted = said(RNN, TEXT)
    asked = {"input": TEXT, "edits": json.dumps([{"at": at, "do": do, **given}])}
    with served.open(chromium, f"w/{RNN}", ask=asked) as page:
        page.locator("[data-answer]").wait_for(timeout=60_000)
        assert page.locator("[data-answer]").inner_text() == wanted.outputs["text"]
        row = page.evaluate(ROW)
        assert row == pytest.approx(wanted.map().weights()[0].tolist(), abs=1e-6)


# the first row of the first map of the newest trace that was edited, as the server has it: the page
# asks for the unedited one as well, to put beside
ROW = """async () => {
    const headers = { Authorization: `Bearer ${sessionStorage.getItem("regard-session")}` };
    const ask = path => fetch(path, { headers });
    const all = await (await ask("/api/traces")).json();
    for (const { id } of all.reverse()) {
        const trace = await (await ask(`/api/traces/${id}`)).json();
        if (!trace.asked?.edits.length) continue;
        const path = `/api/traces/${id}/rows/${trace.maps[0].id}/0/0/0`;
        return [...new Float32Array(await (await ask(path)).arrayBuffer())];
    }
}"""


def test_a_head_ablated_by_a_button_is_ablated_shown_and_undone(served, chromium, said):
    with regard.edit(said.model(RNN), {attention(said): edits.ablate(0)}):
        wanted = said(RNN, TEXT).outputs["text"]
    plain = said(RNN, TEXT).outputs["text"]
    assert wanted != plain
    with served.open(chromium, f"w/{RNN}", ask={"input": TEXT}) as page:
        page.locator("[data-answer]", has_text=plain).wait_for(timeout=60_000)
        page.get_by_role("button", name="Ablate head 0").click()
        page.locator("[data-answer]", has_text=wanted).wait_for(timeout=30_000)
        assert page.locator("[data-before]").inner_text() == plain
        page.get_by_role("button", name="Undo").click()
        page.locator("[data-answer]", has_text=plain).wait_for(timeout=30_000)


def test_the_python_that_the_page_shows_makes_the_same_answer(served, chromium):
    asked = {"input": TEXT, "edits": json.dumps([{"at": AT, "do": "heat", "temperature": 4.0}])}
    with served.open(chromium, f"w/{NAME}", ask=asked) as page:
        page.locator("[data-answer]").wait_for(timeout=60_000)
        answer = page.locator("[data-answer]").inner_text()
        python = page.locator("[data-python]").text_content()
    names = {}
    exec(python, names)
    assert names["trace"].outputs["text"] == answer


def test_a_painted_cell_is_hidden(served, chromium, said):
    from tests.page.seeing import cell, until

    with served.open(chromium, f"w/{RNN}", ask={"input": TEXT, "view": "heads"}) as page:
        canvas = page.locator("canvas[data-field]").first
        canvas.wait_for(timeout=60_000)
        page.get_by_role("button", name="Paint a mask").click()
        page.mouse.click(*cell(page, canvas, 1, 2))
        until(page, "location.hash.includes('hide')")
        page.locator("[data-before]").wait_for(timeout=30_000)
    with regard.edit(said.model(RNN), {attention(said): edits.hide([(1, 2)])}):
        assert float(said(RNN, TEXT).map().weights()[1, 2]) == 0


def test_a_prefix_is_how_the_translation_begins(served, chromium):
    asked = {"input": TEXT, "o.prefix": "Eine Frau"}
    with served.open(chromium, f"w/{NAME}", ask=asked) as page:
        page.locator("[data-answer]").wait_for(timeout=60_000)
        assert page.locator("[data-answer]").inner_text().startswith("Eine Frau")

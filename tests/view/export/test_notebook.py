"""A widget holds the trace's numbers and the committed page, and shows them in a browser."""

import base64
import gzip
import json
import sys

import numpy as np
import pytest

from regard.view import show
from regard.view.export import bundle
from tests.browser import chromium, opened  # noqa: F401
from tests.view.example_traces import translation

HARNESS = """async ({ esm, css, data }) => {
  document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
  const address = URL.createObjectURL(new Blob([esm], { type: "text/javascript" }));
  const { default: widget } = await import(address);
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const model = { get: (name) => (name === "data" ? new DataView(bytes.buffer) : undefined) };
  window.stop = await widget.render({ model, el: document.body });
}"""


@pytest.fixture
def cell(chromium):  # noqa: F811
    """Opens a widget as a notebook does: its script as a module, its data as bytes."""

    def open_cell(page, widget):
        pytest.importorskip("anywidget")
        state = widget.get_state()
        data = base64.b64encode(state["data"]).decode()
        page.evaluate(HARNESS, {"esm": state["_esm"], "css": state["_css"], "data": data})

    with opened(chromium, "about:blank", offline=True) as page:
        yield lambda widget: open_cell(page, widget) or page


def test_its_traits_hold_the_numbers_of_the_trace():
    pytest.importorskip("anywidget")
    trace = translation(layers=2, heads=3)
    given = json.loads(gzip.decompress(show(trace, layer=1, head=2).data))
    packed = gzip.decompress(base64.b64decode(given["arrays"]["maps.cross"]["data"]))
    assert np.array_equal(np.frombuffer(packed, "<f4"), trace.map().all_weights().flatten())
    assert given["place"] == {"map": "cross", "layer": "1", "head": "2"}


def test_its_script_and_style_are_the_committed_page():
    pytest.importorskip("anywidget")
    state = show(translation()).get_state()
    assert (state["_esm"], state["_css"]) == (bundle.script(), bundle.style())


def test_a_cell_shows_the_same_numbers(cell):
    trace = translation(layers=2, heads=3, title="She eats")
    page = cell(show(trace, layer=1, head=2))
    page.get_by_role("tab", name="Matrix").click()
    page.locator("canvas[data-field]").focus()
    for press in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(press)
    weight = page.locator("[data-weight]:not([data-weight=''])").get_attribute("data-weight")
    assert float(weight) == float(trace.map().weights(1, 2)[1, 1])
    assert page.get_by_role("heading", name="She eats").count() == 1


def test_a_cell_leaves_the_notebooks_address_alone(cell):
    page = cell(show(translation(layers=2, heads=3)))
    page.get_by_role("tab", name="Matrix").click()
    page.keyboard.press("]")
    assert page.url == "about:blank"
    assert page.evaluate("getComputedStyle(document.body).margin") == "8px"


def test_a_cell_leaves_keys_alone_that_are_typed_elsewhere(cell):
    page = cell(show(translation(layers=2, heads=3)))
    page.evaluate("document.body.prepend(document.createElement('p'))")
    page.evaluate("document.querySelector('p').contentEditable = true")
    page.locator("p[contenteditable]").click()
    page.keyboard.type("a[0], b. c]{ s?")
    assert page.locator("p[contenteditable]").inner_text() == "a[0], b. c]{ s?"
    assert page.get_by_role("dialog").count() == 0


def test_a_cell_can_be_taken_away(cell):
    page = cell(show(translation()))
    page.locator(".regard").wait_for()
    page.evaluate("window.stop()")
    assert page.locator(".regard").count() == 0


def test_data_that_is_broken_is_said_in_a_sentence(cell):
    widget = show(translation())
    widget.data = gzip.compress(b"{}")
    assert cell(widget).get_by_role("alert").inner_text() == "The data of this page is damaged."


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ModuleNotFoundError, match=r"show needs anywidget: pip install 'regard\[wi"):
        show(translation())


def test_a_head_that_is_not_there_is_refused():
    pytest.importorskip("anywidget")
    with pytest.raises(ValueError, match="expected head from 0 to 0, got 1"):
        show(translation(), head=1)

"""A saved page is the page itself: whole without a network, exact, and nothing else in it runs."""

import base64
import hashlib
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba_array

from regard.view import Header, Map, Slots, Tokens, Trace, by_words, matrix, page
from regard.view.export.standalone import page_at
from tests.browser import chromium, opened  # noqa: F401
from tests.view.example_traces import SOURCE, TARGET, copying, odd, pointed, several, translation
from tests.view.pages import Parsed

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    "\"'><svg onload=alert(1)>",
    "</title></style></svg></table>",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "\u2028",
    "\u202eright to left",
    "a\0b",
]


def data(text: str) -> dict:
    return json.loads(Parsed(text).texts("script", id="regard-data")[0])


def hostile() -> Trace:
    wild = {"model": HOSTILE[0], "family": HOSTILE[1], "title": HOSTILE[4], "device": HOSTILE[3]}
    told = {"notes": HOSTILE, "versions": {HOSTILE[0]: "<i>"}, "edits": [{HOSTILE[3]: HOSTILE}]}
    trace = odd(HOSTILE)
    outputs = {"text": HOSTILE[0]} | dict.fromkeys(HOSTILE, HOSTILE)
    return Trace(trace.axes, trace.maps, outputs=outputs, header=Header(**wild, **told))


@pytest.fixture
def saved(chromium, tmp_path):  # noqa: F811
    """Opens a trace as a file from the disk, with the network off."""

    def open_saved(trace: Trace, at: str = "", **given: object):
        path = tmp_path / "saved.html"
        path.write_text(page(trace, **given), encoding="utf-8")
        return opened(chromium, path.as_uri() + at, offline=True)

    return open_saved


def cell(shown, q: int, k: int) -> tuple[float, float]:
    """Where on the screen the middle of a cell is."""
    canvas = shown.locator("canvas[data-field]")
    left, top = (float(canvas.get_attribute(f"data-{side}")) for side in ("left", "top"))
    wide, high = map(float, canvas.get_attribute("data-cell").split())
    box = canvas.bounding_box()
    return box["x"] + left + (k + 0.5) * wide, box["y"] + top + (q + 0.5) * high


def test_hover_reads_the_exact_number_offline(saved):
    trace = translation(layers=2, heads=3)
    with saved(trace, layer=1, head=2) as shown:
        shown.locator("canvas[data-field]").wait_for()
        shown.mouse.move(*cell(shown, 4, 5))
        weight = shown.locator("[data-weight]:not([data-weight=''])").get_attribute("data-weight")
        readout = shown.locator("[data-readout]").inner_text()
    assert float(weight) == float(trace.map().weights(1, 2)[4, 5])
    assert readout.split()[0] == "me" and "app" in readout


def test_the_keys_move_and_change_head_and_layer(saved):
    trace = translation(layers=2, heads=3)
    with saved(trace, head=2) as shown:
        shown.locator("canvas[data-field]").focus()
        for press in ("ArrowDown", "ArrowDown", "ArrowRight", "]", "}", "["):
            shown.keyboard.press(press)
        shown.wait_for_function("location.hash.includes('layer=1')")
        weight = shown.locator("[data-weight]:not([data-weight=''])").get_attribute("data-weight")
        assert "head=2" in shown.url
    assert float(weight) == float(trace.map().weights(1, 2)[1, 1])


EXACT = [[1.0, 0, 0, 0, 0], [0.64, 0.36, 0, 0, 0], [0.16, 0.04, 0.04, 0.36, 0.36]]


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_a_cell_has_the_colour_that_the_figure_gives_it(saved, scale):
    maps = [Map("m", "q", "k", torch.tensor(EXACT)[None, None])]
    trace = Trace([Slots("q", 3), Slots("k", 5)], maps)
    image = matrix(trace, scale=scale).axes[0].images[0]
    with saved(trace, f"#/?view=heads&scale={scale}") as shown:
        shown.locator("canvas[data-field]").wait_for()
        shown.wait_for_timeout(200)
        box = shown.locator("canvas[data-field]").bounding_box()
        at = [cell(shown, q, k) for q in range(3) for k in range(5)]
        spots = [[x - box["x"], y - box["y"]] for x, y in at]
        pixels = shown.evaluate(PIXELS, spots)
    drawn = image.cmap(image.norm(np.array(EXACT).flatten()))[:, :3] * 255
    assert np.abs(np.array(pixels) - drawn).max() <= 1


PIXELS = """(spots) => {
  const canvas = document.querySelector("canvas[data-field]").parentElement.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const first = ([x, y]) => 4 * (Math.floor(y) * canvas.width + Math.floor(x));
  return spots.map((spot) => Array.from(data.slice(first(spot), first(spot) + 3)));
}"""


def test_hostile_tokens_stay_text_in_the_browser(saved):
    with saved(hostile(), "#/?view=heads") as shown:
        shown.on("dialog", lambda dialog: pytest.fail("a token ran"))
        shown.locator("canvas[data-field]").focus()
        shown.keyboard.press("ArrowDown")
        shown.locator("[data-weight]:not([data-weight=''])").wait_for()
        readout, notes = shown.locator("[data-readout]").inner_text(), shown.locator("li")
        assert notes.all_inner_texts()[0] == HOSTILE[0]
        assert shown.locator("script").count() == 2
        assert shown.locator("svg[onload], img").count() == 0
    assert readout.startswith(HOSTILE[0])


@pytest.mark.parametrize(
    "trace",
    [copying(), pointed(), several(3), odd(["林檎", "سلام"])],
    ids=["machine", "points", "maps", "scripts"],
)
def test_every_view_of_a_trace_opens_without_a_complaint(saved, trace):
    with saved(trace) as shown:
        shown.locator("[data-view]").wait_for()
        for tab in shown.get_by_role("tab").all():
            tab.click()
            shown.wait_for_timeout(100)
        assert shown.get_by_role("alert").count() == 0


@pytest.mark.parametrize("kind", ["SVG", "PNG", "JSON"])
def test_the_browser_saves_what_is_shown(saved, kind):
    trace = translation(model="a b", seed=3)
    with saved(trace, "#/?view=heads&scale=linear") as shown:
        shown.get_by_role("button", name="Save…").click()
        with shown.expect_download() as download:
            shown.get_by_role("dialog").get_by_role("button", name=kind).click()
        given, name = download.value.path().read_bytes(), download.value.suggested_filename
    assert name == f"a-b.{kind.lower()}"
    CHECKS[kind](given, trace)


def test_a_view_is_saved_with_the_words_around_it(saved):
    with saved(translation(), "#/?view=ribbons") as shown:
        shown.locator("[data-ribbons]").wait_for()
        shown.get_by_role("button", name="Save…").click()
        with shown.expect_download() as download:
            shown.get_by_role("dialog").get_by_role("button", name="SVG").click()
        drawing = ElementTree.fromstring(download.value.path().read_bytes())
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {*SOURCE, *TARGET} <= set(texts)
    assert drawing.find(".//{http://www.w3.org/2000/svg}path") is not None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium, tmp_path, theme):  # noqa: F811
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    path = tmp_path / "saved.html"
    path.write_text(page(translation(layers=2, heads=3, notes=["a note"])), encoding="utf-8")
    with opened(chromium, path.as_uri(), offline=True, color_scheme=theme) as shown:
        shown.locator("[data-view]").wait_for()
        found = axe.run(shown).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def as_svg(given: bytes, trace: Trace) -> None:
    found = re.findall(r'fill="(#\w{6})"><title>(.*?): ([\d.e-]+)</title>', given.decode())
    w = trace.map().weights().flatten()
    assert [float(weight) for _, _, weight in found] == w.tolist()
    image = matrix(trace).axes[0].images[0]
    theirs = image.cmap(image.norm(w.numpy()))
    assert np.abs(to_rgba_array([fill for fill, _, _ in found]) - theirs).max() <= 1 / 255
    assert b"a b \xc2\xb7 seed 3" in given


def as_png(given: bytes, trace: Trace) -> None:
    assert given.startswith(b"\x89PNG")
    assert int.from_bytes(given[16:20], "big") >= 2 * 340


def as_json(given: bytes, trace: Trace) -> None:
    told = json.loads(given)
    assert told["weights"] == trace.map().weights().tolist()
    assert (told["model"], told["seed"]) == ("a b", 3)
    assert told["keys"] == list(trace.axis("source").labels)


CHECKS = {"SVG": as_svg, "PNG": as_png, "JSON": as_json}


def test_a_phone_needs_no_scrolling_sideways(chromium, tmp_path):  # noqa: F811
    path = tmp_path / "saved.html"
    path.write_text(page(translation(layers=2, heads=3)), encoding="utf-8")
    small = {"width": 390, "height": 844}
    with opened(chromium, path.as_uri(), offline=True, viewport=small) as shown:
        shown.locator("[data-view]").wait_for()
        assert shown.evaluate("document.documentElement.scrollWidth") <= 390


def test_outputs_notes_edits_and_versions_are_told(saved):
    facts = {"model": "small", "family": "gpt", "dtype": "half", "device": "cpu"}
    given = {"seed": 0, "notes": ["read me"], "versions": {"torch": "2.13"}, "edits": [{"a": [0]}]}
    with saved(translation(**facts, **given)) as shown:
        assert shown.locator("[data-answer]").inner_text() == "Elle…"
        assert shown.get_by_role("heading", level=1).inner_text() == "small"
        assert shown.locator("li").all_inner_texts() == ["read me", 'edited: {"a":[0]}']
        told = shown.locator("[data-facts] > *").all_text_contents()
        whole = shown.locator(".regard").inner_text()
    assert dict(zip(told[::2], told[1::2], strict=True)) == facts | {"seed": "0", "torch": "2.13"}
    assert "where the model looked, not why it answered." in whole


def test_without_a_script_the_answer_stands_there():
    (told,) = Parsed(page(hostile())).texts("noscript")
    assert told == "This page draws with JavaScript. The answer was: " + HOSTILE[0]


def test_nothing_that_a_trace_says_becomes_an_element():
    tame, wild = Parsed(page(translation(title="t"))), Parsed(page(hostile()))
    assert [name for name, _, _ in wild.found] == [name for name, _, _ in tame.found]
    assert not wild.comments
    assert wild.texts("title") == [HOSTILE[4]]


def test_data_cannot_end_its_element_nor_begin_a_comment():
    text = page(hostile())
    start = text.index('id="regard-data">') + len('id="regard-data">')
    embedded = text[start : text.index("</script>", start)]
    assert not set("<>&\u2028\u2029\0") & set(embedded)
    assert json.loads(embedded)["manifest"]["axes"][0]["labels"] == HOSTILE


def test_the_policy_lets_only_our_script_and_style_run():
    text = page(hostile())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for name, begins in (("script", '<script type="module">'), ("style", "<style>")):
        inside = text.partition(begins)[2].partition(f"</{name}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy and "http" not in policy


def test_nothing_is_asked_of_the_network():
    parsed = Parsed(page(translation()))
    asking = {"src", "href", "xlink:href", "action", "data", "poster", "srcset", "background"}
    assert not [a for _, attributes, _ in parsed.found if asking & (a := attributes).keys()]


def test_every_map_is_there_or_the_one_that_was_named():
    half = torch.full((1, 1, 2, 2), 0.5)
    trace = Trace([Slots("s", 2)], [Map("a", "s", "s", half), Map("b", "s", "s", half)])
    assert [m["id"] for m in data(page(trace))["manifest"]["maps"]] == ["a", "b"]
    assert [m["id"] for m in data(page(trace, map="b"))["manifest"]["maps"]] == ["b"]


def test_who_names_a_head_sees_that_one_first():
    trace = translation(layers=2, heads=3)
    assert data(page(trace))["place"] == {}
    assert data(page(trace, head=2))["place"] == {"view": "heads", "head": "2"}
    assert data(page_at(trace, {"view": "wall"}))["place"] == {"view": "wall"}


def test_words_are_shown_as_one():
    trace = translation()
    assert page(trace, words=True) == page(by_words(trace))


def test_the_same_trace_is_the_same_page():
    trace = translation()
    assert page(trace) == page(trace)


def test_a_browser_finds_the_charset_at_once():
    assert '<meta charset="utf-8">' in page(odd(["林檎", "سلام"]))[:1024]


def test_a_bundle_cannot_end_the_element_it_stands_in(monkeypatch):
    said = 'say("</script>", "<!--", "<SCRIPT>", "<scroll>")'
    monkeypatch.setattr("regard.view.export.bundle.script", lambda: said)
    found = page(translation()).partition('<script type="module">')[2].partition("</script>")[0]
    assert found == r'say("\x3c/script>", "\x3c!--", "\x3cSCRIPT>", "<scroll>")'


def test_what_a_page_cannot_hold_is_refused():
    many = Map("m", "s", "s", lambda layer, head: torch.eye(128), 64, 64)
    with pytest.raises(ValueError, match=r"page: 67108864 weights take 128 MB, but a page holds"):
        page(Trace([Slots("s", 128)], [many]))
    with pytest.raises(ValueError, match="no map named None; there is none"):
        page(Trace([Tokens("s", ["a"])]))
    with pytest.raises(ValueError, match="expected head from 0 to 0, got 1"):
        page(translation(), head=1)

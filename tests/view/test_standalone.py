"""A page says what the trace says, runs nothing but its own script, and asks nobody."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
import torch

from regard.view import Header, Map, Slots, Tokens, Trace, by_words, page
from tests.view.pages import Parsed
from tests.view.traces import SOURCE, TARGET, odd, several, translation

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>",
    "\"'><svg onload=alert(1)>",
    "</title></style></svg></table>",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "\u2028",
]


def data(text: str) -> dict:
    return json.loads(Parsed(text).texts("script", id="data")[0])


def test_the_cells_of_the_table_are_the_weights():
    trace = translation()
    cells = [float(text) for text in Parsed(page(trace)).texts("td")]
    assert np.allclose(cells, trace.map().weights().flatten(), atol=5e-5)


def test_the_numbers_for_the_script_are_exact():
    trace = translation(layers=2, heads=3)
    (given,) = data(page(trace))["maps"]
    weights = np.frombuffer(base64.b64decode(given["weights"]), "<f4")
    assert np.array_equal(weights, trace.map().whole().flatten())
    assert (given["layers"], given["heads"]) == (2, 3)
    assert (given["queries"], given["keys"]) == (TARGET, SOURCE)


def test_each_cell_says_who_looks_where_and_how_much():
    trace = translation(layers=2, heads=2)
    titles = Parsed(page(trace, layer=1, head=1)).texts("rect", **{"class": "cell"})
    assert len(titles) == 7 * 8
    assert titles[8 + 2] == f"mange → s: {float(trace.map().weights(1, 1)[1, 2]):.4f}"


def test_every_word_stands_on_both_tables_axes():
    parsed = Parsed(page(translation()))
    assert parsed.texts("th", scope="row", dir="auto") == TARGET
    assert parsed.texts("th", scope="col", dir="auto") == SOURCE


def test_there_is_a_choice_where_there_is_something_to_choose():
    one, many = Parsed(page(translation())), Parsed(page(translation(layers=2, heads=3), head=2))
    assert not one.texts("select", **{"class": "head"})
    assert many.texts("select", **{"class": "layer"}) == ["01"]
    assert many.texts("option", selected=None) == ["0", "2"]


def test_every_map_is_shown_or_the_one_that_was_named():
    half = torch.full((1, 1, 2, 2), 0.5)
    trace = Trace([Slots("s", 2)], [Map("a", "s", "s", half), Map("b", "s", "s", half)])
    assert [m["id"] for m in data(page(trace))["maps"]] == ["a", "b"]
    assert [m["id"] for m in data(page(trace, map="b"))["maps"]] == ["b"]


def test_maps_can_be_chosen_where_there_are_several():
    maps = {"class": "maps"}
    assert Parsed(page(several(3))).texts("select", **maps) == ["map0map1map2"]
    assert not Parsed(page(several(3), map="map1")).texts("select", **maps)


def test_a_map_with_fewer_heads_begins_with_its_last():
    many, few = torch.rand(2, 3, 2, 2) / 2, torch.rand(1, 2, 2, 2) / 2
    maps = [Map("a", "s", "s", many, 2, 3), Map("b", "s", "s", few, 1, 2)]
    parsed = Parsed(page(Trace([Slots("s", 2)], maps), layer=1, head=2))
    assert parsed.texts("option", selected=None) == ["a", "1", "2", "1"]
    shown = torch.cat([many[1, 2], few[0, 1]]).flatten()
    assert np.allclose([float(text) for text in parsed.texts("td")], shown, atol=6e-5)


def hostile() -> Trace:
    wild = {"model": HOSTILE[0], "family": HOSTILE[1], "title": HOSTILE[4], "device": HOSTILE[3]}
    told = {"notes": HOSTILE, "versions": {HOSTILE[0]: "<i>"}, "edits": [{HOSTILE[3]: HOSTILE}]}
    trace = odd(HOSTILE)
    return Trace(
        trace.axes,
        trace.maps,
        outputs=dict.fromkeys(HOSTILE, HOSTILE),
        header=Header(**wild, **told),
    )


def test_nothing_that_a_trace_says_becomes_an_element():
    tame, wild = Parsed(page(odd(list("abcdefgh")))), Parsed(page(hostile()))
    assert {name for name, _, _ in wild.found} - {name for name, _, _ in tame.found} <= {
        *("ul", "li", "dl", "dt", "dd")
    }
    assert not wild.comments
    assert not [a for _, attributes, _ in wild.found for a in attributes if a.startswith("on")]
    assert len(wild.texts("script")) == 2


def test_hostile_labels_are_still_shown_as_they_are():
    parsed = Parsed(page(hostile()))
    shown = [label.replace("\u2028", "\\u2028") for label in HOSTILE]
    assert parsed.texts("th", scope="row", dir="auto") == shown
    assert data(page(hostile()))["maps"][0]["keys"] == shown


def test_data_cannot_end_its_element_nor_begin_a_comment():
    text = page(hostile())
    start = text.index('id="data">') + len('id="data">')
    embedded = text[start : text.index("</script>", start)]
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded)


def test_the_policy_lets_only_our_script_and_style_run():
    text = page(hostile())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for name in ("script", "style"):
        inside = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_nothing_is_asked_of_the_network():
    parsed = Parsed(page(translation()))
    asking = {"src", "href", "xlink:href", "action", "data", "poster", "srcset", "background"}
    assert not [a for _, attributes, _ in parsed.found if asking & (a := attributes).keys()]
    addresses = set(re.findall(r"\w+://[^\s\"'<>]*", page(translation())))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"@import|url\(|fetch\(|XMLHttp|WebSocket|import\(", page(translation()))


def test_outputs_notes_and_facts_are_told():
    facts = {"model": "small", "family": "gpt", "run_id": "r1", "dtype": "half", "device": "cpu"}
    trace = translation(**facts, seed=0, notes=["read me"], versions={"torch": "2.13"})
    parsed = Parsed(page(trace))
    assert parsed.texts("h1") == ["small"]
    assert parsed.texts("li") == ["read me"]
    told = dict(zip(parsed.texts("dt"), parsed.texts("dd"), strict=True))
    assert told == {"text": "Elle…", **facts, "seed": "0", "torch": "2.13"}


def test_edits_are_told():
    parsed = Parsed(page(translation(notes=["read me"], edits=[{"head": [0, 1]}])))
    assert parsed.texts("li") == ["read me", 'edited: {"head": [0, 1]}']


def test_every_page_says_what_a_weight_means():
    (note,) = Parsed(page(translation())).texts("footer")
    assert "A row is a query and a column is a key." in note
    assert "where the model looked, not why it answered." in note


def test_words_are_shown_as_one():
    trace = translation()
    assert page(trace, words=True) == page(by_words(trace))


def test_the_same_trace_is_the_same_page():
    trace = translation()
    assert page(trace) == page(trace)


def test_a_page_is_written_in_unicode():
    text = page(odd(["林檎", "سلام"]))
    assert "林檎" in text.encode().decode("utf-8")
    # a browser looks no further for it
    assert '<meta charset="utf-8">' in text[:1024]


def test_what_a_page_cannot_hold_is_refused():
    large = Trace([Slots("s", 129)], [Map("m", "s", "s", torch.eye(129)[None, None])])
    with pytest.raises(ValueError, match="page: map 'm' has 129 × 129 cells, but a page holds"):
        page(large)
    many = Map("m", "s", "s", lambda layer, head: torch.eye(128), 40, 40)
    with pytest.raises(ValueError, match=r"page: 26214400 weights, but a page holds \d+. Name"):
        page(Trace([Slots("s", 128)], [many]))
    with pytest.raises(ValueError, match="no map named None; there is none"):
        page(Trace([Tokens("s", ["a"])]))
    with pytest.raises(ValueError, match="expected head from 0 to 0, got 1"):
        page(translation(), head=1)

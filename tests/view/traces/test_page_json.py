"""What a page without a server is given: every number of the trace, in text that stays text."""

import base64
import gzip
import json

import numpy as np
import pytest
import torch

from regard.view import Header, Map, Slots, Tokens, Trace
from regard.view.traces.page_json import MAX_FLOAT32_BYTES, MAX_WEIGHT_BYTES, to_page_json
from tests.view.example_traces import everything, odd, translation

KINDS = {"f4": "<f4", "f2": "<f2", "u1": "u1"}


def array(text: str, name: str) -> np.ndarray:
    given = json.loads(text)["arrays"][name]
    return np.frombuffer(gzip.decompress(base64.b64decode(given["data"])), KINDS[given["dtype"]])


def large(cells: int, **header: str) -> Trace:
    """A map of so many heads of 256 × 1,024 weights; computed when they are asked for."""
    map = Map("m", "q", "k", lambda layer, head: torch.eye(256, 1024), heads=cells // 2**18)
    return Trace([Slots("q", 256), Slots("k", 1024)], [map], header=Header(**header))


def test_weights_are_exact():
    trace = translation(layers=2, heads=3)
    assert np.array_equal(
        array(to_page_json(trace, {}), "maps.cross"), trace.map().all_weights().flatten()
    )


def test_every_map_series_and_image_is_there():
    trace = everything()
    text = to_page_json(trace, {})
    names = {"maps.read.0", "maps.look", "series.gate", "series.keys", "images.img"}
    assert json.loads(text)["arrays"].keys() == names
    assert np.array_equal(array(text, "maps.read.0"), trace.map().all_weights().flatten())
    assert np.array_equal(array(text, "series.keys"), trace.series[1].values.flatten())
    bytes = trace.axis("img").image.mul(255).round().byte()
    assert np.array_equal(array(text, "images.img"), bytes.flatten())


def test_the_manifest_is_the_servers():
    given = json.loads(to_page_json(translation(title="t"), {"view": "wall"}, {"python": "x = 1"}))
    manifest = given["manifest"]
    assert (manifest["title"], manifest["python"], manifest["asked"]) == ("t", "x = 1", None)
    assert manifest["maps"][0]["sizes"] == [7, 8]
    assert manifest["bytes"] == 4 * 7 * 8
    assert given["place"] == {"view": "wall"}


def test_whatever_a_trace_says_stays_inside_its_element():
    text = to_page_json(odd(["</script>", "<!--", "&amp;", "\u2028", "林", "\0"]), {})
    assert text.isascii()
    assert not set("<>&") & set(text)
    labels = json.loads(text)["manifest"]["axes"][0]["labels"]
    assert labels == ["</script>", "<!--", "&amp;", "\u2028", "林", "\0"]


def test_the_same_trace_is_the_same_text():
    trace = translation()
    assert to_page_json(trace, {}) == to_page_json(trace, {})


def test_weights_that_are_many_are_in_half_and_it_is_said():
    trace = large(MAX_FLOAT32_BYTES // 4 + 2**18)
    text = to_page_json(trace, {})
    assert array(text, "maps.m").dtype == np.float16
    assert "float16" in json.loads(text)["manifest"]["notes"][-1]
    assert json.loads(to_page_json(large(2**18), {}))["manifest"]["notes"] == []


def test_more_than_a_page_holds_is_refused_before_it_is_computed():
    expected = r"page: \d+ weights take 65 MB, but a page holds 64\. Name one map, merge words"
    with pytest.raises(ValueError, match=expected):
        to_page_json(large(MAX_WEIGHT_BYTES // 2 + 2**18 * 2), {})


def test_a_trace_without_maps_is_refused():
    with pytest.raises(ValueError, match="no map named None; there is none"):
        to_page_json(Trace([Tokens("s", ["a"])]), {})

"""The manifest says all that is no array, in the names of docs/page.md."""

import json
import re
from pathlib import Path

import pytest
import torch

from regard.view.traces.manifest import trace_manifest
from tests.view.example_traces import everything, pointed, translation

ROOT = Path(__file__).parents[3]


@pytest.fixture
def told():
    return json.loads(json.dumps(trace_manifest("ab", everything(), {"seconds": 0.5}, size=7)))


def test_it_has_the_names_of_the_contract(told):
    text = (ROOT / "docs" / "page.md").read_text()
    [block] = re.findall(r"```\n\{schema: 1,(.*?)```", text, re.DOTALL)
    top = re.sub(r"\[[^\[\]]*\]|\{[^{}]*\}", "", re.sub(r"//.*", "", block))
    while (less := re.sub(r"\[[^\[\]]*\]|\{[^{}]*\}", "", top)) != top:
        top = less
    assert set(re.findall(r"(\w+)(?=\s*[,:}])", top)) - {"null"} | {"schema"} == told.keys()


def test_each_axis_says_what_it_is(told):
    src, img, bare, mem, pts, t = told["axes"]
    assert src == {
        **{"id": "src", "kind": "tokens", "size": 4, "labels": ["a", "b", "c", "d"]},
        **{"words": [0, 0, None, 1], "special": [2], "names": ["ab", "c", "d"]},
    }
    grid = {"kind": "grid", "columns": 3, "rows": 2, "size": 6}
    assert img == {"id": "img", "image": [3, 4, 5], **grid}
    assert bare["image"] is None
    assert mem == {"id": "mem", "kind": "slots", "size": 6}
    assert (pts["kind"], pts["size"], len(pts["xy"]), len(pts["xy"][0])) == ("points", 5, 5, 2)
    assert t == {"id": "t", "kind": "steps", "size": 3, "labels": ["0", "1", "2"]}


def test_points_are_where_they_are():
    trace = pointed(points=3)
    told = trace_manifest("ab", trace, {}, size=7)
    assert told["axes"][1]["xy"] == trace.axis("points").xy.tolist()


def test_each_map_says_its_sizes_and_its_heads(told):
    read, look = told["maps"]
    assert {k: v for k, v in look.items() if k not in ("stats", "names")} == {
        **{"id": "look", "query": "t", "key": "src", "layers": 1, "heads": 1, "causal": True},
        **{"sizes": [3, 4], "thumb": [3, 4], "levels": 1},
    }
    assert look["stats"] == {"entropy": [[pytest.approx(1.3863, abs=1e-3)]], "max": [[0.25]]} | {
        "sink": [[0.25]]
    }
    assert torch.tensor(read["stats"]["max"]).shape == (2, 3)


def test_each_series_says_how_wide_it_is(told):
    assert told["series"] == [
        {"id": "gate", "axis": "t", "columns": 1},
        {"id": "keys", "axis": "t", "columns": 2},
    ]


def test_what_is_not_known_is_null_or_empty():
    told = trace_manifest("ab", translation(), {}, size=7)
    assert (told["seconds"], told["asked"], told["python"], told["seed"]) == (None, None, "", None)
    assert (told["bytes"], told["id"], told["schema"]) == (7, "ab", 1)

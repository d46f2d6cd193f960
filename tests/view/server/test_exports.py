"""What is taken away holds the numbers of the trace."""

import io
import json
import re

import numpy
import pytest
import torch
from PIL import Image

from regard.view import Map, Slots, Trace, by_words, load
from regard.view.server import exports
from regard.view.server.errors import TooLargeError
from regard.view.server.exports import (
    KINDS,
    VIEWS,
    ExportOptions,
    check_export_size,
    export_trace,
)
from tests.view.example_traces import copying, pointed, translation

MAGIC = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml", "html": b"<!doctype html>"}


@pytest.mark.parametrize("kind", MAGIC)
def test_a_picture_is_of_its_kind(kind):
    data, media, name = export_trace(translation(model="a/b c"), kind, ExportOptions())
    assert data.startswith(MAGIC[kind])
    assert kind in media
    assert name == f"a-b-c.{kind}"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_can_be_taken_away(view):
    trace = {"tape": copying(), "plane": pointed()}.get(view, translation(layers=2, heads=2))
    data, _, _ = export_trace(trace, "svg", ExportOptions(view))
    assert b"</svg>" in data


def test_numbers_are_those_of_the_head_that_is_shown():
    trace = translation(layers=2, heads=3)
    told = json.loads(export_trace(trace, "json", ExportOptions(layer=1, head=2))[0])
    assert told["weights"] == trace.map().weights(1, 2).tolist()
    assert told["queries"] == list(trace.axis("target").labels)
    words = json.loads(export_trace(trace, "json", ExportOptions(words=True))[0])
    assert words["keys"] == list(by_words(trace).axis("source").labels)


def test_arrays_have_every_map_and_series():
    trace = copying()
    found = numpy.load(
        io.BytesIO(export_trace(trace, "npz", ExportOptions())[0]), allow_pickle=False
    )
    assert {f"maps.{map.id}" for map in trace.maps} <= set(found)
    assert numpy.array_equal(found["series.memory"], trace.series[3].values.numpy())


def test_a_trace_comes_back(tmp_path):
    trace = translation()
    data, media, name = export_trace(trace, "safetensors", ExportOptions())
    (tmp_path / name).write_bytes(data)
    assert torch.equal(load(tmp_path / name).map().all_weights(), trace.map().all_weights())
    assert (media, name) == ("application/octet-stream", "trace.safetensors")


def test_a_script_in_a_label_stays_text_in_a_page():
    trace = translation(title="</script><script>alert(1)</script>")
    assert b"<script>alert(1)" not in export_trace(trace, "html", ExportOptions())[0]


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (ExportOptions("tape"), "tape: expected"),
        (ExportOptions("plane"), "plane: expected"),
        (ExportOptions("arcs", query=7), "arcs: expected query from 0 to 6, got 7"),
        (ExportOptions(map="x"), "no"),
    ],
)
def test_what_a_trace_cannot_be_drawn_as_is_refused(shown, words):
    with pytest.raises(ValueError, match=words):
        export_trace(translation(), "png", shown)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [85, 178])
def test_a_picture_is_as_wide_as_was_asked(view, width):
    trace = {"tape": copying(), "plane": pointed()}.get(view, translation(layers=2, heads=2))
    picture = Image.open(
        io.BytesIO(export_trace(trace, "png", ExportOptions(view, width=width))[0])
    )
    assert picture.width == round(300 * width / 25.4)
    assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.01)


@pytest.mark.parametrize("view", ["matrix", "wall"])
def test_a_scale_changes_the_colours(view):
    trace = translation(heads=2)
    made = {
        export_trace(trace, "svg", ExportOptions(view, scale=s))[0]
        for s in ("linear", "sqrt", "log")
    }
    assert len(made) == 3


def test_arcs_are_those_of_the_query_that_is_asked_about_or_of_all():
    trace = translation()
    one, every = (
        export_trace(trace, "svg", ExportOptions("arcs", query=q))[0].decode() for q in (3, None)
    )
    assert "strongest keys of query 3," in one and "strongest keys of each query," in every
    assert all(f">{weight:.2f}<" in one for weight in trace.map().weights()[3].tolist())
    last = export_trace(trace, "svg", ExportOptions("arcs", query=4, words=True))[0].decode()
    with pytest.raises(ValueError, match="expected query from 0 to 4, got 5"):
        export_trace(trace, "svg", ExportOptions("arcs", query=5, words=True))
    assert "strongest keys of query 4," in last


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_trace_is_the_same_file(kind):
    trace = translation(model="small", seed=3, versions={"torch": "2.13"})
    assert export_trace(trace, kind, ExportOptions()) == export_trace(trace, kind, ExportOptions())


@pytest.mark.parametrize("kind", ["png", "svg", "html", "json", "safetensors"])
def test_a_file_says_which_model_seed_and_versions(kind):
    trace = translation(model="smallest", versions={"torch": "2.13.7"})
    data = export_trace(trace, kind, ExportOptions())[0]
    assert b"smallest" in data and b"2.13.7" in data


def test_arrays_say_where_they_come_from_without_a_pickle():
    given = export_trace(translation(model="small", seed=3), "npz", ExportOptions())[0]
    found = numpy.load(io.BytesIO(given), allow_pickle=False)
    header = json.loads(str(found["header"]))
    assert (header["model"], header["seed"]) == ("small", 3)


def test_the_numbers_of_a_wall_are_all_heads_and_those_of_a_machine_all_it_did():
    trace, machine = translation(layers=2, heads=3), copying()
    (walled,) = json.loads(export_trace(trace, "json", ExportOptions("wall"))[0])["maps"]
    assert walled["weights"] == trace.map().all_weights().tolist()
    told = json.loads(export_trace(machine, "json", ExportOptions("tape"))[0])
    assert [map["map"] for map in told["maps"]] == [map.id for map in machine.maps]
    assert told["series"]["memory"] == machine.series[3].values.tolist()


def test_a_page_opens_where_one_was_and_has_every_map():
    shown = ExportOptions("wall", "cross", 1, 2, scale="log")
    assert shown.address_params() == {
        **{"view": "wall", "map": "cross", "layer": "1", "head": "2"},
        "scale": "log",
    }
    text = export_trace(translation(layers=2, heads=3), "html", shown, {"python": "x = 1"})[0]
    assert b'"place":{"view":"wall","map":"cross"' in text
    assert b'"python":"x = 1"' in text
    assert ExportOptions().address_params() == {"view": "heads", "scale": "linear"}


def test_numbers_beyond_what_json_is_good_for_are_refused():
    map = Map("m", "s", "s", lambda layer, head: torch.eye(1024), 1, 8)
    with pytest.raises(ValueError, match=r"json: 8388608 numbers, but a file has .* Take npz"):
        export_trace(Trace([Slots("s", 1024)], [map]), "json", ExportOptions("wall"))


def test_seven_kinds_are_offered():
    assert KINDS == ("png", "svg", "pdf", "html", "npz", "json", "safetensors")


class Vast(Map):
    """A map of which nothing may be asked but its sizes."""

    def weights(self, layer=0, head=0):
        raise AssertionError


def vast(layers=1, heads=1, queries=1, keys=1):
    given = Vast("m", "q", "k", lambda layer, head: 1 / 0, layers, heads)
    return Trace([Slots("q", queries), Slots("k", keys)], [given])


@pytest.mark.parametrize(
    ("kind", "shown", "trace", "words"),
    [
        (
            "png",
            ExportOptions(),
            vast(queries=2**14, keys=2**14),
            "png: 268435456 weights, but such",
        ),
        (
            "pdf",
            ExportOptions("image"),
            vast(queries=1024, keys=1024),
            "1048576 weights, but such a file takes 524288",
        ),
        (
            "png",
            ExportOptions("wall"),
            vast(heads=2**14),
            "png: 16384 heads, but such a file takes 1024 at most",
        ),
        ("png", ExportOptions("wall"), vast(1, 2, 2**13, 2**12), "33554432 weights in a head"),
        (
            "svg",
            ExportOptions("arcs"),
            vast(queries=1024, keys=1024),
            "but such a file takes 262144 at most",
        ),
        (
            "svg",
            ExportOptions("ribbons"),
            vast(queries=1024, keys=1024),
            "but such a file takes 262144 at most",
        ),
        ("png", ExportOptions("tape"), vast(queries=1024, keys=1024), "1048576 numbers"),
        ("png", ExportOptions("plane"), vast(queries=1024, keys=1024), "1048576 numbers"),
        (
            "png",
            ExportOptions(words=True),
            vast(heads=2**10, queries=200, keys=200),
            "to join by words",
        ),
        (
            "html",
            ExportOptions(),
            vast(heads=64, queries=1024, keys=1024),
            "html: 67108864 weights",
        ),
        (
            "npz",
            ExportOptions(),
            vast(heads=128, queries=1024, keys=1024),
            "npz: 134217728 weights",
        ),
        (
            "safetensors",
            ExportOptions(),
            vast(heads=128, queries=1024, keys=1024),
            "Take another kind",
        ),
    ],
)
def test_what_is_too_much_is_refused_before_a_weight_is_asked_for(kind, shown, trace, words):
    with pytest.raises(TooLargeError, match=re.escape(words)):
        check_export_size(trace, kind, shown)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_usual_is_not_too_much(view, kind):
    check_export_size(
        vast(12, 12, 512, 512)
        if view == "wall" and kind not in ("html",)
        else vast(queries=256, keys=256),
        kind,
        ExportOptions(view),
    )


def test_what_is_counted_is_what_is_made(monkeypatch):
    trace = translation(layers=2, heads=3)
    exact = trace.map().all_weights().numel()
    monkeypatch.setitem(exports.MAX_WEIGHTS, "npz", exact)
    check_export_size(trace, "npz", ExportOptions())
    monkeypatch.setitem(exports.MAX_WEIGHTS, "npz", exact - 1)
    with pytest.raises(TooLargeError):
        check_export_size(trace, "npz", ExportOptions())

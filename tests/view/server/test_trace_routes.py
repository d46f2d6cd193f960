"""Traces go in as files and come out as arrays; a hostile one is a sentence."""

import io
import json
import struct
import sys
import zipfile
from dataclasses import replace

import numpy
import pytest
import torch
from safetensors.torch import save as safetensors

from regard.view import load, save
from regard.view.server import exports
from regard.view.server.limits import Limits
from regard.view.traces.wire import to_sqrt_bytes
from tests.view.example_traces import everything, translation
from tests.view.server.house import BEARER, asgi, seen, status
from tests.view.server.test_images import claiming, written


@pytest.fixture
def at(house):
    """The address of a trace that is kept."""
    return f"/api/traces/{house.state.store_trace(seen('one'), {})}"


@pytest.fixture
def data(tmp_path):
    return save(everything(), tmp_path / "a.safetensors").read_bytes()


def changed(data, **manifest):
    """The file of a trace with another manifest."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    told = json.loads(header["__metadata__"]["regard.trace"]) | manifest
    header["__metadata__"]["regard.trace"] = json.dumps(told)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


def test_a_file_that_is_sent_is_kept_and_comes_back_the_same(house, data, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(data)
    answer = house.client.post("/api/traces", content=data)
    assert answer.status_code == 201
    id = answer.json()["id"]
    assert house.client.get(f"/api/traces/{id}").json()["python"].endswith('.safetensors")')
    back = house.client.get(f"/api/traces/{id}/export/safetensors")
    (tmp_path / "b.safetensors").write_bytes(back.content)
    sent, came = (load(tmp_path / f"{name}.safetensors") for name in "ab")
    for one, two in zip(sent.maps, came.maps, strict=True):
        assert torch.equal(one.all_weights().float(), two.all_weights())
    assert came.outputs == sent.outputs


def test_all_traces_are_listed_the_newest_last(house, at):
    house.state.store_trace(seen("two"), {})
    listed = house.client.get("/api/traces").json()
    assert [one["title"] for one in listed] == ["one", "two"]
    assert listed[0] == {"id": at[-32:], "title": "one", "model": "toy", "family": ""}


def test_a_script_in_a_token_is_text_in_json(house, at):
    answer = house.client.get(at)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["axes"][0]["labels"][0] == "<script>alert(1)</script>"


def test_arrays_have_the_lengths_that_the_manifest_says(house, at):
    weights = seen().map().weights()
    assert (
        house.client.get(f"{at}/thumbs/cross").content == to_sqrt_bytes(weights).numpy().tobytes()
    )
    assert (
        house.client.get(f"{at}/cells/cross/0/0").content
        == to_sqrt_bytes(weights).numpy().tobytes()
    )
    row = numpy.frombuffer(house.client.get(f"{at}/rows/cross/0/0/0").content, "<f4")
    assert row.tolist() == [0.5, 0.25, 0.25, 0, 0, 0]
    gate = numpy.frombuffer(house.client.get(f"{at}/series/gate").content, "<f4")
    assert gate.tolist() == [0.5, 0.125]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("/thumbs/no", 404),
        ("/cells/cross/1/0", 404),
        ("/cells/cross/0/1", 404),
        ("/cells/cross/0/0?level=1", 404),
        ("/cells/cross/0/0?row=1", 404),
        ("/cells/cross/0/0?level=x", 400),
        ("/cells/cross/0/0?level=-1", 400),
        ("/cells/cross/0/0?row=99999999999", 400),
        ("/cells/cross/0/0?level=٣", 400),
        ("/rows/cross/0/0/2", 404),
        ("/series/no", 404),
        ("/images/image", 404),
        ("/images/no", 404),
        ("/images/words", 404),
        ("/export/exe", 404),
        ("/export/png?view=tape", 400),
        ("/export/png?view=../x", 400),
        ("/export/png?scale=x", 400),
        ("/export/png?width=9", 400),
        ("/export/png?width=99999", 400),
        ("/export/png?map=no", 400),
        ("/export/png?layer=7", 400),
        ("/export/png?view=arcs&query=99", 400),
        ("/export/png?view=arcs&query=x", 400),
        ("/export/json?words=maybe", 400),
    ],
)
def test_what_is_not_there_is_refused_in_a_sentence(house, at, end, code):
    answer = house.client.get(at + end)
    assert answer.status_code == code
    assert 10 < len(answer.json()["error"]) < 300
    assert house.lines == []


def hostile(data):
    """Files that are no trace, by what is wrong with them."""
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(10**7))
    nan = safetensors({"maps.m": torch.full((1, 1, 1, 1), float("nan"))})
    return {
        "empty": b"",
        "short": data[:5],
        "truncated": data[:-10],
        "headless": data[:200],
        "huge header": struct.pack("<Q", 2**62) + data[8:],
        "zip bomb": bomb.getvalue(),
        "other tensors": nan,
        "other schema": changed(data, schema=2),
        "schema of text": changed(data, schema="1"),
        "no axes": changed(data, axes=[]),
        "lost map": changed(data, maps=[]),
        "unknown name": changed(data, evil=1),
        "deep": changed(data, outputs={"a": json.loads("[" * 60 + "]" * 60)}),
        "not a number": changed(data, outputs={"a": float("nan")}),
        "path": changed(data, axes=[{"kind": "slots", "id": "../x", "count": 1}]),
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    }


HOSTILE = (
    *("empty", "short", "truncated", "headless", "huge header", "zip bomb", "other tensors"),
    *("other schema", "schema of text", "no axes", "lost map", "unknown name", "deep"),
    *("not a number", "path", "pickle"),
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence_and_nothing_leaks(house, data, name):
    answer = house.client.post("/api/traces", content=hostile(data)[name])
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error.startswith("expected the file of a trace: ")
    assert not any(word in error for word in ("/tmp", "regard-", ".safetensors", "Traceback"))
    assert house.client.get("/api/traces").json() == []
    assert house.lines == []


@pytest.mark.parametrize("weight", [0.5, float("nan"), -1.0, float("inf")])
def test_weights_that_are_no_shares_of_one_are_refused(house, tmp_path, weight):
    good = save(translation(), tmp_path / "a.safetensors").read_bytes()
    assert house.client.post("/api/traces", content=good).status_code == 201
    size = int.from_bytes(good[:8], "little")
    bad = good[: 8 + size] + torch.full((7, 8), weight).numpy().tobytes()
    answer = house.client.post("/api/traces", content=bad)
    assert answer.status_code == 400
    assert "Map 'cross': expected" in answer.json()["error"]


@pytest.mark.parametrize("house", [{"limits": replace(Limits(), trace=4000)}], indirect=True)
def test_a_file_over_the_bound_is_refused_while_it_streams(house):
    given = {"host": "127.0.0.1:8000", **BEARER}
    sent, taken = asgi(house.app, "POST", "/api/traces", given, [b"x" * 1000] * 100)
    assert (status(sent), taken) == (413, 5)
    lying = {**given, "content-length": "10"}
    assert status(asgi(house.app, "POST", "/api/traces", lying, [b"x" * 1000] * 100)[0]) == 413
    honest = {**given, "content-length": "100000"}
    assert asgi(house.app, "POST", "/api/traces", honest, [b"x"] * 100)[1] == 0


def test_a_picture_goes_under_a_grid_of_a_new_trace(house, at):
    answer = house.client.post(f"{at}/images/image", content=written(colour=(1, 2, 3)))
    assert answer.status_code == 201
    new = f"/api/traces/{answer.json()['id']}"
    assert new != at
    assert house.client.get(new).json()["axes"][1]["image"] == [3, 2, 3]
    found = house.client.get(f"{new}/images/image").content
    assert found == bytes([1] * 6 + [2] * 6 + [3] * 6)
    assert house.client.get(at).json()["axes"][1]["image"] is None


@pytest.mark.parametrize(
    ("axis", "content", "code"),
    [
        ("image", claiming(60_000, 60_000), 400),
        ("image", b"<svg onload='alert(1)'/>", 400),
        ("image", bytes(8 * 2**20 + 1), 413),
        ("words", written(), 400),
        ("no", written(), 400),
    ],
    ids=["bomb", "svg", "large", "tokens", "nothing"],
)
def test_what_is_no_picture_or_has_no_place_is_refused(house, at, axis, content, code):
    answer = house.client.post(f"{at}/images/{axis}", content=content)
    assert answer.status_code == code
    assert len(answer.json()["error"]) > 10
    assert len(house.client.get("/api/traces").json()) == 1


def test_without_matplotlib_a_picture_is_refused_with_the_extra_that_is_missing(
    house, at, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    answer = house.client.get(f"{at}/export/png")
    assert answer.status_code == 501
    assert answer.json() == {"error": "plots need matplotlib: pip install 'regard[plot]'"}


def test_arcs_are_drawn_of_the_query_behind_the_address(house, at):
    for query, who in (("1", "query 1"), ("", "each query")):
        params = {"view": "arcs", "map": "cross", "query": query}
        answer = house.client.get(f"{at}/export/svg", params=params)
        assert answer.status_code == 200
        assert f"strongest keys of {who}," in answer.text


def test_an_export_is_a_download(house, at):
    answer = house.client.get(f"{at}/export/json", params={"map": "cross"})
    assert answer.headers["content-disposition"] == 'attachment; filename="toy.json"'
    assert answer.json()["weights"] == seen().map().weights().tolist()


def test_what_is_too_much_to_take_away_is_refused_in_words(house, monkeypatch):
    monkeypatch.setitem(exports.MAX_WEIGHTS, "png", 3)
    id = house.state.store_trace(seen(), {})
    answer = house.client.get(f"/api/traces/{id}/export/png")
    assert answer.status_code == 413
    assert answer.json()["error"].startswith(
        "png: 12 weights, but such a file takes 3 at most. Take another"
    )
    assert house.client.get(f"/api/traces/{id}/export/npz").status_code == 200


def test_what_takes_too_long_to_make_is_stopped(house, monkeypatch):
    monkeypatch.setattr(house.state.render_queue, "seconds", -1.0)
    id = house.state.store_trace(seen(), {})
    answer = house.client.get(f"/api/traces/{id}/export/png")
    assert answer.status_code == 422
    assert "s and was stopped. Take one head" in answer.json()["error"]

"""What is saved is what is loaded; what was not saved by us is refused in one sentence."""

import contextlib
import json
import random
import struct
import subprocess
import sys
import time

import pytest
import torch

from regard.view import (
    Map,
    Slots,
    Trace,
    load,
    save,
)
from regard.view.traces import files
from regard.view.traces.files import MAX_HEADER_BYTES
from regard.view.traces.trace import fields_to_json
from tests.view.example_traces import everything, translation


def taken(path):
    """The manifest of a file, and the entries and bytes of its tensors."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    return json.loads(header.pop("__metadata__")["regard.trace"]), header, data[8 + length :]


def made(path, manifest, header, body, **metadata):
    """A file by hand, of whatever one likes."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    whole = {"__metadata__": {"regard.trace": text} | metadata} | header
    start = json.dumps(whole).encode()
    path.write_bytes(struct.pack("<Q", len(start)) + start + body)
    return path


@pytest.fixture
def path(tmp_path):
    return save(everything(), tmp_path / "trace.safetensors")


def tensors(trace):
    """Every tensor of `everything`."""
    numbers = [series.values for series in trace.series]
    return [
        trace.axis("img").image,
        trace.axis("pts").xy,
        *(m.all_weights() for m in trace.maps),
        *numbers,
    ]


def test_what_is_saved_is_what_is_loaded(tmp_path):
    before = everything()
    after = load(save(before, tmp_path / "t.safetensors"))
    for part in ("axes", "maps", "series"):
        for a, b in zip(getattr(before, part), getattr(after, part), strict=True):
            but = ("image", "xy", "cells", "values")
            assert (type(a), fields_to_json(a, exclude=but)) == (
                type(b),
                fields_to_json(b, exclude=but),
            )
    assert (after.header, after.outputs) == (before.header, before.outputs)
    for a, b in zip(tensors(before), tensors(after), strict=True):
        assert torch.equal(a, b)
        assert a.dtype == b.dtype


def test_float32_is_kept_bit_for_bit(tmp_path):
    w = torch.rand(1, 1, 3, 5) * torch.tensor([1e-38, 1e-20, 1e-45, 0.1, 1e-7])
    trace = Trace([Slots("q", 3), Slots("k", 5)], [Map("m", "q", "k", w)])
    again = load(save(trace, tmp_path / "t.safetensors")).map().all_weights()
    assert again.view(torch.int32).tolist() == w.view(torch.int32).tolist()


def test_a_file_from_before_layers_had_names_still_loads(path, tmp_path):
    manifest, header, body = taken(path)
    assert [map.pop("names") for map in manifest["maps"]] == [["a.0", "b"], []]
    again = load(made(tmp_path / "old.safetensors", manifest, header, body))
    assert [map.names for map in again.maps] == [(), ()]
    assert torch.equal(again.map("look").all_weights(), load(path).map("look").all_weights())


@pytest.mark.parametrize("names", [["a"], [1, 2], "ab", {"0": "a"}])
def test_names_that_are_not_one_a_layer_are_refused(names, path, tmp_path):
    manifest, header, body = taken(path)
    manifest["maps"][0]["names"] = names
    with pytest.raises(ValueError, match=r"is not a trace: (Map 'read.0': expected|a map has a)"):
        load(made(tmp_path / "bad.safetensors", manifest, header, body))


def test_the_same_trace_is_the_same_bytes(tmp_path):
    trace = translation()
    a, b = (save(trace, tmp_path / f"{name}.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_two_maps_may_share_one_tensor(tmp_path):
    w = torch.tensor([[[[0.7, 0.3], [0.2, 0.6]]]])
    given = {"a": w, "b": w, "turned": w.mT}
    maps = [Map(id, "x", "x", cells) for id, cells in given.items()]
    again = load(save(Trace([Slots("x", 2)], maps), tmp_path / "t.safetensors"))
    assert {map.id: map.all_weights().tolist() for map in again.maps} == {
        id: cells.tolist() for id, cells in given.items()
    }


def test_a_map_that_fails_leaves_the_old_file(path):
    before = path.read_bytes()
    broken = Trace([Slots("x", 1)], [Map("m", "x", "x", lambda i, j: torch.full((1, 1), 9.0))])
    with pytest.raises(ValueError, match="rows that sum to at most 1, got 9"):
        save(broken, path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"write: no folder named '.*nowhere'"):
        save(translation(), tmp_path / "nowhere" / "t.safetensors")


def test_only_safetensors_are_written(tmp_path):
    with pytest.raises(ValueError, match=r"save: expected a path that ends in .safetensors, got"):
        save(translation(), tmp_path / "trace.json")


def test_what_is_too_large_to_load_is_not_saved(path, monkeypatch):
    length = int.from_bytes(path.read_bytes()[:8], "little")
    monkeypatch.setattr(files, "MAX_HEADER_BYTES", length)
    load(save(everything(), path))
    before = path.read_bytes()
    monkeypatch.setattr(files, "MAX_HEADER_BYTES", length - 1)
    with pytest.raises(
        ValueError, match=f"save: expected labels and outputs of at most {length - 1} b"
    ):
        save(everything(), path)
    assert path.read_bytes() == before


def test_no_file_is_no_trace(tmp_path):
    with pytest.raises(FileNotFoundError, match="load: no file named"):
        load(tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match="is not a trace: expected a file, got a folder"):
        load(tmp_path)


def test_other_metadata_does_no_harm(path):
    manifest, header, body = taken(path)
    assert load(made(path, manifest, header, body, format="pt")).header.model == "m"


BYTES = {
    "empty": (b"", "the file is cut off"),
    "short": (b"\x01\x02", "the file is cut off"),
    "promises": (struct.pack("<Q", 2**63) + b"{}", "the file is cut off"),
    "text": (b"{'this': 'is no safetensors at all'}", "the file is cut off"),
    "pickle": (b"\x80\x04\x95\x0b\x00\x00\x00\x00" + b"\x00" * 40, "the file is cut off"),
    "no json": (struct.pack("<Q", 4) + b"nope", "the file is damaged"),
    "no metadata": (struct.pack("<Q", 2) + b"{}", "its metadata has no 'regard.trace'"),
    "bad utf-8": (struct.pack("<Q", 4) + b'{"\xff"', "the file is damaged"),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_safetensors_are_refused(name, tmp_path):
    data, message = BYTES[name]
    path = tmp_path / "t.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"^load: '.*' is not a trace: {message}"):
        load(path)


def test_a_header_too_large_is_not_even_read(tmp_path):
    path = tmp_path / "t.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", MAX_HEADER_BYTES + 1))
        file.truncate(2 * MAX_HEADER_BYTES)
    with pytest.raises(ValueError, match=f"a header of at most {MAX_HEADER_BYTES} bytes"):
        load(path)


MANIFESTS = {
    "not json": ("{", "its manifest is not JSON"),
    "deep": ("[" * 100_000, "its manifest is not JSON"),
    "a list": ("[]", "expected the manifest as an object"),
    "twice": ('{"schema": 1, "schema": 1}', "its manifest says a name twice"),
    "nan": ('{"schema": NaN}', "its manifest has NaN, which is not finite"),
    "empty": ("{}", "expected schema 1, got None"),
    "long number": ('{"schema": ' + "9" * 5000 + "}", ""),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_that_are_none_are_refused(name, path):
    text, message = MANIFESTS[name]
    _, header, body = taken(path)
    with pytest.raises(ValueError, match=f"is not a trace: {message}"):
        load(made(path, text, header, body))


def put(*keys, value):
    """A change of a manifest: what stands at these keys becomes `value`."""

    def change(manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = value

    return change


CHANGES = {
    "schema": (put("schema", value=2), "expected schema 1, got 2. A newer regard reads it"),
    "older": (put("schema", value=0), "expected schema 1, got 0$"),
    "no schema": (put("schema", value="1"), "expected schema 1, got '1'$"),
    "true schema": (put("schema", value=True), "'schema' of the wrong type, True"),
    "unknown": (put("evil", value=1), "the manifest has an unknown 'evil'"),
    "missing": (lambda m: m.pop("axes"), "the manifest has no 'axes'"),
    "kind": (put("axes", 0, "kind", value="__class__"), "expected an axis of kind tokens, grid"),
    "axis": (put("axes", 0, value=3), "expected an axis of kind"),
    "more": (put("axes", 0, "evil", value=3), "an axis of tokens has an unknown 'evil'"),
    "labels": (put("axes", 0, "labels", value="abcd"), "'labels' of the wrong type"),
    "label": (put("axes", 0, "labels", 1, value=None), "expected label 1 as a string, got None"),
    "longer": (put("axes", 0, "labels", value=list("abcde")), "a word for each of 5 labels"),
    "words": (put("axes", 0, "words", value=[0, 1]), "a word for each of 4 labels, got 2"),
    "special": (put("axes", 0, "special", value=[9]), "expected special as whole numbers"),
    "rows": (put("axes", 1, "rows", value=2.0), "'rows' of the wrong type, 2.0"),
    "slots": (put("axes", 3, "count", value=10**12), "expected count from 1 to"),
    "fewer": (put("axes", 3, "count", value=5), r"of shape \(layers=2, heads=3, Q=5, K=5\), got"),
    "true": (put("axes", 3, "count", value=True), "'count' of the wrong type"),
    "path": (put("axes", 0, "id", value="../../etc"), "expected an id of letters"),
    "tensor": (put("axes", 4, "id", value="../x"), "tensor 'axes.../x', which is not in the file"),
    "same": (put("axes", 2, "id", value="src"), "axes of different ids, got 'src' twice"),
    "image": (put("axes", 2, "image", value=True), "names tensor 'axes.bare', which is not in"),
    "no image": (put("axes", 1, "image", value=False), "tensor 'axes.img' belongs to nothing"),
    "heads": (put("maps", 0, "heads", value=2), r"of shape \(layers=2, heads=2, Q, K\), got"),
    "negative": (put("maps", 0, "layers", value=-2), "expected at least one of layers, got -2"),
    "query": (put("maps", 0, "query", value="nobody"), "no axis named 'nobody'; there is"),
    "map id": (put("maps", 0, "id", value=["m"]), "a map has a 'id' of the wrong type"),
    "no map": (put("maps", value=[]), "belongs to nothing in the manifest"),
    "series": (put("series", 0, "axis", value="mem"), r"of shape \(n=6\), got \(3,\)"),
    "digits": (put("outputs", "n", value=10**400), "whole numbers below 2.63, got one of about"),
    "digits of seed": (put("seed", value=-(10**30)), "whole numbers below 2.63, got one of about"),
    "infinite": (put("outputs", "p", value=1e999), "its manifest has Infinity"),
    "seed": (put("seed", value="7"), "the manifest has a 'seed' of the wrong type"),
    "note": (put("notes", value=[{}]), "expected a note as a string"),
    "surrogate": (put("title", value="\ud800"), ""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_manifests_that_do_not_fit_are_refused(name, path):
    change, message = CHANGES[name]
    manifest, header, body = taken(path)
    change(manifest)
    with pytest.raises(ValueError, match=f"is not a trace: .*{message}"):
        load(made(path, manifest, header, body))


def test_a_manifest_is_counted_at_what_its_values_cost_and_not_at_its_length(path):
    manifest, header, body = taken(path)
    manifest["outputs"] = {"x": [[]] * 2_000_000}
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"its manifest would take about .* MB of memory"):
        load(made(path, manifest, header, body))
    assert time.perf_counter() - began < 1
    manifest["outputs"] = {"x": [[]] * 1000}
    assert len(load(made(path, manifest, header, body)).outputs["x"]) == 1000


def test_a_file_of_very_many_tensors_is_refused_before_they_are_read(path, monkeypatch):
    monkeypatch.setattr(files, "MAX_TENSORS", 3)
    with pytest.raises(ValueError, match="expected at most 3 tensors, got"):
        load(path)


def test_what_takes_too_much_memory_to_load_is_not_saved(path, monkeypatch):
    monkeypatch.setattr(files, "MAX_MANIFEST_MEMORY_BYTES", 2**10)
    with pytest.raises(ValueError, match="save: labels and outputs would take about"):
        save(everything(), path)


def test_numbers_that_overflow_in_json_are_refused(path):
    manifest, header, body = taken(path)
    text = json.dumps(manifest).replace("0.1", "1e999")
    with pytest.raises(ValueError, match="outputs: expected values of finite numbers"):
        load(made(path, text, header, body))


@pytest.mark.parametrize(("number", "message"), [(torch.nan, "finite"), (-1, "at least 0")])
def test_wrong_numbers_in_tensors_are_refused(number, message, path):
    manifest, header, body = taken(path)
    start = header["maps.read.0"]["data_offsets"][0]
    wrong = body[:start] + struct.pack("<f", number) + body[start + 4 :]
    with pytest.raises(ValueError, match=f"Map 'read.0': expected weights of {message}"):
        load(made(path, manifest, header, wrong))


def test_tensors_of_strange_types_are_refused(path):
    manifest, header, body = taken(path)
    header["maps.read.0"]["dtype"] = "I32"
    with pytest.raises(ValueError, match=r"expected tensors of F16, .* got 'maps.read.0' of I32"):
        load(made(path, manifest, header, body))


@pytest.mark.parametrize("shape", [[2**63, 0], [0, 2**62, 2**62], [2**64 - 1, 0, 1]])
def test_sizes_that_no_tensor_can_have_are_refused_though_they_hold_nothing(shape, path):
    manifest, header, _ = taken(path)
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
    made(path, manifest, dict.fromkeys(header, entry), b"")
    with pytest.raises(ValueError, match=r"expected sizes that a tensor can have, got .*$"):
        load(path)


def test_a_tensor_nobody_named_is_refused(path):
    manifest, header, body = taken(path)
    end = len(body)
    header["extra"] = {"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]}
    with pytest.raises(ValueError, match="tensor 'extra' belongs to nothing in the manifest"):
        load(made(path, manifest, header, body + b"\0\0\0\0"))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_off_anywhere_is_refused(share, path):
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match="is not a trace: the file is"):
        load(path)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_loaded_or_refused_but_never_worse(seed, path):
    data, luck = path.read_bytes(), random.Random(seed)
    for _ in range(15):
        wrong = bytearray(data)
        for _ in range(luck.randint(1, 4)):
            wrong[luck.randrange(len(wrong))] = luck.randrange(256)
        path.write_bytes(wrong)
        with contextlib.suppress(ValueError):
            assert isinstance(load(path), Trace)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc of Linux")
def test_a_trace_that_is_read_is_in_memory_once(tmp_path):
    map = Map("m", "s", "s", torch.zeros(1, 1, 8000, 8000, dtype=torch.float16))
    path = save(Trace([Slots("s", 8000)], [map], []), tmp_path / "large.safetensors")
    small = save(everything(), tmp_path / "small.safetensors")
    code = (
        "import sys; from benchmarks.measure import peak_here; from regard.view import load\n"
        "load(sys.argv[1])  # what the first load brings in is no part of a trace\n"
        "print(peak_here(lambda: load(sys.argv[2])))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, small, path], capture_output=True, text=True, check=True
    )
    size = 8000 * 8000 * 2 / 2**20
    assert size <= float(run.stdout) <= 1.5 * size

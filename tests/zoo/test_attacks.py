"""Files made to do harm: each gives one line, never another error, a long wait, or an import."""

import json
import os
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.zoo.loader import load
from tests.zoo import tiny
from tests.zoo.tiny import safetensors


def one(shape=(1,), offsets=(0, 4), dtype="F32") -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def tensors(folder: Path, **changed: torch.Tensor | None) -> None:
    """Change some tensors of a model; None takes one away."""
    held = tiny.Tiny(tiny.TinyConfig()).state_dict() | {
        name.replace("__", "."): tensor for name, tensor in changed.items()
    }
    whole = {name: tensor for name, tensor in held.items() if tensor is not None}
    save_file(whole, folder / "model.safetensors")


class Evil:
    def __reduce__(self):
        return os.system, ("touch pwned",)


def pickled(folder: Path) -> None:
    torch.save({"first.weight": Evil()}, folder / "model.safetensors")


def truncated(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 500)


def grown(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(pickle.dumps(Evil()))


def linked(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "elsewhere")
    (folder / "model.safetensors").symlink_to("../elsewhere")


def piped(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


def twice(folder: Path) -> None:
    name = json.dumps(one())
    safetensors(folder, f'{{"a": {name}, "a": {name}}}'.encode(), bytes(4))


WEIGHTS = {
    "an empty file": (lambda f: (f / "model.safetensors").write_bytes(b""), "no whole safetens"),
    "seven bytes": (lambda f: (f / "model.safetensors").write_bytes(b"1234567"), "no whole safe"),
    "a header longer than the file": (
        lambda f: safetensors(f, {}, length=2**40),
        "expected a header of 1099511627776 bytes, got a file of 10",
    ),
    "the longest header of all": (lambda f: safetensors(f, {}, length=2**64 - 1), "no whole safe"),
    "a giant header": (
        lambda f: safetensors(f, b"{}" + b" " * 2**24),
        "has a header of 16777218 bytes, the most is 16777216",
    ),
    "a header that is no JSON": (lambda f: safetensors(f, b"{oops}"), "not the JSON it should"),
    "a header nested deep": (lambda f: safetensors(f, b'{"a":' * 100_000), "nested too deep"),
    "a header that is no UTF-8": (lambda f: safetensors(f, b'{"\xff": 1}'), "not the JSON it sho"),
    "a header that is a list": (lambda f: safetensors(f, [1]), "expected .* to hold a JSON object"),
    "one name twice": (twice, "the key 'a' stands there twice"),
    "overlapping offsets": (
        lambda f: safetensors(f, {"a": one(), "b": one()}, bytes(4)),
        "no whole safetensors file: .*invalid offset",
    ),
    "offsets beyond the file": (
        lambda f: safetensors(f, {"a": one((1000,), (0, 4000))}, bytes(4)),
        "no whole safetensors file",
    ),
    "offsets that do not fit the shape": (
        lambda f: safetensors(f, {"a": one((2,), (0, 4))}, bytes(4)),
        "no whole safetensors file",
    ),
    "a shape whose size overflows": (
        lambda f: safetensors(f, {"a": one((2**40, 2**40))}, bytes(4)),
        "no whole safetensors file: .*overflow",
    ),
    "a negative shape": (lambda f: safetensors(f, {"a": one((-1,))}, bytes(4)), "no whole safet"),
    "an unknown dtype": (
        lambda f: safetensors(f, {"a": one(dtype="Q4_K")}, bytes(4)),
        "no whole safetensors file",
    ),
    "a hole between tensors": (
        lambda f: safetensors(f, {"a": one(offsets=(4, 8))}, bytes(8)),
        "no whole safetensors file",
    ),
    "a truncated file": (truncated, "no whole safetensors file"),
    "a pickle behind the tensors": (grown, "no whole safetensors file"),
    "a pickle": (pickled, "no whole safetensors file: expected a header of"),
    "a link out of the folder": (linked, "is a link that leads out of its folder"),
    "a pipe": (piped, "to be a plain file"),
    "no file": (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    "no tensors": (lambda f: safetensors(f, {}), "lacks tensors of the model: count, "),
    "a tensor too few": (
        lambda f: tensors(f, first__bias=None),
        "lacks tensors of the model: first.bias$",
    ),
    "a tensor too many": (
        lambda f: tensors(f, third__weight=torch.ones(1)),
        "has tensors that the model has not: third.weight$",
    ),
    "another shape": (
        lambda f: tensors(f, first__bias=torch.ones(4)),
        r"expected first.bias of shape \(3,\), got \(4,\)",
    ),
    "another rank": (
        lambda f: tensors(f, first__bias=torch.ones(3, 1)),
        r"expected first.bias of shape \(3,\), got \(3, 1\)",
    ),
    "whole numbers for weights": (
        lambda f: tensors(f, first__bias=torch.ones(3, dtype=torch.int32)),
        "expected first.bias as torch.float32, got torch.int32",
    ),
    "a weight for a count": (
        lambda f: tensors(f, count=torch.tensor(1.0)),
        "expected count as torch.int64, got torch.float32",
    ),
    "complex weights": (
        lambda f: tensors(f, first__bias=torch.ones(3, dtype=torch.complex64)),
        "expected first.bias as torch.float32, got torch.complex64",
    ),
    "NaN": (
        lambda f: tensors(f, first__bias=torch.full((3,), torch.nan)),
        "first.bias has numbers that are not finite",
    ),
    "infinity in half precision": (
        lambda f: tensors(f, first__bias=torch.full((3,), torch.inf).half()),
        "first.bias has numbers that are not finite",
    ),
    "infinity beyond float32": (
        lambda f: tensors(f, first__bias=torch.full((3,), 1e300, dtype=torch.float64)),
        "first.bias has numbers that are not finite",
    ),
}


def nested(depth: int) -> list:
    return [nested(depth - 1)] if depth else []


CONFIG = {"width": 3, "layers": 2, "tied": False, "reach": 5}
CARDS = {
    "no schema": ({"schema": None}, "is of schema None, this version reads 1"),
    "a later schema": ({"schema": 2}, "is of schema 2, this version reads 1"),
    "a schema that is almost one": ({"schema": True}, "is of schema True"),
    "no kind": ({"model": None}, "expected model as str"),
    "a kind that is a module": ({"model": "os.system"}, "no kind of model 'os.system'; there is"),
    "a kind that is a list": ({"model": ["tiny"]}, "expected model as str"),
    "no name": ({"name": None}, "expected name as str"),
    "no recipe": ({"recipe": 3}, "expected recipe as str"),
    "no config": ({"config": None}, "expected config as dict"),
    "an unknown field": ({"config": CONFIG | {"depth": 3}}, "depth"),
    "a field that names code": ({"config": CONFIG | {"_target_": "os.system"}}, "_target_"),
    "a field of another type": ({"config": CONFIG | {"width": "3"}}, "width"),
    "a fraction of a layer": ({"config": CONFIG | {"layers": 1.5}}, "layers"),
    "a field nested deep": ({"config": CONFIG | {"width": nested(300)}}, "nested too deep"),
    "a field of many letters": ({"config": CONFIG | {"width": "x" * 10**5}}, "width"),
    "a field of a million letters": ({"config": CONFIG | {"width": "x" * 10**6}}, "than 2 MiB"),
    "a list of many small numbers": ({"numbers": {"a": [1] * 30_000}}, "than 2 MiB"),
    "a field whose name is long": ({"config": CONFIG | {"x" * 10**5: 1}}, "xxx"),
    "a size the model refuses": ({"config": CONFIG | {"width": 0}}, "Tiny: expected width ≥ 1, g"),
    "a size torch refuses": ({"config": CONFIG | {"reach": -1}}, "no model of this config: "),
    "a model of 10¹² columns": (
        {"config": CONFIG | {"width": 10**12}},
        r"config.width is 1e\+12, the most is 16777216",
    ),
    "a size of 400 digits": (
        {"config": CONFIG | {"width": 10**400}},
        "config.width is beyond 1e300, the most is 16777216",
    ),
    "10¹² layers": ({"config": CONFIG | {"layers": 10**12}}, "config.layers is 1e.12, the most"),
    "a wide model": ({"config": CONFIG | {"width": 2**24}}, r"expected rnn.weight_ih_l0 of shape"),
    "a deep model": (
        {"config": CONFIG | {"layers": 2**24}},
        "no model of this config: it has over 1130 parts, far more than its file",
    ),
    "a deeper model than the file's": (
        {"config": CONFIG | {"layers": 3}},
        "lacks tensors of the model: rnn.weight_ih_l2, .* and 1 more",
    ),
    "a tie that the file has not": ({"config": CONFIG | {"tied": True}}, "tied tensors twice: sec"),
}

TOKENIZERS = {
    "nothing": b"{}",
    "an unknown model": b'{"model": {"type": "Evil"}}',
    "nested deep": b'{"a":' * 100_000,
    "an expression that takes for ever": json.dumps(
        {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}}
    ).encode(),
}


def refused(folder: Path, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        load(folder)
    assert str(error.value).startswith("load: ")
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 1000
    assert not Path("pwned").exists()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("attack", WEIGHTS)
def test_hostile_weights_are_refused_in_one_line(folder, attack, monkeypatch):
    monkeypatch.chdir(folder)
    make, words = WEIGHTS[attack]
    make(folder)
    refused(folder, words)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("attack", CARDS)
def test_a_hostile_card_is_refused_in_one_line(folder, attack):
    changed, words = CARDS[attack]
    tiny.card(folder, **changed)
    refused(folder, words)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("attack", TOKENIZERS)
def test_a_hostile_tokenizer_is_refused_in_one_line(folder, attack):
    (folder / "tokenizer.json").write_bytes(TOKENIZERS[attack])
    refused(folder, "tokenizer")


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/passwd", "../elsewhere"])
@pytest.mark.parametrize("name", ["card.json", "tokenizer.json"])
def test_links_out_of_the_folder_are_refused(folder, name, target):
    (folder / name).unlink(missing_ok=True)
    (folder / "../elsewhere").resolve().write_text("{}")
    (folder / name).symlink_to(target)
    refused(folder, "a link that leads out of its folder")


def test_a_pipe_for_a_card_does_not_hang(folder):
    (folder / "card.json").unlink()
    os.mkfifo(folder / "card.json")
    refused(folder, "to be a plain file")


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_one_wrong_byte_anywhere_in_the_header_is_refused_or_harmless(folder, place):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    assert struct.unpack("<Q", data[:8])[0] > 400
    data[place] ^= 0x41
    path.write_bytes(data)
    refused(folder, "model.safetensors")

"""What is saved can be loaded, and is there whole or not at all."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from regard.zoo import saver
from tests.zoo.tiny import CARD, Tiny, TinyConfig, saved


def test_the_card_says_what_the_model_is(folder):
    card = json.loads((folder / "card.json").read_text())
    assert card["schema"] == 1
    assert card["model"] == "tiny"
    assert card["config"] == {"width": 3, "layers": 2, "tied": False, "reach": 5}
    assert {name: card[name] for name in CARD} == CARD


def test_a_folder_holds_these_files_and_nothing_else(folder):
    assert sorted(p.name for p in folder.iterdir()) == ["card.json", "model.safetensors"]


def test_who_may_read_one_file_may_read_all(folder):
    (folder / "any").touch()
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


@pytest.mark.parametrize("dtype", saver.SAVE_DTYPES)
def test_floats_are_stored_in_the_dtype_and_whole_numbers_as_they_are(tmp_path, dtype):
    saved(tmp_path, dtype=dtype)
    tensors = load_file(tmp_path / "model.safetensors")
    assert {t.dtype for t in tensors.values()} == {dtype, torch.int64}


def test_a_dtype_that_holds_no_weights_is_refused(tmp_path):
    words = "^save: expected dtype as one of torch.float32, torch.float16, torch.bfloat16, got torc"
    with pytest.raises(ValueError, match=words):
        saver.save(tmp_path / "run", Tiny(TinyConfig()), TinyConfig(), CARD, dtype=torch.int8)
    assert not (tmp_path / "run").exists()


def test_a_tied_weight_is_stored_once(tmp_path):
    saved(tmp_path, TinyConfig(tied=True))
    names = load_file(tmp_path / "model.safetensors").keys()
    assert "first.weight" in names
    assert "second.weight" not in names


def test_a_tokenizer_saves_itself(tmp_path):
    class Words:
        def save(self, path):
            path.write_text("{}")

    saved(tmp_path, tokenizer=Words())
    assert (tmp_path / "tokenizer.json").read_text() == "{}"


def test_a_save_that_fails_leaves_what_was_there(folder):
    class Broken:
        def save(self, path):
            raise OSError("no space left")

    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(OSError, match="no space left"):
        saved(folder, tokenizer=Broken())
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (math.nan, torch.float32),
        (math.inf, torch.float32),
        (1e5, torch.float16),
        (3.4e38, torch.bfloat16),
    ],
)
def test_numbers_that_are_not_finite_are_refused(tmp_path, value, dtype):
    model = Tiny(TinyConfig())
    nn.init.constant_(model.first.bias, value)
    with pytest.raises(ValueError, match=r"^save: first.bias has numbers that are not finite in"):
        saver.save(tmp_path / "run", model, TinyConfig(), CARD, dtype=dtype)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"name": "tiny"}, "^save: expected recipe as str, got nothing in the card"),
        (CARD | {"loss": math.nan}, "^save: expected a card that JSON can hold: .*not JSON compl"),
        (CARD | {"path": {1}}, "^save: expected a card that JSON can hold: .*set"),
    ],
)
def test_a_card_that_could_not_be_read_again_is_refused(tmp_path, card, words):
    with pytest.raises(ValueError, match=words):
        saver.save(tmp_path, Tiny(TinyConfig()), TinyConfig(), card)


def test_a_state_of_other_things_than_tensors_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Tiny, "get_extra_state", lambda self: {"a": 1}, raising=False)
    with pytest.raises(ValueError, match=r"^save: expected a state of tensors only, got _extra_"):
        saver.save(tmp_path, Tiny(TinyConfig()), TinyConfig(), CARD)

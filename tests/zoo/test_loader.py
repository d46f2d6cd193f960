"""What was saved comes back the same: weights, ties, buffers, config and card."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from regard.data.text import bpe
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.zoo import loader, saver
from regard.zoo.loader import load
from tests.zoo import tiny
from tests.zoo.tiny import Tiny, TinyConfig, saved

X = torch.randn(2, 3, 3)


@pytest.mark.parametrize("config", [TinyConfig(), TinyConfig(tied=True), TinyConfig(4, 1)])
def test_a_loaded_model_computes_what_the_saved_one_did(tmp_path, config):
    x = torch.randn(2, 3, config.width)
    model, loaded = saved(tmp_path, config), load(tmp_path)
    assert torch.equal(loaded.model(x), model(x))
    assert loaded.config == config
    assert loaded.card["numbers"] == {"bleu": 12.5}
    assert loaded.tokenizer is None


def test_it_is_ready_to_use(folder):
    model = load(str(folder)).model
    assert not any(module.training for module in model.modules())
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert all(p.requires_grad for p in model.parameters())
    assert isinstance(model, Tiny)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_stored_in_half_the_room_is_read_as_float32(tmp_path, dtype):
    model, loaded = saved(tmp_path, dtype=dtype), load(tmp_path).model
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert torch.equal(loaded.first.weight, model.first.weight.to(dtype).float())
    assert loaded.count.dtype == torch.int64


def test_what_is_computed_is_computed_again(folder):
    assert load(folder).model.places.tolist() == [0, 0.5, 1, 1.5, 2]


def test_tied_weights_are_tied_again(tmp_path):
    saved(tmp_path, TinyConfig(tied=True))
    model = load(tmp_path).model
    assert model.first.weight is model.second.weight
    assert isinstance(model.first.weight, nn.Parameter)


def test_a_loaded_model_can_be_trained_on(tmp_path):
    saved(tmp_path, TinyConfig(tied=True))
    model = load(tmp_path).model.train()
    before = model(X)
    before.sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    assert not torch.equal(model(X), before)


def test_a_model_does_not_change_when_its_file_does(folder):
    model = load(folder).model
    before = model(X)
    path = folder / "model.safetensors"
    with path.open("r+b") as file:  # in place, not renamed over
        file.seek(-64, 2)
        file.write(b"\xff" * 64)
    assert torch.equal(model(X), before)


def test_loading_draws_no_random_number(folder):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    load(folder)
    assert torch.equal(torch.rand(3), expected)


def test_a_default_device_or_dtype_of_the_user_does_not_matter(folder):
    torch.set_default_dtype(torch.float64)
    try:
        model = load(folder).model
    finally:
        torch.set_default_dtype(torch.float32)
    assert {x.dtype for x in [*model.parameters(), model.places]} == {torch.float32}


def test_a_tokenizer_comes_with_its_model(tmp_path):
    vocabulary = bpe.train_vocabulary(["a green apple", "a green pear"], 300)
    saved(tmp_path, tokenizer=vocabulary)
    ids = vocabulary.encode("a green apple")
    assert load(tmp_path).tokenizer.decode(ids) == "a green apple"


def test_a_link_inside_the_folder_is_followed(folder):
    (folder / "model.safetensors").rename(folder / "best.safetensors")
    (folder / "model.safetensors").symlink_to("best.safetensors")
    assert isinstance(load(folder).model, Tiny)


def test_a_folder_may_itself_be_a_link(folder, tmp_path):
    (tmp_path / "latest").symlink_to(folder)
    assert isinstance(load(tmp_path / "latest").model, Tiny)


def test_what_a_config_asks_for_beside_the_weights_is_limited(folder, monkeypatch):
    monkeypatch.setattr(loader, "MAX_UNSAVED_BYTES", 19)
    with pytest.raises(ValueError, match="the config asks for 20 bytes beside the weights"):
        load(folder)


def test_a_model_without_computed_buffers_is_built_but_once(folder, monkeypatch):
    monkeypatch.setattr(Tiny, "__init__", _without_places)
    load(folder)
    assert _built == ["meta"]


_built: list[str] = []


def _without_places(self, config, init=Tiny.__init__):
    init(self, config)
    _built.append(self.first.weight.device.type)
    del self.places


def test_another_schema_is_named(folder):
    tiny.card(folder, schema=2)
    with pytest.raises(ValueError, match=r"card.json is of schema 2, this version reads 1"):
        load(folder)


@pytest.mark.parametrize("tied", [False, True])
def test_a_model_that_translates_comes_back(tmp_path, tied):
    config = Seq2SeqConfig(9, 6, 4, layers=2, cell="lstm", alignment=3, readout=6, tied=tied)
    model = Seq2Seq(config).eval()
    saver.save(tmp_path, model, config, tiny.CARD)
    source = torch.tensor([[3, 4, 5]]), torch.tensor([3])
    loaded = load(tmp_path).model
    assert torch.equal(loaded(source, source[0]), model(source, source[0]))
    assert (loaded.out.weight is loaded.source.weight) == tied


def test_loading_imports_nothing_slow(tmp_path):
    config = Seq2SeqConfig(9, 6, 4, alignment=3, readout=6)
    saver.save(tmp_path, Seq2Seq(config), config, tiny.CARD)
    slow = "lightning lightning_fabric matplotlib rich sympy torch._dynamo transformers typer"
    code = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "from regard.zoo import load\n"
        f"load({str(tmp_path)!r})\n"
        f"sys.exit(' '.join((set(sys.modules) - before) & set({slow.split()})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.strip() == ""

"""A model that is made ready decodes as it does itself: the same in float32, nearly so in int8."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import decode, look
from regard.fast_decode import packed_linear
from regard.fast_decode.cpu import CpuDecoder
from regard.fast_decode.prepare import prepare_for_cpu_decode
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Attention, Transformer, TransformerConfig

V, E, BEGIN, END = 30, 16, 1, 2
SMALL = {"vocabulary": V, "width": E, "heads": 2, "layers": 2, "feed_forward_width": 24}
RNN = {"vocabulary": V, "embedding": E, "width": E, "alignment": E, "readout": E}
ADDITIVE = Attention("additive")
MODELS = {
    "transformer": lambda: Transformer(TransformerConfig(**SMALL)),
    "norm before": lambda: Transformer(TransformerConfig(**SMALL, norm="before", tied=False)),
    "learned places": lambda: Transformer(TransformerConfig(**SMALL, positions="learned")),
    "additive": lambda: Transformer(TransformerConfig(**SMALL, cross=ADDITIVE)),
    "decoder only": lambda: DecoderOnly(DecoderOnlyConfig(**SMALL)),
    "gru": lambda: Seq2Seq(Seq2SeqConfig(**RNN)),
    "lstm": lambda: Seq2Seq(Seq2SeqConfig(**RNN, cell="lstm", layers=2)),
    "luong": lambda: Seq2Seq(Seq2SeqConfig(**RNN, attention="general", query_state="current")),
    "coverage": lambda: Seq2Seq(Seq2SeqConfig(**RNN, attention="coverage")),
    "no attention": lambda: Seq2Seq(Seq2SeqConfig(**RNN, attention="none")),
}
every = pytest.mark.parametrize("kind", MODELS)
ways = pytest.mark.parametrize("way", [decode.greedy, decode.beam])


def made(kind):
    torch.manual_seed(3)
    return MODELS[kind]().eval()


def sources(*lengths):
    lengths = torch.tensor(lengths)
    return torch.randint(3, V, (len(lengths), int(lengths.max()))), lengths


def decoded(way, model, source):
    return way(model, source, begin=BEGIN, end=END, longest=12)


@every
@ways
def test_in_float32_it_decodes_as_the_model_does(kind, way):
    model, source = made(kind), sources(7, 3, 5)
    expected = decoded(way, model, source)
    found = decoded(way, prepare_for_cpu_decode(model), source)
    assert torch.equal(found.tokens, expected.tokens)
    assert_close(found.log_probabilities, expected.log_probabilities)


@every
@torch.no_grad()
def test_in_eight_bits_logits_are_near_and_not_the_same(kind):
    model, source = made(kind), sources(7, 3, 5)
    ready, token = prepare_for_cpu_decode(model, packed_linear.int8), torch.full((3,), BEGIN)
    ours, theirs = (m.step(token, m.start(source))[0] for m in (ready, model))
    assert 0 < (ours - theirs).abs().max() < 0.1 * theirs.abs().max()


@every
@torch.no_grad()
def test_a_source_longer_than_the_short_way_is_read_too(kind):
    model, source = made(kind), sources(70, 2)
    ready, token = prepare_for_cpu_decode(model), torch.full((2,), BEGIN)
    ours, theirs = (m.step(token, m.start(source))[0] for m in (ready, model))
    assert_close(ours, theirs)


@every
def test_the_model_itself_is_left_alone(kind):
    model, source = made(kind), sources(4, 6)
    kinds, weights = [type(m) for m in model.modules()], list(model.parameters())
    before = [w.clone() for w in weights]
    decoded(decode.greedy, prepare_for_cpu_decode(model, packed_linear.int8), source)
    assert [type(m) for m in model.modules()] == kinds
    assert all(a is b for a, b in zip(model.parameters(), weights, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(weights, before, strict=True))


def test_an_everyday_transformer_has_a_shorter_way_and_others_a_twin():
    assert isinstance(prepare_for_cpu_decode(made("transformer")), CpuDecoder)
    for kind in ("additive", "decoder only", "gru"):
        twin, model = prepare_for_cpu_decode(made(kind)), made(kind)
        assert type(twin) is type(model)
        assert [n for n, _ in twin.named_modules()] == [n for n, _ in model.named_modules()]


@pytest.mark.parametrize("kind", ["transformer", "gru"])
def test_a_look_sees_what_it_sees_of_the_model(kind):
    model, source = made(kind), sources(5, 5)
    with look() as ours:
        decoded(decode.greedy, prepare_for_cpu_decode(model), source)
    with look() as theirs:
        decoded(decode.greedy, model, source)
    assert list(ours) == list(theirs) and len(ours) > 0
    for name in ours:
        assert_close(ours[name].weights(), theirs[name].weights())


def test_a_twin_learns_as_the_model_does():
    model, (source, lengths) = made("gru"), sources(5, 3)
    target, twin = torch.randint(3, V, (2, 4)), prepare_for_cpu_decode(model)
    weights = tuple(model.parameters())
    for module in (model, twin):
        module((source, lengths), target).sum().backward()
    assert all(w.grad is not None for w in weights)
    kept = [w.grad / 2 for w in weights]
    model.zero_grad()
    model((source, lengths), target).sum().backward()
    assert_close([w.grad for w in weights], kept)


@torch.no_grad()
def test_nets_of_any_form_stay_nets():
    x = torch.randn(3, 5, 4)
    for net in (
        nn.GRU(4, 6, batch_first=True),
        nn.LSTM(4, 6, batch_first=True),
        nn.GRU(4, 6, 2, batch_first=True),
        nn.LSTM(4, 6, bidirectional=True),
        nn.LSTM(4, 6, proj_size=2, batch_first=True),
        nn.GRU(4, 6, batch_first=True, bias=False),
    ):
        twin = prepare_for_cpu_decode(net)
        assert_close(twin(x), net(x))
        assert_close(twin(x[0]), net(x[0]))
        assert_close(twin(x, net(x)[1]), net(x, net(x)[1]))
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 4, 3]), batch_first=True)
        assert_close(twin(packed)[0].data, net(packed)[0].data)


@torch.no_grad()
def test_cells_of_any_form_stay_cells():
    x = torch.randn(3, 4)
    for cell in (nn.GRUCell(4, 6), nn.LSTMCell(4, 6), nn.GRUCell(4, 6, bias=False)):
        twin, after = prepare_for_cpu_decode(cell), cell(x)
        assert_close(twin(x), after)
        assert_close(twin(x, after), cell(x, after))
        assert_close(twin(x[0]), cell(x[0]))


def test_layers_that_are_one_stay_one():
    shared = nn.Linear(3, 3)
    twin = prepare_for_cpu_decode(nn.Sequential(shared, nn.ReLU(), shared))
    assert twin[0] is twin[2] and twin[0].weight is shared.weight

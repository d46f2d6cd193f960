"""Seq2Seq: what is handed over, what is looked up, and that a step is a step of the whole."""

from dataclasses import replace

import pytest
import torch

from regard import look
from regard.models.seq2seq import RNNENCDEC, RNNSEARCH, Seq2Seq, Seq2SeqConfig

B, S, T, V = 3, 5, 4, 23
TINY = Seq2SeqConfig(vocabulary=V, embedding=7, width=6, alignment=5, readout=8)
KINDS = {
    "additive": TINY,
    "none": replace(TINY, attention="none"),
    "context": replace(TINY, attention="context"),
    "lstm": replace(TINY, cell="lstm"),
    "deep": replace(TINY, layers=3, attention="none"),
    "deep lstm": replace(TINY, layers=2, cell="lstm"),
    "tied": replace(TINY, readout=7, tied=True),
}
every = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS.keys())


def given(config):
    """A model, sources of three lengths, and targets."""
    torch.manual_seed(1)
    tokens, lengths = torch.randint(3, V, (B, S)), torch.tensor([S, 2, 4])
    return Seq2Seq(config).eval(), (tokens, lengths), torch.randint(3, V, (B, T))


@every
def test_step_by_step_is_all_at_once(config):
    model, source, target = given(config)
    state, steps = model.start(source), []
    for word in target.unbind(1):
        logits, state = model.step(word, state)
        steps.append(logits)
    torch.testing.assert_close(torch.stack(steps, 1), model(source, target))


@every
def test_more_padding_changes_nothing(config):
    model, (tokens, lengths), target = given(config)
    padded = torch.cat([tokens, torch.randint(3, V, (B, 4))], 1)
    wide = model((padded, lengths), target)
    torch.testing.assert_close(wide, model((tokens, lengths), target))


@every
def test_a_batch_is_its_sentences_one_by_one(config):
    model, (tokens, lengths), target = given(config)
    alone = [
        model((tokens[i : i + 1, : lengths[i]], lengths[i : i + 1]), target[i : i + 1])
        for i in range(B)
    ]
    torch.testing.assert_close(torch.cat(alone), model((tokens, lengths), target))


@every
def test_every_weight_learns(config):
    model, source, target = given(config)
    model(source, target).square().mean().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@every
def test_the_future_does_not_leak(config):
    model, source, target = given(config)
    changed = target.clone()
    changed[:, 2] = (changed[:, 2] + 1) % V
    before, after = model(source, target), model(source, changed)
    torch.testing.assert_close(before[:, :2], after[:, :2], rtol=0, atol=0)
    assert not torch.equal(before[:, 2], after[:, 2])


def test_the_context_by_hand():
    model, source, _ = given(TINY)
    state = model.start(source)
    layer = model.decoder.attention
    moved = model.step(torch.tensor([4, 5, 6]), state)[1]
    for b, n in enumerate(source[1].tolist()):
        q = layer.query.weight @ state.hidden[0][b]
        keys = [layer.key.weight @ h + layer.key.bias for h in state.memory[b, :n]]
        scores = torch.stack([layer.score.vector[0] @ torch.tanh(q + k) for k in keys])
        torch.testing.assert_close(moved.context[b], scores.softmax(0) @ state.memory[b, :n])


def test_the_query_is_the_state_before_the_word():
    model, source, _ = given(TINY)
    state = model.start(source)
    one, other = (model.step(torch.full((B,), word), state)[1] for word in (4, 9))
    assert torch.equal(one.context, other.context)
    assert not torch.equal(one.hidden[0], other.hidden[0])


def test_keys_are_projected_once_a_sentence():
    model, source, target = given(TINY)
    calls = []
    model.decoder.attention.key.register_forward_hook(lambda *_: calls.append(1))
    model(source, target)
    assert len(calls) == 1


def test_the_state_begins_with_what_the_backward_direction_read_last():
    # Bahdanau et al. 2015, A.2.2: s₀ = tanh(W ←h₁); ours sees →h of the end as well.
    model, source, _ = given(TINY)
    state = model.start(source)
    ends = state.memory[torch.arange(B), source[1] - 1, :6]
    last = torch.cat([ends, state.memory[:, 0, 6:]], 1)
    torch.testing.assert_close(state.hidden[0], torch.tanh(model.bridge[0](last)))


def test_a_step_by_hand():
    model, source, _ = given(KINDS["deep lstm"])
    state, words = model.start(source), torch.tensor([4, 5, 6])
    logits, moved = model.step(words, state)
    word = model.target.weight[words] * 7**0.5
    x = torch.cat([word, moved.context], 1)
    for i, cell in enumerate(model.decoder.cells):
        x, c = cell(x, (state.hidden[i], state.hidden[2 + i]))
        torch.testing.assert_close((moved.hidden[i], moved.hidden[2 + i]), (x, c))
    read = model.readout
    both = read.state(x) + read.word(word) + read.context(moved.context)
    torch.testing.assert_close(logits, model.out(torch.maximum(both[:, ::2], both[:, 1::2])))


def test_the_one_context_is_what_the_top_layer_read():
    model, source, _ = given(replace(KINDS["context"], layers=2))
    state = model.start(source)
    ends = state.memory[torch.arange(B), source[1] - 1, :6]
    torch.testing.assert_close(state.context, torch.cat([ends, state.memory[:, 0, 6:]], 1))


def test_recurrent_matrices_begin_orthogonal():
    for gate in Seq2Seq(TINY).decoder.cells[0].weight_hh.split(6):
        torch.testing.assert_close(gate @ gate.T, torch.eye(6), rtol=0, atol=1e-5)


def test_dropout_is_for_training():
    model, source, target = given(replace(TINY, layers=2, dropout=0.5))
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


@pytest.mark.parametrize("length", [0, S + 1])
def test_lengths_that_do_not_fit_are_refused(length):
    model, (tokens, _), _ = given(TINY)
    with pytest.raises(
        ValueError, match=rf"Seq2Seq: expected lengths from 1 to S=5, got .*{length}"
    ):
        model.start((tokens, torch.tensor([S, 2, length])))


def test_one_context_at_every_step_and_a_state_of_zero():
    model, source, _ = given(KINDS["context"])
    state = model.start(source)
    after = model.step(torch.tensor([4, 5, 6]), state)[1]
    assert not state.hidden[0].any()
    assert after.context is state.context


def test_without_attention_only_the_state_is_handed_over():
    model, source, _ = given(KINDS["none"])
    state = model.start(source)
    words = torch.tensor([4, 5, 6])
    elsewhere = state._replace(memory=torch.zeros_like(state.memory), context=state.context * 3)
    assert torch.equal(model.step(words, state)[0], model.step(words, elsewhere)[0])


def test_a_look_sees_a_row_a_word_that_sums_to_one_over_the_sentence():
    model, source, target = given(TINY)
    with look(model) as seen:
        model(source, target)
    weights = seen["decoder.attention"].weights()
    assert weights.shape == (B, 1, T, S)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 1, T))
    assert not weights[1, :, :, 2:].any()


def test_tied_tables_are_one():
    model = Seq2Seq(KINDS["tied"])
    assert model.source.weight is model.target.weight is model.out.weight


def test_parameters_counted_by_hand():
    m, n, a, maxout, v = 620, 1000, 1000, 500, 30_000
    encoder = 2 * 3 * (n * m + n * n + 2 * n)  # two directions, three gates, two biases each
    decoder = 3 * (n * (m + 2 * n) + n * n + 2 * n)
    attention = a * n + (2 * n * a + a) + a
    bridge, readout = 2 * n * n + n, 2 * maxout * (n + m + 2 * n) + 2 * maxout
    total = 2 * v * m + encoder + bridge + decoder + readout + maxout * v + v
    with torch.device("meta"):
        counted = [sum(p.numel() for p in Seq2Seq(c).parameters()) for c in (RNNSEARCH, RNNENCDEC)]
    assert counted == [total + attention, total - bridge]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers": 0}, "Seq2Seq: expected layers ≥ 1, got 0"),
        ({"dropout": 1.0}, r"Seq2Seq: expected dropout in \[0, 1\), got 1.0"),
        ({"tied": True}, "Seq2Seq: tied embeddings need a readout as wide as the embedding, 7"),
    ],
    ids=["layers", "dropout", "tied"],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **fields)


def test_wrong_shapes_are_told():
    model, (tokens, lengths), target = given(TINY)
    with pytest.raises(ValueError, match=r"Seq2Seq: expected lengths of shape \(B=3\), got \(2,\)"):
        model((tokens, lengths[:2]), target)
    with pytest.raises(ValueError, match=r"Seq2Seq: expected target of shape \(B=3, T\), got"):
        model((tokens, lengths), target[:1])

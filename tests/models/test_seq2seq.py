"""Seq2Seq: what is handed over, what is looked up, and that a step is a step of the whole."""

from dataclasses import fields, replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from regard import check, look, use_backend
from regard.layers.rnn import reverse_sequence
from regard.models.seq2seq import LUONG, RNNENCDEC, RNNSEARCH, Seq2Seq, Seq2SeqConfig

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
    "reversed": replace(TINY, reversed=True),
    "ahead": replace(TINY, bidirectional=False, layers=2, cell="lstm"),
    "coverage": replace(TINY, attention="coverage"),
    "coverage after": replace(
        TINY, attention="coverage", query_state="current", input_feeding=False
    ),
    "location_aware": replace(TINY, attention="location_aware", reach=1, query_state="current"),
}
SCORES = ("additive", "dot", "general", "concat", "location")
SPANS = ("global", "local_m", "local_p")
QUERIES = (("previous", True), ("current", True), ("current", False))
# Every score with every span, asked with the state before the step or after it, fed or not.
ALL = KINDS | {
    f"{score} {span} {state}{' fed' * fed}": replace(
        TINY, attention=score, span=span, query_state=state, input_feeding=fed, reach=2
    )
    for score in SCORES
    for span in SPANS
    for state, fed in QUERIES
}
all_kinds = pytest.mark.parametrize("config", ALL.values(), ids=ALL.keys())
# Most laws ask for every score and every span, but each pair of them in one way only.
IN_TURN = [9 * i + 3 * j + (i + j) % 3 for i in range(len(SCORES)) for j in range(len(SPANS))]
KINDS = {name: ALL[name] for name in [*KINDS, *(list(ALL)[len(KINDS) + i] for i in IN_TURN)]}
every = pytest.mark.parametrize("config", KINDS.values(), ids=KINDS.keys())
LOOKING = {k: c for k, c in KINDS.items() if c.attention not in ("none", "context")}
looking = pytest.mark.parametrize("config", LOOKING.values(), ids=LOOKING.keys())
AFTER = replace(TINY, attention="general", query_state="current")


def given(config):
    """A model, sources of three lengths, and targets."""
    torch.manual_seed(1)
    tokens, lengths = torch.randint(3, V, (B, S)), torch.tensor([S, 2, 4])
    return Seq2Seq(config).eval(), (tokens, lengths), torch.randint(3, V, (B, T))


@all_kinds
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


@all_kinds
def test_every_weight_learns(config):
    model, source, target = given(config)
    model(source, target).square().mean().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []
    assert all(p.grad.isfinite().all() for p in model.parameters())


@looking
def test_a_hard_one_is_taught_all_by_its_words_and_its_draws(config):
    model, source, target = given(replace(config, select="hard"))
    torch.manual_seed(3)  # a draw, and no soft batch
    drawn = model.train().forward_sampled(source, target)
    assert drawn.logits.shape == (B, T, V)
    assert drawn.log_probability.shape == drawn.entropy.shape == (B, T)
    (drawn.logits.square().mean() + drawn.log_probability.sum() + drawn.entropy.sum()).backward()
    assert drawn.log_probability.any()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@looking
def test_a_hard_one_takes_the_best_place_in_evaluation_and_draws_in_training(config):
    model, source, target = given(replace(config, select="hard"))
    seen = []
    for training in (False, False, True):
        with look(model.train(training)) as one:
            model(source, target)
        [name] = one.names()
        seen.append(one[name].weights())
    assert torch.equal(seen[0], seen[1])
    assert all(set(w.unique().tolist()) <= {0.0, 1.0} for w in seen)
    assert not seen[2][1, :, :, 2:].any()


@every
def test_the_future_does_not_leak(config):
    model, source, target = given(config)
    changed = target.clone()
    changed[:, 2] = (changed[:, 2] + 1) % V
    before, after = model(source, target), model(source, changed)
    torch.testing.assert_close(before[:, :2], after[:, :2], rtol=0, atol=0)
    assert not torch.equal(before[:, 2], after[:, 2])


@every
def test_no_step_waits_for_a_number(config, monkeypatch):
    # tensors without numbers, as on a card that is being recorded: to read one is an error
    monkeypatch.setattr(check, "can_read_values", lambda given: False)
    blind = config.attention in ("none", "context")
    with FakeTensorMode(), use_backend("reference"):
        model, source, target = given(config if blind else replace(config, select="hard"))
        out = model(source, target) if blind else model.forward_sampled(source, target).logits
        out.sum().backward()
        assert model.step(target[:, 0], model.start(source))[0].shape == (B, V)


@pytest.mark.gpu
@every
def test_a_training_step_is_recorded_and_replayed(config):
    model, source, target = given(config)
    model.cuda().train()
    source, target = tuple(x.cuda() for x in source), target.cuda()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(source, target).square().mean().backward()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        out = model(source, target)
        out.square().mean().backward()
    graph.replay()
    torch.testing.assert_close(out, model(source, target))


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


def plain_luong(model, source, words, feeding):
    """Luong et al. 2015, section 3, for one sentence: logits, written from the paper."""
    state = model.start(source)
    memory, h = state.memory[0], state.hidden[0][0]
    fed, weight = torch.zeros(8), model.decoder.attention.score.weight[0]
    out = []
    for word in words:
        y = model.target.weight[word] * 7**0.5
        h = model.decoder.cells[0](torch.cat([y, fed]) if feeding else y, h)
        scores = torch.stack([h @ weight @ place for place in memory])
        context = (scores.softmax(0)[:, None] * memory).sum(0)
        fed = torch.tanh(model.readout.both.weight @ torch.cat([context, h]))
        out.append(model.out.weight @ fed + model.out.bias)
    return torch.stack(out)


@pytest.mark.parametrize("feeding", [True, False], ids=["feeding", "not feeding"])
def test_luongs_steps_by_hand(feeding):
    model, (tokens, lengths), target = given(replace(AFTER, input_feeding=feeding))
    source = tokens[1:2, :2], lengths[1:2]
    expected = plain_luong(model, source, target[1], feeding)
    torch.testing.assert_close(model(source, target[1:2])[0], expected)
    torch.testing.assert_close(model((tokens, lengths), target)[1], expected)


def test_asked_after_the_step_the_context_knows_the_word():
    model, source, _ = given(AFTER)
    state = model.start(source)
    one, other = (model.step(torch.full((B,), word), state)[1] for word in (4, 9))
    assert not torch.equal(one.context, other.context)
    assert one.attentional_state.shape == (B, 8)


def test_what_is_not_fed_is_read_in_one_go():
    model, source, target = given(replace(AFTER, input_feeding=False))
    with look(model) as seen:
        model(source, target)
    assert len(seen["decoder.attention"].calls) == 1
    assert seen["decoder.attention"].weights().shape == (B, 1, T, S)


def test_dot_reads_a_memory_as_wide_as_the_state():
    model, source, _ = given(replace(TINY, attention="dot", query_state="current"))
    state = model.start(source)
    moved = model.step(torch.tensor([4, 5, 6]), state)[1]
    assert state.memory.shape == (B, S, 6) and state.keys is state.memory
    for b, n in enumerate(source[1].tolist()):
        memory = state.memory[b, :n]
        torch.testing.assert_close(
            moved.context[b], (memory @ moved.hidden[0][b]).softmax(0) @ memory
        )
    one = given(replace(TINY, attention="dot", bidirectional=False))[0]
    assert one.encoder.join is None


def test_local_m_goes_forward_a_place_a_step():
    config = replace(TINY, attention="location", span="local_m", reach=1)
    model, source, target = given(config)
    with look(model) as seen:
        model(source, target)
    weights = seen["decoder.attention.attention"].weights()[0, 0]
    near = (torch.arange(T)[:, None] - torch.arange(S)).abs() <= 1
    assert torch.equal(weights > 0, near)


@pytest.mark.parametrize("attention", ["coverage", "location_aware"])
def test_what_was_looked_at_counts(attention):
    model, source, target = given(replace(TINY, attention=attention, reach=1))
    with look(model) as seen:
        model(source, target)
    weights = seen["decoder.attention"].weights()[:, 0]  # (B, T, S)
    state = model.start(source)
    for word in target.unbind(1):
        state = model.step(word, state)[1]
    counted = weights.sum(1) if attention == "coverage" else weights[:, -1]
    torch.testing.assert_close(state.past, counted)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_reversed_source_keeps_its_places(bidirectional):
    config = replace(TINY, reversed=True, bidirectional=bidirectional)
    model, (tokens, lengths), target = given(config)
    ahead = Seq2Seq(replace(config, reversed=False)).eval()
    ahead.load_state_dict(model.state_dict())
    weights = []
    for one, words in ((model, tokens), (ahead, reverse_sequence(tokens, lengths))):
        with look(one) as seen:
            out = one((words, lengths), target)
        weights.append((out, seen["decoder.attention"].weights()))
    (out, mine), (same, there) = weights
    torch.testing.assert_close(out, same)
    torch.testing.assert_close(mine[0], there[0].flip(-1))
    torch.testing.assert_close(mine[1, ..., :2], there[1, ..., :2].flip(-1))


def test_the_log_probability_of_draws_is_that_of_the_softmax_there():
    model, source, target = given(replace(AFTER, select="hard", input_feeding=False))
    torch.manual_seed(3)
    with look(model) as seen:
        drawn = model.forward_sampled(source, target)
    index = seen["decoder.attention"].weights()[:, 0].argmax(-1)  # (B, T)
    state, words = model.start(source), model.target(target) * 7**0.5
    tops, _ = model.decoder.run_parallel(words, state, lambda scores: scores.softmax(-1))
    scores = tops @ state.keys.mT + state.bias[:, 0]
    logs = scores.log_softmax(-1)
    torch.testing.assert_close(drawn.log_probability, logs.gather(-1, index[..., None])[..., 0])
    torch.testing.assert_close(
        drawn.entropy, torch.distributions.Categorical(logits=logs).entropy()
    )


def test_one_batch_in_two_is_read_softly():
    model, source, target = given(replace(AFTER, select="hard"))
    soft = Seq2Seq(AFTER).eval()
    soft.load_state_dict(model.state_dict(), strict=False)
    draws = [model.forward_sampled(source, target) for _ in range(30)]
    read = [one for one in draws if not one.log_probability.any()]
    assert 7 <= len(read) <= 23
    torch.testing.assert_close(read[0].logits, soft(source, target))
    assert all((one.entropy > 0).any() for one in draws)


def test_a_baseline_is_kept_by_hard_attention_alone():
    assert "baseline" not in dict(Seq2Seq(TINY).named_buffers())
    model = Seq2Seq(replace(TINY, select="hard"))
    assert model.state_dict()["baseline"].item() == 0


def test_only_a_hard_one_draws():
    model, source, target = given(TINY)
    with pytest.raises(ValueError, match="Seq2Seq: expected select hard to draw, got soft"):
        model.forward_sampled(source, target)


def test_more_words_than_a_location_score_knows_are_refused():
    model, source, target = given(replace(TINY, attention="location", max_source_length=4))
    with pytest.raises(ValueError, match="Seq2Seq: 5 source tokens, but max_source_length is 4"):
        model(source, target)


def test_a_config_is_known_by_its_kind():
    assert fields(Seq2SeqConfig)[0].name == "kind"
    assert Seq2SeqConfig().kind == "seq2seq"


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


def test_luongs_parameters_counted_by_hand():
    n, v = 1000, 50_000
    lstm, fed = 4 * (n * n + n * n + 2 * n), 4 * n * n
    bridge, attention, attended = n * n + n, n * n, n * 2 * n
    total = 2 * v * n + 4 * (lstm + bridge) + 4 * lstm + fed + attention + attended + n * v + v
    with torch.device("meta"):
        assert sum(p.numel() for p in Seq2Seq(LUONG).parameters()) == total


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers": 0}, "Seq2Seq: expected layers of at least 1, got 0"),
        ({"dropout": 1.0}, r"Seq2Seq: expected dropout in \[0, 1\), got 1.0"),
        ({"readout_scale": 0.0}, "Seq2Seq: expected readout_scale > 0, got 0.0"),
        ({"tied": True}, "Seq2Seq: tied embeddings need a readout as wide as the embedding, 7"),
        ({"reach": 0}, "Seq2Seq: expected reach of at least 1, got 0"),
        (
            {"attention": "none", "query_state": "current"},
            "attention none looks at nothing: expected query_state previous, "
            "span global and select soft, got current, global, soft",
        ),
        (
            {"attention": "coverage", "span": "local_p"},
            "Seq2Seq: coverage goes by all that was looked at: expected span global, got local_p",
        ),
    ],
    ids=["layers", "dropout", "scale", "tied", "reach", "none", "coverage"],
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

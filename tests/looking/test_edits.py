"""Edits change what is computed as they say, what a look sees with it, and nothing that remains."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import regard
from regard import attend, decode, edit, edits, look, rules, scores, selects, use_backend
from regard.fast_decode.prepare import prepare_for_cpu_decode
from regard.layers import MultiHead
from regard.looking import is_observed

B, H, Q, K, D, E = 2, 3, 5, 7, 4, 12


class Model(nn.Module):
    """Two attentions: to itself, and to a memory."""

    def __init__(self, **named):
        super().__init__()
        self.own, self.cross = MultiHead(E, H), MultiHead(E, H, **named)

    def forward(self, x, memory):
        return self.cross(self.own(x, rule=rules.causal), memory)


def given(**named):
    torch.manual_seed(0)
    return Model(**named), (torch.randn(B, Q, E), torch.randn(B, K, E))


def zeroed(layer, head):
    """What ablates a head by hand: its slice is zero before the output projection."""

    def hook(module, args):
        read = args[0].unflatten(-1, (H, -1)).clone()
        read[..., head, :] = 0
        return (read.flatten(-2),)

    return layer.register_forward_pre_hook(hook)


def seen_in(model, inputs, changes):
    """The output of an edited model, and what a look saw of it."""
    with edit(model, changes), look(model) as seen:
        return model(*inputs), seen


# What comes out.


@pytest.mark.parametrize(
    "change", [lambda call: call, edits.ablate(), replace], ids=["same", "none", "copy"]
)
def test_an_edit_that_changes_nothing_changes_no_bit(change):
    model, inputs = given()
    before = model(*inputs)
    with edit(model, {"own": change, "cross": change}):
        assert torch.equal(model(*inputs), before)


def test_an_ablated_head_is_a_slice_of_zeros_before_the_output_projection():
    model, inputs = given()
    with edit(model, {"cross": edits.ablate(1)}):
        found = model(*inputs)
    zeroed(model.cross.out, 1)
    assert torch.equal(found, model(*inputs))


def test_hidden_cells_are_a_mask():
    model, (x, memory) = given()
    mask = torch.ones(Q, K, dtype=torch.bool)
    mask[2, 3] = mask[0, 6] = False
    with edit(model, {"cross": edits.hide([(2, 3), (0, 6)])}):
        found = model(x, memory)
    assert_close(found, model.cross(model.own(x, rule=rules.causal), memory, rule=mask))


def test_another_score_is_a_model_built_with_it():
    model, inputs = given()
    other, _ = given(score=scores.Cosine(2.0))
    with edit(model, {"cross": edits.score(scores.Cosine(2.0))}):
        assert torch.equal(model(*inputs), other(*inputs))


def test_a_change_of_one_s_own_may_change_anything_of_a_call():
    model, (x, memory) = given()
    with edit(model, {"cross": lambda call: replace(call, v=0 * call.v)}):
        assert_close(model(x, memory), model.cross.out.bias.expand(B, Q, E))


def test_gradients_flow_through_an_edit():
    model, inputs = given()
    with edit(model, {"own": edits.heat(2.0), "cross": edits.force(1, 2, 0.5, heads=[0])}):
        model(*inputs).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert model.cross.query.weight.grad.any()


def test_the_model_answers_as_before_when_the_edit_is_closed():
    model, inputs = given()
    before, modes = model(*inputs), torch._C._len_torch_function_stack()
    with edit(model, {"own": edits.ablate(0, 1, 2)}):
        assert is_observed() and not torch.equal(model(*inputs), before)
    assert torch.equal(model(*inputs), before) and not is_observed()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch._C._len_torch_function_stack() == modes


def test_everything_is_undone_after_an_exception_inside():
    model, inputs = given()
    before = model(*inputs)
    with pytest.raises(ZeroDivisionError), edit(model, {"own": edits.ablate(0)}):
        model(*inputs)
        raise ZeroDivisionError
    assert torch.equal(model(*inputs), before) and not is_observed()


def test_calls_outside_of_the_model_are_not_changed():
    model, inputs = given()
    q = torch.randn(B, H, Q, D)
    with edit(model, {"own": edits.ablate(0, 1, 2)}):
        model(*inputs)
        assert attend(q, q, q).all() and given()[0].own(inputs[0]).shape == (B, Q, E)


def test_edits_inside_of_one_another_are_applied_in_the_order_opened():
    model, inputs = given()
    change = edits.chain(edits.force(1, 2, 0.5), edits.force(1, 3, 0.25))
    with edit(model, {"cross": change}):
        chained = model(*inputs)
    first, second = ({"cross": each} for each in change.changes)
    with edit(model, first), edit(model, second):
        assert torch.equal(model(*inputs), chained)
    with edit(model, second), edit(model, first):
        assert not torch.allclose(model(*inputs), chained)


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_backward_pass_computes_again_is_changed_again(reentrant):
    layer, given, found = MultiHead(E, H), torch.randn(B, Q, E), []
    change = {"MultiHead": edits.chain(edits.ablate(1), edits.hide([(2, 0)]))}
    for run in (layer, lambda x: checkpoint(layer, x, use_reentrant=reentrant)):
        found.append(given.clone().requires_grad_())
        with edit(layer, change):
            run(found[-1]).square().sum().backward()
    assert_close(found[0].grad, found[1].grad)


# What a look sees.


@pytest.mark.parametrize(
    "change",
    [
        edits.ablate(1),
        edits.hide([(1, 2), (None, 5)], heads=[1, 2]),
        edits.heat(0.4),
        edits.force(3, 2, 0.6),
        edits.select(selects.sampled()),
        edits.chain(edits.select(selects.sampled()), edits.heat(3.0), edits.force(None, 1, 0.25)),
        edits.chain(edits.score(scores.dot), edits.ablate(0)),
    ],
    ids=str,
)
def test_a_look_sees_the_very_weights_that_are_read(change):
    model, inputs = given()
    out, seen = seen_in(model, inputs, {"cross": change})
    weights, v = seen["cross"].weights(), model.cross.keys(inputs[1]).v
    assert_close(model.cross.out((weights @ v).transpose(1, 2).flatten(2)), out)
    rows = torch.stack([seen["cross"].rows(1, head, [4, 1]) for head in range(H)])
    assert_close(rows, weights[1, :, [4, 1]])
    assert_close(seen["cross"].entropy(), torch.special.entr(weights).sum(-1))


def test_a_head_that_is_not_heard_is_seen_to_read_nothing():
    model, inputs = given()
    _, seen = seen_in(model, inputs, {"cross": edits.ablate(1)})
    assert not seen["cross"].weights()[:, 1].any() and not seen["cross"].rows(0, 1, 0).any()
    assert seen["own"].weights()[:, :, 0, 0].eq(1).all()


def test_why_says_that_the_reference_runs_what_no_kernel_knows():
    model, inputs = given()
    _, seen = seen_in(model, inputs, {"cross": edits.heat(2.0)})
    assert seen["cross"].why.backend == "reference" and seen["own"].why.backend == "sdpa"
    with use_backend("sdpa"), pytest.raises(ValueError, match="'sdpa' cannot run this"):
        seen_in(model, inputs, {"cross": edits.heat(2.0)})


# Queries are counted.


class Stepping(nn.Module):
    """Asks as it is told, a step at a time."""

    def __init__(self):
        super().__init__()
        self.looks = MultiHead(E, H)

    def forward(self, x, memory):
        return torch.cat([self.looks(step, memory) for step in x.split(2, 1)], 1)


def test_queries_of_steps_count_on_and_anew_when_the_model_is_entered():
    model, (x, memory) = Stepping(), given()[1]
    change = edits.chain(edits.hide([(3, 2)]), edits.force(4, 1, 0.9, heads=[2]))
    with edit(model.looks, {"MultiHead": change}):
        whole = model.looks(x, memory)
    with edit(model, {"looks": change}):
        assert_close(model(x, memory), whole)
        assert_close(model(x, memory), whole)


TRANSLATORS = {
    "translate-en-de": {
        "encoder.blocks.1.self_attention": edits.ablate(0),
        "decoder.blocks.0.self_attention": edits.hide([(3, 1), (None, 0)], heads=[1, 2]),
        "decoder.blocks.2.cross": edits.chain(edits.force(2, 1, 0.9), edits.hide([(4, 2)])),
    },
    "translate-en-de-rnn": {
        "decoder.attention": edits.chain(edits.force(2, 1, 0.9), edits.hide([(4, 2)]))
    },
}


@pytest.mark.parametrize("name", TRANSLATORS)
@torch.no_grad()
def test_a_translator_that_is_edited_step_by_step_is_one_whole(name):
    model, source = regard.load(name).model, (torch.randint(9, 99, (2, 6)), torch.tensor([6, 4]))
    target = torch.randint(9, 99, (2, 6))
    plain = model(source, target)
    with edit(model, TRANSLATORS[name]):
        whole = model(source, target)
        for _ in range(2):
            state, steps = model.start(source), list(target.unbind(1))
            for t, word in enumerate(steps):
                steps[t], state = model.step(word, state)
            assert_close(torch.stack(steps, 1), whole, atol=2e-5, rtol=2e-5)
    assert not torch.allclose(whole, plain, atol=1e-3)
    assert torch.equal(model(source, target), plain)


# Names.


def test_a_module_that_is_not_there_is_refused_at_once_with_those_near():
    model, _ = given()
    with pytest.raises(ValueError, match=r"edit: Model has no module 'crosss'; did you mean cross"):
        edit(model, {"crosss": edits.ablate(0)}).__enter__()
    with pytest.raises(ValueError, match=r"no module 'zzz'; it has Model, own, own\.query"):
        edit(model, {"zzz": edits.ablate(0)}).__enter__()
    assert not is_observed()


def test_a_module_that_never_attended_is_refused_in_the_end():
    model, inputs = given()
    words = "edit: 'own.query' ran no attention; of this model did own, cross"
    with pytest.raises(ValueError, match=words), edit(model, {"own.query": edits.ablate(0)}):
        model(*inputs)
    assert not is_observed()


def test_who_runs_nothing_is_not_told_of_it():
    model, _ = given()
    with edit(model, {"own.query": edits.ablate(0)}):
        pass


def test_a_key_that_never_came_is_refused_in_the_end():
    model, inputs = given()
    words = "edit: 'own' never had more than 5 keys, so there is no key 9"
    with pytest.raises(ValueError, match=words), edit(model, {"own": edits.hide([(None, 9)])}):
        model(*inputs)


HIDING = {
    "mask": {"rule": torch.tensor([True, True, False, False])},
    "bias": {"bias": torch.tensor([0.0, 1.0, -torch.inf, -torch.inf])},
    "lengths": {"rule": rules.padding(torch.tensor([2, 2]))},
}


@pytest.mark.parametrize("hiding", HIDING)
def test_a_key_that_is_hidden_from_every_query_exists_and_one_behind_it_does_not(hiding):
    class Attention(nn.Module):
        def forward(self, q, k):
            return regard.weigh(q, k, **HIDING[hiding])

    model, q, k = Attention(), torch.randn(2, 3, 1, 5), torch.randn(2, 3, 4, 5)
    plain = model(q, k)
    for change in (edits.hide([(None, 3)]), edits.force(0, 3, 0.5)):
        with edit(model, {"Attention": change}):
            # a tensor that is written in place is what a static cache looks like
            for _ in range(2):
                assert torch.allclose(model(q, k.mul_(1)), plain)
    words = "edit: 'Attention' never had more than 4 keys, so there is no key 4"
    with pytest.raises(ValueError, match=words), edit(model, {"Attention": edits.hide([(0, 4)])}):
        model(q, k.mul_(1))


@pytest.mark.parametrize("width", [0, 4])
def test_keys_that_are_handed_in_twice_are_no_cache_that_grew(width):
    class Attention(nn.Module):
        def forward(self, q, k):
            return regard.weigh(q, k, rule=torch.tensor([True, True, False]))

    model, q, k = Attention(), torch.randn(2, 6, 1, width), torch.randn(2, 3, 3, width)
    with edit(model, {"Attention": edits.hide([(0, 0)])}), look(model) as seen:
        for _ in range(3):
            assert model(q, k).eq(torch.tensor([0.0, 1.0, 0.0])).all()
    assert seen["Attention"].weights()[..., 1].eq(1).all()


def test_what_is_no_change_is_refused():
    words = "edit: expected a change of 'own' as a callable from Call to Call, got .*Ablation"
    with pytest.raises(ValueError, match=words):
        edit(given()[0], {"own": edits.Ablation}).__enter__()


MISMADE = [
    (lambda call: None, TypeError, "edit of 'own': expected a change to give a Call, got None"),
    (
        lambda call: replace(call, q=call.q[:, :, 1:]),
        ValueError,
        r"edit of 'own': expected a call of the same sizes \(B=2, H=3, Q=5, K=5, Dv=4\), got \(2",
    ),
    (
        lambda call: replace(call, rule=rules.DenseMask(torch.ones(3, 3).bool())),
        ValueError,
        "expected rule that broadcasts",
    ),
    (
        lambda call: replace(call, heads=torch.ones(2).bool()),
        ValueError,
        r"edit of 'own': expected heads of shape \(H=3\), got \(2,\)",
    ),
    (
        lambda call: replace(call, heads=torch.ones(3)),
        ValueError,
        "edit of 'own': expected heads as a bool tensor, got a tensor of float32",
    ),
]


@pytest.mark.parametrize("change, error, words", MISMADE, ids=[words for *_, words in MISMADE])
def test_what_a_change_gives_is_checked(change, error, words):
    model, inputs = given()
    with pytest.raises(error, match=words), edit(model, {"own": change}):
        model(*inputs)


def test_a_compiled_model_is_refused_in_words():
    model, _ = given()
    model.own.compile()
    with pytest.raises(ValueError, match="edit: a compiled model cannot be edited; edit the eager"):
        edit(model, {"own": edits.ablate(0)}).__enter__()


# Models of the zoo, wherever their attentions are asked.

CELLS = edits.chain(edits.hide([(0, 2), (1, 3)]), edits.heat(4.0), edits.force(2, 1, 0.01))


@pytest.mark.parametrize("name, at", [("hull", "pointer"), ("sort", "pointer"), ("tsp", "decoder")])
@torch.no_grad()
def test_a_pointer_that_is_edited_is_as_likely_as_its_steps(name, at):
    loaded, lengths = regard.load(name), torch.tensor([6, 6])
    model, points = loaded.model, torch.rand(2, 6, loaded.config.inputs)

    def said():
        found = decode.greedy(model, (points, lengths), begin=0, end=0, longest=7)
        answers = (found.tokens[:, 0, :6] - 1).masked_fill(found.tokens[:, 0, :6] == 0, -1)
        return model(points, lengths, answers).sum(1), found.log_probabilities[:, 0]

    before, _ = said()
    with edit(model, {at: CELLS}):
        for _ in range(2):
            assert_close(*(found := said()), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(found[0], before, atol=1e-2) and torch.equal(said()[0], before)


@pytest.mark.parametrize("starts", [None, torch.tensor([[0, 3, 5], [4, 1, 2]])], ids=str)
@torch.no_grad()
def test_a_tour_never_goes_where_it_may_not_at_that_step(starts):
    model, read = regard.load("tsp").model, torch.tensor([6, 6])
    read = model.encode(torch.rand(2, 6, 2), read)
    before = model.decode_tours(read, starts=starts)
    away = edits.hide([(2, key) for key in before[..., 2].unique().tolist()[:3]])
    with edit(model, {"decoder": away}):
        found = [model.decode_tours(read, starts=starts) for _ in range(2)]
    assert torch.equal(*found) and torch.equal(found[0][..., :2], before[..., :2])
    gone = {key for _, key in away.cells}
    assert not gone & set(found[0][..., 2].flatten().tolist())


@torch.no_grad()
def test_a_machine_that_is_edited_step_by_step_is_one_whole():
    model, x = regard.load("copy").model, torch.rand(2, 7, 10).round()
    before, change = model(x)[0], edits.chain(edits.force(3, 5, 0.9), edits.ablate(1))
    with edit(model, {"heads": change}), look(model) as seen:
        whole, state = model(x)[0], model.start(2)
        steps = []
        for step in x.unbind(1):
            steps.append(model.step_with_details(step, state))
            state = steps[-1].state
    assert_close(torch.stack([step.logits for step in steps], 1), whole)
    content = torch.stack([step.stages.content for step in steps], 2)
    assert_close(seen["heads"].weights()[:, :, 7:], content)
    assert not content[:, 1].any() and content[:, 0, 3, 5].isclose(torch.tensor(0.9)).all()
    assert torch.equal(model(x)[0], before) and not torch.equal(whole, before)


@torch.no_grad()
def test_what_was_made_ready_to_decode_is_edited_too():
    model = regard.load("translate-en-de-rnn").model
    source, ready = (torch.randint(9, 99, (1, 6)), torch.tensor([6])), prepare_for_cpu_decode(model)
    changes = {"decoder.attention": edits.force(2, 5, 1.0)}
    with edit(model, changes), look(model) as seen:
        for _ in range(2):
            decode.greedy(ready, source, begin=1, end=2, longest=4)
    forced = seen["decoder.attention"].weights()[0, 0, :, 5].isclose(torch.ones(()))
    assert forced.nonzero().flatten().tolist() == [2, 6]

"""A Neural Turing Machine: all steps at once are its steps, and its memory may be of any size."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from benchmarks import ntm_eager
from regard import look
from regard.layers.ntm_heads import HeadParameters, State, can_run_all_steps
from regard.models.ntm import NTM, NTMConfig

B, T, IN, OUT, N, W, E = 2, 6, 3, 2, 11, 5, 7
TINY = NTMConfig(inputs=IN, outputs=OUT, width=E, slots=N, slot_width=W)
CONTROLLERS = ("feed_forward", "lstm")
both = pytest.mark.parametrize("controller", CONTROLLERS)
# Every controller, with every number of heads and of shifts.
FORMS = {
    f"{controller} {reads}+{writes} {shifts}": replace(
        TINY, controller=controller, read_heads=reads, write_heads=writes, shifts=shifts
    )
    for controller, (reads, writes), shifts in product(
        CONTROLLERS, [(1, 1), (2, 3), (3, 2)], [1, 3, 5]
    )
}
every = pytest.mark.parametrize("config", FORMS.values(), ids=FORMS.keys())


def given(batch=B, **fields):
    """A machine, and what comes in."""
    torch.manual_seed(1)
    return NTM(replace(TINY, **fields)), torch.randn(batch, T, IN)


def stepped(model, inputs, state):
    """The machine as it is written down: one step after the other."""
    said = []
    for x in inputs.unbind(1):
        logits, state = model.step(x, state)
        said.append(logits)
    return torch.stack(said, 1), state


def flat(said, state):
    """All numbers that come out, in a list."""
    return [said, *state.controller, state.read, state.weights, state.memory]


def somewhere(model, batch=B):
    """A state in the middle of an episode, whose every number can learn."""
    begun = model.start(batch)
    drawn = [torch.randn_like(x).requires_grad_() for x in begun.controller]
    read, memory = (torch.randn_like(x).requires_grad_() for x in (begun.read, begun.memory))
    places = torch.randn_like(begun.weights).softmax(-1).requires_grad_()
    return State(tuple(drawn), read, places, memory)


def learnt(found, leaves):
    """Outputs, and what the leaves gain if all of them are wanted, each more or less."""
    wanted = sum((x * torch.linspace(-1, 1, x.numel()).view_as(x)).sum() for x in found)
    return found, torch.autograd.grad(wanted, leaves)


@every
def test_all_steps_at_once_are_the_steps_one_by_one(config):
    model, x = NTM(config).double(), torch.randn(B, 3, IN, dtype=torch.float64, requires_grad=True)
    state = somewhere(model)
    leaves = [x, *flat(x, state)[1:], *(p for n, p in model.named_parameters() if "first" not in n)]
    assert can_run_all_steps(x, model.heads)
    ours, theirs = flat(*model(x, state)), flat(*stepped(model, x, state))
    assert_close(learnt(ours, leaves), learnt(theirs, leaves), rtol=1e-9, atol=1e-11)


@both
@pytest.mark.parametrize("memory", ["constant", "learned", "random"])
def test_the_first_state_learns_alike_both_ways(controller, memory):
    model, x = given(controller=controller, memory_init=memory)
    model, x = model.double(), x.double()
    weights = list(model.parameters())
    ours, theirs = flat(*model(x)), flat(*stepped(model, x, model.start(B)))
    assert_close(learnt(ours, weights), learnt(theirs, weights), rtol=1e-9, atol=1e-11)


@both
def test_a_state_that_is_handed_over_goes_on(controller):
    model, x = given(controller=controller)
    half, state = model(x[:, :3])
    rest, end = model(x[:, 3:], state)
    assert_close([torch.cat([half, rest], 1), *flat(rest, end)[1:]], flat(*model(x)))


@both
def test_a_batch_is_its_rows_one_by_one(controller):
    model, x = given(batch=3, controller=controller)
    alone = [flat(*model(row[None])) for row in x]
    assert_close([torch.cat(each) for each in zip(*alone, strict=True)], flat(*model(x)))


@pytest.mark.parametrize("reads", [1, 3])
@pytest.mark.parametrize("shifts", [1, 3, 5])
def test_a_loop_that_somebody_else_wrote_says_the_same(reads, shifts):
    model, x = given(read_heads=reads, shifts=shifts, gate_bias=0.0)
    weights = list(model.parameters())
    ours, theirs = learnt([model(x)[0]], weights), learnt([ntm_eager.said(model, x)], weights)
    assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@both
@pytest.mark.parametrize("slots", [16, 64])
@pytest.mark.parametrize("memory", ["constant", "learned", "random"])
def test_a_machine_runs_with_fewer_and_with_more_slots(controller, slots, memory):
    model, x = given(controller=controller, slots=32, memory_init=memory)
    said, state = model(x, slots=slots)
    assert said.isfinite().all()
    assert state.memory.shape == (B, slots, W) and state.weights.shape == (B, 2, slots)


@pytest.mark.parametrize("memory", ["learned", "random"])
def test_slots_beyond_those_that_were_learned_begin_as_the_first_again(memory):
    model, _ = given(memory_init=memory)
    more = model.start(B, slots=2 * N + 3).memory
    assert torch.equal(more[:, N : 2 * N], more[:, :N])
    assert torch.equal(more[:, 2 * N :], more[:, :3])
    assert torch.equal(model.start(B, slots=4).memory, more[:, :4])


def test_heads_begin_at_slot_0_of_a_memory_that_is_the_same_everywhere():
    state = given(memory_constant=0.25)[0].start(B)
    assert torch.equal(state.weights, torch.eye(N)[0].expand(B, 2, N))
    assert (state.memory == 0.25).all()


def test_a_memory_that_is_learned_learns_and_the_others_do_not():
    kinds = ("constant", "learned", "random")
    learn = {name: given(memory_init=name)[0].first_memory for name in kinds}
    assert [weight.requires_grad for weight in learn.values()] == [False, True, False]
    assert learn["random"].unique().numel() == N * W
    assert all("first_memory" in given(memory_init=name)[0].state_dict() for name in learn)


def test_a_machine_that_walks_writes_its_steps_side_by_side():
    model, x = given(gate_bias=-30.0, sharpness_bias=30.0)
    with torch.no_grad():
        told = HeadParameters(
            *model.heads.sizes.split_head_parameters(model.heads.head_parameters.bias[None])
        )
        told.shift.copy_(torch.tensor([-60.0, -60.0, 60.0]))
        _, state = model(x)
    assert_close(state.weights, torch.eye(N)[T].expand(B, 2, N))


def test_a_look_sees_one_map_whose_rows_are_the_steps():
    model, x = given(batch=1, read_heads=2)
    with torch.no_grad(), look(model) as seen:
        model(x)
    assert seen.names() == ["heads"]
    weights = seen["heads"].weights()
    assert weights.shape == (1, 3, T, N)
    assert_close(weights.sum(-1), torch.ones(1, 3, T))


@both
def test_looking_changes_nothing_that_is_said(controller):
    model, x = given(controller=controller)
    alone = flat(*model(x))
    with look(model):
        watched = flat(*model(x))
    assert_close(watched, alone, rtol=1e-6, atol=1e-6)


def test_a_step_tells_all_that_happens_in_it():
    model, x = given()
    details = model.step_with_details(x[:, 0], model.start(B))
    logits, state = model.step(x[:, 0], model.start(B))
    assert_close(flat(details.logits, details.state), flat(logits, state))
    assert_close(details.stages.sharpened, state.weights)
    assert details.head_parameters.gate.shape == (B, 2)


@both
def test_real_shifts_learn(controller):
    model, x = given(controller=controller, shift_mode="real", shifts=5)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=1e-2), []
    for _ in range(12):
        losses.append(F.mse_loss(model(x)[0], x[..., :OUT]))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    shift = HeadParameters(
        *model.heads.sizes.split_head_parameters(model.heads.head_parameters.weight.grad.mT)
    ).shift
    assert losses[-1] < 0.9 * losses[0]
    assert shift.isfinite().all() and shift.any()


@both
@pytest.mark.parametrize("way", [NTM.forward, stepped], ids=["at once", "one by one"])
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_nothing_is_nan_whatever_comes_in(controller, way, scale):
    model, x = given(controller=controller, memory_init="learned")
    with torch.no_grad():
        model.first_memory.zero_()
    x = (scale * x).requires_grad_()
    found, slopes = learnt(flat(*way(model, x, model.start(B))), [x, *model.parameters()])
    assert all(number.isfinite().all() for number in (*found, *slopes))


@both
def test_nothing_is_nan_where_heads_are_told_extremes(controller):
    model, x = given(controller=controller)
    with torch.no_grad():
        model.heads.head_parameters.weight.mul_(1e4)
    found, slopes = learnt(flat(*model(x)), list(model.parameters()))
    assert all(number.isfinite().all() for number in (*found, *slopes))


def test_autocast_runs_and_learns_beside_float32():
    model, x = given()
    with torch.autocast("cpu", torch.bfloat16):
        said, state = model(x)
    assert said.dtype == torch.bfloat16 and state.weights.dtype == torch.float32
    assert_close(said.float(), model(x)[0], rtol=0, atol=2e-2)
    said.float().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_half(controller, dtype):
    model, x = given(controller=controller)
    exact = model(x)[0]
    found = flat(*model.to(dtype)(x.to(dtype)))
    assert {number.dtype for number in found} == {dtype}
    assert_close(found[0].float(), exact, rtol=0, atol=2e-2)


def test_parameters_by_hand():
    controller = 4 * 100 * (10 + 20 + 100 + 2)
    # two keys, one vector to add and one to erase; gate, strength, sharpness and shifts of two
    heads = (2 * 20 + 20 + 20 + 2 * (1 + 1 + 1 + 3)) * (100 + 1)
    out, first = 8 * (20 + 100 + 1), 20 + 2 * 100
    config = NTMConfig(inputs=10, outputs=8, controller="lstm", width=100, slots=128, slot_width=20)
    found = sum(weight.numel() for weight in NTM(config).parameters())
    assert found == controller + heads + out + first == 63_280


def test_a_controller_without_state_has_a_fourth_of_its_weights():
    model, _ = given(controller="feed_forward")
    assert model.controller.weight.shape == (E, IN + W)
    assert model.first_state is None and model.start(B).controller == ()


def test_an_untrained_lstm_forgets_as_little_as_the_config_says():
    def bias(forget):
        torch.manual_seed(0)
        return NTM(NTMConfig(width=3, forget_bias=forget)).controller.bias_hh.detach()

    # the gates of an LSTM of PyTorch: input, forget, candidate, output
    told = [0.0] * 3 + [5.0] * 3 + [0.0] * 6
    torch.testing.assert_close(bias(5.0) - bias(0.0), torch.tensor(told))


def test_untrained_heads_are_told_what_the_config_says():
    model, _ = given(gate_bias=-3.0, sharpness_bias=1.5)
    bias = HeadParameters(
        *model.heads.sizes.split_head_parameters(model.heads.head_parameters.bias[None])
    )
    assert (bias.gate == -3).all() and (bias.sharpness == 1.5).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        *(
            ({name: 0}, f"NTM: expected {name} of at least 1, got 0")
            for name in ("inputs", "slot_width")
        ),
        ({"write_heads": -1}, "NTM: expected write_heads of at least 1, got -1"),
        ({"shifts": 2}, "NTM: expected an odd number of shifts, as many to each side, got 2"),
        ({"slots": 4, "shifts": 5}, "expected at most as many shifts as slots, got 5 and 4"),
    ],
)
def test_what_no_machine_can_be_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **fields)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("controller", "feed_forward, lstm"),
        ("shift_mode", "softmax, real"),
        ("memory_init", "constant, learned, random"),
    ],
)
def test_a_wrong_choice_is_answered_with_the_choices(name, choices):
    # past the type checker of the tests, as callers without one come
    given = SimpleNamespace(**vars(TINY) | {name: "other"})
    with pytest.raises(ValueError, match=f"NTM: expected {name} to be one of {choices}, got other"):
        NTMConfig.__post_init__(given)


def test_a_memory_smaller_than_a_shift_is_refused():
    with pytest.raises(ValueError, match="expected at least as many slots as shifts, 3, got 2"):
        given()[0].start(B, slots=2)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((B, T, IN + 1), r"NTM: expected inputs of shape \(B, T, I=3\), got \(2, 6, 4\)"),
        ((B, 0, IN), r"NTM: expected inputs of some steps, got \(2, 0, 3\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(shape, message):
    with pytest.raises(ValueError, match=message):
        given()[0](torch.zeros(shape))


@pytest.mark.parametrize("batch", [1, 3])
def test_a_state_of_another_batch_is_refused(batch):
    model, x = given()
    message = rf"NTM: expected state.memory of shape \(B=2, N, W=5\), got \({batch}, 11, 5\)"
    with pytest.raises(ValueError, match=message):
        model(x, model.start(batch))


def test_a_step_of_another_batch_is_refused():
    with pytest.raises(ValueError, match=r"NTM: expected x of shape \(B=2, I=3\), got \(1, 3\)"):
        given()[0].step(torch.zeros(1, IN), given()[0].start(B))

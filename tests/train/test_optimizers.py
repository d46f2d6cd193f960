import copy

import pytest
import torch
from torch import nn

from regard.train import Optimizer
from regard.train.optimizers import build_optimizer, load_named_state, named_state, set_rate

MODEL = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("adam", "Adam"), ("adamw", "AdamW"), ("adadelta", "Adadelta"), ("sgd", "SGD")],
)
def test_each_kind_is_the_optimizer_of_pytorch(kind, expected):
    assert type(build_optimizer(MODEL, Optimizer(kind))).__name__ == expected


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_what_is_not_fused_is_left_to_pytorch_to_speed_up(kind):
    [group] = build_optimizer(MODEL, Optimizer(kind, decay=0.0), fused=False).param_groups
    assert (group["fused"], group["foreach"]) == (None, None)


def test_matrices_decay_and_biases_and_norms_do_not():
    weights, rest = build_optimizer(MODEL, Optimizer("adamw", decay=0.3)).param_groups
    assert (weights["weight_decay"], len(weights["params"])) == (0.3, 1)
    assert (rest["weight_decay"], len(rest["params"])) == (0.0, 3)


def test_without_decay_adamw_moves_as_adam_does():
    ours, theirs = copy.deepcopy(MODEL), copy.deepcopy(MODEL)
    for model, settings in ((ours, Optimizer("adamw", decay=0.0)), (theirs, Optimizer("adam"))):
        optimizer = build_optimizer(model, settings)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).square().sum().backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", ["adam", "adamw", "adadelta", "sgd"])
def test_without_decay_and_gradient_nothing_moves(kind):
    model = copy.deepcopy(MODEL)
    optimizer = build_optimizer(model, Optimizer(kind, decay=0.0))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for a, b in zip(model.parameters(), MODEL.parameters(), strict=True):
        assert torch.equal(a, b)


def test_momentum_by_hand():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    optimizer = build_optimizer(model, Optimizer("sgd", rate=0.5, momentum=0.5))
    for _ in range(2):
        model.weight.grad = torch.ones(1, 1)
        optimizer.step()
    assert model.weight.item() == 1 - 0.5 - 0.5 * 1.5


def test_frozen_parameters_are_left_out():
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    assert [len(group["params"]) for group in build_optimizer(model, Optimizer()).param_groups] == [
        1
    ]


def test_nothing_to_train_is_refused():
    with pytest.raises(ValueError, match="fit: expected a model with parameters to train, got non"):
        build_optimizer(nn.ReLU(), Optimizer())


@pytest.mark.parametrize("decay", [0.0, 0.5], ids=["same", "regrouped"])
def test_what_is_remembered_goes_by_name_and_not_by_place(decay):
    ours, theirs = (
        build_optimizer(MODEL, Optimizer()),
        build_optimizer(MODEL, Optimizer(decay=decay)),
    )
    MODEL(torch.ones(1, 2)).square().sum().backward()
    ours.step()
    load_named_state(theirs, MODEL, named_state(ours, MODEL))
    for p in MODEL.parameters():
        assert torch.equal(ours.state[p]["exp_avg"], theirs.state[p]["exp_avg"])
    assert named_state(ours, MODEL).keys() == {"0.weight", "0.bias", "1.weight", "1.bias"}


@pytest.mark.parametrize("kind", ["adam", "adamw", "adadelta", "sgd"])
def test_what_is_remembered_anew_is_written_where_the_old_was(kind):
    model = copy.deepcopy(MODEL)
    optimizer = build_optimizer(
        model, Optimizer(kind, **({"momentum": 0.5} if kind == "sgd" else {}))
    )
    known = []
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).square().sum().backward()
        optimizer.step()
        known.append(copy.deepcopy(named_state(optimizer, model)))
    before = known[0]
    places = _places(optimizer)
    load_named_state(optimizer, model, before)
    assert places == _places(optimizer)
    for name, parts in named_state(optimizer, model).items():
        assert [part.tolist() for part in parts.values()] == [
            part.tolist() for part in before[name].values()
        ]


def _places(optimizer):
    return [x.data_ptr() for parts in optimizer.state.values() for x in parts.values()]


def test_a_rate_is_set_everywhere():
    optimizer = build_optimizer(MODEL, Optimizer())
    set_rate(optimizer, 0.25)
    assert {group["lr"] for group in optimizer.param_groups} == {0.25}

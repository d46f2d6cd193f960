import torch
from torch import nn

from regard.train.ema import AveragedModel, ema_decay_at


def constant(value):
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, value)
    return model


def test_one_step_by_hand():
    average = AveragedModel(constant(0.0), 0.5)
    average.update(constant(8.0), 100)
    average.update(constant(8.0), 101)
    assert average.model.weight.item() == 6.0


def test_the_start_is_soon_forgotten():
    assert ema_decay_at(0.999, 1) == 2 / 11
    assert ema_decay_at(0.999, 10**6) == 0.999


def test_the_model_itself_is_not_touched():
    model = constant(3.0)
    average = AveragedModel(model, 0.5)
    average.update(constant(8.0), 100)
    assert model.weight.item() == 3.0
    assert not average.model.weight.requires_grad


def test_buffers_are_copied_as_they_are():
    model = nn.BatchNorm1d(2)
    average = AveragedModel(model, 0.9)
    model.num_batches_tracked += 7
    average.update(model, 1)
    assert average.model.num_batches_tracked.item() == 7


def test_tied_weights_stay_tied_and_float64_stays_float64():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).double()
    model[1].weight = model[0].weight
    average = AveragedModel(model, 0.9)
    average.update(model, 1)
    assert average.model[0].weight is average.model[1].weight
    assert average.model[0].weight.dtype == torch.float64

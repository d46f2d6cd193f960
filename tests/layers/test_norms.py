"""Norms over sets: of torch's where a set fills its row, and blind to what is behind it."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard.layers.norms import PointNorm

B, N, E = 3, 7, 5
THERE = torch.arange(N) < torch.tensor([7, 4, 2])[:, None]
ALL = torch.ones(B, N, dtype=torch.bool)


def test_batch_norm_is_torchs_in_training_and_after_it():
    ours, theirs = PointNorm(E, "batch"), nn.BatchNorm1d(E)
    for _ in range(3):
        x = torch.randn(B, N, E) * 2 + 1
        assert_close(ours(x, ALL), theirs(x.mT).mT)
    assert_close([ours.mean, ours.variance], [theirs.running_mean, theirs.running_var])
    x = torch.randn(B, N, E)
    assert_close(ours.eval()(x, ALL), theirs.eval()(x.mT).mT)


def test_instance_norm_is_torchs():
    x = torch.randn(B, N, E)
    assert_close(PointNorm(E, "instance")(x, ALL), nn.InstanceNorm1d(E)(x.mT).mT)


def test_layer_norm_is_torchs():
    x = torch.randn(B, N, E)
    assert_close(PointNorm(E, "layer")(x, ALL), nn.LayerNorm(E)(x))


@pytest.mark.parametrize("norm", ["instance", "batch", "layer"])
def test_what_is_not_there_changes_nothing(norm):
    x = torch.randn(B, N, E)
    other = torch.where(THERE[..., None], x, 1000.0)
    ours = PointNorm(E, norm)
    assert_close(ours(x, THERE)[THERE], ours(other, THERE)[THERE])


def test_an_instance_with_fewer_points_is_normed_by_those_alone():
    x, ours = torch.randn(B, N, E), PointNorm(E, "instance")
    assert_close(ours(x, THERE)[1:2, :4], ours(x[1:2, :4], ALL[1:2, :4]))

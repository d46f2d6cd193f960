"""The LSTM beside the machine: PyTorch's own, with its state in and out."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from regard.models.lstm import LSTM, LSTMConfig

B, T, IN, OUT, E = 2, 6, 3, 5, 7
TINY = LSTMConfig(inputs=IN, outputs=OUT, width=E, layers=2)


def test_a_state_that_is_handed_over_goes_on():
    model, x = LSTM(TINY), torch.randn(B, T, IN)
    half, state = model(x[:, :3])
    rest, end = model(x[:, 3:], state)
    whole, last = model(x)
    assert_close([torch.cat([half, rest], 1), *end], [whole, *last])


def test_layers_are_cells_one_above_the_other():
    model, x = LSTM(TINY), torch.randn(B, 1, IN)
    said = x[:, 0]
    for layer in range(2):
        cell = torch.nn.LSTMCell(said.shape[1], E)
        named = {n: getattr(model.layers, f"{n}_l{layer}") for n, _ in cell.named_parameters()}
        said, _ = torch.func.functional_call(cell, named, (said,))
    assert_close(model(x)[0][:, 0], model.out(said))


def test_parameters_by_hand():
    first = 4 * 256 * (10 + 256 + 2)
    above = 4 * 256 * (256 + 256 + 2)
    config = LSTMConfig(inputs=10, outputs=8, width=256, layers=3)
    found = sum(weight.numel() for weight in LSTM(config).parameters())
    assert found == first + 2 * above + 8 * 257 == 1_329_160


@pytest.mark.parametrize("name", ["inputs", "outputs", "width", "layers"])
def test_sizes_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"LSTM: expected {name} of at least 1, got 0"):
        replace(TINY, **{name: 0})


def test_inputs_of_another_width_are_refused():
    message = r"LSTM: expected inputs of shape \(B, T, I=3\), got \(2, 6, 4\)"
    with pytest.raises(ValueError, match=message):
        LSTM(TINY)(torch.zeros(B, T, IN + 1))

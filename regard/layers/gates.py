"""What recurrent cells do with what they read and what they recall, once both are multiplied."""

import torch
from torch import Tensor

from regard.functional.precision import tanh


def gru(input_gates: Tensor, hidden_gates: Tensor, h: Tensor) -> Tensor:
    """Cho et al. 2014, as `torch.nn.GRUCell` has it: the state (B, E) after `h` (B, E).

    Args:
        input_gates: what is read, multiplied for both gates and for what is new (B, 3 E).
        hidden_gates: the state before, likewise (B, 3 E).
        h: the state before.
    """
    h = h.to(input_gates.dtype)
    if input_gates.is_cuda:
        found: Tensor = torch.ops.aten._thnn_fused_gru_cell(input_gates, hidden_gates, h)[0]
        return found
    both = 2 * h.shape[1]
    reset, update = torch.sigmoid(input_gates[:, :both] + hidden_gates[:, :both]).chunk(2, 1)
    new = tanh(torch.addcmul(input_gates[:, both:], reset, hidden_gates[:, both:]))
    return torch.lerp(new, h, update)


def lstm(input_gates: Tensor, hidden_gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, as `torch.nn.LSTMCell` has it: the state, and the cell.

    Args:
        input_gates: what is read, multiplied for three gates and for what is new (B, 4 E).
        hidden_gates: the state before, likewise (B, 4 E).
        c: the cell before (B, E).
    """
    if input_gates.is_cuda:
        h, c, _ = torch.ops.aten._thnn_fused_lstm_cell(
            input_gates, hidden_gates, c.to(input_gates.dtype)
        )
        return h, c
    into, keep, new, out = (input_gates + hidden_gates).chunk(4, 1)
    c = torch.sigmoid(keep) * c + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(c), c

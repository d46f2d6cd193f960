"""What recurrent cells do with what they read and what they recall, once both are multiplied."""

import torch
from torch import Tensor

from regard.functional.precision import tanh


def gru(of_x: Tensor, of_h: Tensor, h: Tensor) -> Tensor:
    """Cho et al. 2014, as `torch.nn.GRUCell` has it: the state (B, E) after `h` (B, E).

    Args:
        of_x: what is read, multiplied for both gates and for what is new (B, 3 E).
        of_h: the state before, likewise (B, 3 E).
        h: the state before.
    """
    h = h.to(of_x.dtype)
    if of_x.is_cuda:
        found: Tensor = torch.ops.aten._thnn_fused_gru_cell(of_x, of_h, h)[0]
        return found
    both = 2 * h.shape[1]
    reset, update = torch.sigmoid(of_x[:, :both] + of_h[:, :both]).chunk(2, 1)
    new = tanh(torch.addcmul(of_x[:, both:], reset, of_h[:, both:]))
    return torch.lerp(new, h, update)


def lstm(of_x: Tensor, of_h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Hochreiter and Schmidhuber 1997, as `torch.nn.LSTMCell` has it: the state, and the cell.

    Args:
        of_x: what is read, multiplied for three gates and for what is new (B, 4 E).
        of_h: the state before, likewise (B, 4 E).
        c: the cell before (B, E).
    """
    if of_x.is_cuda:
        h, c, _ = torch.ops.aten._thnn_fused_lstm_cell(of_x, of_h, c.to(of_x.dtype))
        return h, c
    into, keep, new, out = (of_x + of_h).chunk(4, 1)
    c = torch.sigmoid(keep) * c + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(c), c

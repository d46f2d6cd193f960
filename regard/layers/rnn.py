"""Recurrent nets over sentences that end at lengths of their own, with nothing the host waits for.

Packed sequences would ask a GPU for the lengths; here each row is turned around in its place.
"""

import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.functional.precision import to_autocast

Cell = Literal["gru", "lstm"]
# Read from the start alone, or from the end as well.


class RNNLayer(nn.Module):
    """One layer that reads a sentence from its start, and a second beside it from its end.

    Args:
        input_width: how wide what is read is.
        width: how wide the state of each direction is.
        cell: what kind of net it is.
        bidirectional: in both directions, or from the start alone.
    """

    def __init__(
        self,
        input_width: int,
        width: int,
        *,
        cell: Cell = "gru",
        bidirectional: bool = True,
    ):
        super().__init__()
        kind = nn.GRU if cell == "gru" else nn.LSTM
        self.forward_rnn = kind(input_width, width, batch_first=True)
        self.backward_rnn = kind(input_width, width, batch_first=True) if bidirectional else None

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The state at each place (B, S, ·), zero in the padding, and how each direction ends.

        The second is (B, ·): from the start as it was at the end, from the end as it was at the
        start. As wide as one direction or as both, which stand side by side.

        Args:
            x: what is read (B, S, input_width).
            lengths: how many places of each row are no padding (B,), at least one each.
        """
        # on a GPU autocast has these nets give float16, whatever it asks of others
        states = to_autocast(self.forward_rnn(x)[0])
        last = gather_at(states, lengths - 1)
        if self.backward_rnn is not None:
            back = reverse_sequence(
                to_autocast(self.backward_rnn(reverse_sequence(x, lengths))[0]), lengths
            )
            states, last = torch.cat([states, back], -1), torch.cat([last, back[:, 0]], -1)
        places = torch.arange(x.shape[1], device=x.device)
        return states.masked_fill((places >= lengths[:, None])[..., None], 0), last


class EncoderOutput(NamedTuple):
    """A source, read: what each place says, and what each layer was left with."""

    memory: Tensor  # (B, S, memory_width), zeros in the padding
    last: tuple[Tensor, ...]  # a layer each (B, ·): forward at the end, backward at the start


class RNNEncoder(nn.Module):
    """Layers of `RNNLayer` that read a source.

    Args:
        input_width: how wide what is read is.
        width: how wide the state of each direction is.
        layers: how many there are.
        cell: what kind of net they are.
        bidirectional: in both directions, or in one alone.
        memory_width: how wide each place comes out; None for as wide as the directions are.
        reversed: whether a source is read from its end; what comes out is in its own order.
        dropout: the share that is dropped between layers, in training.
    """

    def __init__(
        self,
        input_width: int,
        width: int,
        *,
        layers: int = 1,
        cell: Cell = "gru",
        bidirectional: bool = True,
        memory_width: int | None = None,
        reversed: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        read = 2 * width if bidirectional else width
        widths = [input_width] + [read] * (layers - 1)
        self.layers = nn.ModuleList(
            RNNLayer(wide, width, cell=cell, bidirectional=bidirectional) for wide in widths
        )
        # without a bias the padding stays zero
        joins = memory_width is not None and memory_width != read
        self.join = nn.Linear(read, memory_width or read, bias=False) if joins else None
        self.reversed = reversed
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> EncoderOutput:
        """Everything that was read of `x` (B, S, input_width), rows of which end at `lengths`."""
        x, last = reverse_sequence(x, lengths) if self.reversed else x, []
        for i, layer in enumerate(self.layers):
            x, left = layer(self.dropout(x) if i else x, lengths)
            last.append(left)
        x = x if self.join is None else self.join(x)
        # in whichever order it was read, place s of the memory belongs to token s
        return EncoderOutput(reverse_sequence(x, lengths) if self.reversed else x, tuple(last))


def reverse_sequence(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row of `x` (B, S, …) from its end to its start; the padding behind it stays.

    >>> reverse_sequence(torch.tensor([[1, 2, 3, 0], [1, 2, 0, 0]]), torch.tensor([3, 2])).tolist()
    [[3, 2, 1, 0], [2, 1, 0, 0]]
    """
    B, S = x.shape[:2]
    places, last = torch.arange(S, device=x.device), lengths[:, None] - 1
    index = torch.where(places <= last, last - places, places)  # (B, S)
    rows = torch.arange(B, device=x.device)[:, None] * S
    return x.flatten(0, 1).index_select(0, (index + rows).flatten()).view_as(x)


def gather_at(x: Tensor, positions: Tensor) -> Tensor:
    """What stands at one place of each row: (B, S, E) at (B,) gives (B, E)."""
    index = positions[:, None, None].expand(-1, 1, x.shape[2])
    return x.gather(1, index.long())[:, 0]


def step_cells(
    cells: nn.ModuleList, x: Tensor, hidden: tuple[Tensor, ...], dropout: Callable[[Tensor], Tensor]
) -> tuple[Tensor, ...]:
    """The states after `x` (B, ·) of cells that stand on one another.

    Args:
        cells: GRUs or LSTMs, the lowest first.
        x: what the lowest reads.
        hidden: their states before (B, width) each; an LSTM's cells behind them all.
        dropout: what each reads of the one below goes through this.
    """
    n, after, kept = len(cells), [], []
    for i, cell in enumerate(cells):
        x = dropout(x) if i else x
        if isinstance(cell, nn.LSTMCell):
            x, c = cell(x, (hidden[i], hidden[n + i]))
            kept.append(c)
        else:
            x = cell(x, hidden[i])
        after.append(x)
    return (*after, *kept)


def unroll_cells(
    cells: nn.ModuleList, x: Tensor, hidden: tuple[Tensor, ...], dropout: Callable[[Tensor], Tensor]
) -> Tensor:
    """The states (B, T, width) of the topmost cell after each of `x` (B, T, ·), as by `step_cells`.

    One fused call a cell, where what they read is known beforehand.
    """
    for i, cell in enumerate(cells):
        assert isinstance(cell, nn.GRUCell | nn.LSTMCell)
        weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        first = [part[None].to(x.dtype).contiguous() for part in hidden[i :: len(cells)]]
        x = dropout(x) if i else x
        # biases, one layer, no dropout, in training or not, one direction, batch first
        how = (True, 1, 0.0, cell.training, False, True)
        with warnings.catch_warnings():
            # a cell's weights lie apart, and cuDNN says at every call that it puts them together
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
            if isinstance(cell, nn.LSTMCell):
                x = torch.lstm(x, first, weights, *how)[0]
            else:
                x = torch.gru(x, first[0], weights, *how)[0]
    return x


def init_weights(module: nn.Module) -> None:
    """Recurrent matrices orthogonal, as Bahdanau's; the rest by the size of its layer.

    Bahdanau's other matrices are drawn at 0.01 and suit Adadelta; Adam is quicker from here.
    """
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        for name, weight in module.named_parameters():
            if "weight_hh" in name:
                for gate in weight.data.split(weight.shape[1]):
                    nn.init.orthogonal_(gate)
            elif "weight" in name:
                nn.init.xavier_uniform_(weight)
            else:
                nn.init.zeros_(weight)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    elif isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)

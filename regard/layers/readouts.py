"""The layer before the output of a recurrent decoder: all it knows of the next word, in one vector.

Both answer alike, `readout(state, word, context)`, so that a decoder need not ask which it has.
"""

import torch
from torch import Tensor, nn


class Readout(nn.Module):
    """Bahdanau et al. 2015, A.2.2: of what state, word and context say, the better of two.

    The state is s_i, as the probability is written there; the formula of t̃ has s_{i−1}.

    Args:
        width: how wide the state is.
        word_width: how wide the word is.
        memory_width: how wide the context is; None if it says nothing.
        readout: how wide the result is, the better half of twice as many.
        dropout: the share of it that is dropped, in training.
    """

    def __init__(
        self,
        width: int,
        word_width: int,
        memory_width: int | None,
        readout: int,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.state = nn.Linear(width, 2 * readout)
        self.word = nn.Linear(word_width, 2 * readout, bias=False)
        reads = memory_width is not None
        self.context = nn.Linear(memory_width or 0, 2 * readout, bias=False) if reads else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: Tensor, word: Tensor, context: Tensor) -> Tensor:
        """(..., readout)."""
        both = self.state(state) + self.word(word)
        if self.context is not None:
            both = both + self.context(context)
        return self.dropout(both.unflatten(-1, (-1, 2)).amax(-1))


class AttentionalReadout(nn.Module):
    """Luong et al. 2015, eq. 5: `h̃ = tanh(W [context; state])`; the state has heard the word.

    Args:
        width: how wide the state is.
        memory_width: how wide the context is.
        readout: how wide the result is.
        dropout: the share of it that is dropped, in training.
    """

    def __init__(self, width: int, memory_width: int, readout: int, *, dropout: float = 0.0):
        super().__init__()
        self.both = nn.Linear(memory_width + width, readout, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, state: Tensor, word: Tensor, context: Tensor) -> Tensor:
        """(..., readout)."""
        return self.dropout(torch.tanh(self.both(torch.cat([context, state], -1))))

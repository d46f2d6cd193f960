"""Attention that remembers where it has looked: one step of a decoder at a time.

Both answer alike: `begin(memory)` is what has been looked at before the first step, and
`layer(x, memory, past=past)` is what a step reads and what has been looked at after it.
"""

import torch
from torch import Tensor, nn

from regard import check
from regard.dispatch import weigh
from regard.functional.biases import Bias
from regard.functional.selects import Select, softmax
from regard.layers.single_head import Additive


class Coverage(nn.Module):
    """Tu et al. 2016, 3.1: `v · tanh(W x + U memory + V past)`; past is the sum of all weights.

    Their linguistic coverage with one number a place, and every place worth one word.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
        width: how wide the layer between is.
    """

    def __init__(self, query_width: int, memory_width: int, width: int):
        super().__init__()
        self.content = Additive(query_width, memory_width, width)
        self.past = nn.Linear(1, width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """`U memory` (B, K, width), the same for every step of a decoder."""
        return self.content.keys(memory)

    def init_past(self, memory: Tensor) -> Tensor:
        """How much of each place has been read before the first step (B, K): nothing."""
        return memory.new_zeros(memory.shape[:2])

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        past: Tensor,
        keys: Tensor | None = None,
        bias: Bias | Tensor | None = None,
        select: Select = softmax,
    ) -> tuple[Tensor, Tensor]:
        """What the one query of `x` (B, 1, query_width) reads, and how much is read by then.

        Args:
            x: the state of a step of a decoder.
            memory: what is read (B, K, memory_width), finite even where it is hidden.
            past: what `init_past` or the step before gave (B, K).
            keys: what `keys(memory)` gave.
            bias: what is added to the scores; −inf hides the padding.
            select: how scores become weights.
        """
        keys = self.keys(memory) if keys is None else keys
        _check_inputs("Coverage", x, keys, past)
        keys = keys + self.past(past[..., None])
        context, weights = _context_and_weights(self.content, x, memory, keys, bias, select)
        return context, past + weights


class LocationAware(nn.Module):
    """Chorowski et al. 2015, eq. 8 and 9: `v · tanh(W x + U memory + V (F ∗ past))`.

    Past is the weights of the step before; what a place hears of them is learned filters' work.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
        width: how wide the layer between is.
        reach: how far to either side the filters hear.
        filters: how many there are.
    """

    def __init__(
        self,
        query_width: int,
        memory_width: int,
        width: int,
        *,
        reach: int = 10,
        filters: int = 10,
    ):
        super().__init__()
        if reach < 0:
            raise ValueError(f"LocationAware: expected reach >= 0, got {reach}")
        self.content = Additive(query_width, memory_width, width)
        self.filters = nn.Conv1d(1, filters, 2 * reach + 1, padding=reach, bias=False)
        self.past = nn.Linear(filters, width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """`U memory` (B, K, width), the same for every step of a decoder."""
        return self.content.keys(memory)

    def init_past(self, memory: Tensor) -> Tensor:
        """The weights before the first step (B, K): none."""
        return memory.new_zeros(memory.shape[:2])

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        past: Tensor,
        keys: Tensor | None = None,
        bias: Bias | Tensor | None = None,
        select: Select = softmax,
    ) -> tuple[Tensor, Tensor]:
        """What the one query of `x` (B, 1, query_width) reads, and its weights (B, K).

        The arguments are those of `Coverage`.
        """
        keys = self.keys(memory) if keys is None else keys
        _check_inputs("LocationAware", x, keys, past)
        keys = keys + self.past(self.filters(past[:, None]).mT)
        return _context_and_weights(self.content, x, memory, keys, bias, select)


def _context_and_weights(
    content: Additive,
    x: Tensor,
    memory: Tensor,
    keys: Tensor,
    bias: Bias | Tensor | None,
    select: Select,
) -> tuple[Tensor, Tensor]:
    """What is read (B, 1, memory_width), and the weights (B, K) by which."""
    q, score = content.query(x)[:, None], content.score.value()
    weights = weigh(q, keys[:, None], score=score, bias=bias, select=select)[:, 0]  # (B, 1, K)
    return torch.bmm(weights, memory), weights[:, 0]


def _check_inputs(where: str, x: Tensor, keys: Tensor, past: Tensor) -> None:
    B, K, _ = keys.shape
    check.shape(where, "x", x, B=B, Q=1, E=None)
    check.shape(where, "past", past, B=B, K=K)

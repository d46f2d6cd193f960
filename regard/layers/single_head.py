"""The attention of recurrent sequence-to-sequence models: one head, and the memory is the value.

All answer alike: `keys(memory)` is what can be computed once for all steps of a decoder, and
`layer(x, memory, keys=keys)` is the context (B, Q, memory_width) for one query or for many.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from regard import check
from regard.dispatch import attend
from regard.functional.biases import Bias
from regard.functional.rules import Rule
from regard.functional.scores import Score, dot
from regard.functional.selects import Select, softmax
from regard.layers.scores import AdditiveScore, GeneralScore, LocationScore


@runtime_checkable
class SingleHeadAttention(Protocol):
    """What every layer here answers, and a layer of your own may."""

    def keys(self, memory: Tensor) -> Tensor:
        """What can be computed once for all steps of a decoder (B, K, ·)."""

    def __call__(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        select: Select = softmax,
    ) -> Tensor:
        """What each query of `x` (B, Q, ·) reads in `memory` (B, K, ·)."""


class Dot(nn.Module):
    """Luong et al. 2015, 3.1 (dot): `x · memory`, with nothing to learn."""

    def keys(self, memory: Tensor) -> Tensor:
        """The memory itself."""
        return memory

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        select: Select = softmax,
    ) -> Tensor:
        """What each query of `x` (B, Q, E) reads in `memory` (B, K, E)."""
        return _attend_single_head(
            x, memory if keys is None else keys, memory, dot, rule, bias, select
        )


class Additive(nn.Module):
    """Bahdanau et al. 2015, A.1.2: `v · tanh(W x + U memory)`; Luong's concat is the same.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
        width: how wide the layer between is.
    """

    def __init__(self, query_width: int, memory_width: int, width: int):
        super().__init__()
        # one bias is enough: the two would be added
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(memory_width, width)
        self.score = AdditiveScore(1, width)

    def keys(self, memory: Tensor) -> Tensor:
        """`U memory` (B, K, width), the same for every step of a decoder."""
        _check_memory("Additive", memory, self.key.in_features)
        return self.key(memory)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        select: Select = softmax,
    ) -> Tensor:
        """What each query of `x` (B, Q, query_width) reads in `memory` (B, K, memory_width)."""
        check.shape("Additive", "x", x, B=None, Q=None, E=self.query.in_features)
        keys = self.keys(memory) if keys is None else keys
        return _attend_single_head(
            self.query(x), keys, memory, self.score.value(), rule, bias, select
        )


class General(nn.Module):
    """Luong et al. 2015, 3.1 (general): `x · W · memory`.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
    """

    def __init__(self, query_width: int, memory_width: int):
        super().__init__()
        self.score = GeneralScore(1, query_width, memory_width)

    def keys(self, memory: Tensor) -> Tensor:
        """`W memory` (B, K, query_width), the same for every step of a decoder."""
        _check_memory("General", memory, self.score.weight.shape[2])
        return memory @ self.score.weight[0].mT

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        select: Select = softmax,
    ) -> Tensor:
        """What each query of `x` (B, Q, query_width) reads in `memory` (B, K, memory_width)."""
        check.shape("General", "x", x, B=None, Q=None, E=self.score.weight.shape[1])
        keys = self.keys(memory) if keys is None else keys
        return _attend_single_head(x, keys, memory, dot, rule, bias, select)


class Location(nn.Module):
    """Luong et al. 2015, eq. 8 (location): `W x`, a score for each place, whatever stands there.

    Args:
        query_width: how wide `x` is.
        places: for how many keys at most.
    """

    def __init__(self, query_width: int, places: int):
        super().__init__()
        self.score = LocationScore(1, query_width, places)

    def keys(self, memory: Tensor) -> Tensor:
        """The memory itself, of which only the length matters."""
        return memory

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        rule: Rule | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        select: Select = softmax,
    ) -> Tensor:
        """What each query of `x` (B, Q, query_width) reads in `memory` (B, K, memory_width)."""
        check.shape("Location", "x", x, B=None, Q=None, E=self.score.weight.shape[1])
        keys = memory if keys is None else keys
        return _attend_single_head(x, keys, memory, self.score.value(), rule, bias, select)


def _attend_single_head(
    q: Tensor,
    keys: Tensor,
    memory: Tensor,
    score: Score,
    rule: Rule | Tensor | None,
    bias: Bias | Tensor | None,
    select: Select,
) -> Tensor:
    """Attend with a single head, which these layers have no axis for."""
    q, k, v = q[:, None], keys[:, None], memory[:, None]
    return attend(q, k, v, score=score, rule=rule, bias=bias, select=select).squeeze(1)


def _check_memory(where: str, memory: Tensor, width: int) -> None:
    check.shape(where, "memory", memory, B=None, K=None, E=width)

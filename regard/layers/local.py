"""Attention that looks at a few places around a centre: Luong et al. 2015, 3.2."""

import torch
from torch import Tensor, nn

from regard import check
from regard.functional.rules import Rule, around, both, padding
from regard.functional.selects import gaussian
from regard.layers.classic import Classic, General


class LocalM(nn.Module):
    """Luong et al. 2015, 3.2 (local-m): step t of the decoder looks around place t.

    A step beyond the end of the memory and its reach sees nothing and reads zeros.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
        reach: how far it looks to either side.
        attention: a layer of `layers.classic` that scores what is in reach; None for `General`.
    """

    def __init__(
        self,
        query_width: int,
        memory_width: int,
        *,
        reach: int,
        attention: Classic | None = None,
    ):
        super().__init__()
        if reach < 0:
            raise ValueError(f"LocalM: expected reach >= 0, got {reach}")
        self.reach = reach
        self.attention: Classic = (
            General(query_width, memory_width) if attention is None else attention
        )

    def keys(self, memory: Tensor) -> Tensor:
        """What can be computed once for all steps of a decoder."""
        return self.attention.keys(memory)

    def centre(self, x: Tensor, *, start: int | Tensor = 0) -> Tensor:
        """Where each query looks (B, Q): at its own step, the first of which is `start`."""
        steps = start + torch.arange(x.shape[1], device=x.device)
        return steps.expand(x.shape[:2])

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        start: int | Tensor = 0,
        lengths: Tensor | None = None,
        rule: Rule | Tensor | None = None,
    ) -> Tensor:
        """What each query of `x` (B, Q, query_width) reads in `memory` (B, K, memory_width).

        Args:
            x: the states of one step of a decoder, or of many.
            memory: what is read.
            keys: what `keys(memory)` gave.
            start: the step of the first query, to decode step by step.
            lengths: how many keys of each batch row are real (B,).
            rule: what else hides keys.
        """
        centre = self.centre(x, start=start)[:, None]
        seen = _near(centre, self.reach, lengths, rule)
        return self.attention(x, memory, keys=keys, rule=seen)


class LocalP(nn.Module):
    """Luong et al. 2015, eq. 9 and 10 (local-p): each query predicts where to look.

    Around its centre `S · sigmoid(v · tanh(W x))` the weights are the softmax within reach times a
    Gaussian of width reach / 2, through which the gradient finds v and W.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
        reach: how far it looks to either side.
        attention: a layer of `layers.classic` that scores what is in reach; None for `General`.
    """

    def __init__(
        self,
        query_width: int,
        memory_width: int,
        *,
        reach: int,
        attention: Classic | None = None,
    ):
        super().__init__()
        if reach < 1:
            raise ValueError(f"LocalP: expected reach >= 1, got {reach}")
        self.reach = reach
        self.attention: Classic = (
            General(query_width, memory_width) if attention is None else attention
        )
        self.hidden = nn.Linear(query_width, query_width, bias=False)
        self.vector = nn.Linear(query_width, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        """What can be computed once for all steps of a decoder."""
        return self.attention.keys(memory)

    def centre(self, x: Tensor, memory: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """Where each query looks (B, Q), from 0 to the length S of its memory: eq. 9."""
        check.shape("LocalP", "x", x, B=None, Q=None, E=self.hidden.in_features)
        if lengths is not None:
            check.integers("LocalP", "lengths", lengths)
            check.shape("LocalP", "lengths", lengths, B=x.shape[0])
        share = self.vector(torch.tanh(self.hidden(x)))[..., 0].sigmoid()  # (B, Q)
        return share * (memory.shape[1] if lengths is None else lengths[:, None])

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        lengths: Tensor | None = None,
        rule: Rule | Tensor | None = None,
    ) -> Tensor:
        """What each query of `x` (B, Q, query_width) reads in `memory` (B, K, memory_width).

        Args:
            x: the states of one step of a decoder, or of many.
            memory: what is read.
            keys: what `keys(memory)` gave.
            lengths: how many keys of each batch row are real (B,); a centre is a share of it.
            rule: what else hides keys.
        """
        centre = self.centre(x, memory, lengths=lengths)[:, None]
        seen = _near(centre, self.reach, lengths, rule)
        select = gaussian(centre, self.reach / 2)
        return self.attention(x, memory, keys=keys, rule=seen, select=select)


def _near(centre: Tensor, reach: int, lengths: Tensor | None, rule: Rule | Tensor | None) -> Rule:
    hides = [] if lengths is None else [padding(lengths)]
    return both(around(centre, reach), *hides, *([] if rule is None else [rule]))

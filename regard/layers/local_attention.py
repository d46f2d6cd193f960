"""Attention that looks at a few places around a centre: Luong et al. 2015, 3.2."""

import torch
from torch import Tensor, nn

from regard import check
from regard.functional.precision import to_float32
from regard.functional.rules import Rule, around, both, padding
from regard.functional.selects import HIDDEN, Select, gaussian, softmax
from regard.layers.single_head import General, SingleHeadAttention


class LocalM(nn.Module):
    """Luong et al. 2015, 3.2 (local-m): step t of the decoder looks around place t.

    A step beyond the end of the memory and its reach sees nothing and reads zeros.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
        reach: how far it looks to either side.
        attention: a layer of `layers.single_head` that scores what is in reach; None for `General`.
    """

    def __init__(
        self,
        query_width: int,
        memory_width: int,
        *,
        reach: int,
        attention: SingleHeadAttention | None = None,
    ):
        super().__init__()
        if reach < 0:
            raise ValueError(f"LocalM: expected reach >= 0, got {reach}")
        self.reach = reach
        self.attention: SingleHeadAttention = (
            General(query_width, memory_width) if attention is None else attention
        )

    def keys(self, memory: Tensor) -> Tensor:
        """What can be computed once for all steps of a decoder."""
        return self.attention.keys(memory)

    def centre(self, x: Tensor, *, start: int | Tensor = 0) -> Tensor:
        """Where each query looks (B, Q): at its own step, the first of which is `start`."""
        steps = torch.arange(x.shape[1], device=x.device)
        # a step for each row stands along the batch
        first = start[..., None] if isinstance(start, Tensor) else start
        return (first + steps).expand(x.shape[:2])

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        start: int | Tensor = 0,
        lengths: Tensor | None = None,
        rule: Rule | Tensor | None = None,
        bias: Tensor | None = None,
        select: Select = softmax,
    ) -> Tensor:
        """What each query of `x` (B, Q, query_width) reads in `memory` (B, K, memory_width).

        Args:
            x: the states of one step of a decoder, or of many.
            memory: what is read.
            keys: what `keys(memory)` gave.
            start: the step of the first query, to decode step by step: one for all, or (B,).
            lengths: how many keys of each batch row are real (B,).
            rule: what else hides keys.
            bias: added to the scores, (B, 1, Q, K) or what spreads to it. With it the window is
                spelled out in as many numbers, which is quickest for a short memory and a single
                query; what is hidden in the memory must then be finite.
            select: how scores within reach become weights.
        """
        centre = self.centre(x, start=start)[:, None]
        if bias is None:
            rule = _window_rule(centre, self.reach, lengths, rule)
        else:
            bias = _window_bias(bias, centre, self.reach, lengths, memory.shape[1])
        return self.attention(x, memory, keys=keys, rule=rule, bias=bias, select=select)


class LocalP(nn.Module):
    """Luong et al. 2015, eq. 9 and 10 (local-p): each query predicts where to look.

    Around its centre `S · sigmoid(v · tanh(W x))` the weights are the softmax within reach times a
    Gaussian of width reach / 2, through which the gradient finds v and W.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is, and what is read from it.
        reach: how far it looks to either side.
        attention: a layer of `layers.single_head` that scores what is in reach; None for `General`.
    """

    def __init__(
        self,
        query_width: int,
        memory_width: int,
        *,
        reach: int,
        attention: SingleHeadAttention | None = None,
    ):
        super().__init__()
        if reach < 1:
            raise ValueError(f"LocalP: expected reach >= 1, got {reach}")
        self.reach = reach
        self.attention: SingleHeadAttention = (
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
        # in half precision a sigmoid soon is 1 and nothing else, and has no slope to come back by
        share = to_float32(self.vector(torch.tanh(self.hidden(x))))[..., 0].sigmoid()  # (B, Q)
        return share * (memory.shape[1] if lengths is None else lengths[:, None])

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        keys: Tensor | None = None,
        lengths: Tensor | None = None,
        rule: Rule | Tensor | None = None,
        bias: Tensor | None = None,
        select: Select = softmax,
    ) -> Tensor:
        """What each query of `x` (B, Q, query_width) reads in `memory` (B, K, memory_width).

        Args:
            x: the states of one step of a decoder, or of many.
            memory: what is read.
            keys: what `keys(memory)` gave.
            lengths: how many keys of each batch row are real (B,); a centre is a share of it.
            rule: what else hides keys.
            bias: as that of `LocalM`.
            select: how scores within reach become weights. The softmax is multiplied by the
                Gaussian, as in the paper; any other finds its logarithm added to the scores, so
                that `sampled` draws by the product of both.
        """
        centre, K = self.centre(x, memory, lengths=lengths)[:, None], memory.shape[1]
        if bias is None:
            rule = _window_rule(centre, self.reach, lengths, rule)
        else:
            bias = _window_bias(bias, centre, self.reach, lengths, K)
        if select is softmax:
            select = gaussian(centre, self.reach / 2)
        else:
            nearness = -_key_offsets(centre, K).square() / (2 * (self.reach / 2) ** 2)
            bias = nearness if bias is None else bias + nearness
        return self.attention(x, memory, keys=keys, rule=rule, bias=bias, select=select)


def _window_rule(
    centre: Tensor, reach: int, lengths: Tensor | None, rule: Rule | Tensor | None
) -> Rule:
    hides = [] if lengths is None else [padding(lengths)]
    return both(around(centre, reach), *hides, *([] if rule is None else [rule]))


def _window_bias(
    bias: Tensor, centre: Tensor, reach: int, lengths: Tensor | None, K: int
) -> Tensor:
    """The bias (B, 1, Q, K), −inf beyond the reach of a centre (B, 1, Q) and beyond the lengths."""
    near = _key_offsets(centre, K).abs() <= reach
    if lengths is not None:
        near = near & (torch.arange(K, device=near.device) < lengths[:, None, None, None])
    return torch.where(near, bias, HIDDEN)


def _key_offsets(centre: Tensor, K: int) -> Tensor:
    """How far each key stands from a centre (B, 1, Q, K)."""
    return torch.arange(K, device=centre.device) - to_float32(centre)[..., None]

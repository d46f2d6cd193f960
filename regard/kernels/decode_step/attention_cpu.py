"""Queries of each row attend on a CPU, in as few operations as can be.

The twin is `regard.attend`. Scores are dot products, scaled beforehand; no head shares its keys,
and every query sees a key, so that nothing has to be opened and closed.
"""

import torch
from torch import Tensor


def attend_few_queries(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """What W queries of each row (B, H, W, D) read from keys (B, H, K, D) and values: (B·W, H·D).

    Args:
        q: the queries, D^-½ as large.
        k: the keys.
        v: the values.
        bias: what is added to the scores, (B, 1, W, K) or what broadcasts to it, if anything.
    """
    B, H, W, D = q.shape
    scores = torch.bmm(q.reshape(B * H, W, D), k.flatten(0, 1).mT)  # (B·H, W, K)
    if bias is not None:
        scores.view(B, H, W, -1).add_(bias)
    seen = torch.bmm(scores.softmax(-1), v.flatten(0, 1))  # (B·H, W, D)
    if W == 1:
        return seen.view(B, H * D)
    return seen.view(B, H, W, D).transpose(1, 2).reshape(B * W, H * D)

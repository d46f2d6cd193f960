"""One query of each row attends on a CPU, in as few operations as can be.

The twin is `regard.attend`. Scores are scaled dot products; no head shares its keys, and every
query sees a key, so that nothing has to be opened and closed.
"""

import torch
from torch import Tensor


def read(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """What a query of each row (B, E) reads from keys (B, H, K, D) and values, as wide.

    Args:
        q: the queries, the heads side by side.
        k: the keys.
        v: the values.
        bias: what is added to the scores (B, 1, 1, K), if anything.
    """
    B, H, K, D = k.shape
    asked, keys = q.reshape(B * H, 1, D), k.flatten(0, 1).mT
    added = q.new_zeros(()) if bias is None else bias.expand(B, H, 1, K).flatten(0, 1)
    scores = torch.baddbmm(added, asked, keys, beta=int(bias is not None), alpha=D**-0.5)
    return torch.bmm(scores.softmax(-1), v.flatten(0, 1)).view(B, H * D)

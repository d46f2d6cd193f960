"""The same calls as one writes them in plain PyTorch, in one dtype: errors are held to its.

It takes rules and buckets from `truth.py`; its arithmetic is eager PyTorch and its own.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.fuzz import truth
from benchmarks.fuzz.draws import Call
from benchmarks.fuzz.truth import Spec, arrays


def unit(x: Tensor) -> Tensor:
    largest = x.detach().abs().amax(-1, keepdim=True) if x.shape[-1] else x.sum(-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1)
    square = (x * x).sum(-1, keepdim=True)
    return x / square.masked_fill(square == 0, 1).sqrt()


def by_distance(table: Tensor, Q: int, K: int) -> Tensor:
    reach = table.shape[1] // 2
    distance = torch.arange(K) - (torch.arange(Q)[:, None] + K - Q)
    return table[:, distance.clamp(-reach, reach) + reach]


def scores(spec: Spec, q: Tensor, k: Tensor) -> Tensor:
    """The scores (B, H, Q, K), in the dtype of q."""
    name, *given = spec
    Q, K, D = q.shape[2], k.shape[2], q.shape[3] or 1
    if name in ("dot", "scaled_dot"):
        return (q @ k.mT) * (given[0] if given else D**-0.5)
    if name == "cosine":
        strength = given[0]
        if isinstance(strength, Tensor):
            strength = strength.expand(q.shape[:3])[..., None]
        return strength * (unit(q) @ unit(k).mT)
    if name == "general":
        return q @ given[0] @ k.mT
    if name == "location":
        return (q @ given[0])[..., :K]
    if name == "additive":
        return (torch.tanh(q[:, :, :, None] + k[:, :, None]) * given[0][:, None, None]).sum(-1)
    if name == "relative":
        scale = D**-0.5 if given[1] is None else given[1]
        return (q[:, :, :, None] * (k[:, :, None] + by_distance(given[0], Q, K))).sum(-1) * scale
    if name == "factors":
        return _factors(q, k, *given)
    if name == "clipped":
        return given[1] * torch.tanh(scores(given[0], q, k))
    return -(q[:, :, :, None] - k[:, :, None]).square().sum(-1)


def _factors(q: Tensor, k: Tensor, query_key: bool, *tables: Tensor | None) -> Tensor:
    distances, key, position = tables
    Q, K = q.shape[2], k.shape[2]
    total = q.new_zeros(*q.shape[:3], K)
    if query_key:
        total = total + q @ k.mT
    if distances is not None:
        total = total + (q[:, :, :, None] * by_distance(distances, Q, K)).sum(-1)
    if key is not None:
        total = total + (key[:, None] * k).sum(-1)[:, :, None]
    if position is not None:
        total = total + by_distance(position, Q, K)
    return total / (q.shape[3] or 1) ** 0.5


def added(spec: Spec | None, call: Call, dtype: torch.dtype) -> Tensor | float:
    """What the bias adds; its table or tensor may carry a gradient."""
    if spec is None:
        return 0.0
    name, *given = spec
    B, H, Q, K = call.full
    if name == "relative":
        table, ahead, farthest = given
        index = truth.buckets(table.shape[1], ahead, farthest, Q, K)
        return table[:, torch.from_numpy(index)]
    if name == "tensor":
        return given[0]
    return torch.from_numpy(np.asarray(truth.added(spec, B, H, Q, K), dtype=float)).to(dtype)


def weights(spec: Spec, s: Tensor, hidden: Tensor) -> Tensor:
    """The weights of masked scores; rows that see nothing are zero."""
    name, *given = spec
    open_rows = ~hidden.all(-1, keepdim=True)
    s = s.masked_fill(hidden, -torch.inf).masked_fill(~open_rows, 0)
    if name == "own":
        found = (2 * s).softmax(-1)
    elif name == "sparsemax":
        found = _sparsemax(s)
    elif name == "top_k":
        n = min(given[0], s.shape[-1])
        chosen = torch.zeros_like(s).scatter(-1, s.topk(n, -1).indices, 1.0)
        found = s.masked_fill(chosen == 0, -torch.inf).softmax(-1)
    elif name in ("hard", "straight_through"):
        one = torch.zeros_like(s).scatter(-1, s.argmax(-1, keepdim=True), 1.0)
        soft = s.softmax(-1)
        found = one if name == "hard" else one + soft - soft.detach()
    else:
        found = s.softmax(-1)
    if name == "gaussian":
        away = torch.arange(s.shape[-1]) - given[0][..., None]
        found = found * torch.exp(-away.square() / (2 * given[1] ** 2)).to(s.dtype)
    return found * open_rows


def _sparsemax(s: Tensor) -> Tensor:
    ranked = s.sort(-1, descending=True).values
    sums = ranked.masked_fill(ranked == -torch.inf, 0).cumsum(-1)
    count = torch.arange(1, s.shape[-1] + 1)
    n = (1 + count * ranked > sums).sum(-1, keepdim=True).clamp_min(1)
    return (s - (sums.gather(-1, n - 1) - 1) / n).clamp_min(0)


def attention(call: Call, dtype: torch.dtype, leaves: Any, visible: Any) -> dict[str, Tensor]:
    """Scores, weights and what is read; `leaves` are q, k, v, score, select and bias."""
    q, k, v, score, select, bias = leaves
    groups = q.shape[1] // max(k.shape[1], 1)
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    hidden = ~torch.from_numpy(np.ascontiguousarray(visible))
    found = scores(score, q, k)
    plus = added(bias, call, dtype)
    total = found + plus.to(found.dtype) if isinstance(plus, Tensor) else found
    w = weights(select, total, hidden)
    return {"scores": total, "weights": w, "out": w.to(v.dtype) @ v}


def leaves(call: Call, dtype: torch.dtype) -> Any:
    """q, k, v, score, select and bias with tensors of this dtype in place of arrays."""

    def tensor(x: Any) -> Tensor:
        return torch.from_numpy(np.array(x)).to(dtype)

    specs = (call.q, call.k, call.v, call.score, call.select, call.bias)
    return arrays(specs, tensor)

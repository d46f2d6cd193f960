"""All steps of tours in few operations each, wherever no kernel takes them. Their twin.

How well a query at one point goes with another is the sum of what depends on where the tour began
and of what depends on where it is; the second is one product for all pairs of points, so that a
step only looks it up.
"""

import torch
from torch import Tensor

from regard.kernels.tour.types import Sizes, Tables

# Numbers of all tables and of all pairs of points that are worked on at a time.
CHUNK_ELEMENTS = 2**22


def decode_tours(tables: Tables, sizes: Sizes, starts: Tensor | None, sample: bool) -> Tensor:
    """The points of each tour in order (B, S, N); arguments as in `api.decode_tours`."""
    B, N, E = tables.keys.shape
    tours = 1 if starts is None else starts.shape[1]
    several = max(1, CHUNK_ELEMENTS // (N * (E + sizes.heads * (N + tours))))
    per_row = tables._replace(begin=tables.begin.expand(B, E))
    found = [
        _decode_chunk(
            Tables(*(x[i : i + several] for x in per_row)),
            sizes,
            None if starts is None else starts[i : i + several],
            sample,
        )
        for i in range(0, B, several)
    ]
    return torch.cat(found) if found else tables.lengths.new_zeros(0, 1, N)


def _decode_chunk(tables: Tables, sizes: Sizes, starts: Tensor | None, sample: bool) -> Tensor:
    """The same for few instances."""
    B, N, E = tables.keys.shape
    H, S = sizes.heads, 1 if starts is None else starts.shape[1]
    # in one piece, or every step would put it together
    keys, values, now = (_split_heads(x, H) for x in (tables.keys, tables.values, tables.last))
    scale = (E // H) ** -0.5
    pairs = (now @ keys.mT).mul_(scale).view(B * H * N, N)
    # where the rows of each head of an instance begin (B, H, 1), and those of an instance (B, 1)
    rows = torch.arange(B * H, device=keys.device) * N
    of_heads, of_rows = rows.view(B, H, 1), rows[:B, None]
    pointers, values = tables.pointers.mT, values.flatten(0, 1)
    gone = torch.arange(N, device=keys.device) >= tables.lengths[:, None]
    unseen = keys.new_zeros(B, S, N).masked_fill_(gone[:, None], -torch.inf)

    def match_scores(query: Tensor) -> Tensor:
        """What a part of every query of a tour (B, S, E) matches of what is seen (B, H, S, N)."""
        return (_split_heads(query, H) @ keys.mT).mul_(scale).add_(unseen[:, None])

    def next_points(match: Tensor) -> Tensor:
        """The next points (B, S), of what is matched."""
        weights = match.softmax(-1).view(B * H, S, N)
        # who has seen all reads nothing, and where it goes is not written
        read = torch.bmm(weights, values).view(B, H, S, -1).transpose(1, 2).reshape(B, S, E)
        scores = torch.bmm(read, pointers)
        if sample:
            scores = scores.mul_(E**-0.5)
            if sizes.clip:
                scores = scores.tanh_().mul_(sizes.clip)
            scores -= torch.empty_like(scores).exponential_().log_()
        # clipping keeps the order, so who takes the best need not clip
        return scores.add_(unseen).argmax(-1)

    begin = (tables.fixed_context + tables.begin)[:, None]
    at = next_points(match_scores(begin)) if starts is None else starts
    begun = tables.first.reshape(B * N, E)[(at + of_rows).flatten()].view(B, S, E)
    base = match_scores(tables.fixed_context[:, None] + begun)
    tours = [at]
    for _ in range(1, N):
        unseen.scatter_(2, at[..., None], -torch.inf)
        base.scatter_(3, at[:, None, :, None].expand(B, H, S, 1), -torch.inf)
        here = pairs.index_select(0, (at[:, None] + of_heads).flatten()).view(B, H, S, N)
        at = next_points(here.add_(base))
        tours.append(at)
    return torch.stack(tours, 2).masked_fill_(gone[:, None], -1)


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, N, E) as (B, H, N, D), in one piece."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2).contiguous()

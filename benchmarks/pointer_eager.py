"""Pointing as it is usually written: a loop over steps, an operation after the other.

Nothing is fused and nothing known beforehand, but keys and values are projected once: what public
implementations of Kool et al. 2019 and of Vinyals et al. 2015 do.
"""

import torch
from torch import Tensor, nn

from regard.layers.norms import PointNorm
from regard.layers.tour_decoder import PointTables
from regard.models.attention_pointer import AttentionPointer
from regard.models.pointer_network import PointerNetwork


def read(model: AttentionPointer, points: Tensor) -> PointTables:
    """What is known of points (B, N, 2) that fill their rows, an operation after the other."""
    x, H = model.embed(points), model.config.heads
    B, N, E = x.shape
    for block in model.blocks:
        attention = block.self_attention
        q, k, v = (
            part(x).view(B, N, H, E // H).transpose(1, 2)
            for part in (attention.query, attention.key, attention.value)
        )
        weights = (q @ k.mT / (E // H) ** 0.5).softmax(-1)
        x = x + attention.out((weights @ v).transpose(1, 2).reshape(B, N, E))
        x = _normed(x, block.self_attention_norm)
        x = _normed(
            x + block.feed_forward.out(torch.relu(block.feed_forward.inner(x))),
            block.feed_forward_norm,
        )
    return model.decoder.point_tables(x, torch.full((B,), N, device=x.device))


def _normed(x: Tensor, norm: PointNorm) -> Tensor:
    """Of all points of a batch, as it was seen in training."""
    flat = nn.functional.batch_norm(
        x.flatten(0, 1), norm.mean, norm.variance, norm.weight, norm.bias, eps=norm.eps
    )
    return flat.view_as(x)


def toured(model: AttentionPointer, places: PointTables) -> Tensor:
    """Greedy tours (B, N), a step at a time, as in the code of Kool et al. 2019."""
    (B, N, E), H = places.keys.shape, model.config.heads
    keys, values = (x.view(B, N, H, E // H).transpose(1, 2) for x in (places.keys, places.values))
    visited = torch.zeros(B, N, dtype=torch.bool, device=keys.device)
    rows, tours = torch.arange(B, device=keys.device), []
    query, first = model.decoder.initial_query(places), places.first[:, 0]
    for step in range(N):
        q = query.view(B, 1, H, E // H).transpose(1, 2)
        scores = q @ keys.mT / (E // H) ** 0.5
        weights = scores.masked_fill(visited[:, None, None], -torch.inf).softmax(-1)
        glimpse = (weights @ values).transpose(1, 2).reshape(B, 1, E)
        logits = torch.tanh((glimpse @ places.pointers.mT)[:, 0] / E**0.5) * model.config.clip
        logits = logits.masked_fill(visited, -torch.inf)
        chosen = logits.log_softmax(-1).argmax(-1)
        visited = visited.scatter(1, chosen[:, None], True)
        tours.append(chosen)
        first = places.first[rows, chosen] if step == 0 else first
        query = places.fixed_context + first + places.last[rows, chosen]
    return torch.stack(tours, 1)


def log_probability(
    model: PointerNetwork, points: Tensor, lengths: Tensor, answers: Tensor
) -> Tensor:
    """What `model.forward` gives for whole answers (B, T), a step of the decoder at a time."""
    read = model.encode(points, lengths)
    (cell,), hidden, found = model.cells, read.hidden, []
    assert model.pointer is not None
    B, T = answers.shape
    K = read.keys.shape[1]
    tokens = torch.zeros(B, dtype=torch.int64, device=points.device)
    visited = torch.zeros(B, K, dtype=torch.bool, device=points.device)
    visited[:, 0] = True
    vector, rows = model.pointer.score.vector[0], torch.arange(B, device=points.device)
    for step in range(T):
        hidden = cell(read.table[rows, tokens], hidden)
        query = model.pointer.query(hidden[0])[:, None]
        scores = torch.tanh(query + read.keys) @ vector
        said = scores.masked_fill(visited, -torch.inf).log_softmax(-1)
        tokens = answers[:, step] + 1
        found.append(said[rows, tokens])
        visited = visited.scatter(1, tokens[:, None], True)
    return torch.stack(found, 1)

"""The likeliest tokens of a vocabulary and their log-probabilities, without those of all others.

On a CPU, torch compares one number at a time where it must say which of them is the largest, and
many at a time where it must only say how large it is. So the part that holds it is found first.
"""

import torch
from torch import Tensor

# Round vocabularies split evenly; how much is looked through twice falls with it and rises again.
PART_TOKENS = 100
# More numbers at a time would leave the caches of some cores before they are looked through.
SOFTMAX_MAX_NUMBERS = 640_000


def argmax(scores: Tensor) -> Tensor:
    """Where the largest of each row of (B, V) stands (B,), the first of equals."""
    V = scores.shape[1]
    if scores.is_cuda or V < 4 * PART_TOKENS:
        return scores.argmax(-1)
    whole = scores[:, : V // PART_TOKENS * PART_TOKENS].unflatten(1, (-1, PART_TOKENS))
    largest = whole.amax(-1)
    parts = largest.argmax(-1)
    found = parts * PART_TOKENS + whole[torch.arange(len(scores)), parts].argmax(-1)
    if V % PART_TOKENS == 0:
        return found
    # where the rest holds the largest, it stands in the last part of all, which begins before it
    both = torch.stack([largest.amax(-1), scores[:, whole.shape[1] * PART_TOKENS :].amax(-1)], 1)
    return torch.where(
        both.argmax(-1) == 0, found, V - PART_TOKENS + scores[:, -PART_TOKENS:].argmax(-1)
    )


def topk(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The `n` largest of each row of (B, V), largest first, and their places: (B, n) both."""
    V = scores.shape[1]
    if scores.is_cuda or n * PART_TOKENS > V // 4:
        found = scores.topk(n)
        return found.values, found.indices
    # the parts with the n largest numbers hold the n largest of all; the rest is looked at anyway
    whole = scores[:, : V // PART_TOKENS * PART_TOKENS].unflatten(1, (-1, PART_TOKENS))
    parts = whole.amax(-1).topk(n, sorted=False).indices
    within = whole.gather(1, parts[..., None].expand(-1, -1, PART_TOKENS)).flatten(1)
    rest = scores[:, whole.shape[1] * PART_TOKENS :]
    values, places = torch.cat([within, rest], 1).topk(n)
    known = (places // PART_TOKENS).clamp(max=n - 1)
    among = parts.gather(1, known) * PART_TOKENS + places % PART_TOKENS
    return values, torch.where(
        places < n * PART_TOKENS, among, places - within.shape[1] + V - rest.shape[1]
    )


def top_log_probabilities(values: Tensor, logits: Tensor, indices: Tensor) -> Tensor:
    """The log-probabilities of the largest of logits (B, V), which stand at `places` (B, n).

    `values` (B, n) are those logits, the largest of all first.
    """
    V = logits.shape[1]
    if logits.is_cuda or V < 4 * PART_TOKENS:
        return logits.log_softmax(-1).gather(1, indices)
    # the largest of a softmax is 1 / sum; exp and sum by themselves take twice as long
    parts = logits.split(max(1, SOFTMAX_MAX_NUMBERS // V))
    largest = torch.cat([x.softmax(-1).amax(-1, keepdim=True) for x in parts])
    return values - values[:, :1] + largest.log()

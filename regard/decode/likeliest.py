"""The likeliest tokens of a vocabulary and their log-probabilities, without those of all others.

On a CPU, torch compares one number at a time where it must say which of them is the largest, and
many at a time where it must only say how large it is. So the part that holds it is found first.
"""

import torch
from torch import Tensor

# Round vocabularies split evenly; how much is looked through twice falls with it and rises again.
PART = 100
# More numbers at a time would leave the caches of some cores before they are looked through.
NEAR = 640_000


def best(scores: Tensor) -> Tensor:
    """Where the largest of each row of (B, V) stands (B,), the first of equals."""
    V = scores.shape[1]
    if scores.is_cuda or V < 4 * PART:
        return scores.argmax(-1)
    whole = scores[:, : V // PART * PART].unflatten(1, (-1, PART))
    largest = whole.amax(-1)
    parts = largest.argmax(-1)
    found = parts * PART + whole[torch.arange(len(scores)), parts].argmax(-1)
    if V % PART == 0:
        return found
    # where the rest holds the largest, it stands in the last part of all, which begins before it
    both = torch.stack([largest.amax(-1), scores[:, whole.shape[1] * PART :].amax(-1)], 1)
    return torch.where(both.argmax(-1) == 0, found, V - PART + scores[:, -PART:].argmax(-1))


def top(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The `n` largest of each row of (B, V), largest first, and their places: (B, n) both."""
    V = scores.shape[1]
    if scores.is_cuda or n * PART > V // 4:
        found = scores.topk(n)
        return found.values, found.indices
    # the parts with the n largest numbers hold the n largest of all; the rest is looked at anyway
    whole = scores[:, : V // PART * PART].unflatten(1, (-1, PART))
    parts = whole.amax(-1).topk(n, sorted=False).indices
    within = whole.gather(1, parts[..., None].expand(-1, -1, PART)).flatten(1)
    rest = scores[:, whole.shape[1] * PART :]
    values, places = torch.cat([within, rest], 1).topk(n)
    known = (places // PART).clamp(max=n - 1)
    among = parts.gather(1, known) * PART + places % PART
    return values, torch.where(
        places < n * PART, among, places - within.shape[1] + V - rest.shape[1]
    )


def normed(values: Tensor, logits: Tensor, places: Tensor) -> Tensor:
    """The log-probabilities of the largest of logits (B, V), which stand at `places` (B, n).

    `values` (B, n) are those logits, the largest of all first.
    """
    V = logits.shape[1]
    if logits.is_cuda or V < 4 * PART:
        return logits.log_softmax(-1).gather(1, places)
    # the largest of a softmax is 1 / sum; exp and sum by themselves take twice as long
    parts = logits.split(max(1, NEAR // V))
    largest = torch.cat([x.softmax(-1).amax(-1, keepdim=True) for x in parts])
    return values - values[:, :1] + largest.log()

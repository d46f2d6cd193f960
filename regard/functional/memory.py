"""How a Neural Turing Machine finds a place in its memory, reads it and writes it.

Graves et al. 2014, section 3. A head finds its place in four stages, each a distribution over N
slots: by content, interpolated with where it was, shifted, sharpened.

A survey of attention interpolates with the content weights of the step before, `w^c_{t−1}`; here as
in the paper it is where the head was, `w_{t−1}`: otherwise no head could walk.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.functional import attention
from regard.functional.precision import to_float32
from regard.functional.scores import Cosine


def content_weights(
    key: Float[Tensor, "B H W"], memory: Float[Tensor, "B N W"], strength: Float[Tensor, "B H"]
) -> Float[Tensor, "B H N"]:
    """Eq. 5 and 6: `softmax(β cos(k, M))` over slots. A slot of zeros matches every key with 0.

    It is what `regard.weigh` gives for the score `Cosine(strength)`.
    """
    slots = memory[:, None].expand(-1, key.shape[1], -1, -1)
    score = Cosine(strength[:, :, None])
    return attention.weights(key[:, :, None], slots, score=score)[:, :, 0].to(key.dtype)


def interpolate(
    content: Float[Tensor, "B H N"], previous: Float[Tensor, "B H N"], gate: Float[Tensor, "B H"]
) -> Float[Tensor, "B H N"]:
    """Eq. 7: `g w^c_t + (1 − g) w_{t−1}`."""
    return torch.lerp(previous, content.to(previous), gate[..., None].to(previous))


def shift(
    weights: Float[Tensor, "B H N"], shifts: Float[Tensor, "B H S"]
) -> Float[Tensor, "B H N"]:
    """Eq. 8: `w̃(i) = Σ_j w(j) s(i − j)`, with all places counted modulo N.

    Args:
        shifts: how likely each shift is, from −(S // 2) to S // 2; S is odd.
    """
    S = shifts.shape[-1]
    if S % 2 == 0:
        raise ValueError(f"shift: expected an odd number of shifts, as many to each side, got {S}")
    rolled = [torch.roll(weights, j - S // 2, -1) * shifts[..., j, None] for j in range(S)]
    return torch.stack(rolled).sum(0)


def shift_distribution(shift: Float[Tensor, "B H"], count: int) -> Float[Tensor, "B H {count}"]:
    """One real number as shifts: split between its two neighbours, as near as it is to each.

    Section 3.3.2: a shift of 6.7 is 0.3 of a shift of 6 and 0.7 of a shift of 7.

    Args:
        shift: from −(count // 2) to count // 2.
    """
    places = torch.arange(count, device=shift.device, dtype=shift.dtype) - count // 2
    return (1 - (shift[..., None] - places).abs()).clamp_min(0)


def sharpen(
    weights: Float[Tensor, "B H N"], sharpness: Float[Tensor, "B H"]
) -> Float[Tensor, "B H N"]:
    """Eq. 9: `w(i)^γ / Σ_j w(j)^γ`, as the softmax of `γ log w`: no power is too great for it."""
    w = to_float32(weights)
    powers = sharpness[..., None] * w.clamp_min(torch.finfo(w.dtype).tiny).log()
    return torch.softmax(powers, -1).to(weights.dtype)


def read_memory(
    memory: Float[Tensor, "B N W"], weights: Float[Tensor, "B H N"]
) -> Float[Tensor, "B H W"]:
    """Eq. 2: `Σ_i w(i) M(i)`."""
    return weights @ memory


def write_memory(
    memory: Float[Tensor, "B N W"],
    weights: Float[Tensor, "B H N"],
    erase: Float[Tensor, "B H W"],
    add: Float[Tensor, "B H W"],
) -> Float[Tensor, "B N W"]:
    """Eq. 3 and 4: `M(i) Π_h (1 − w_h(i) e_h) + Σ_h w_h(i) a_h`.

    All heads erase before any adds, so that their order means nothing.
    """
    kept = 1 - weights[..., None] * erase[:, :, None]  # (B, H, N, W)
    return memory * kept.prod(1) + weights.mT @ add

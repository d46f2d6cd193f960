"""One query of each row attends in one launch, over slots that it also fills if they are its own.

The twins are `StaticCache.append` with `regard.attend` for what was written so far, and
`regard.attend` alone for a source. Scores are scaled dot products, and the softmax runs in float32.
A program has one head of one row; no gradient comes of it, and no head shares its keys.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.dependent_launch import wait_for_previous_launch

# How many numbers of keys a program holds at a time; a warp has 32 of each.
BLOCK_ELEMENTS = 2048


# fmt: off
@triton.jit
def _append_and_attend_kernel(
    qkv_ptr, k_ptr, v_ptr, slot_bias_ptr, length_ptr, out_ptr,
    H, D, N, scale, k_strides, v_strides,
    BK: tl.constexpr, BD: tl.constexpr, CHAINED: tl.constexpr,
):
    """Write what came with the query into the next slots, and read all that are filled.

    new is (B, 3, H, D), the query, its key and its value; free is (B, N).
    """
    # fmt: on
    b, h = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    wait_for_previous_launch(CHAINED)
    length = tl.load(length_ptr)
    d = tl.arange(0, BD)
    inside, E = d < D, H * D
    qkv_ptr += b * 3 * E + h * D + d
    q = tl.load(qkv_ptr, mask=inside, other=0).to(tl.float32) * scale
    k = tl.load(qkv_ptr + E, mask=inside, other=0)
    v = tl.load(qkv_ptr + 2 * E, mask=inside, other=0)
    k_ptr += b * k_strides[0] + h * k_strides[1]
    v_ptr += b * v_strides[0] + h * v_strides[1]
    if length < N:  # a full cache is left as it is
        tl.store(k_ptr + length * k_strides[2] + d, k, mask=inside)
        tl.store(v_ptr + length * v_strides[2] + d, v, mask=inside)
        if h == 0:
            tl.store(slot_bias_ptr + b * N + length, 0.0)
    # the newest key is in registers: others may not see yet what was stored
    most, total = tl.sum(q * k.to(tl.float32), 0), tl.full([], 1.0, tl.float32)
    most, total, read = _accumulate_keys(
        q, k_ptr, v_ptr, None, most, total, v.to(tl.float32), tl.minimum(length, N), d, inside,
        k_strides[2], v_strides[2], 0, BK, BD,
    )  # fmt: skip
    tl.store(out_ptr + b * E + h * D + d, (read / total).to(out_ptr.dtype.element_ty), mask=inside)


# fmt: off
@triton.jit
def _attend_kernel(
    q_ptr, k_ptr, v_ptr, bias_ptr, out_ptr, H, D, K, scale, k_strides, v_strides, bias_strides,
    BK: tl.constexpr, BD: tl.constexpr, CHAINED: tl.constexpr,
):
    """Read all keys, each with its bias; a query that sees none reads zeros."""
    # fmt: on
    b, h = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    d = tl.arange(0, BD)
    inside, own = d < D, b * H * D + h * D + d
    wait_for_previous_launch(CHAINED)
    q = tl.load(q_ptr + own, mask=inside, other=0).to(tl.float32) * scale
    most, total = tl.full([], -float("inf"), tl.float32), tl.full([], 0.0, tl.float32)
    most, total, read = _accumulate_keys(
        q, k_ptr + b * k_strides[0] + h * k_strides[1], v_ptr + b * v_strides[0] + h * v_strides[1],
        bias_ptr + b * bias_strides[0], most, total, tl.zeros([BD], tl.float32), K, d, inside,
        k_strides[2], v_strides[2], bias_strides[1], BK, BD,
    )  # fmt: skip
    read /= tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + own, read.to(out_ptr.dtype.element_ty), mask=inside)


# fmt: off
@triton.jit
def _accumulate_keys(
    q, k_ptr, v_ptr, bias_ptr, most, total, read, K, d, inside, k_stride, v_stride, bias_stride,
    BK: tl.constexpr, BD: tl.constexpr,
):
    """The largest score, the sum of weights and what they read, with those of K keys more."""
    # fmt: on
    for start in range(0, K, BK):
        j = start + tl.arange(0, BK)
        there = (j < K)[:, None] & inside[None, :]
        # all that is loaded is under way before anything waits for it
        k = tl.load(k_ptr + j[:, None] * k_stride + d[None, :], mask=there, other=0)
        v = tl.load(v_ptr + j[:, None] * v_stride + d[None, :], mask=there, other=0)
        s = tl.sum(q[None, :] * k.to(tl.float32), 1)  # (BK,)
        if bias_ptr is not None:
            s += tl.load(bias_ptr + j * bias_stride, mask=j < K, other=0).to(tl.float32)
        s = tl.where(j < K, s, -float("inf"))
        larger = tl.maximum(most, tl.max(s, 0))
        # before anything is seen, the largest is −inf, from which nothing can be taken
        base = tl.where(larger == -float("inf"), 0.0, larger)
        p, kept = tl.exp(s - base), tl.exp(most - base)
        # a value that is not seen may be anything
        v = tl.where((p != 0)[:, None], v.to(tl.float32), 0.0)
        total, read = total * kept + tl.sum(p, 0), read * kept + tl.sum(p[:, None] * v, 0)
        most = larger
    return most, total, read


def append_and_attend(
    qkv: Tensor, k: Tensor, v: Tensor, slot_bias: Tensor, length: Tensor
) -> Tensor:
    """What one more token of each row reads (B, E), its key and value written into their slots.

    Args:
        qkv: its query, key and value side by side (B, 3·E).
        k: slots of keys (B, H, N, D), the numbers of each together.
        v: slots of values, as wide.
        slot_bias: −inf for each slot that is still free (B, 1, 1, N), without gaps.
        length: how many slots are filled, a tensor of no axes.
    """
    B, H, N, D = k.shape
    out = qkv.new_empty(B, H * D)
    with torch.cuda.device_of(qkv):
        _append_and_attend_kernel[(B * H,)](
            qkv, k, v, slot_bias, length, out, H, D, N, D**-0.5, k.stride(), v.stride(),
            **_block_options(N, D), **chain.launch_options(qkv),
        )
    # torch did not see it: who counts what is written, as beams do, is told
    torch.autograd.graph.increment_version((k, v, slot_bias))
    return out


def attend_single_query(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """What a query of each row (B, E) reads from keys (B, H, K, D) and values, as wide.

    Args:
        q: the queries, the heads side by side.
        k: the keys, the numbers of each together.
        v: the values.
        bias: what is added to the scores (B, 1, 1, K).
    """
    B, H, K, D = k.shape
    out = torch.empty_like(q)
    strides = (bias.stride(0), bias.stride(3))
    with torch.cuda.device_of(q):
        _attend_kernel[(B * H,)](
            q, k, v, bias, out, H, D, K, D**-0.5, k.stride(), v.stride(), strides,
            **_block_options(K, D), **chain.launch_options(q),
        )
    return out


def _block_options(K: int, D: int) -> dict[str, int]:
    """How many keys and numbers of each a program has at a time, and how many warps have them."""
    BD = triton.next_power_of_2(D)
    BK = max(1, min(triton.next_power_of_2(K), BLOCK_ELEMENTS // BD))
    return {"BK": BK, "BD": BD, "num_warps": 1 if BK * BD <= 1024 else 2}

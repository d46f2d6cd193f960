"""Who sees whom, inside a kernel: the twin of `regard.kernels.seen.Seen`, tile by tile."""

import triton
import triton.language as tl

from regard.kernels.additive_scores import load1

FAR = tl.constexpr(1 << 40)


@triton.jit
def shown(
    scores,
    b,
    h,
    i,
    j,
    Q,
    K,
    back,
    ahead,
    first_ptr,
    last_ptr,
    ids_ptr,
    ids_stride,
    mask_ptr,
    mask_strides,
    bias_ptr,
    bias_strides,
    PTX: tl.constexpr,
):
    """The scores of queries i with keys j plus their bias; −inf if not seen."""
    place = i + (K - Q)
    ok = (i < Q) & (j < K) & (j >= place - back) & (j <= place + ahead)
    # past the end the last one is looked at, in vain
    i, j = tl.minimum(i, Q - 1).to(tl.int64), tl.minimum(j, K - 1).to(tl.int64)
    if first_ptr is not None:
        ok &= j >= tl.load(first_ptr + b)
    if last_ptr is not None:
        ok &= j < tl.load(last_ptr + b)
    if ids_ptr is not None:
        ids_ptr += b * ids_stride
        own = load1(ids_ptr + tl.maximum(i + (K - Q), 0), PTX)
        ok &= (place >= 0) & (own == load1(ids_ptr + j, PTX))
    if mask_ptr is not None:
        mask_ptr += b * mask_strides[0] + h * mask_strides[1]
        ok &= load1(mask_ptr + i * mask_strides[2] + j * mask_strides[3], PTX) != 0
    if bias_ptr is not None:
        bias_ptr += b * bias_strides[0] + h * bias_strides[1]
        at = bias_ptr + i * bias_strides[2] + j * bias_strides[3]
        scores += load1(at, PTX).to(tl.float32)
    return tl.where(ok, scores, -float("inf"))


@triton.jit
def span(first, rows, b, Q, K, back, ahead, first_ptr, last_ptr):
    """Where the keys begin and end that `rows` queries from `first` on may see at most."""
    place = first + (K - Q)
    lowest = tl.maximum(0, place - back)
    end = tl.minimum(K, place + rows + ahead)
    if first_ptr is not None:
        lowest = tl.maximum(lowest, tl.load(first_ptr + b).to(tl.int32))
    if last_ptr is not None:
        end = tl.minimum(end, tl.load(last_ptr + b).to(tl.int32))
    return lowest, end


@triton.jit
def meet(
    first,
    start,
    b,
    Q,
    K,
    ids_ptr,
    ids_stride,
    BQ: tl.constexpr,
    BK: tl.constexpr,
):
    """Whether documents of queries from `first` on can be those of keys from `start` on."""
    place = first + (K - Q) + tl.arange(0, BQ)
    there = (place >= 0) & (place < K)
    ids_ptr += b * ids_stride
    key = start + tl.arange(0, BK)
    # where nothing is, the other end of the scale: it stretches neither side
    low = tl.min(
        tl.load(ids_ptr + place, mask=there, other=0).to(tl.int64) + tl.where(there, 0, FAR)
    )
    high = tl.max(
        tl.load(ids_ptr + place, mask=there, other=0).to(tl.int64) - tl.where(there, 0, FAR)
    )
    least = tl.min(
        tl.load(ids_ptr + key, mask=key < K, other=0).to(tl.int64) + tl.where(key < K, 0, FAR)
    )
    most = tl.max(
        tl.load(ids_ptr + key, mask=key < K, other=0).to(tl.int64) - tl.where(key < K, 0, FAR)
    )
    return (low <= most) & (least <= high)

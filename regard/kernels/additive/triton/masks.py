"""Who sees whom, inside a kernel: the twin of `regard.kernels.mask_spec.MaskSpec`, tile by tile."""

import triton
import triton.language as tl

from regard.kernels.additive.triton.memory import load1
from regard.kernels.additive.triton.scores import tile_scores

MAX_DOCUMENT_ID = tl.constexpr((1 << 63) - 1)  # farther than any document


# fmt: off
@triton.jit
def masked_scores(
    scores, b, h, i, j, Q, K, back, ahead, first_ptr, last_ptr, ids_ptr, ids_stride,
    mask_ptr, mask_strides, bias_ptr, bias_strides, PTX: tl.constexpr,
):
    """The scores of queries i with keys j plus their bias; −inf if not seen."""
    # fmt: on
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
def visible_key_range(first, rows, b, Q, K, back, ahead, first_ptr, last_ptr):
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
def can_share_document(
    first, start, b, Q, K, ids_ptr, ids_stride, BQ: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Whether documents of queries from `first` on can be those of keys from `start` on."""
    low, high = _id_range(ids_ptr + b * ids_stride, first + (K - Q) + tl.arange(0, BQ), K)
    least, most = _id_range(ids_ptr + b * ids_stride, start + tl.arange(0, BK), K)
    return (low <= most) & (least <= high)


@triton.jit
def _id_range(ids_ptr, place, K):
    """The smallest and the largest document at some places; where nothing is, none is."""
    there = (place >= 0) & (place < K)
    id = tl.load(ids_ptr + place, mask=there, other=0).to(tl.int64)
    least = tl.min(tl.where(there, id, MAX_DOCUMENT_ID))
    return least, tl.max(tl.where(there, id, -MAX_DOCUMENT_ID))


# fmt: off
@triton.jit
def masked_tile_scores(
    q_ptr, k_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
    first_ptr, last_ptr, ids_ptr, mask_ptr, bias_ptr,
    bh, base, rows, tile, start, row, col, H, group_size, Q, K, D, groups, back, ahead, ids_stride,
    q_strides, k_strides, mask_strides, bias_strides,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr,
    ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """The scores of one tile of head `bh`, in slots, bias added; −inf if not seen."""
    b, h = bh // H, bh % H
    bg = b * (H // group_size) + h // group_size
    if u_ptr is not None:
        u_tiles = tl.cdiv(rows, WR * MT * 16) * (WR * MT)
        w_tiles = tl.cdiv(K, WC * NP * 16) * (WC * NP)
        u_ptr += bh * u_tiles * groups * 128
        beta_ptr += h * groups * 8
        u_bits_ptr += bh * u_tiles
        w_ptr += bg * w_tiles * groups * 128
        w_bits_ptr += bg * w_tiles
    s = tile_scores(
        q_ptr + b * q_strides[0] + h * q_strides[1],
        k_ptr + b * k_strides[0] + (h // group_size) * k_strides[1],
        vector_ptr + h * D, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
        base, tile, start, row, col, Q, K, D, groups, q_strides[2], k_strides[2],
        WR, WC, MT, NP, ALIGNED, PTX,
    )
    return masked_scores(
        s, b, h, base + tile + row, start + col, Q, K, back, ahead, first_ptr, last_ptr, ids_ptr,
        ids_stride, mask_ptr, mask_strides, bias_ptr, bias_strides, PTX,
    )
# fmt: on

"""What tensor cores multiply for additive scores: products of e^{2q} and of e^{2k}, packed.

With x_d = 1 + e^{2(q_d + k_d)}, three dimensions share a division: Σ v_d / x_d = N / (x_1 x_2 x_3).
Numerator and denominator are sums over the eight products of some of the e^{2q_d} times the same
of the e^{2k_d}: a matrix product of depth eight. `docs/kernels.md` has the derivation.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
GROUP_DIMS = tl.constexpr(3)  # how many dimensions share one division
MAX_GROUP_VECTOR_SUM = tl.constexpr(256.0)  # what the vector may add up to in a group


@triton.jit
def split_bfloat16(even, odd, PTX: tl.constexpr):
    """Two numbers as pairs of bfloat16 in words: what they round to, and what that leaves."""
    high = _pack_bfloat16(even, odd, PTX)
    even -= (high << 16).to(tl.float32, bitcast=True)
    odd -= (high & -65536).to(tl.float32, bitcast=True)
    return high, _pack_bfloat16(even, odd, PTX)


@triton.jit
def round_to_tf32(x):
    """A number as tensor cores take it, with eleven bits; as a word."""
    return (x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000


@triton.jit
def _pack_bfloat16(even, odd, PTX: tl.constexpr):
    """Two numbers rounded to bfloat16, in one word, the even one below."""
    if PTX:
        word = tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;",
            "=r,f,f",
            [even, odd],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )
    else:
        low = even.to(tl.bfloat16).to(tl.uint16, bitcast=True).to(tl.uint32)
        high = odd.to(tl.bfloat16).to(tl.uint16, bitcast=True).to(tl.uint32)
        word = (low | (high << 16)).to(tl.int32, bitcast=True)
    return word


@triton.jit
def _exponential_products(x_ptr, row, group, t, rows, D, row_stride):
    """e^{2x} of a group, multiplied as a thread's two places want it, and the bits it takes."""
    d = group * GROUP_DIMS
    there = row < rows
    at = x_ptr + row.to(tl.int64) * row_stride + d
    x1 = tl.load(at, mask=there & (d < D), other=0).to(tl.float32)
    x2 = tl.load(at + 1, mask=there & (d + 1 < D), other=0).to(tl.float32)
    x3 = tl.load(at + 2, mask=there & (d + 2 < D), other=0).to(tl.float32)
    e1, e2, e3 = tl.exp2(x1 * (2 * LOG2E)), tl.exp2(x2 * (2 * LOG2E)), tl.exp2(x3 * (2 * LOG2E))
    even = tl.where(t % 2 == 1, e2, 1.0) * tl.where(t // 2 == 1, e3, 1.0)
    bits = (tl.abs(x1) + tl.abs(x2) + tl.abs(x3)) * (2 * LOG2E)
    odd_one_out = (x1 != x1) | (x2 != x2) | (x3 != x3)
    return even, even * e1, tl.where(odd_one_out, float("inf"), bits)


# fmt: off
@triton.jit(do_not_specialize=["rows", "tiles"])
def pack_factors_kernel(
    x_ptr, vector_ptr, to_ptr, beta_ptr, bits_ptr, heads, rows, D, groups, tiles,
    batch_stride, head_stride, row_stride,
    QUERIES: tl.constexpr, BLOCK: tl.constexpr, PTX: tl.constexpr,
):
    """Products of exponentials for 16 rows, packed as tensor cores take them, and their bits.

    To (tile, group, lane, 4): rounded to eleven bits for bfloat16; for float16, which has as many
    itself, of queries as float32, of keys as pairs of bfloat16, high and low. Products of the
    numerator carry besides the sum of the vector over what they leave out: beta (head, group, 8).
    `bits` starts at zero.
    """
    # fmt: on
    tile, bh = tl.program_id(0), tl.program_id(2).to(tl.int64)
    lane = tl.arange(0, 32)[None, :]
    t, row = lane % 4, tile * 16 + lane // 4
    x_ptr += (bh // heads) * batch_stride + (bh % heads) * head_stride
    group = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[:, None]
    even, odd, bits = _exponential_products(x_ptr, row, group, t, rows, D, row_stride)
    even8, odd8, bits8 = _exponential_products(x_ptr, row + 8, group, t, rows, D, row_stride)
    most = tl.maximum(bits, bits8)
    here = group < groups
    to = to_ptr + (((bh * tiles + tile) * groups + group) * 32 + lane) * 4
    PAIRS: tl.constexpr = x_ptr.dtype.element_ty.is_fp16()
    if not PAIRS:
        even, odd = round_to_tf32(even), round_to_tf32(odd)
        even8, odd8 = round_to_tf32(even8), round_to_tf32(odd8)
        _store4(to, even, odd, even8, odd8, here, PTX)
    elif QUERIES:
        a, b = even.to(tl.int32, bitcast=True), odd.to(tl.int32, bitcast=True)
        c, d = even8.to(tl.int32, bitcast=True), odd8.to(tl.int32, bitcast=True)
        _store4(to, a, b, c, d, here, PTX)
    else:
        high, low = split_bfloat16(even, odd, PTX)
        high8, low8 = split_bfloat16(even8, odd8, PTX)
        _store4(to, high, low, high8, low8, here, PTX)
    if QUERIES:
        v1, v2, v3 = _load_vector_group(vector_ptr + (bh % heads) * D, group, D)
        size = tl.abs(v1) + tl.abs(v2) + tl.abs(v3)
        most = tl.where(size <= MAX_GROUP_VECTOR_SUM, most, float("inf"))
        # the first lanes of the first tile have all eight
        rest = tl.where(t % 2 == 1, 0.0, v2) + tl.where(t // 2 == 1, 0.0, v3)
        at = beta_ptr + ((bh % heads) * groups + group) * 8 + t * 2
        once = here & (lane + 4 * (tile + bh // heads) < 4)
        tl.store(at, v1 + rest, mask=once)
        tl.store(at + 1, rest, mask=once)
    # a float that is not negative has the order of its bits; the largest is so in any turn
    bits_ptr += bh * tiles + tile
    tl.atomic_max(bits_ptr, tl.max(most).to(tl.int32, bitcast=True), sem="relaxed")


@triton.jit
def _load_vector_group(vector_ptr, group, D):
    """The vector's three numbers of a group."""
    d = group * GROUP_DIMS
    v1 = tl.load(vector_ptr + d, mask=d < D, other=0).to(tl.float32)
    v2 = tl.load(vector_ptr + d + 1, mask=d + 1 < D, other=0).to(tl.float32)
    v3 = tl.load(vector_ptr + d + 2, mask=d + 2 < D, other=0).to(tl.float32)
    return v1, v2, v3


@triton.jit
def _store4(ptr, a, b, c, d, mask, PTX: tl.constexpr):
    """Four words side by side."""
    if PTX:
        tl.inline_asm_elementwise(
            """{ .reg .pred p; setp.ne.s32 p, $6, 0;
@p st.global.v4.b32 [$1], {$2, $3, $4, $5}; mov.u32 $0, 0; }""",
            "=r,l,r,r,r,r,r",
            [ptr, a, b, c, d, mask.to(tl.int32)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
    else:
        tl.store(ptr, a, mask=mask)
        tl.store(ptr + 1, b, mask=mask)
        tl.store(ptr + 2, c, mask=mask)
        tl.store(ptr + 3, d, mask=mask)

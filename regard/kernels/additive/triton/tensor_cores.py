"""Additive scores on tensor cores: sums of numerators over denominators, from packed factors.

`pack.py` packs them; `docs/kernels.md` has the derivation.
"""

import triton
import triton.language as tl

from regard.kernels.additive.triton.memory import load1, load4, prefetch
from regard.kernels.additive.triton.pack import round_to_tf32, split_bfloat16

PREFETCH_GROUPS = tl.constexpr(2)  # how many groups ahead factors are fetched


@triton.jit
def _fraction(p0, p1, p2, p3, n0, n1, n2, n3, w0, w1, PAIRS: tl.constexpr):
    """Numerator and denominator of one group for 16 × 8 pairs, four a thread.

    Where PAIRS of bfloat16 make a factor, the product of what both leave is too small to matter.
    """
    if PAIRS:
        found = tl.inline_asm_elementwise(
            """{ .reg .f32 z; mov.f32 z, 0f00000000;
mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
 {$4, $5, $6, $7}, {$8, $9}, {$17}, {z, z, z, z};
mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
 {$0, $1, $2, $3}, {$12, $13}, {$17}, {z, z, z, z};
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
 {$4, $5, $6, $7}, {$8, $9, $10, $11}, {$16, $16}, {$4, $5, $6, $7};
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
 {$0, $1, $2, $3}, {$12, $13, $14, $15}, {$16, $16}, {$0, $1, $2, $3}; }""",
            "=&f,=&f,=&f,=&f,=&f,=&f,=&f,=&f,r,r,r,r,r,r,r,r,r,r",
            [p0, p1, p2, p3, n0, n1, n2, n3, w0, w1],
            dtype=(tl.float32,) * 8,
            is_pure=True,
            pack=1,
        )
    else:
        found = tl.inline_asm_elementwise(
            """{ .reg .f32 z; mov.f32 z, 0f00000000;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
 {$4, $5, $6, $7}, {$8, $9, $10, $11}, {$16, $17}, {z, z, z, z};
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
 {$0, $1, $2, $3}, {$12, $13, $14, $15}, {$16, $17}, {z, z, z, z}; }""",
            "=&f,=&f,=&f,=&f,=&f,=&f,=&f,=&f,r,r,r,r,r,r,r,r,r,r",
            [p0, p1, p2, p3, n0, n1, n2, n3, w0, w1],
            dtype=(tl.float32,) * 8,
            is_pure=True,
            pack=1,
        )
    return found


@triton.jit
def _add_quotients(s0, s1, s2, s3, n0, n1, n2, n3, d0, d1, d2, d3):
    """Sums, and numerators over denominators."""
    return tl.inline_asm_elementwise(
        """{ .reg .f32 a, b, c, d;
rcp.approx.ftz.f32 a, $12;
rcp.approx.ftz.f32 b, $13;
rcp.approx.ftz.f32 c, $14;
rcp.approx.ftz.f32 d, $15;
fma.rn.ftz.f32 $0, $8, a, $4;
fma.rn.ftz.f32 $1, $9, b, $5;
fma.rn.ftz.f32 $2, $10, c, $6;
fma.rn.ftz.f32 $3, $11, d, $7; }""",
        "=&f,=&f,=&f,=&f,f,f,f,f,f,f,f,f,f,f,f,f",
        [s0, s1, s2, s3, n0, n1, n2, n3, d0, d1, d2, d3],
        dtype=(tl.float32,) * 4,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _load_query_factors(u_ptr, beta_ptr, PAIRS: tl.constexpr):
    """A group's factors of 16 queries: the denominator's four words and the numerator's."""
    even, odd, even8, odd8 = load4(u_ptr, True)
    b0, b1 = load1(beta_ptr, True), load1(beta_ptr + 1, True)
    if PAIRS:
        p0, p2 = split_bfloat16(even, odd, True)
        p1, p3 = split_bfloat16(even8, odd8, True)
        n0, n2 = split_bfloat16(even * b0, odd * b1, True)
        n1, n3 = split_bfloat16(even8 * b0, odd8 * b1, True)
    else:
        p0, p2 = even.to(tl.int32, bitcast=True), odd.to(tl.int32, bitcast=True)
        p1, p3 = even8.to(tl.int32, bitcast=True), odd8.to(tl.int32, bitcast=True)
        n0, n2 = round_to_tf32(even * b0), round_to_tf32(odd * b1)
        n1, n3 = round_to_tf32(even8 * b0), round_to_tf32(odd8 * b1)
    return p0, p1, p2, p3, n0, n1, n2, n3


@triton.jit
def tensor_core_sums(
    u_ptr,
    w_ptr,
    beta_ptr,
    groups,
    WR: tl.constexpr,
    WC: tl.constexpr,
    MT: tl.constexpr,
    NP: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Σ_d vector[d] / (1 + e^{2(q + k)}) of a tile, in slots, from packed factors.

    A group is multiplied while the one before is divided and the one after is loaded.
    """
    T: tl.constexpr = WR * WC * 32
    thread = tl.arange(0, T)[None, None, :]
    warp, lane = thread // 32, thread % 32
    tile = (warp // WC) * MT + tl.arange(0, MT)[:, None, None]
    u_ptr += (tile.to(tl.int64) * groups * 32 + lane) * 4  # (MT, 1, T)
    tile = (warp % WC) * NP + tl.arange(0, NP)[None, :, None]
    w_ptr += (tile.to(tl.int64) * groups * 32 + lane) * 4  # (1, NP, T)
    beta_ptr += lane % 4 * 2
    zero = tl.zeros([MT, NP, T], tl.float32)
    x0, x1, x2, x3, y0, y1, y2, y3 = zero, zero, zero, zero, zero, zero, zero, zero
    # before the first group, nothing over one
    a0, a1, a2, a3, c0, c1, c2, c3 = zero, zero, zero, zero, zero, zero, zero, zero
    one = tl.full([MT, NP, T], 1.0, tl.float32)
    b0, b1, b2, b3, d0, d1, d2, d3 = one, one, one, one, one, one, one, one
    p0, p1, p2, p3, n0, n1, n2, n3 = _load_query_factors(u_ptr, beta_ptr, PAIRS)
    h0, l0, h1, l1 = load4(w_ptr, True)
    # two groups a turn, so that nothing is moved about; what is loaded last is not used
    for _ in range(0, groups, 2):
        # a tile's groups lie one after the other: the lanes of a warp share out two of them
        prefetch(u_ptr + (PREFETCH_GROUPS * 128 + lane * 4))
        prefetch(w_ptr + (PREFETCH_GROUPS * 128 + lane * 4))
        pp0, pp1, pp2, pp3, nn0, nn1, nn2, nn3 = _load_query_factors(
            u_ptr + 128, beta_ptr + 8, PAIRS
        )
        hh0, ll0, hh1, ll1 = load4(w_ptr + 128, True)
        x0, x1, x2, x3 = _add_quotients(x0, x1, x2, x3, a0, a1, a2, a3, b0, b1, b2, b3)
        y0, y1, y2, y3 = _add_quotients(y0, y1, y2, y3, c0, c1, c2, c3, d0, d1, d2, d3)
        a0, a1, a2, a3, b0, b1, b2, b3 = _fraction(p0, p1, p2, p3, n0, n1, n2, n3, h0, l0, PAIRS)
        c0, c1, c2, c3, d0, d1, d2, d3 = _fraction(p0, p1, p2, p3, n0, n1, n2, n3, h1, l1, PAIRS)
        u_ptr += 256
        w_ptr += 256
        beta_ptr += 16
        p0, p1, p2, p3, n0, n1, n2, n3 = _load_query_factors(u_ptr, beta_ptr, PAIRS)
        h0, l0, h1, l1 = load4(w_ptr, True)
        x0, x1, x2, x3 = _add_quotients(x0, x1, x2, x3, a0, a1, a2, a3, b0, b1, b2, b3)
        y0, y1, y2, y3 = _add_quotients(y0, y1, y2, y3, c0, c1, c2, c3, d0, d1, d2, d3)
        a0, a1, a2, a3, b0, b1, b2, b3 = _fraction(
            pp0, pp1, pp2, pp3, nn0, nn1, nn2, nn3, hh0, ll0, PAIRS
        )
        c0, c1, c2, c3, d0, d1, d2, d3 = _fraction(
            pp0, pp1, pp2, pp3, nn0, nn1, nn2, nn3, hh1, ll1, PAIRS
        )
    x0, x1, x2, x3 = _add_quotients(x0, x1, x2, x3, a0, a1, a2, a3, b0, b1, b2, b3)
    y0, y1, y2, y3 = _add_quotients(y0, y1, y2, y3, c0, c1, c2, c3, d0, d1, d2, d3)
    x = tl.join(tl.join(x0, x1), tl.join(x2, x3))
    y = tl.join(tl.join(y0, y1), tl.join(y2, y3))
    # (MT, NP, T, parity, half, n-tile) to (half, n-tile and parity, MT, NP, T)
    return tl.join(x, y).permute(4, 5, 3, 0, 1, 2).reshape([2, 4, MT, NP, T])


@triton.jit
def emulated_tensor_core_sums(u_ptr, w_ptr, beta_ptr, groups, row, col, PAIRS: tl.constexpr):
    """What `tensor_core_sums` computes, pair by pair: its twin where there is no tensor core."""
    u_ptr += ((row // 16) * groups * 32 + (row % 8) * 4) * 4 + (row % 16) // 8 * 2
    w_ptr += ((col // 16) * groups * 32 + (col % 8) * 4) * 4 + (col % 16) // 8 * 2
    total = tl.zeros_like(row + col).to(tl.float32)
    for _ in range(groups):
        above, below = tl.zeros_like(total), tl.zeros_like(total)
        for k in tl.static_range(8):
            u = tl.load(u_ptr + k // 2 * 4 + k % 2)
            n = u * tl.load(beta_ptr + k)
            if PAIRS:
                w = _load_bfloat16(w_ptr + k // 2 * 4, k) + _load_bfloat16(
                    w_ptr + k // 2 * 4 + 1, k
                )
            else:
                w = tl.load(w_ptr + k // 2 * 4 + k % 2).to(tl.float32, bitcast=True)
                n = round_to_tf32(n).to(tl.float32, bitcast=True)
            below += u * w
            above += n * w
        total += above / below
        u_ptr += 128
        w_ptr += 128
        beta_ptr += 8
    return total


@triton.jit
def _load_bfloat16(ptr, k: tl.constexpr):
    """One of the two bfloat16 numbers of a word."""
    word = tl.load(ptr)
    word = word << 16 if k % 2 == 0 else word & -65536
    return word.to(tl.float32, bitcast=True)

"""The scores of one tile of additive attention: `Σ_d vector[d] · tanh(q[i, d] + k[j, d])`.

The twin is `regard.functional.scores.Additive`. Two forms, chosen tile by tile: products of
exponentials on tensor cores for half precision, where their range allows; tanh itself elsewhere.
Derivation, range and what was tried: `docs/kernels.md`.
"""

import triton
import triton.language as tl

from regard.kernels.additive_factors import LOG2E, split

# PTX is False in Triton's interpreter, which runs no assembly.
# What the exponents of three dimensions may add up to, so that no product of theirs overflows; and
# at least, so that the last digits of such products do not show where scores hardly differ.
BITS, TINY = tl.constexpr(116.0), tl.constexpr(2.0)
AHEAD = tl.constexpr(2)  # how many groups ahead factors are fetched
# tanh(x) = x + x³ (SMALL_0 + SMALL_1 x² + …) for |x| < 0.55
SMALL_0 = tl.constexpr(-0.3333331346511841)
SMALL_1 = tl.constexpr(0.13332480192184448)
SMALL_2 = tl.constexpr(-0.0538405105471611)
SMALL_3 = tl.constexpr(0.021020513027906418)
SMALL_4 = tl.constexpr(-0.006198660936206579)


@triton.jit
def load4(ptr, PTX: tl.constexpr):
    """Four neighbouring 32-bit words at once; plain loads would choose a layout of their own."""
    if PTX:
        return tl.inline_asm_elementwise(
            "ld.global.v4.b32 {$0, $1, $2, $3}, [$4];",
            "=r,=r,=r,=r,l",
            [ptr],
            dtype=(ptr.dtype.element_ty,) * 4,
            is_pure=True,
            pack=1,
        )
    return tl.load(ptr), tl.load(ptr + 1), tl.load(ptr + 2), tl.load(ptr + 3)


@triton.jit
def load1(ptr, PTX: tl.constexpr):
    """One word each, where it is wanted: in the layout of what uses it."""
    BITS: tl.constexpr = ptr.dtype.element_ty.primitive_bitwidth
    if PTX and BITS == 64:
        found = tl.inline_asm_elementwise(
            "ld.global.b64 $0, [$1];",
            "=l,l",
            [ptr],
            dtype=ptr.dtype.element_ty,
            is_pure=True,
            pack=1,
        )
    elif PTX and BITS == 32:
        found = tl.inline_asm_elementwise(
            "ld.global.b32 $0, [$1];",
            "=r,l",
            [ptr],
            dtype=ptr.dtype.element_ty,
            is_pure=True,
            pack=1,
        )
    elif PTX and BITS == 16:
        found = tl.inline_asm_elementwise(
            "ld.global.b16 $0, [$1];",
            "=h,l",
            [ptr],
            dtype=ptr.dtype.element_ty,
            is_pure=True,
            pack=1,
        )
    elif PTX and BITS == 8:
        found = tl.inline_asm_elementwise(
            "ld.global.u8 $0, [$1];", "=r,l", [ptr], dtype=tl.int32, is_pure=True, pack=1
        )
    else:
        found = tl.load(ptr)
    return found


@triton.jit
def fetch(ptr):
    """Bring a line of memory near, without waiting for it."""
    tl.inline_asm_elementwise(
        "prefetch.global.L1 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [ptr],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def product(a, b, total, PRECISION: tl.constexpr, PTX: tl.constexpr):
    """a @ b + total; the interpreter knows no bfloat16 product."""
    if PTX:
        return tl.dot(a, b, total, input_precision=PRECISION)
    return tl.dot(a.to(tl.float32), b.to(tl.float32), total)


@triton.jit
def reciprocal(x, PTX: tl.constexpr):
    """1 / x to about one unit in the last place."""
    if PTX:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1 / x


@triton.jit
def tanh(x, PTX: tl.constexpr):
    """tanh of any x to about two units in the last place."""
    far = tl.abs(x)
    large = 1 - 2 * reciprocal(tl.exp2(tl.minimum(far, 30.0) * (2 * LOG2E)) + 1, PTX)
    # near zero that difference would lose digits: an odd polynomial, fitted to |x| < 0.55
    s = x * x
    small = SMALL_4 * s + SMALL_3
    small = ((small * s + SMALL_2) * s + SMALL_1) * s + SMALL_0
    small = small * s * far + far
    sized = tl.where(far < 0.55, small, large)
    return tl.where(x != x, x, tl.where(x < 0, -sized, sized))


@triton.jit
def bent(x, EXACT: tl.constexpr, PTX: tl.constexpr):
    """tanh(x) if EXACT, else tanh(x) − 1: the softmax does not see what all keys have less."""
    if EXACT:
        return tanh(x, PTX)
    return -2 * reciprocal(tl.exp2(x * (2 * LOG2E)) + 1, PTX)


@triton.jit
def _fraction(p0, p1, p2, p3, n0, n1, n2, n3, high, low):
    """Numerator and denominator of one group for 16 × 8 pairs, four a thread.

    Two bfloat16 make a factor; the product of what both leave is too small to matter.
    """
    return tl.inline_asm_elementwise(
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
        [p0, p1, p2, p3, n0, n1, n2, n3, high, low],
        dtype=(tl.float32,) * 8,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _added(s0, s1, s2, s3, n0, n1, n2, n3, d0, d1, d2, d3):
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
def _queries(u_ptr, beta_ptr):
    """A group's factors of 16 queries: the denominator's and the numerator's, highs and lows."""
    even, odd, even8, odd8 = load4(u_ptr, True)
    b0, b1 = load1(beta_ptr, True), load1(beta_ptr + 1, True)
    p0, p2 = split(even, odd, True)
    p1, p3 = split(even8, odd8, True)
    n0, n2 = split(even * b0, odd * b1, True)
    n1, n3 = split(even8 * b0, odd8 * b1, True)
    return p0, p1, p2, p3, n0, n1, n2, n3


@triton.jit
def on_cores(
    u_ptr,
    w_ptr,
    beta_ptr,
    groups,
    WR: tl.constexpr,
    WC: tl.constexpr,
    MT: tl.constexpr,
    NP: tl.constexpr,
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
    p0, p1, p2, p3, n0, n1, n2, n3 = _queries(u_ptr, beta_ptr)
    h0, l0, h1, l1 = load4(w_ptr, True)
    # two groups a turn, so that nothing is moved about; what is loaded last is not used
    for _ in range(0, groups, 2):
        # a tile's groups lie one after the other: the lanes of a warp share out two of them
        fetch(u_ptr + (AHEAD * 128 + lane * 4))
        fetch(w_ptr + (AHEAD * 128 + lane * 4))
        pp0, pp1, pp2, pp3, nn0, nn1, nn2, nn3 = _queries(u_ptr + 128, beta_ptr + 8)
        hh0, ll0, hh1, ll1 = load4(w_ptr + 128, True)
        x0, x1, x2, x3 = _added(x0, x1, x2, x3, a0, a1, a2, a3, b0, b1, b2, b3)
        y0, y1, y2, y3 = _added(y0, y1, y2, y3, c0, c1, c2, c3, d0, d1, d2, d3)
        a0, a1, a2, a3, b0, b1, b2, b3 = _fraction(p0, p1, p2, p3, n0, n1, n2, n3, h0, l0)
        c0, c1, c2, c3, d0, d1, d2, d3 = _fraction(p0, p1, p2, p3, n0, n1, n2, n3, h1, l1)
        u_ptr += 256
        w_ptr += 256
        beta_ptr += 16
        p0, p1, p2, p3, n0, n1, n2, n3 = _queries(u_ptr, beta_ptr)
        h0, l0, h1, l1 = load4(w_ptr, True)
        x0, x1, x2, x3 = _added(x0, x1, x2, x3, a0, a1, a2, a3, b0, b1, b2, b3)
        y0, y1, y2, y3 = _added(y0, y1, y2, y3, c0, c1, c2, c3, d0, d1, d2, d3)
        a0, a1, a2, a3, b0, b1, b2, b3 = _fraction(pp0, pp1, pp2, pp3, nn0, nn1, nn2, nn3, hh0, ll0)
        c0, c1, c2, c3, d0, d1, d2, d3 = _fraction(pp0, pp1, pp2, pp3, nn0, nn1, nn2, nn3, hh1, ll1)
    x0, x1, x2, x3 = _added(x0, x1, x2, x3, a0, a1, a2, a3, b0, b1, b2, b3)
    y0, y1, y2, y3 = _added(y0, y1, y2, y3, c0, c1, c2, c3, d0, d1, d2, d3)
    x = tl.join(tl.join(x0, x1), tl.join(x2, x3))
    y = tl.join(tl.join(y0, y1), tl.join(y2, y3))
    # (MT, NP, T, parity, half, n-tile) to (half, n-tile and parity, MT, NP, T)
    return tl.join(x, y).permute(4, 5, 3, 0, 1, 2).reshape([2, 4, MT, NP, T])


@triton.jit
def in_words(u_ptr, w_ptr, beta_ptr, groups, row, col):
    """What `on_cores` computes, pair by pair: its twin where there is no tensor core."""
    u_ptr += ((row // 16) * groups * 32 + (row % 8) * 4) * 4 + (row % 16) // 8 * 2
    w_ptr += ((col // 16) * groups * 32 + (col % 8) * 4) * 4 + (col % 16) // 8 * 2
    total = tl.zeros_like(row + col).to(tl.float32)
    for _ in range(groups):
        above, below = tl.zeros_like(total), tl.zeros_like(total)
        for k in tl.static_range(8):
            w = _half(w_ptr + k // 2 * 4, k) + _half(w_ptr + k // 2 * 4 + 1, k)
            product = tl.load(u_ptr + k // 2 * 4 + k % 2) * w
            below += product
            above += product * tl.load(beta_ptr + k)
        total += above / below
        u_ptr += 128
        w_ptr += 128
        beta_ptr += 8
    return total


@triton.jit
def _half(ptr, k: tl.constexpr):
    """One of the two bfloat16 numbers of a word."""
    word = tl.load(ptr)
    word = word << 16 if k % 2 == 0 else word & -65536
    return word.to(tl.float32, bitcast=True)


@triton.jit
def _numbers(word, at: tl.constexpr, DTYPE: tl.constexpr):
    """Number `at` of those in a word, as float32."""
    BITS: tl.constexpr = DTYPE.primitive_bitwidth
    if BITS == 32:
        found = word.to(tl.float32, bitcast=True)
    elif DTYPE.is_bf16():
        found = (word << 16 if at == 0 else word & -65536).to(tl.float32, bitcast=True)
    else:
        found = (word >> (16 * at)).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    return found


@triton.jit
def _kept(total, lost, more, EXACT: tl.constexpr):
    """total + more; if EXACT, with what that loses kept for the next time (Kahan 1965)."""
    if EXACT:
        more -= lost
        new = total + more
        lost = (new - total) - more
    else:
        new = total + more
    return new, lost


@triton.jit
def plainly(
    q_ptr, k_ptr, vector_ptr, D, EXACT: tl.constexpr, ALIGNED: tl.constexpr, PTX: tl.constexpr
):
    """Σ_d vector[d] · tanh(q + k), in slots, from pointers to rows and to keys.

    Added up in short runs, which keeps the last digits. ALIGNED rows are read four words at a time.
    """
    total = (q_ptr.to(tl.int64) + k_ptr.to(tl.int64)).to(tl.float32) * 0
    lost = total
    if ALIGNED:
        DTYPE: tl.constexpr = q_ptr.dtype.element_ty
        EACH: tl.constexpr = 32 // DTYPE.primitive_bitwidth  # numbers a word
        for d in range(0, D, 4 * EACH):
            q = load4((q_ptr + d).to(tl.pointer_type(tl.int32), bitcast=True), PTX)
            k = load4((k_ptr + d).to(tl.pointer_type(tl.int32), bitcast=True), PTX)
            run = tl.zeros_like(total)
            for word in tl.static_range(4):
                for at in tl.static_range(EACH):
                    x = _numbers(q[word], at, DTYPE) + _numbers(k[word], at, DTYPE)
                    v = tl.load(vector_ptr + d + word * EACH + at).to(tl.float32)
                    run += v * bent(x, EXACT, PTX)
            total, lost = _kept(total, lost, run, EXACT)
    else:
        for first in range(0, D, 8):
            run = tl.zeros_like(total)
            for d in range(first, tl.minimum(first + 8, D)):
                x = load1(q_ptr + d, PTX).to(tl.float32) + load1(k_ptr + d, PTX).to(tl.float32)
                run += tl.load(vector_ptr + d).to(tl.float32) * bent(x, EXACT, PTX)
            total, lost = _kept(total, lost, run, EXACT)
    return total


# fmt: off
@triton.jit
def scores(
    q_ptr, k_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
    base, tile, start, row, col, Q, K, D, groups, q_stride, k_stride,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr,
    ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """The scores of queries from `base + tile` on with keys from `start` on, in slots.

    The factors u begin at the query `base`. In half precision each row of scores is less by the sum
    of the vector, as in `bent`.
    """
    # fmt: on
    EXACT: tl.constexpr = q_ptr.dtype.element_ty == tl.float32
    # past the end the last row stands in, and is hidden later
    q_ptr += tl.minimum(base + tile + row, Q - 1).to(tl.int64) * q_stride
    k_ptr += tl.minimum(start + col, K - 1).to(tl.int64) * k_stride
    if u_ptr is None:
        found = plainly(q_ptr, k_ptr, vector_ptr, D, EXACT, ALIGNED, PTX)
    else:
        bits = tl.max(tl.load(u_bits_ptr + tile // 16 + tl.arange(0, WR * MT)))
        bits += tl.max(tl.load(w_bits_ptr + start // 16 + tl.arange(0, WC * NP)))
        if (bits <= BITS) & (bits >= TINY):
            u_ptr += tl.full([], tile // 16, tl.int64) * groups * 128
            w_ptr += tl.full([], start // 16, tl.int64) * groups * 128
            if PTX:
                found = -2 * on_cores(u_ptr, w_ptr, beta_ptr, groups, WR, WC, MT, NP)
            else:
                found = -2 * in_words(u_ptr, w_ptr, beta_ptr, groups, row, col)
        else:
            found = plainly(q_ptr, k_ptr, vector_ptr, D, False, ALIGNED, PTX)
    return found

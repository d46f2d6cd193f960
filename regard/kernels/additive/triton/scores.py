"""The scores of one tile of additive attention: `Σ_d vector[d] · tanh(q[i, d] + k[j, d])`.

The twin is `regard.functional.scores.Additive`. Two forms, chosen tile by tile: products of
exponentials on tensor cores for half precision, where their range allows; tanh itself elsewhere.
Derivation, range and what was tried: `docs/kernels.md`.
"""

import triton
import triton.language as tl

from regard.kernels.additive.triton.memory import load1, load4
from regard.kernels.additive.triton.pack import LOG2E
from regard.kernels.additive.triton.tensor_cores import (
    emulated_tensor_core_sums,
    tensor_core_sums,
)

# PTX is False in Triton's interpreter, which runs no assembly.
# What the exponents of three dimensions may add up to, so that no product of theirs overflows; and
# at least, so that the last digits of such products do not show where scores hardly differ: with
# pairs of bfloat16, and with eleven bits.
MAX_EXPONENT_BITS, MIN_EXPONENT_BITS_PAIRS, MIN_EXPONENT_BITS = (
    tl.constexpr(116.0),
    tl.constexpr(0.5),
    tl.constexpr(2.0),
)
# tanh(x) = x + x³ (SMALL_0 + SMALL_1 x² + …) for |x| < 0.55
TANH_POLY_0 = tl.constexpr(-0.3333331346511841)
TANH_POLY_1 = tl.constexpr(0.13332480192184448)
TANH_POLY_2 = tl.constexpr(-0.0538405105471611)
TANH_POLY_3 = tl.constexpr(0.021020513027906418)
TANH_POLY_4 = tl.constexpr(-0.006198660936206579)


@triton.jit
def dot_add(a, b, total, PRECISION: tl.constexpr, PTX: tl.constexpr):
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
    small = TANH_POLY_4 * s + TANH_POLY_3
    small = ((small * s + TANH_POLY_2) * s + TANH_POLY_1) * s + TANH_POLY_0
    small = small * s * far + far
    sized = tl.where(far < 0.55, small, large)
    return tl.where(x != x, x, tl.where(x < 0, -sized, sized))


@triton.jit
def shifted_tanh(x, EXACT: tl.constexpr, PTX: tl.constexpr):
    """tanh(x) if EXACT, else tanh(x) − 1: the softmax does not see what all keys have less."""
    if EXACT:
        return tanh(x, PTX)
    return -2 * reciprocal(tl.exp2(x * (2 * LOG2E)) + 1, PTX)


@triton.jit
def _unpack_float(word, at: tl.constexpr, DTYPE: tl.constexpr):
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
def _kahan_add(total, lost, more, EXACT: tl.constexpr):
    """total + more; if EXACT, with what that loses kept for the next time (Kahan 1965)."""
    if EXACT:
        more -= lost
        new = total + more
        lost = (new - total) - more
    else:
        new = total + more
    return new, lost


@triton.jit
def scores_by_tanh(
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
                    x = _unpack_float(q[word], at, DTYPE) + _unpack_float(k[word], at, DTYPE)
                    v = tl.load(vector_ptr + d + word * EACH + at).to(tl.float32)
                    run += v * shifted_tanh(x, EXACT, PTX)
            total, lost = _kahan_add(total, lost, run, EXACT)
    else:
        for first in range(0, D, 8):
            run = tl.zeros_like(total)
            for d in range(first, tl.minimum(first + 8, D)):
                x = load1(q_ptr + d, PTX).to(tl.float32) + load1(k_ptr + d, PTX).to(tl.float32)
                run += tl.load(vector_ptr + d).to(tl.float32) * shifted_tanh(x, EXACT, PTX)
            total, lost = _kahan_add(total, lost, run, EXACT)
    return total


# fmt: off
@triton.jit
def tile_scores(
    q_ptr, k_ptr, vector_ptr, u_ptr, w_ptr, beta_ptr, u_bits_ptr, w_bits_ptr,
    base, tile, start, row, col, Q, K, D, groups, q_stride, k_stride,
    WR: tl.constexpr, WC: tl.constexpr, MT: tl.constexpr, NP: tl.constexpr,
    ALIGNED: tl.constexpr, PTX: tl.constexpr,
):
    """The scores of queries from `base + tile` on with keys from `start` on, in slots.

    The factors u begin at the query `base`. In half precision each row of scores is less by the sum
    of the vector, as in `shifted_tanh`.
    """
    # fmt: on
    EXACT: tl.constexpr = q_ptr.dtype.element_ty == tl.float32
    # past the end the last row stands in, and is hidden later
    q_ptr += tl.minimum(base + tile + row, Q - 1).to(tl.int64) * q_stride
    k_ptr += tl.minimum(start + col, K - 1).to(tl.int64) * k_stride
    if u_ptr is None:
        found = scores_by_tanh(q_ptr, k_ptr, vector_ptr, D, EXACT, ALIGNED, PTX)
    else:
        bits = tl.max(tl.load(u_bits_ptr + tile // 16 + tl.arange(0, WR * MT)))
        bits += tl.max(tl.load(w_bits_ptr + start // 16 + tl.arange(0, WC * NP)))
        PAIRS: tl.constexpr = q_ptr.dtype.element_ty.is_fp16()
        least: tl.constexpr = MIN_EXPONENT_BITS_PAIRS if PAIRS else MIN_EXPONENT_BITS
        if (bits <= MAX_EXPONENT_BITS) & (bits >= least):
            u_ptr += tl.full([], tile // 16, tl.int64) * groups * 128
            w_ptr += tl.full([], start // 16, tl.int64) * groups * 128
            if PTX:
                found = -2 * tensor_core_sums(u_ptr, w_ptr, beta_ptr, groups, WR, WC, MT, NP, PAIRS)
            else:
                found = -2 * emulated_tensor_core_sums(
                    u_ptr, w_ptr, beta_ptr, groups, row, col, PAIRS
                )
        else:
            found = scores_by_tanh(q_ptr, k_ptr, vector_ptr, D, False, ALIGNED, PTX)
    return found

"""How kernels of additive attention reach memory where plain loads would not do."""

import triton
import triton.language as tl


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
def prefetch(ptr):
    """Bring a line of memory near, without waiting for it."""
    tl.inline_asm_elementwise(
        "prefetch.global.L1 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [ptr],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )

"""Judge an approximate computation by the best that plain PyTorch does at the same precision."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def assert_as_good_as(
    ours: Callable[..., Tensor], plain: Callable[..., Tensor], *inputs: Tensor, slack: float = 2.0
) -> None:
    """Outputs and gradients of `ours` err at most `slack` times what `plain` errs, in its dtype.

    The truth is `plain` in float64, so the inputs must be of a smaller dtype.
    """
    dtype = inputs[0].dtype
    assert dtype != torch.float64, "the oracle's truth is float64; use torch.testing.assert_close"
    truth = _run(plain, [x.double() for x in inputs], dtype)
    mine, theirs = _run(ours, inputs, dtype), _run(plain, inputs, dtype)
    names = ["output", *(f"gradient of input {i}" for i in range(len(inputs)))]
    for name, exact, a, b in zip(names, truth, mine, theirs, strict=True):
        assert a.dtype == b.dtype, f"{name}: {a.dtype}, plain has {b.dtype}"
        assert a.shape == exact.shape, f"{name}: {tuple(a.shape)}, plain has {tuple(exact.shape)}"
        if exact.numel() == 0:
            continue
        error, allowed = (a.double() - exact).abs().max(), (b.double() - exact).abs().max()
        assert allowed.isfinite(), f"{name}: plain itself is not finite, so it cannot judge"
        floor = torch.finfo(dtype).eps * exact.abs().max()
        assert error <= slack * allowed + floor, f"{name}: {error:.1e} off, plain is {allowed:.1e}"


def _run(fn: Callable[..., Tensor], inputs: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The output and the gradient of each input; zeros for an input that has no part in it."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = fn(*leaves)
    if not out.requires_grad:
        return [out, *map(torch.zeros_like, inputs)]
    fixed = torch.Generator().manual_seed(1)
    # Rounded first: were only the small dtype's direction rounded, its error would hide ours.
    direction = torch.randn(out.shape, generator=fixed).to(dtype).to(out)
    grads = torch.autograd.grad(out, leaves, direction, materialize_grads=True)
    return [out.detach(), *grads]

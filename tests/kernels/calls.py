"""Calls of additive attention that a fused kernel is held to, and what plain PyTorch says of them.

Imported only where Triton is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import attend, scores
from regard.functional.call import repeat_kv_heads
from regard.functional.rules import Rule, bind, dense
from regard.kernels import mask_spec
from regard.kernels.additive import api as additive
from regard.kernels.additive import launch as additive_launch
from regard.kernels.additive import plan as additive_plan
from regard.kernels.additive.plan import Plan, Tile
from regard.kernels.mask_spec import MaskSpec

# How the kernels run on CPU tensors: through Triton's interpreter, which tests/conftest.py switches
# on where there is no card. On a card test_additive_gpu.py runs them.
INTERPRETED = pytest.mark.skipif(
    additive_launch.PTX, reason="needs Triton's interpreter, which is off where there is a card"
)
# Infinities are meant.
QUIET = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")


@contextmanager
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tiles of 32 queries and 16 keys, factors packed and bands gone through for calls so small."""
    change(
        monkeypatch,
        TENSOR_CORE_MIN_TERMS=0,
        SMALL_MAX_LENGTH=0,
        tile=Tile(1, 1, 2, 1),
        launch=_roomy(Plan.launch),
    )
    yield
    additive_plan._make_plan.cache_clear()


def _roomy(run: Callable[..., None]) -> Callable[..., None]:
    """The same function, with room for the frames of all that it calls.

    Python has frames in chunks of 16 KB, and maps a new one whenever a call goes past the end: if
    that is where the interpreter calls most, it takes twice as long. A frame of more than 128 KB
    gets a chunk of 256 KB, and leaves the rest of it to the others.
    """

    def wide(*args: Any, **options: Any) -> None:
        return run(*args, **options)

    wide.__code__ = wide.__code__.replace(co_stacksize=1 << 14)
    return wide


def change(monkeypatch: pytest.MonkeyPatch, **constants: Any) -> None:
    """Change how kernels are launched; what was planned before is forgotten."""
    for name, value in constants.items():
        homes = (Plan, additive_plan, additive_launch)
        monkeypatch.setattr(next(x for x in homes if hasattr(x, name)), name, value)
    additive_plan._make_plan.cache_clear()


def inputs(
    B: int = 1,
    H: int = 1,
    Q: int = 5,
    K: int = 7,
    D: int = 8,
    *,
    Dv: int = 8,
    groups: int | None = None,
    **made: Any,
) -> list[Tensor]:
    """q, k, v and vector; `made` says of which dtype, and on which device."""
    shapes = (B, H, Q, D), (B, groups or H, K, D), (B, groups or H, K, Dv), (H, D)
    return [torch.randn(shape).to(**made) if made else torch.randn(shape) for shape in shapes]


def sight(rule: Rule | Tensor | None, q: Tensor, k: Tensor) -> MaskSpec:
    """The rule as the kernels take it."""
    full = (*q.shape[:3], k.shape[2])
    return mask_spec.from_rule(None if rule is None else bind(rule, *full), q, k)


def fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    vector: Tensor,
    bias: Tensor | None = None,
    *,
    rule: Rule | Tensor | None = None,
) -> Tensor:
    """What the kernels say is read."""
    return additive.attention(q, k, v, vector=vector, spec=sight(rule, q, k), bias=bias)


def plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    vector: Tensor,
    bias: Tensor | None = None,
    *,
    rule: Rule | Tensor | None = None,
) -> Tensor:
    """Additive attention as one writes it, all of it in the dtype of its inputs."""
    scores = plain_scores(q, k, vector, bias)
    v = repeat_kv_heads(v, q.shape[1])
    if rule is None:
        return scores.softmax(-1) @ v
    shown = dense(rule, *scores.shape, device=q.device)
    blind = ~shown.any(-1, keepdim=True)
    scores = scores.masked_fill(~shown, -torch.inf).masked_fill(blind, 0)
    return scores.softmax(-1).masked_fill(blind, 0) @ v


def plain_scores(q: Tensor, k: Tensor, vector: Tensor, bias: Tensor | None = None) -> Tensor:
    """`vector · tanh(q + k)`, plus the bias, in the dtype of q."""
    k = repeat_kv_heads(k, q.shape[1])
    hidden = torch.tanh(q[:, :, :, None] + k[:, :, None])  # (B, H, Q, K, D)
    scores = (hidden @ vector.to(q)[:, None, :, None])[..., 0]
    return scores if bias is None else scores + bias.to(q)


def everything(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    vector: Tensor,
    *bias: Tensor,
    direction: float | None = None,
    **asked: Any,
) -> list[Tensor]:
    """The kernels' output and gradients of all inputs, in a direction that is always the same."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v, vector, *bias)]
    out = fused(*leaves, **asked)
    fixed = torch.Generator().manual_seed(1)
    towards = torch.randn(out.shape, generator=fixed) if direction is None else direction
    return [out, *torch.autograd.grad(out, leaves, torch.as_tensor(towards).to(out).expand_as(out))]


def compiled_and_not(leaves: list[Tensor], rule: Any) -> list[list[Tensor]]:
    """What is read, and the gradients of all it is made of: compiled whole, and as it is."""

    def read(q: Tensor, k: Tensor, v: Tensor, vector: Tensor) -> Tensor:
        return attend(q, k, v, score=scores.Additive(vector), rule=rule)

    found = []
    for run in (torch.compile(read, fullgraph=True), read):
        out = run(*leaves)
        found.append([out, *torch.autograd.grad(out, leaves, torch.ones_like(out))])
    return found

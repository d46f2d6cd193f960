"""Dot-product attention under rules that stay functions: the twin of `functional.attention`.

PyTorch's FlexAttention compiles the rule into its kernel and skips blocks of keys that no query of
a block may see. It needs a GPU to be fast and to have gradients; on a CPU it runs forward, unfused.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.functional import biases
from regard.functional.call import Call, repeat_kv_heads, tensors_of
from regard.functional.rules import (
    Around,
    At,
    Causal,
    DenseMask,
    Documents,
    Padding,
    Prefix,
    Rule,
    Window,
    causal,
    index_grid,
    leaf_rules,
)
from regard.functional.scores import DOT_PRODUCT_SCORES
from regard.functional.selects import softmax

if TYPE_CHECKING:  # it takes a second to import, so it is only where it runs
    from torch.nn.attention.flex_attention import BlockMask

# Asked once, since no compiler follows the question.
_HAS_TRITON = find_spec("triton") is not None
# How many pairs of a query and a key make up for the seconds it takes to compile.
MIN_PAIRS_TO_COMPILE = 1 << 22
# Rules and biases that are compiled once, however often they are made.
COMPILE_ONCE_TYPES = (Causal, Window, Prefix, Padding, Documents, At, biases.Alibi, biases.Relative)
# Rules that are no more than the numbers and tensors in them; any other may have a state.
STATELESS_RULES = (Causal, Window, Prefix, Padding, Documents, Around, At, DenseMask)
# Block masks made lately, and which keys are seen at all: a training step asks for them again.
BLOCK_MASK_CACHE_SIZE = 32
_block_mask_cache: OrderedDict[Any, tuple["BlockMask", Tensor | None]] = OrderedDict()


def why_not(call: Call) -> str | None:
    """The reason this cannot run the call, or None if it can."""
    q = call.q
    if call.select is not softmax:
        return "only the softmax is fused"
    if not isinstance(call.score, DOT_PRODUCT_SCORES):
        return "only dot, scaled_dot, Cosine, General and Location fold into a dot product"
    if call.dropout:
        return "flex attention has no dropout"
    if q.dtype == torch.float64:
        return "flex attention has no float64"
    if q.device.type == "cpu" and _needs_gradient(call):
        return "flex attention has no backward on a CPU"
    if q.device.type not in ("cpu", "cuda"):
        return f"flex attention does not run on {q.device.type}"
    return None


def _needs_gradient(call: Call) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors_of(call))


def is_profitable(call: Call) -> bool:
    """Whether this is worth compiling: on a GPU, for many pairs, under a rule that stays one."""
    _, _, Q, K = call.sizes
    if call.q.device.type != "cuda" or Q * K < MIN_PAIRS_TO_COMPILE or not has_triton():
        return False
    functions = [*leaf_rules(call.rule), *([] if call.bias is None else [call.bias])]
    if not all(isinstance(f, COMPILE_ONCE_TYPES) for f in functions) or all(
        f == causal for f in functions
    ):
        return False
    return not any(x.requires_grad for x in tensors_of((call.rule, call.bias)))


def attention(call: Call) -> Tensor:
    """What each query reads (B, H, Q, Dv)."""
    from torch.nn.attention.flex_attention import flex_attention

    assert isinstance(call.score, DOT_PRODUCT_SCORES)
    q, k, scale = call.score.fold(call.q, call.k)
    v = call.v
    if k.shape[1] != v.shape[1]:
        k, v = repeat_kv_heads(k, q.shape[1]), repeat_kv_heads(v, q.shape[1])
    mask = None
    if call.rule is not None:
        mask, reached = _block_mask(call)
        if reached is not None:
            if reached.shape[1] > 1:
                k, v = repeat_kv_heads(k, q.shape[1]), repeat_kv_heads(v, q.shape[1])
            k, v = k.where(reached[..., None], 0), v.where(reached[..., None], 0)
    fused = q.device.type == "cuda" and not torch.compiler.is_compiling()
    run = (
        _compiled_kernel(_compile_key(call.rule), _compile_key(call.bias))
        if fused
        else flex_attention
    )
    return run(q, k, v, _score_mod(call), mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def has_triton() -> bool:
    """Whether Triton is installed; it is not imported for that."""
    return _HAS_TRITON


@lru_cache(maxsize=64)
def _compiled_kernel(rule: Any, bias: Any) -> Any:
    """A compiled kernel for each kind of rule and bias.

    PyTorch compiles one function only so often, then runs it unfused without a word. So each kind
    gets a function of its own, and running out is an error.
    """

    from torch.nn.attention.flex_attention import flex_attention

    def attend_flex(*args: Any, **kwargs: Any) -> Tensor:
        return flex_attention(*args, **kwargs)

    attend_flex.__code__ = attend_flex.__code__.replace(co_name=f"flex_{abs(hash((rule, bias))):x}")
    return torch.compile(attend_flex, fullgraph=True)


def _compile_key(rule: Any) -> Any:
    """What a rule or bias compiles to, whatever the tensors in it hold."""
    if isinstance(rule, Tensor):
        return Tensor
    if isinstance(rule, tuple):
        return tuple(map(_compile_key, rule))
    if is_dataclass(rule):
        return (type(rule), *(_compile_key(getattr(rule, f.name)) for f in fields(rule)))
    return getattr(rule, "__code__", rule)


def _score_mod(call: Call) -> Callable[..., Tensor] | None:
    if call.bias is None:
        return None
    offset, bias = call.k.shape[2] - call.q.shape[2], call.bias

    def add_bias(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return score + bias(b, h, q + offset, k)

    return add_bias


def _block_mask(call: Call) -> tuple["BlockMask", Tensor | None]:
    """The rule as blocks, and which keys anyone sees (B, H, K), None if all; kept by rule."""
    assert call.rule is not None
    sizes, device = call.sizes, call.q.device
    if torch.compiler.is_compiling() or not _is_cacheable(call.rule):
        return _build_block_mask(call.rule, sizes, device)
    key = (_cache_key(call.rule), sizes, device)
    if key not in _block_mask_cache:
        _block_mask_cache[key] = _build_block_mask(call.rule, sizes, device)
        if len(_block_mask_cache) > BLOCK_MASK_CACHE_SIZE:
            _block_mask_cache.popitem(last=False)
    _block_mask_cache.move_to_end(key)
    return _block_mask_cache[key]


def _is_cacheable(rule: Rule) -> bool:
    """True if a rule gives the same answers until a version of one of its tensors changes."""
    stateless = all(
        type(part) in STATELESS_RULES and (not isinstance(part, At) or _is_cacheable(part.rule))
        for part in leaf_rules(rule)
    )
    return stateless and all(map(_has_reliable_version, tensors_of(rule)))


def _has_reliable_version(tensor: Tensor) -> bool:
    """True if every write changes the tensor's version: numpy's on a CPU do not."""
    return not tensor.is_inference() and tensor.device.type != "cpu"


def _build_block_mask(
    rule: Rule, sizes: tuple[int, int, int, int], device: torch.device
) -> tuple["BlockMask", Tensor | None]:
    from torch.nn.attention.flex_attention import create_block_mask

    B, H, Q, K = sizes

    def mask_mod(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return rule(b, h, q + (K - Q), k)

    kinds = {type(part) for part in leaf_rules(rule)}
    # what is the same for every batch row or head is looked at once
    rows = None if kinds <= {Causal, Window, Prefix} and not isinstance(rule, At) else B
    heads = None if kinds <= {Causal, Window, Prefix, Padding, Documents} else H
    mask = create_block_mask(mask_mod, rows, heads, Q, K, device=str(device))
    every_key_sees_itself = kinds <= {Causal, Window} and rows is None and Q == K
    return mask, None if every_key_sees_itself else _visible_keys(rule, sizes, device)


def _visible_keys(
    rule: Rule, sizes: tuple[int, int, int, int], device: torch.device, rows: int = 256
) -> Tensor:
    """Which keys at least one query sees (B, H, K), a few queries at a time."""
    b, h, q, k = index_grid(*sizes, device=device)
    some = [rule(b, h, part, k) for part in q.split(rows)]
    return torch.stack([x[(None,) * (4 - x.dim())].any(2) for x in some]).any(0)


def _cache_key(rule: Any) -> Any:
    """What makes two rules the same: equal numbers, and the very same tensors, unchanged since."""
    if isinstance(rule, Tensor):
        return _TensorKey(rule)
    if isinstance(rule, tuple):
        return tuple(map(_cache_key, rule))
    if is_dataclass(rule):
        return (type(rule), *(_cache_key(getattr(rule, f.name)) for f in fields(rule)))
    return rule


class _TensorKey:
    """A tensor as a dictionary key: equal to itself as long as nobody writes into it."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self.version = tensor._version

    def __hash__(self) -> int:
        return hash((id(self.tensor), self.version))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TensorKey) and (
            self.tensor is other.tensor and self.version == other.version
        )

"""PyTorch's own attention, read as a call of ours: nothing is computed until it is looked at.

An edit reads it so as well, with its values, and then runs it as a call of ours.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from inspect import Signature, signature
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.functional import attention as plain
from regard.functional.call import Call, Why, build_call, repeat_kv_heads, with_dropout
from regard.functional.edited_selects import with_drawn_keys
from regard.functional.rules import at, both, causal
from regard.functional.scores import Dot
from regard.looking import native_layers, nested_tensors, sdpa_heads
from regard.looking.key_origins import Origin
from regard.looking.number_masks import with_model_mask
from regard.looking.record import Source, unreadable_source, unwrap_tensor, visible_key_count
from regard.looking.sdpa_heads import HeadHints, Join, is_causal_marker

NO_HINTS = HeadHints()
WHY = Why("torch", {"torch": None})
WHY_EAGER = Why("torch", {"torch": None})
WHY_EDITED = Why("reference", {"reference": None, "torch": "an edited call is one of ours"})


def sdpa_source(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Source:
    """A call of `scaled_dot_product_attention`, and the tensors that it is made from."""
    # a marker such as CausalBias is a Tensor too, but has nothing in it to guard
    mask = None if is_causal_marker(attn_mask) else attn_mask
    given = [query, key] if mask is None else [query, key, mask]

    # what is kept must not hold the mask itself, which may have a graph
    marker = attn_mask if mask is None else None

    def make(query: Tensor, key: Tensor, mask: Any = marker) -> Call:
        return _sdpa_call(query, key, None, mask, is_causal, scale, enable_gqa)

    return Source(
        make,
        [x.detach() for x in given],
        keys=1,
        written_counter=None
        if mask is None
        else partial(_written_key_count, query.dtype, key, mask),
    )


def why() -> Why:
    """Why PyTorch's own backend ran."""
    return WHY


def torch_source(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    origin: Origin | None = None,
    hints: HeadHints = NO_HINTS,
) -> Source:
    """The source of a call of PyTorch's, read as one of ours.

    Nothing is raised here, in the middle of a model: what cannot be read says so when it is made.

    Args:
        origin: that of its keys.
        hints: what is known of its heads.
    """
    try:
        args, kwargs, _ = with_heads_apart(func, args, kwargs, hints)
        for x in (*args, *kwargs.values()):
            if isinstance(x, Tensor):
                unwrap_tensor(x)
        made = OBSERVED_FUNCTIONS[func](*args, **kwargs)
        tensors = [unwrap_tensor(x) for x in made.tensors]
    except Exception as error:
        made, tensors = unreadable_source(str(error)), []
    make = partial(_make_call, func.__name__, made.make)
    return Source(make, tensors, made.keys, origin, made.written_counter)


def _written_key_count(dtype: torch.dtype, key: Tensor, mask: Tensor) -> int:
    K = key.shape[-2]
    if not mask.dim() or mask.shape[-1] != K:
        return K
    # the mask is added to scores of the queries' dtype
    return visible_key_count([mask if mask.dtype == torch.bool else mask.to(dtype)], K)


def sdpa_keys(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The keys that `scaled_dot_product_attention` is called with; None for another function."""
    if func not in SDPA_FUNCTIONS:
        return None
    return args[1] if len(args) > 1 else kwargs.get("key")


def with_heads_apart(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], hints: HeadHints
) -> tuple[tuple[Any, ...], dict[str, Any], Join | None]:
    """A call's arguments with heads apart from all batches, and what gives its output back.

    None in the place of that where they are as they came.
    """
    if func not in SDPA_FUNCTIONS:
        return args, kwargs, None
    named = dict(zip(_SDPA_ARGUMENTS, args, strict=False)) | kwargs
    found = sdpa_heads.with_heads_apart(named, hints)
    return (args, kwargs, None) if found is None else ((), *found)


def _make_call(name: str, make: Callable[..., Call], *tensors: Tensor) -> Call:
    try:
        return make(*tensors)
    except Exception as error:
        raise ValueError(
            f"look: expected a call of {name} that can be read, got one that cannot: "
            f"{str(error)[:300]}. Its module runs as ever"
        ) from error


def editable_torch_call(func: Any, *args: Any, **kwargs: Any) -> tuple[Call, Join]:
    """A call that is to be edited, with values and gradients, and its output in PyTorch's form."""
    if func not in SDPA_FUNCTIONS:
        raise ValueError(
            "edit: nn.MultiheadAttention attends inside of one function, which cannot be edited; "
            "put regard.layers.MultiHead.from_torch(module) in its place"
        )
    return _editable_sdpa_call(*args, **kwargs)


def call_with_drawn_keys(call: Call) -> Call:
    """The call with its keys drawn already, so that a look keeps the very ones that are read."""

    def scores() -> Tensor:
        k = repeat_kv_heads(call.k, call.q.shape[1])
        return plain.logits(call.q, k, score=call.score, rule=call.rule, bias=call.bias)

    return replace(call, select=with_drawn_keys(call.select, scores))


def _editable_sdpa_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Call, Join]:
    if any(x.is_nested for x in (query, key, value)):
        raise ValueError(
            "edit: expected tensors that are padded, got nested ones, which cannot be edited; "
            "call the model with padded tensors and a mask"
        )
    call = _sdpa_call(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])

    axes = max(x.dim() for x in (query, key, value))

    def join(out: Tensor) -> Tensor:
        if axes < 4:
            return out[:, 0] if axes == 3 else out[0, 0]
        return out.unflatten(0, batch)

    return with_dropout(with_model_mask(call), dropout_p), join


def _sdpa_call(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    attn_mask: Any,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Call:
    rows = _nested_mask(query, key)
    # autocast lets dtypes mix
    parts = [nested_tensors.to_padded(x) if x.is_nested else x for x in (query, key)]
    parts += [] if value is None else [value]
    if enable_gqa and all(x.dim() == 3 for x in parts):
        groups = query.shape[0] // key.shape[0]
        parts[1:] = [x.repeat_interleave(groups, 0) for x in parts[1:]]
    # all before the width broadcasts, but for the heads of groups
    kept = -3 if enable_gqa else -2
    lead = torch.broadcast_shapes(*(x.shape[:kept] for x in parts))
    wide = [x.to(query.dtype).expand(*lead, *x.shape[kept:]) for x in parts]
    q, k, *v = (_to_four_axes(x) for x in wide)
    # its causal mask is aligned to the upper left: query i stands on key i
    upper_left = at(causal, torch.arange(q.shape[2], device=q.device)) if is_causal else None
    mask = _mask_of(attn_mask, (*wide[0].shape[:-1], k.shape[2]))
    hides = mask is not None and mask.dtype == torch.bool
    rules = [x for x in (rows, mask if hides else None, upper_left) if x is not None]
    rule, bias = both(*rules) if rules else None, None if hides else mask
    return build_call(q, k, v[0] if v else None, score=Dot(scale), rule=rule, bias=bias)


def _nested_mask(query: Tensor, key: Tensor) -> Tensor | None:
    """True where nested rows have a query and a key, (B, 1, Q, K); None if none is nested."""
    of_q = nested_tensors.length_mask(query)[:, None, :, None] if query.is_nested else None
    of_k = nested_tensors.length_mask(key)[:, None, None] if key.is_nested else None
    return of_q if of_k is None else of_k if of_q is None else of_q & of_k


def multi_head_source(*args: Any, **kwargs: Any) -> Source:
    """A call of `multi_head_attention_forward`, taken apart, since nothing is seen inside of it."""
    given = _multi_head_signature().bind(*args, **kwargs)
    given.apply_defaults()
    named = {n: x.detach() if isinstance(x, Tensor) else x for n, x in given.arguments.items()}
    unneeded = ("value", "bias_v", "v_proj_weight", "static_v", "out_proj_weight", "out_proj_bias")
    kept = [n for n, x in named.items() if isinstance(x, Tensor) and n not in unneeded]
    rest = {n: x for n, x in named.items() if not isinstance(x, Tensor)}

    def make(*tensors: Tensor) -> Call:
        return _multi_head_call(
            dict.fromkeys(unneeded) | rest | dict(zip(kept, tensors, strict=True))
        )

    return Source(make, [named[n] for n in kept])


def _multi_head_call(arguments: dict[str, Any]) -> Call:
    query, key, heads = arguments["query"], arguments["key"], arguments["num_heads"]
    padding, mask = arguments["key_padding_mask"], arguments["attn_mask"]
    if query.dim() == 2:
        query, key = query[:, None], key[:, None]
        padding = None if padding is None else padding[None]
    B = query.shape[1]
    q, k = _project_qk(query, key, arguments)  # (L, B, E)
    if arguments["bias_k"] is not None:
        k = torch.cat([k, arguments["bias_k"].expand(1, B, -1)])
    q, k = (x.unflatten(2, (heads, -1)).permute(1, 2, 0, 3) for x in (q, k))  # (B, H, L, D)
    if arguments["static_k"] is not None:
        k = arguments["static_k"].unflatten(0, (B, heads))
    if arguments["add_zero_attn"]:
        k = F.pad(k, (0, 0, 0, 1))
    if mask is not None:
        mask = mask.unflatten(0, (B, heads)) if mask.dim() == 3 else mask
        mask = _pad_mask(k.shape[2], ~mask if mask.dtype == torch.bool else mask)
    if padding is not None:
        padding = ~padding if padding.dtype == torch.bool else padding
        padding = _pad_mask(k.shape[2], padding[:, None, None])
    seen = [x for x in (mask, padding) if x is not None and x.dtype == torch.bool]
    added = [x for x in (mask, padding) if x is not None and x.dtype != torch.bool]
    rule = both(*seen) if seen else None
    bias = added[0] + added[1] if len(added) == 2 else (added or [None])[0]
    return build_call(q, k, None, score=Dot(None), rule=rule, bias=bias)


def _project_qk(query: Tensor, key: Tensor, arguments: dict[str, Any]) -> tuple[Tensor, Tensor]:
    biases = arguments["in_proj_bias"]
    to_q, to_k = (None, None) if biases is None else biases.chunk(3)[:2]
    if arguments["use_separate_proj_weight"]:
        weights = arguments["q_proj_weight"], arguments["k_proj_weight"]
    else:
        weights = arguments["in_proj_weight"].chunk(3)[:2]
    # autocast may have been on then, and is not now
    query, key = query.to(weights[0].dtype), key.to(weights[1].dtype)
    return F.linear(query, weights[0], to_q), F.linear(key, weights[1], to_k)


def _mask_of(mask: Any, full: tuple[int, ...]) -> Tensor | None:
    """A mask that broadcasts to `full`, for q as four axes: all before the heads is one batch."""
    if is_causal_marker(mask):
        return mask._materialize()
    if mask is None:
        return None
    if len(full) == 3 and mask.dim() == 3:
        return mask[:, None]
    return mask.expand(full).flatten(0, -4) if len(full) > 4 else mask


def _to_four_axes(x: Tensor) -> Tensor:
    """(B, H, L, D) of what may have fewer axes (no heads, no batch) or more (several of batch)."""
    if x.dim() < 4:
        return x[:, None] if x.dim() == 3 else x[None, None]
    return x.flatten(0, -4)


def _pad_mask(keys: int, mask: Tensor) -> Tensor:
    """Keys that were appended may be seen: they are not the mask's business."""
    return F.pad(mask, (0, keys - mask.shape[-1]), value=mask.dtype == torch.bool)


@cache
def _multi_head_signature() -> Signature:
    return signature(F.multi_head_attention_forward)


_SDPA_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
# Their own operators are what an exported model calls.
SDPA_FUNCTIONS = (
    F.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)
# What can be seen of PyTorch's own, and how each is read.
OBSERVED_FUNCTIONS: dict[Any, Callable[..., Source]] = {
    **dict.fromkeys(SDPA_FUNCTIONS, sdpa_source),
    F.multi_head_attention_forward: multi_head_source,
    native_layers.MULTI_HEAD_OPERATOR: native_layers.multi_head_source,
    native_layers.LAYER_OPERATOR: native_layers.layer_source,
}

"""PyTorch's native encoder layers, read as calls of ours: one operator hides all of a layer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.functional.call import Call, build_call
from regard.functional.scores import Dot
from regard.looking import nested_tensors
from regard.looking.record import Source

# How the native operators call their arguments: they have no signature to ask.
_WEIGHT_ARGUMENTS = ("embed_dim", "num_heads", "qkv_weight", "qkv_bias", "proj_weight", "proj_bias")
_MULTI_HEAD_ARGUMENTS = (
    "query",
    "key",
    "value",
    *_WEIGHT_ARGUMENTS,
    "mask",
    "need_weights",
    "average",
    "mask_type",
)
_NORM_ARGUMENTS = ("norm_weight", "norm_bias", "norm_weight_2", "norm_bias_2")
_FEED_FORWARD_ARGUMENTS = ("ffn_weight_1", "ffn_bias_1", "ffn_weight_2", "ffn_bias_2")
_LAYER_ARGUMENTS = (
    "src",
    *_WEIGHT_ARGUMENTS,
    "use_gelu",
    "norm_first",
    "eps",
    *_NORM_ARGUMENTS,
    *_FEED_FORWARD_ARGUMENTS,
    "mask",
    "mask_type",
)
# The arguments that the weights are computed from.
_NEEDED_ARGUMENTS = ("query", "src", "qkv_weight", "qkv_bias", "norm_weight", "norm_bias", "mask")


def multi_head_source(*args: Any, **kwargs: Any) -> Source:
    """A call of `torch._native_multi_head_attention`."""
    return _native_source(
        dict(zip(_MULTI_HEAD_ARGUMENTS, args, strict=False)) | kwargs, _multi_head_call
    )


def layer_source(*args: Any, **kwargs: Any) -> Source:
    """A call of `torch._transformer_encoder_layer_fwd`, for the attention inside of it."""
    return _native_source(dict(zip(_LAYER_ARGUMENTS, args, strict=False)) | kwargs, _layer_call)


def _native_source(arguments: dict[str, Any], make: Callable[[dict[str, Any]], Call]) -> Source:
    kept = [name for name in _NEEDED_ARGUMENTS if isinstance(arguments.get(name), Tensor)]
    rest = {name: x for name, x in arguments.items() if not isinstance(x, Tensor)}
    return Source(
        lambda *tensors: make(rest | dict(zip(kept, tensors, strict=True))),
        [arguments[name].detach() for name in kept],
    )


def _multi_head_call(arguments: dict[str, Any]) -> Call:
    return _self_attention_call(arguments["query"], arguments)


def _layer_call(arguments: dict[str, Any]) -> Call:
    x = arguments["src"]
    if arguments["norm_first"]:
        norm = arguments["norm_weight"], arguments["norm_bias"]
        x = F.layer_norm(x, norm[0].shape, *norm, arguments["eps"])
    return _self_attention_call(x, arguments)


def _self_attention_call(x: Tensor, arguments: dict[str, Any]) -> Call:
    """Self-attention of `x` (B, Q, E), which may be nested."""
    there = nested_tensors.length_mask(x) if x.is_nested else None  # (B, Q)
    x = nested_tensors.to_padded(x) if x.is_nested else x
    E, heads = arguments["embed_dim"], arguments["num_heads"]
    q, k = F.linear(x, arguments["qkv_weight"][: 2 * E], arguments["qkv_bias"][: 2 * E]).chunk(
        2, -1
    )
    q, k = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in (q, k))  # (B, H, Q, D)
    rule = None if there is None else there[:, None, :, None] & there[:, None, None]
    mask, kind = arguments.get("mask"), arguments.get("mask_type")
    if mask is not None:
        # theirs is true where a key is hidden; it takes a float mask for a bool one
        rule = ~mask.bool()
        rule = rule[:, None, None] if kind == 1 else rule
    return build_call(q, k, None, score=Dot(None), rule=rule)


# The operators that are read here. A layer's attention is that of its child `self_attn`, which
# itself never runs.
LAYER_OPERATOR = torch._transformer_encoder_layer_fwd
MULTI_HEAD_OPERATOR = torch._native_multi_head_attention

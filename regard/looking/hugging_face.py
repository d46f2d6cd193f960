"""Hugging Face's flex attention, read as a call of ours: it is compiled, so no mode sees inside.

Models fetch their attention and their masks from two tables by name. While a look or an edit is
open, what is fetched as "flex_attention" is wrapped: it runs without the watcher, and is read as a
call of ours from its arguments. All else they attend with is seen as in any model.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.functional import attention as plain
from regard.functional.call import Call, build_call, zero_ablated_heads
from regard.functional.scores import Dot
from regard.functional.selects import softmax
from regard.looking import threads, torch_attention
from regard.looking.eager_calls import SoftmaxWithSinks
from regard.looking.number_masks import with_model_mask
from regard.looking.other_modes import without_recorders
from regard.looking.patches import Patch
from regard.looking.record import Source, source_of

FLEX_NAME = "flex_attention"


@dataclass(frozen=True)
class SoftCappedDot:
    """A dot product with a soft cap: `cap · tanh(q · k · scale / cap)` (Gemma 2)."""

    scale: float | None
    cap: float

    def __call__(
        self, q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        return self.cap * torch.tanh(Dot(self.scale)(q, k) / self.cap)


@runtime_checkable
class Host(Protocol):
    """The receiver of a call: all open looks and edits."""

    def pause_observers(self) -> AbstractContextManager[None]:
        """Inside, nothing is observed."""

    def has_edit(self) -> bool:
        """True if an edit applies to the module that is running."""

    def apply_edits(self, call: Call) -> Call:
        """The call as every open edit leaves it."""

    def note_attention(self) -> None:
        """Note for each edit that the running module attends."""

    def keep(self, source: Source, *, was_edited: bool) -> None:
        """Show a call to every open look."""


def transformers_patches(host: Host) -> list[Patch]:
    """The patches of transformers; none if its models are not imported."""
    attention: Any = sys.modules.get("transformers.modeling_utils")
    masks: Any = sys.modules.get("transformers.masking_utils")
    if not hasattr(attention, "AttentionInterface") or not hasattr(masks, "AttentionMaskInterface"):
        return []

    def get_interface(self: Any, name: Any, default: Any) -> Any:
        found = fetch.original(self, name, default)
        return partial(_attend, host, found) if name == FLEX_NAME and _is_observed() else found

    def get_mask(self: Any, name: Any) -> Any:
        found = fetch_mask.original(self, name)
        return (
            partial(_run_unobserved, host, found) if name == FLEX_NAME and _is_observed() else found
        )

    fetch = Patch(attention.AttentionInterface, "get_interface", get_interface)
    fetch_mask = Patch(masks.AttentionMaskInterface, "__getitem__", get_mask)
    return [fetch, fetch_mask]


def _is_observed() -> bool:
    return not torch.compiler.is_compiling() and threads.current_observers() is not None


def _run_unobserved(host: Host, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with host.pause_observers():
        return run(*args, **kwargs)


def _attend(
    host: Host,
    run: Callable[..., Any],
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    **kwargs: Any,
) -> Any:
    """The output of flex attention, which is reported as a call of ours, and may be edited."""
    with host.pause_observers():
        with without_recorders():
            made = _flex_source(query, key, attention_mask, kwargs)
        if host.has_edit():
            call = made.make(query, key, *made.tensors[2:])
            call = build_call(
                call.q, call.k, value, score=call.score, select=call.select, rule=call.rule,
                bias=call.bias,
            )  # fmt: skip
            call = with_model_mask(call)
            new = host.apply_edits(call)
            if new is not call:
                new = torch_attention.call_with_drawn_keys(new)
                host.keep(source_of(new), was_edited=True)
                return zero_ablated_heads(new, plain.run_call(new)).transpose(
                    1, 2
                ).contiguous(), None
        else:
            host.note_attention()
        out = run(module, query, key, value, attention_mask, **kwargs)
        with without_recorders():
            host.keep(made, was_edited=False)
        return out


def _flex_source(query: Tensor, key: Tensor, mask: Any, options: dict[str, Any]) -> Source:
    """A call of transformers' `flex_attention_forward`, and the tensors that it is made from."""
    scale, cap = options.get("scaling"), options.get("softcap")
    # the mask is a function of places, or a tensor that is added
    mod = getattr(mask, "mask_mod", None)
    others = {"added": mask if isinstance(mask, Tensor) else None}
    others |= {"position": options.get("position_bias"), "sinks": options.get("s_aux")}
    there = {name: x for name, x in others.items() if x is not None}

    def make(q: Tensor, k: Tensor, *tensors: Tensor) -> Call:
        (B, H, Q, _), K = q.shape, k.shape[2]
        found = dict(zip(there, tensors, strict=True))
        added = found["added"][:, :1, :Q, :K] if "added" in found else None
        parts = [x for x in (added, found.get("position")) if x is not None]
        sinks = found.get("sinks")
        return build_call(
            q,
            k,
            None,
            score=Dot(scale) if cap is None else SoftCappedDot(scale, cap),
            select=softmax if sinks is None else _softmax_with_sinks(sinks, q),
            rule=None if mod is None else _dense_mask(mod, B, H, Q, K, q.device),
            bias=sum(parts[1:], parts[0]) if parts else None,
        )

    return Source(make, [x.detach() for x in (query, key, *there.values())], keys=1)


def _softmax_with_sinks(sinks: Tensor, q: Tensor) -> SoftmaxWithSinks:
    return SoftmaxWithSinks(sinks.view(1, -1, 1, 1).expand(*q.shape[:3], 1))


def _dense_mask(mod: Any, B: int, H: int, Q: int, K: int, device: torch.device) -> Tensor:
    """The mask as a bool tensor (B, H, Q, K)."""
    from torch.nn.attention.flex_attention import create_mask

    return create_mask(mod, B, H, Q, K, device=str(device))

"""Other people's models, and their weights without Regard: by their own word, or by hand."""

import math
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard import look
from tests.looking import hugging_face_models, timm_models, x_transformers_models

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)


class Attentions(TorchFunctionMode):
    """Every softmax of cells and every call of PyTorch's attention inside, by a plain formula.

    Args:
        at: the numbers of calls that are changed.
        column: of which key they lose the weight; None is all of them.
    """

    def __init__(self, at: Collection[int] = (), column: int | None = None):
        super().__init__()
        self.weights: list[Tensor] = []
        self.at, self.column = at, column

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        changed = len(self.weights) in self.at
        if func in SOFTMAX and args[0].dim() > 2:
            logits = self._masked(args[0]) if changed else args[0]
            out = func(logits, *args[1:], **kwargs)
            self.weights.append(out)
            return self._silenced(out) if changed else out
        if func is F.scaled_dot_product_attention:
            logits, value = _logits(*args, **kwargs)
            logits = self._masked(logits) if changed else logits
            self.weights.append(logits.softmax(-1))
            if changed:
                return self._silenced(self.weights[-1]).nan_to_num() @ value
        return func(*args, **kwargs)

    def _masked(self, logits):
        if self.column is None:
            return logits
        mine = torch.arange(logits.shape[-1]) == self.column
        return logits.masked_fill(mine, torch.finfo(logits.dtype).min)

    def _silenced(self, weights):
        return torch.zeros_like(weights) if self.column is None else weights


def _logits(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for x in (k, v))
    logits = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(logits.shape[-2:]).tril().bool()
    if attn_mask is None:
        return logits, v
    if attn_mask.dtype == torch.bool:
        return logits.masked_fill(~attn_mask, -math.inf), v
    return logits + attn_mask, v


@dataclass
class Foreign:
    """One model, what it is called with, and its weights by its own word or by hand.

    Args:
        call: calls the model once, and gives its output.
        theirs: its weights, in the order of their calls.
        valid: which rows are (B, Q); None is all.
        eager: calls the same model where `Attentions` sees it, if that does not see `call`.
    """

    model: nn.Module
    call: Callable[[], Tensor]
    theirs: Callable[[], list[Tensor]]
    valid: Tensor | None = None
    eager: Callable[[], Tensor] | None = None


NAMES = {
    "transformers": list(hugging_face_models.MODELS),
    "timm": list(timm_models.MODELS),
    "x-transformers": list(x_transformers_models.MODELS),
}
ALL = [f"{library}: {name}" for library, names in NAMES.items() for name in names]


def create(name: str) -> Foreign:
    """A model of `ALL`."""
    library, name = name.split(": ")
    return {"transformers": _of_transformers, "timm": _of_timm}.get(library, _of_x)(name)


def _of_transformers(name: str) -> Foreign:
    found = hugging_face_models.MODELS[name]
    model, given = found.model(), found.given()

    eager = found.model("eager")
    eager.load_state_dict(model.state_dict())

    def theirs() -> list[Tensor]:
        # Falcon adds ALiBi twice where it attends eagerly; Swin gives out the last block alone
        if name.startswith(("Falcon", "Swin")):
            return _by_hand(lambda: model(**given))
        return _given_out(eager(**given, output_attentions=True))

    valid = given.get("attention_mask")
    if "global_attention_mask" in given:
        # rows of global tokens are filled with zeros, since those read with other weights
        valid = valid * (1 - given["global_attention_mask"])
    return Foreign(
        model,
        lambda: model(**given)[0],
        theirs,
        None if valid is None else valid > 0,
        (lambda: eager(**given)[0]) if found.way == "flex_attention" else None,
    )


def _given_out(out: Any) -> list[Tensor]:
    if getattr(out, "encoder_attentions", None) is not None:
        pairs = zip(out.decoder_attentions, out.cross_attentions, strict=True)
        return [*out.encoder_attentions, *(x for pair in pairs for x in pair)]
    if hasattr(out, "vision_model_output"):
        return [*out.vision_model_output.attentions, *out.text_model_output.attentions]
    if getattr(out, "global_attentions", None) is not None:
        pairs = zip(out.attentions, out.global_attentions, strict=True)
        return [x for local, all_of_it in pairs for x in (local, all_of_it.mT)]
    return list(out.attentions)


def _of_timm(name: str) -> Foreign:
    model, images = timm_models.create(name)

    def theirs() -> list[Tensor]:
        eager = deepcopy(model)
        for module in eager.modules():
            if hasattr(module, "fused_attn"):
                module.fused_attn = False
        return _by_hand(lambda: eager(images))

    return Foreign(model, lambda: model(images), theirs)


def _of_x(name: str) -> Foreign:
    model, tokens = x_transformers_models.create(name)

    def theirs() -> list[Tensor]:
        eager = x_transformers_models.create(name, attn_flash=False)[0]
        eager.load_state_dict(model.state_dict())
        _, found = eager(tokens, return_intermediates=True)
        return [x.post_softmax_attn[..., -tokens.shape[1] :] for x in found.attn_intermediates]

    return Foreign(model, lambda: model(tokens), theirs)


def _by_hand(call: Callable[[], object]) -> list[Tensor]:
    with Attentions() as found:
        call()
    return found.weights


@dataclass(frozen=True)
class Comparison:
    """How a look at a model compares with the model's own weights.

    Args:
        gap: the largest difference on valid rows; infinite where a call or a shape is another.
        is_equal: whether the output was the same, bit for bit.
        names: what was seen.
        unseen: what was missed.
        shapes: of the weights of each call.
    """

    gap: float
    is_equal: bool
    names: list[str]
    unseen: tuple[str, ...]
    shapes: list[tuple[int, ...]]

    @property
    def is_exact(self) -> bool:
        """Whether all was seen as it was."""
        return self.is_equal and self.gap <= 1e-6


@torch.no_grad()
def compared(name: str) -> Comparison:
    """A look at one model of `ALL`, held to its own weights."""
    foreign = create(name)
    alone = foreign.call()
    with look(foreign.model) as seen:
        out = foreign.call()
    ours = [call.weights() for name in seen for call in seen[name].calls]
    theirs = foreign.theirs()
    shapes = [tuple(weights.shape) for weights in ours]
    gap = math.inf
    if len(ours) == len(theirs):
        gap = max(_gap(*pair, foreign.valid) for pair in zip(ours, theirs, strict=True))
    return Comparison(gap, torch.equal(out, alone), seen.names(), seen.unseen, shapes)


def _gap(ours: Tensor, theirs: Tensor, valid: Tensor | None) -> float:
    theirs = theirs.flatten(0, -4)
    if ours.shape != theirs.shape:
        return math.inf
    apart = (ours - theirs).abs()
    if valid is not None and apart.shape[2] == valid.shape[1]:
        apart = apart.masked_fill(~valid[:, None, :, None], 0)
    return apart.max().item()

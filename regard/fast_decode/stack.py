"""The parts of a model that fast decoding needs, found by what they are and not by its name."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import nn

from regard.layers.blocks import DecoderBlock, EncoderBlock

# What a fast step raises if it may no longer be taken: its state cannot be handed to the model.
STARTED_OTHERWISE = (
    "decode: expected the looks, edits, modes and gradients of `start` in each step, got others; "
    "open a look before `start`"
)


class Stack(NamedTuple):
    """An encoder, a decoder that attends to it, and what turns states into logits.

    A model has a stack if its attributes have these names: `encoder` and `decoder` with `blocks`
    and `norm`, `target` (the embedding of target tokens), `positions`, `embedding_scale`, `out`,
    and the methods `embed_source(source)` and `embed(table, tokens, start=…)`.
    """

    encoder: tuple[EncoderBlock, ...]
    decoder: tuple[DecoderBlock, ...]
    norm: nn.Module
    out: nn.Linear
    target: nn.Embedding
    positions: nn.Module
    embedding_scale: float

    @property
    def has_plain_attention(self) -> bool:
        """True if every attention is plain scaled dot product and no block is training."""
        return has_plain_attention(self.encoder) and has_plain_attention(self.decoder)


def find_stack(model: Any) -> Stack | None:
    """The stack of a model, or None if it is built otherwise."""
    encoder = _blocks_of(getattr(model, "encoder", None), EncoderBlock)
    decoder = _blocks_of(getattr(model, "decoder", None), DecoderBlock)
    names = ("out", "target", "positions", "embedding_scale", "embed_source", "embed")
    if not encoder or not decoder or not all(hasattr(model, name) for name in names):
        return None
    return Stack(
        encoder,
        decoder,
        model.decoder.norm,
        model.out,
        model.target,
        model.positions,
        model.embedding_scale,
    )


def has_plain_attention(blocks: Sequence[EncoderBlock] | Sequence[DecoderBlock]) -> bool:
    """True if every attention of blocks is plain scaled dot product and no block is training."""
    layers = [block.self_attention for block in blocks]
    layers += [block.cross for block in blocks if isinstance(block, DecoderBlock)]
    return all(layer.is_plain for layer in layers) and not any(block.training for block in blocks)


def _blocks_of(part: Any, kind: type) -> tuple[Any, ...]:
    """The blocks of an encoder or a decoder, if all are of this kind."""
    blocks = tuple(getattr(part, "blocks", None) or ())
    return blocks if all(isinstance(block, kind) for block in blocks) else ()

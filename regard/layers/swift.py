"""Blocks on a CPU, in few operations: a decoder's step, and an encoder's short sentences.

Numbers are those of `DecoderBlock.step` and `EncoderBlock`, rounded in another order. Weights
are as they were made ready, beams of one source share their keys, and no module is called.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import door
from regard.kernels import one_query
from regard.layers import products
from regard.layers.blocks import AddNorm, DecoderBlock, EncoderBlock
from regard.layers.caches import Cache, Fused
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.products import Make, Product
from regard.layers.shared import Read, Shared, Written

# Up to so many tokens are read fastest with all their scores at once.
SHORT = 64


class Around(NamedTuple):
    """What stands around a layer, as in `AddNorm`."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float
    first: bool

    @classmethod
    def of(cls, part: AddNorm) -> "Around":
        """The part, made ready."""
        norm = part.norm
        return cls(norm.normalized_shape, norm.weight, norm.bias, norm.eps, part.first)

    def enter(self, x: Tensor) -> Tensor:
        """What the layer is given."""
        return torch.layer_norm(x, *self[:4]) if self.first else x

    def leave(self, x: Tensor, out: Tensor) -> Tensor:
        """What comes of `x` and the output of the layer, which is written over."""
        x = out.add_(x)
        return x if self.first else torch.layer_norm(x, *self[:4])


class Thinking(NamedTuple):
    """A feed-forward layer, and what stands around it."""

    inner: Product
    activation: Activation | None  # None where the product has done it
    out: Product
    around: Around

    @classmethod
    def of(cls, layer: FeedForward, around: AddNorm, make: Make) -> "Thinking":
        """The layer, made ready."""
        relu = layer.activation is F.relu
        inner, out = products.of(layer.inner, make, relu), products.of(layer.out, make)
        return cls(inner, None if relu else layer.activation, out, Around.of(around))

    def __call__(self, x: Tensor) -> Tensor:
        """Each token (…, E) by itself."""
        inner = self.inner(self.around.enter(x))
        inner = inner if self.activation is None else self.activation(inner)
        return self.around.leave(x, self.out(inner))


class Reading(NamedTuple):
    """A block of an encoder."""

    heads: int
    own: Product  # to a query, a key and a value of each head
    own_out: Product
    own_norm: Around
    think: Thinking

    @classmethod
    def of(cls, block: EncoderBlock, make: Make) -> "Reading":
        """The block, made ready."""
        return cls(
            heads=block.own.heads,
            own=_by_heads(block.own, cast(Fused, block.own.fused()), make),
            own_out=products.of(block.own.out, make),
            own_norm=Around.of(block.own_norm),
            think=Thinking.of(block.think, block.think_norm, make),
        )

    def __call__(self, x: Tensor, bias: Tensor) -> Tensor:
        """`EncoderBlock` of tokens (B, S, E), each of which sees some; `bias` as (B, 1, 1, S)."""
        B, S, E = x.shape
        parts = self.own(self.own_norm.enter(x)).view(B, S, self.heads, 3, -1)
        q, k, v = parts.transpose(1, 2).unbind(3)  # (B, H, S, D)
        seen = self.own_out(door.read_few(q, k, v, bias)).view(B, S, E)
        return self.think(self.own_norm.leave(x, seen))


class Writing(NamedTuple):
    """A block of a decoder."""

    heads: int
    fused: Fused
    own: Product  # to a query, a key and a value of each head
    own_out: Product
    own_norm: Around
    memory: Product  # to keys and values
    cross: Product
    cross_out: Product
    cross_norm: Around
    think: Thinking

    @classmethod
    def of(cls, block: DecoderBlock, make: Make) -> "Writing":
        """The block, made ready."""
        fused = cast(Fused, block.own.fused())
        return cls(
            heads=block.own.heads,
            fused=fused,
            own=_by_heads(block.own, fused, make),
            own_out=products.of(block.own.out, make),
            own_norm=Around.of(block.own_norm),
            memory=_to_keys(block.cross, make),
            cross=_scaled(block.cross, make),
            cross_out=products.of(block.cross.out, make),
            cross_norm=Around.of(block.cross_norm),
            think=Thinking.of(block.think, block.think_norm, make),
        )

    def keys(self, memory: Tensor) -> Cache:
        """`DecoderBlock.cross.keys` of a memory (B, S, E)."""
        B, S, E = memory.shape
        parts = self.memory(memory).view(B, S, 2, self.heads, E // self.heads)
        k, v = parts.transpose(1, 3).unbind(2)  # (B, H, S, D)
        return Cache(k, v)

    def __call__(self, x: Tensor, looks: "Looks") -> Tensor:
        """`DecoderBlock.step` of one token of each of W beams (B·W, E)."""
        W = looks.slot.k.shape[2]
        parts = self.own(self.own_norm.enter(x)).view(-1, W, self.heads, 3, looks.own.k.shape[3])
        q, k, v = parts.transpose(1, 2).unbind(3)  # (B, H, W, D)
        looks.slot.k.copy_(k)
        looks.slot.v.copy_(v)
        seen = door.read_few(q, *looks.own, looks.own_bias)
        x = self.own_norm.leave(x, self.own_out(seen))
        asked = self.cross(self.cross_norm.enter(x)).view(-1, W, *q.shape[1::2]).transpose(1, 2)
        seen = door.read_few(asked, *looks.cross, looks.cross_bias)
        return self.think(self.cross_norm.leave(x, self.cross_out(seen)))


class Ready(NamedTuple):
    """All that reads a source and writes a target, made ready for many."""

    reading: tuple[Reading, ...]
    writing: tuple[Writing, ...]
    out: Product  # to logits

    @classmethod
    def of(
        cls,
        reading: Sequence[EncoderBlock],
        writing: Sequence[DecoderBlock],
        out: nn.Linear,
        make: Make,
    ) -> "Ready":
        """The blocks, and what comes behind them."""
        return cls(
            tuple(Reading.of(block, make) for block in reading),
            tuple(Writing.of(block, make) for block in writing),
            products.of(out, make),
        )

    def begun(self, memory: Tensor, bias: Tensor) -> tuple[Written, Shared]:
        """Nothing written yet, and a memory (B, S, E) to look at, by its bias (B, 1, 1, S)."""
        cross = [block.keys(memory) for block in self.writing]
        none = [Cache(keys.k[:, :, :0], keys.v[:, :, :0]) for keys in cross]
        return Written.of(none), Shared.of(cross, bias)

    def written(
        self, x: Tensor, own: Written, line: Tensor, memory: Shared, bias: Tensor
    ) -> tuple[Tensor, Written, Tensor]:
        """What tokens (B·W, E) have to say to their successors, what is written then, and lines.

        Args:
            x: one token of each of W beams.
            own: what they have written.
            line: their lines in it (B·W, T).
            memory: what they look at.
            bias: what is added to its scores, for each beam (B·W, 1, 1, S).
        """
        own, slots = own.longer()
        line = own.line(line)
        hidden, padding = own.hidden(line), memory.hidden(bias)
        each = zip(self.writing, slots, own.layers(), memory.layers, strict=True)
        for block, slot, back, keys in each:
            x = block(x, Looks(slot, back, hidden, keys, padding))
        return x, own, line

    def caches(self, own: Written, line: Tensor) -> tuple[Cache, ...]:
        """What was written, for those who step otherwise."""
        each = zip(own.caches(line), self.writing, strict=True)
        return tuple(replace(cache, fused=block.fused) for cache, block in each)

    def spread(self, width: int) -> "Ready":
        """The same: weights have no rows."""
        return self


class Looks(NamedTuple):
    """Where one block writes what it looks back at, what it reads, and what is hidden of that."""

    slot: Read  # (B, H, W, D)
    own: Read  # (B, H, K, D), the slot among them
    own_bias: Tensor | None  # (B, 1, W, K)
    cross: Read  # (B, H, S, D)
    cross_bias: Tensor | None  # (B, 1, 1, S)


def everyday(blocks: Sequence[EncoderBlock] | Sequence[DecoderBlock]) -> bool:
    """Whether all attentions of blocks are everyday ones, and none of them trains."""
    layers = [b.own for b in blocks] + [b.cross for b in blocks if isinstance(b, DecoderBlock)]
    return all(x.everyday for x in layers) and not any(block.training for block in blocks)


def begins(blocks: Sequence[DecoderBlock], memory: Tensor) -> bool:
    """Whether steps from a memory (B, S, E) may be swift ones, if nobody follows then either.

    They may where each of their attentions is an everyday one.
    """
    if memory.device.type in one_query.DEVICES:
        return False
    return everyday(blocks) and door.swift(memory, *_weights(blocks))


def goes_on(blocks: Sequence[DecoderBlock], own: object) -> bool:
    """Whether a step from what was written can be a swift one."""
    if not isinstance(own, Written) or any(block.training for block in blocks):
        return False
    return door.swift(*(block.think.out.weight for block in blocks))


def reads(blocks: Sequence[EncoderBlock], x: Tensor) -> bool:
    """Whether an encoder may read tokens (B, S, E): few everyday ones, and nobody follows."""
    if x.device.type in one_query.DEVICES or x.shape[1] > SHORT:
        return False
    return everyday(blocks) and door.swift(x, *_weights(blocks))


def _weights(blocks: Sequence[EncoderBlock] | Sequence[DecoderBlock]) -> list[Tensor]:
    """Weights of each block, by which it is known whether they learn."""
    layers = (p for b in blocks for p in (b.own.query, b.own.out, b.think.inner, b.think.out))
    return [layer.weight for layer in layers]


def _by_heads(layer: MultiHead, fused: Fused, make: Make) -> Product:
    """A product (3 E, E) by which query, key and value of a head stand together, scaled."""

    def turned(x: Tensor) -> Tensor:
        q, k, v = x.unflatten(0, (3, layer.heads, -1))  # (H, D, ·)
        return torch.stack([q * q.shape[1] ** -0.5, k, v], 1).flatten(0, 2)

    return make(turned(fused.weight), None if fused.bias is None else turned(fused.bias))


def _to_keys(layer: MultiHead, make: Make) -> Product:
    """The product to keys and to values, one behind the other."""
    parts = (layer.key, layer.value)
    bias = None if layer.key.bias is None else torch.cat([part.bias for part in parts])
    return make(torch.cat([part.weight for part in parts]), bias)


def _scaled(layer: MultiHead, make: Make) -> Product:
    """The product to queries that are scaled before they are asked."""
    query, scale = layer.query, (layer.query.out_features // layer.heads) ** -0.5
    bias = None if query.bias is None else query.bias * scale
    return make(query.weight * scale, bias)

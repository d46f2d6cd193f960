"""Blocks on a CPU, in few operations: a decoder's step, and an encoder's short sentences.

Numbers are those of `DecoderBlock.step` and `EncoderBlock`, rounded in another order. In a step,
weights are as they were prepared for many, beams of one source share their keys, and no module is
called.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import door
from regard.kernels import one_query
from regard.layers.blocks import AddNorm, DecoderBlock, EncoderBlock
from regard.layers.caches import Cache, Fused
from regard.layers.feed_forward import Activation
from regard.layers.multi_head import MultiHead
from regard.layers.shared import Read, Written

# Up to so many tokens are read fastest with all their scores at once.
SHORT = 64


class Product(NamedTuple):
    """`F.linear` by weights (O, I) and a bias (O,)."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Of each row (…, I) a row (…, O)."""
        out = F.linear(x, self.weight)
        # PyTorch would fill the result with the bias before, which takes longer than to add it
        return out if self.bias is None else out.add_(self.bias)


class Around(NamedTuple):
    """What stands around a layer, as in `AddNorm`."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float
    first: bool

    def enter(self, x: Tensor) -> Tensor:
        """What the layer is given."""
        return torch.layer_norm(x, *self[:4]) if self.first else x

    def leave(self, x: Tensor, out: Tensor) -> Tensor:
        """What comes of `x` and the output of the layer, which is written over."""
        x = out.add_(x)
        return x if self.first else torch.layer_norm(x, *self[:4])


class Prepared(NamedTuple):
    """One block: its products, and what stands around its layers."""

    heads: int
    own: Product  # to a query, a key and a value of each head
    own_out: Product
    own_norm: Around
    cross: Product
    cross_out: Product
    cross_norm: Around
    inner: Product
    activation: Activation
    think_out: Product
    think_norm: Around


class Ready(NamedTuple):
    """Blocks that were prepared for many steps."""

    blocks: tuple[Prepared, ...]

    @classmethod
    def of(cls, blocks: Sequence[DecoderBlock], fused: Sequence[Fused]) -> "Ready":
        """The blocks, with their projections to queries, keys and values, in this order."""
        return cls(tuple(map(_block, blocks, fused)))

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


def begins(blocks: Sequence[DecoderBlock], own: Sequence[Any], cross: Sequence[Cache]) -> bool:
    """Whether steps from these caches may be swift ones, if nobody follows then either.

    They may where each of their attentions is an everyday one.
    """
    if own[0].k.device.type in one_query.DEVICES or any(cache.fused is None for cache in own):
        return False
    simple = all(b.own.everyday and b.cross.everyday and not b.training for b in blocks)
    weights = (p.weight for b in blocks for p in (b.own.out, b.think.inner, b.think.out))
    keys = (x for cache in cross for x in (cache.k, cache.v))
    return simple and door.swift(*keys, *weights, *(cache.fused.weight for cache in own))


def goes_on(blocks: Sequence[DecoderBlock], own: object) -> bool:
    """Whether a step from what was written can be a swift one."""
    if not isinstance(own, Written) or any(block.training for block in blocks):
        return False
    return door.swift(*(block.think.out.weight for block in blocks))


def step(block: Prepared, x: Tensor, looks: Looks) -> Tensor:
    """`DecoderBlock.step` of one token of each of W beams (B·W, E)."""
    W = looks.slot.k.shape[2]
    parts = block.own(block.own_norm.enter(x)).view(-1, W, block.heads, 3, looks.own.k.shape[3])
    q, k, v = parts.transpose(1, 2).unbind(3)  # (B, H, W, D)
    looks.slot.k.copy_(k)
    looks.slot.v.copy_(v)
    seen = door.read_few(q, *looks.own, looks.own_bias)
    x = block.own_norm.leave(x, block.own_out(seen))
    asked = block.cross(block.cross_norm.enter(x)).view(-1, W, *q.shape[1::2]).transpose(1, 2)
    seen = door.read_few(asked, *looks.cross, looks.cross_bias)
    x = block.cross_norm.leave(x, block.cross_out(seen))
    inner = block.inner(block.think_norm.enter(x))
    inner = F.relu_(inner) if block.activation is F.relu else block.activation(inner)
    return block.think_norm.leave(x, block.think_out(inner))


def reads(blocks: Sequence[EncoderBlock], x: Tensor) -> bool:
    """Whether an encoder may `read` tokens (B, S, E): few everyday ones, and nobody follows."""
    if x.device.type in one_query.DEVICES or x.shape[1] > SHORT:
        return False
    simple = all(b.own.everyday and not b.training for b in blocks)
    weights = (p.weight for b in blocks for p in (b.own.out, b.think.inner, b.think.out))
    return simple and door.swift(x, *weights)


def read(block: EncoderBlock, x: Tensor, bias: Tensor) -> Tensor:
    """`EncoderBlock` of tokens (B, S, E), each of which sees some; `bias` as (B, 1, 1, S)."""
    (B, S, E), own, think = x.shape, _around(block.own_norm), _around(block.think_norm)
    parts = _by_heads(block.own, cast(Fused, block.start(0).fused))(own.enter(x))
    q, k, v = parts.view(B, S, block.own.heads, 3, -1).transpose(1, 2).unbind(3)  # (B, H, S, D)
    seen = door.read_few(q, k, v, bias)
    x = own.leave(x, block.own.out(seen).view(B, S, E))
    return think.leave(x, block.think.out(block.think.within(think.enter(x))))


def _block(block: DecoderBlock, fused: Fused) -> Prepared:
    def made(linear: nn.Linear) -> Product:
        return Product(linear.weight, linear.bias)

    think = block.think
    return Prepared(
        heads=block.own.heads,
        own=_by_heads(block.own, fused),
        own_out=made(block.own.out),
        own_norm=_around(block.own_norm),
        cross=_scaled(block.cross),
        cross_out=made(block.cross.out),
        cross_norm=_around(block.cross_norm),
        inner=made(think.inner),
        activation=think.activation,
        think_out=made(think.out),
        think_norm=_around(block.think_norm),
    )


def _around(part: AddNorm) -> Around:
    norm = part.norm
    return Around(norm.normalized_shape, norm.weight, norm.bias, norm.eps, part.first)


def _by_heads(layer: MultiHead, fused: Fused) -> Product:
    """A product (3 E, E) by which query, key and value of a head stand together, scaled."""

    def turned(x: Tensor) -> Tensor:
        q, k, v = x.unflatten(0, (3, layer.heads, -1))  # (H, D, ·)
        return torch.stack([q * q.shape[1] ** -0.5, k, v], 1).flatten(0, 2)

    return Product(turned(fused.weight), None if fused.bias is None else turned(fused.bias))


def _scaled(layer: MultiHead) -> Product:
    """The product to queries that are scaled before they are asked."""
    query, scale = layer.query, (layer.query.out_features // layer.heads) ** -0.5
    return Product(query.weight * scale, None if query.bias is None else query.bias * scale)

"""Blocks on a CPU, in few operations: a decoder's step, and an encoder's short sentences.

Numbers are those of `DecoderBlock.step` and `EncoderBlock`, rounded in another order. Weights
are as they were made ready, beams of one source share their keys, and no module is called.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import fast_path
from regard.fast_decode import packed_linear
from regard.fast_decode.embedding import embed_at_step, position_table
from regard.fast_decode.packed_linear import LinearFactory, LinearFunction
from regard.fast_decode.shared_cache import (
    MIN_CAPACITY_STEPS,
    KeyValue,
    SharedBeamCache,
    SharedMemoryCache,
)
from regard.fast_decode.stack import STARTED_OTHERWISE, Stack
from regard.kernels.decode_step import api as decode_step
from regard.kernels.decode_step.attention_cpu import attend_few_queries
from regard.layers.blocks import AddNorm, DecoderBlock, EncoderBlock
from regard.layers.caches import Cache, QKVProjection
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.multi_head import MultiHead

# Up to so many tokens are read fastest with all their scores at once.
ENCODER_MAX_TOKENS = 64


class PackedAddNorm(NamedTuple):
    """What stands around a layer, as in `AddNorm`."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float
    norm_first: bool

    @classmethod
    def from_module(cls, add_norm: AddNorm) -> "PackedAddNorm":
        """The part, made ready."""
        norm = add_norm.norm
        return cls(norm.normalized_shape, norm.weight, norm.bias, norm.eps, add_norm.norm_first)

    def layer_input(self, x: Tensor) -> Tensor:
        """What the layer is given."""
        return torch.layer_norm(x, *self[:4]) if self.norm_first else x

    def add_residual(self, x: Tensor, out: Tensor) -> Tensor:
        """What comes of `x` and the output of the layer, which is written over."""
        x = out.add_(x)
        return x if self.norm_first else torch.layer_norm(x, *self[:4])


class PackedFeedForward(NamedTuple):
    """A feed-forward layer, and what stands around it."""

    inner: LinearFunction
    activation: Activation | None  # None where the product has done it
    out: LinearFunction
    add_norm: PackedAddNorm

    @classmethod
    def from_module(
        cls, layer: FeedForward, add_norm: AddNorm, make: LinearFactory
    ) -> "PackedFeedForward":
        """The layer, made ready."""
        relu = layer.activation is F.relu
        inner, out = (
            packed_linear.from_linear(layer.inner, make, relu),
            packed_linear.from_linear(layer.out, make),
        )
        return cls(
            inner, None if relu else layer.activation, out, PackedAddNorm.from_module(add_norm)
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Each token (…, E) by itself."""
        inner = self.inner(self.add_norm.layer_input(x))
        inner = inner if self.activation is None else self.activation(inner)
        return self.add_norm.add_residual(x, self.out(inner))


class PackedEncoderBlock(NamedTuple):
    """A block of an encoder."""

    heads: int
    self_qkv: LinearFunction  # to a query, a key and a value of each head
    self_out: LinearFunction
    self_norm: PackedAddNorm
    feed_forward: PackedFeedForward

    @classmethod
    def from_block(cls, block: EncoderBlock, make: LinearFactory) -> "PackedEncoderBlock":
        """The block, made ready."""
        return cls(
            heads=block.self_attention.heads,
            self_qkv=_qkv_by_head(
                block.self_attention,
                cast(QKVProjection, block.self_attention.qkv_projection()),
                make,
            ),
            self_out=packed_linear.from_linear(block.self_attention.out, make),
            self_norm=PackedAddNorm.from_module(block.self_attention_norm),
            feed_forward=PackedFeedForward.from_module(
                block.feed_forward, block.feed_forward_norm, make
            ),
        )

    def __call__(self, x: Tensor, bias: Tensor) -> Tensor:
        """`EncoderBlock` of tokens (B, S, E), each of which sees some; `bias` as (B, 1, 1, S)."""
        B, S, E = x.shape
        parts = self.self_qkv(self.self_norm.layer_input(x)).view(B, S, self.heads, 3, -1)
        q, k, v = parts.transpose(1, 2).unbind(3)  # (B, H, S, D)
        seen = self.self_out(attend_few_queries(q, k, v, bias)).view(B, S, E)
        return self.feed_forward(self.self_norm.add_residual(x, seen))


class PackedDecoderBlock(NamedTuple):
    """A block of a decoder."""

    heads: int
    qkv_projection: QKVProjection
    self_qkv: LinearFunction  # to a query, a key and a value of each head
    self_out: LinearFunction
    self_norm: PackedAddNorm
    memory_kv: LinearFunction  # to keys and values
    cross_query: LinearFunction
    cross_out: LinearFunction
    cross_norm: PackedAddNorm
    feed_forward: PackedFeedForward

    @classmethod
    def from_block(cls, block: DecoderBlock, make: LinearFactory) -> "PackedDecoderBlock":
        """The block, made ready."""
        fused = cast(QKVProjection, block.self_attention.qkv_projection())
        return cls(
            heads=block.self_attention.heads,
            qkv_projection=fused,
            self_qkv=_qkv_by_head(block.self_attention, fused, make),
            self_out=packed_linear.from_linear(block.self_attention.out, make),
            self_norm=PackedAddNorm.from_module(block.self_attention_norm),
            memory_kv=_memory_kv_linear(block.cross, make),
            cross_query=_scaled_query_linear(block.cross, make),
            cross_out=packed_linear.from_linear(block.cross.out, make),
            cross_norm=PackedAddNorm.from_module(block.cross_norm),
            feed_forward=PackedFeedForward.from_module(
                block.feed_forward, block.feed_forward_norm, make
            ),
        )

    def keys(self, memory: Tensor) -> Cache:
        """`DecoderBlock.cross.keys` of a memory (B, S, E)."""
        B, S, E = memory.shape
        parts = self.memory_kv(memory).view(B, S, 2, self.heads, E // self.heads)
        k, v = parts.transpose(1, 3).unbind(2)  # (B, H, S, D)
        return Cache(k, v)

    def __call__(self, x: Tensor, inputs: "BlockStepInputs") -> Tensor:
        """`DecoderBlock.step` of one token of each of W beams (B·W, E)."""
        W = inputs.slot.k.shape[2]
        parts = self.self_qkv(self.self_norm.layer_input(x)).view(
            -1, W, self.heads, 3, inputs.self_kv.k.shape[3]
        )
        q, k, v = parts.transpose(1, 2).unbind(3)  # (B, H, W, D)
        inputs.slot.k.copy_(k)
        inputs.slot.v.copy_(v)
        seen = attend_few_queries(q, *inputs.self_kv, inputs.self_bias)
        x = self.self_norm.add_residual(x, self.self_out(seen))
        asked = (
            self.cross_query(self.cross_norm.layer_input(x))
            .view(-1, W, *q.shape[1::2])
            .transpose(1, 2)
        )
        seen = attend_few_queries(asked, *inputs.cross_kv, inputs.cross_bias)
        return self.feed_forward(self.cross_norm.add_residual(x, self.cross_out(seen)))


class PackedTransformer(NamedTuple):
    """All that reads a source and writes a target, made ready for many."""

    encoder: tuple[PackedEncoderBlock, ...]
    decoder: tuple[PackedDecoderBlock, ...]
    out: LinearFunction  # to logits

    @classmethod
    def from_blocks(
        cls,
        encoder: Sequence[EncoderBlock],
        decoder: Sequence[DecoderBlock],
        out: nn.Linear,
        make: LinearFactory,
    ) -> "PackedTransformer":
        """The blocks, and what comes behind them."""
        return cls(
            tuple(PackedEncoderBlock.from_block(block, make) for block in encoder),
            tuple(PackedDecoderBlock.from_block(block, make) for block in decoder),
            packed_linear.from_linear(out, make),
        )

    def start_caches(
        self, memory: Tensor, bias: Tensor
    ) -> tuple[SharedBeamCache, SharedMemoryCache]:
        """Nothing written yet, and a memory (B, S, E) to look at, by its bias (B, 1, 1, S)."""
        cross = [block.keys(memory) for block in self.decoder]
        none = [Cache(keys.k[:, :, :0], keys.v[:, :, :0]) for keys in cross]
        return SharedBeamCache.from_caches(none), SharedMemoryCache.from_caches(cross, bias)

    def decode_step(
        self,
        x: Tensor,
        self_cache: SharedBeamCache,
        beam_indices: Tensor,
        cross_cache: SharedMemoryCache,
        memory_bias: Tensor,
    ) -> tuple[Tensor, SharedBeamCache, Tensor]:
        """Decoder hidden states (B·W, E) of one token a beam, the longer cache and its lines.

        Args:
            x: one token of each of W beams (B·W, E).
            self_cache: the keys and values written so far.
            beam_indices: which beam wrote each token of a beam's past (B·W, T).
            cross_cache: the keys and values of the memory.
            memory_bias: what is added to the scores of the memory, for each beam (B·W, 1, 1, S).
        """
        self_cache, slots = self_cache.append_step()
        beam_indices = self_cache.next_beam_indices(beam_indices)
        hidden, padding = self_cache.score_bias(beam_indices), cross_cache.score_bias(memory_bias)
        each = zip(self.decoder, slots, self_cache.layers(), cross_cache.layers, strict=True)
        for block, slot, back, keys in each:
            x = block(x, BlockStepInputs(slot, back, hidden, keys, padding))
        return x, self_cache, beam_indices


class BlockStepInputs(NamedTuple):
    """Where one block writes what it looks back at, what it reads, and what is hidden of that."""

    slot: KeyValue  # (B, H, W, D)
    self_kv: KeyValue  # (B, H, K, D), the slot among them
    self_bias: Tensor | None  # (B, 1, W, K)
    cross_kv: KeyValue  # (B, H, S, D)
    cross_bias: Tensor | None  # (B, 1, 1, S)


class CpuState(NamedTuple):
    """The decoder's state where the beams of a source share their caches."""

    self_cache: SharedBeamCache
    cross_cache: SharedMemoryCache
    # −inf in the padding of the source, else 0 (B·W, 1, 1, S)
    memory_bias: Tensor
    # the beam that wrote each token of a beam's past (B·W, T)
    beam_indices: Tensor
    # what is added to tokens at each position (N, E), if it is prepared
    position_table: nn.Parameter | None


class CpuDecoder:
    """`start` and `step` of a model with a `Stack` on a CPU, in few operations.

    Args:
        model: its general path is taken for what the short cut does not do.
        stack: its parts.
        weights: those of the stack, packed once for many sources.
    """

    def __init__(self, model: Any, stack: Stack, weights: PackedTransformer):
        self.model, self.stack, self.weights = model, stack, weights

    def start(self, source: Any) -> Any:
        """The state before the first token; that of the model where the short cut is not taken."""
        if not can_decode(self.stack):
            return self.model.start(source)
        x, bias = self.model.embed_source(source)
        memory = self._encode(x, bias)
        lines = torch.zeros(len(memory), 0, dtype=torch.int64)
        return CpuState(*self.weights.start_caches(memory, bias), bias, lines, None)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B·W, V) for the token after `tokens` (B·W,), and the state there."""
        if not isinstance(state, CpuState):
            return self.model.step(tokens, state)
        if not fast_path.allowed(*(block.feed_forward.out.weight for block in self.stack.decoder)):
            raise ValueError(STARTED_OTHERWISE)
        x, state = self._embed(tokens, state)
        x, self_cache, lines = self.weights.decode_step(
            x, state.self_cache, state.beam_indices, state.cross_cache, state.memory_bias
        )
        state = state._replace(self_cache=self_cache, beam_indices=lines)
        return self.weights.out(self.stack.norm(x)), state

    def _encode(self, x: Tensor, bias: Tensor) -> Tensor:
        """The memory (B, S, E) of source embeddings."""
        if x.shape[1] > ENCODER_MAX_TOKENS:
            found: Tensor = self.model.encoder(x, bias)
            return found
        for block in self.weights.encoder:
            x = block(x, bias)
        memory: Tensor = self.model.encoder.norm(x)
        return memory

    def _embed(self, tokens: Tensor, state: CpuState) -> tuple[Tensor, CpuState]:
        """The embeddings of tokens (B·W, E), and the state with positions for them."""
        step, table = state.self_cache.length, state.position_table
        if table is None or step == len(table):
            size = max(MIN_CAPACITY_STEPS, 2 * step)
            table = position_table(self.stack.positions, size, self.stack.target.weight)
            state = state._replace(position_table=table)
        if table is None:
            x: Tensor = self.model.embed(self.stack.target, tokens[:, None], start=step)
            return x[:, 0], state
        scale = self.stack.embedding_scale
        return embed_at_step(tokens, self.stack.target.weight, table, step, scale=scale), state


def pack(stack: Stack, make: LinearFactory) -> PackedTransformer:
    """The weights of a stack as they are now, packed by `make`."""
    return PackedTransformer.from_blocks(stack.encoder, stack.decoder, stack.out, make)


def can_decode(stack: Stack) -> bool:
    """True if a stack decodes on a CPU in few operations, and may."""
    weight = stack.out.weight
    if weight.device.type in decode_step.DEVICES or not decode_step.supports_cpu(weight):
        return False
    return stack.has_plain_attention and fast_path.allowed(weight, *_weights(stack.decoder))


def _weights(blocks: Sequence[EncoderBlock] | Sequence[DecoderBlock]) -> list[Tensor]:
    """Weights of each block, by which it is known whether they learn."""
    layers = (
        p
        for b in blocks
        for p in (
            b.self_attention.query,
            b.self_attention.out,
            b.feed_forward.inner,
            b.feed_forward.out,
        )
    )
    return [layer.weight for layer in layers]


def _qkv_by_head(
    layer: MultiHead, qkv_projection: QKVProjection, make: LinearFactory
) -> LinearFunction:
    """A product (3 E, E) by which query, key and value of a head stand together, scaled."""

    def group_by_head(x: Tensor) -> Tensor:
        q, k, v = x.unflatten(0, (3, layer.heads, -1))  # (H, D, ·)
        return torch.stack([q * q.shape[1] ** -0.5, k, v], 1).flatten(0, 2)

    return make(
        group_by_head(qkv_projection.weight),
        None if qkv_projection.bias is None else group_by_head(qkv_projection.bias),
    )


def _memory_kv_linear(layer: MultiHead, make: LinearFactory) -> LinearFunction:
    """The product to keys and to values, one behind the other."""
    parts = (layer.key, layer.value)
    bias = None if layer.key.bias is None else torch.cat([part.bias for part in parts])
    return make(torch.cat([part.weight for part in parts]), bias)


def _scaled_query_linear(layer: MultiHead, make: LinearFactory) -> LinearFunction:
    """The product to queries that are scaled before they are asked."""
    query, scale = layer.query, (layer.query.out_features // layer.heads) ** -0.5
    bias = None if query.bias is None else query.bias * scale
    return make(query.weight * scale, bias)

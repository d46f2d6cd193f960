"""Decoding on a GPU in few launches: launch overhead dominates a step of a small model.

A step of a block is seven kernels: two for self-attention, three for cross-attention and two for
the feed-forward layer, each with the norm that follows it. The numbers are those of
`DecoderBlock.step`, rounded less often.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import fast_path
from regard.fast_decode.embedding import embed_at_position, position_table
from regard.fast_decode.stack import STARTED_OTHERWISE, Stack
from regard.kernels.decode_step import api as decode_step
from regard.layers.blocks import DecoderBlock
from regard.layers.caches import Cache, QKVProjection, Slots, StaticCache
from regard.layers.feed_forward import FeedForward


class GpuState(NamedTuple):
    """The decoder's state in buffers that never change their shapes."""

    # a layer each: keys and values written so far (B, H, N, D)
    self_slots: tuple[Slots, ...]
    # a layer each: the source, projected once a sentence
    cross_caches: tuple[Cache, ...]
    # −inf in the padding of the source, else 0 (B, 1, 1, S)
    memory_bias: Tensor
    # how many slots are filled ()
    position: Tensor
    # −inf in each slot that is not filled yet (B, 1, 1, N)
    free_slot_bias: Tensor
    # what is added to tokens at each position (N, E), if it is prepared
    position_table: nn.Parameter | None


class GpuDecoder:
    """`start` and `step` of a model with a `Stack`, in slots whose shapes never change."""

    def __init__(self, model: Any, stack: Stack):
        self.model, self.stack = model, stack

    def start(self, source: Any, *, size: int) -> Any:
        """The state before the first token of a target with room for `size` tokens."""
        state = self.model.start(source, size=size)
        if not can_step(self.stack.decoder, state.self_caches, state.cross_caches):
            return state
        return GpuState(
            tuple(Slots(cache.k, cache.v, cache.qkv_projection) for cache in state.self_caches),
            state.cross_caches,
            state.bias,
            state.position,
            cast(Tensor, state.self_caches[0].free_slot_bias),
            position_table(self.stack.positions, size, self.stack.target.weight),
        )

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits (B, V) for the token after `tokens` (B,), and the state there."""
        if not isinstance(state, GpuState):
            return self.model.step(tokens, state)
        if not fast_path.allowed(state.memory_bias, self.stack.out.weight):
            raise ValueError(STARTED_OTHERWISE)
        biases = StepBiases(state.position, state.free_slot_bias, state.memory_bias)
        stream = ResidualStream.from_blocks(
            self._embed(tokens, state), self.stack.decoder, self.stack.norm
        )
        layers = zip(self.stack.decoder, state.self_slots, state.cross_caches, strict=True)
        for block, slots, memory in layers:
            stream = block_step(block, stream, slots, memory, biases)
        logits = self.stack.out(stream.layer_input)
        return logits, state._replace(position=state.position + 1)

    def _embed(self, tokens: Tensor, state: GpuState) -> Tensor:
        """The embeddings of the tokens that come next (B, E)."""
        table, scale = self.stack.target, self.stack.embedding_scale
        if state.position_table is None:
            x: Tensor = self.model.embed(table, tokens[:, None], start=state.position)
            return x[:, 0]
        return embed_at_position(
            tokens, table.weight, state.position_table, state.position, scale=scale
        )


class StepBiases(NamedTuple):
    """What the self-attentions of all layers share, and the bias of the memory."""

    length: Tensor  # (): how many slots are filled
    free_slot_bias: Tensor  # (B, 1, 1, N): −inf in each slot that is not
    memory_bias: Tensor  # (B, 1, 1, S): added to the scores of the memory


class ResidualStream(NamedTuple):
    """One token of each row between two layers, and the norms that follow."""

    x: Tensor  # (B, E): what the layers add to
    layer_input: Tensor  # (B, E): the input of the next layer
    norms: tuple[nn.LayerNorm, ...]
    norm_first: bool  # True if norms come before layers

    @classmethod
    def from_blocks(
        cls, x: Tensor, blocks: Sequence[DecoderBlock], final_norm: nn.Module
    ) -> "ResidualStream":
        """The stream before the first layer; `final_norm` follows the last one."""
        add_norms = [part for block in blocks for part in block.norms]
        norms = [part.norm for part in add_norms]
        if not add_norms[0].norm_first:
            return cls(x, x, tuple(norms), False)
        return cls(x, norms[0](x), (*norms[1:], cast(nn.LayerNorm, final_norm)), True)

    def add_projection(self, out: Tensor, project: nn.Linear) -> "ResidualStream":
        """The stream after a layer that ends with a projection of `out` (B, ·)."""
        from regard.kernels.decode_step.triton.linear import linear
        from regard.kernels.decode_step.triton.norm import add_norm

        norm, *others = self.norms
        out = linear(out, project.weight, project.bias)
        x, layer_input = add_norm(self.x, out, norm, keep_sum=self.norm_first)
        return ResidualStream(x, layer_input, tuple(others), self.norm_first)


def block_step(
    block: DecoderBlock,
    stream: ResidualStream,
    slots: Slots,
    memory: Cache,
    biases: StepBiases,
) -> ResidualStream:
    """The stream after one token a row went through a block; the slots are written to."""
    from regard.kernels.decode_step.triton import attention
    from regard.kernels.decode_step.triton.linear import linear

    qkv = linear(stream.layer_input, *cast(QKVProjection, slots.qkv_projection))
    out = attention.append_and_attend(qkv, slots.k, slots.v, biases.free_slot_bias, biases.length)
    stream = stream.add_projection(out, block.self_attention.out)
    q = linear(stream.layer_input, block.cross.query.weight, block.cross.query.bias)
    out = attention.attend_single_query(q, memory.k, memory.v, biases.memory_bias)
    stream = stream.add_projection(out, block.cross.out)
    inner = inner_activations(block.feed_forward, stream.layer_input)
    return stream.add_projection(inner, block.feed_forward.out)


def inner_activations(layer: FeedForward, x: Tensor) -> Tensor:
    """Inner activations (B, inner) of a feed-forward layer for few tokens (B, E): one launch."""
    from regard.kernels.decode_step.triton.linear import linear

    relu = layer.activation is F.relu
    inner = linear(x, layer.inner.weight, layer.inner.bias, relu=relu)
    return inner if relu else layer.activation(inner)


def can_step(
    blocks: Sequence[DecoderBlock], self_caches: Sequence[Any], cross_caches: Sequence[Cache]
) -> bool:
    """True if `block_step` takes one token a row from these caches."""
    if not all(isinstance(x, StaticCache) and x.qkv_projection is not None for x in self_caches):
        return False
    if any(x.free_slot_bias is None for x in self_caches):
        return False
    weights: list[Tensor] = [block.feed_forward.out.weight for block in blocks]
    keys = [x for cache in (*self_caches, *cross_caches) for x in (cache.k, cache.v)]
    tensors = (*keys, *weights, self_caches[0].qkv_projection.weight)
    return decode_step.supports_gpu(tensors[0]) and fast_path.allowed(*tensors)


def runs_here(stack: Stack) -> bool:
    """True if the weights of a stack lie where the kernels run."""
    weight = stack.out.weight
    return (
        stack.has_plain_attention
        and decode_step.supports_gpu(weight)
        and not torch.compiler.is_compiling()
    )

"""Additive scores and windows in memory linear in the length, on any device, with gradients.

The twin of `functional.attention`. Three roads: a rule that keeps every query near its own position
runs as blocks, one that keeps it near a centre of its own as gathered keys (both in
`functional.local`), and an additive score runs tile by tile (`kernels.additive.reference_tiled`),
so that no (Q, K, D) tensor is ever formed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.functional import attention as plain
from regard.functional import biases, local, rules, selects
from regard.functional.call import Call, map_tensors
from regard.functional.precision import to_float32
from regard.functional.rules import DenseMask
from regard.functional.scores import DOT_PRODUCT_SCORES, Additive
from regard.functional.selects import Gaussian, softmax
from regard.kernels.additive import reference_tiled as additive_reference_tiled
from regard.kernels.backends import sdpa
from regard.kernels.guards import is_differentiated_by_transform

# How many (q, k) pairs of a mask, a bias or a score are spelled out at a time.
CHUNK_MAX_PAIRS = 1 << 22
# How many terms of an additive score are formed at a time where all scores are wanted.
SCORE_CHUNK_MAX_TERMS = 1 << 22
# So few terms fit one tile with room to spare, and tiling them costs more than forming them.
UNTILED_MAX_TERMS = 1 << 20
# How many queries share a stretch of keys, or a multiple of it.
BLOCK_QUERIES = 32


def why_not(call: Call) -> str | None:
    """The reason this cannot run the call, or None if it can."""
    if _can_use_blocks(call) or _can_gather_keys(call):
        return None
    if not isinstance(call.score, Additive):
        if torch.compiler.is_exporting() and _has_band(call):
            return "a program that is exported takes any length, and no number of blocks"
        return "only additive scores, windows and centres gain from chunks"
    if call.select is not softmax:
        return "an additive score is tiled under the softmax alone"
    if call.dropout:
        return "an additive score is tiled without dropout"
    return None


def is_profitable(call: Call) -> bool:
    """Whether this is worth more than one fused call over everything."""
    K = call.k.shape[2]
    around = local.find_around_rule(call.rule)
    if around is not None:
        return 2 * around.reach + 1 < K
    width = sum(rules.band(call.rule))
    short = not torch.compiler.is_exporting() and 2 * (width + BLOCK_QUERIES) < K
    return isinstance(call.score, Additive) or short


def attention(call: Call) -> Tensor:
    """What each query reads (B, H, Q, Dv)."""
    if _can_gather_keys(call):
        around = local.find_around_rule(call.rule)
        assert around is not None
        pieces, join = local.split_into_single_queries(call, around)
        return join(_attend_pieces(pieces))
    if _can_use_blocks(call) and (_has_fewer_pairs(call) or not _can_tile(call)):
        pieces, join = local.split_into_blocks(call, block=_block_size(call))
        return join(
            _attend_fully_visible(pieces) if _is_fully_visible(call) else _attend_pieces(pieces)
        )
    outs = [_attend_tiled(part).to(call.v.dtype) for _, part in _query_chunks(call)]
    return outs[0] if len(outs) == 1 else torch.cat(outs, 2)


def log_probability(call: Call, index: Tensor) -> Tensor:
    """The log of the softmax at one key a query (B, H, Q), a few queries at a time."""
    tiled = isinstance(call.score, Additive)
    if not tiled and not isinstance(call.score, DOT_PRODUCT_SCORES):
        return _chunk_log_probability(local.with_dot_product(call), index)
    chunks = list(_query_chunks(call, scores=not tiled))
    if len(chunks) == 1:
        return _chunk_log_probability(chunks[0][1], index)
    # torch.func knows no checkpoints
    again = not is_differentiated_by_transform()
    outs = [
        checkpoint(_chunk_log_probability, part, index[:, :, rows], use_reentrant=False)
        if again
        else _chunk_log_probability(part, index[:, :, rows])
        for rows, part in chunks
    ]
    return torch.cat(outs, 2)


@dataclass(frozen=True, eq=False)
class ChunkedScore:
    """An additive score that is formed a few queries at a time, and again so in the backward.

    All scores come out, but no (Q, K, D) tensor is ever there.
    """

    score: Additive

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        rows = max(1, SCORE_CHUNK_MAX_TERMS // max(1, k.numel()))
        if rows >= q.shape[2] or is_differentiated_by_transform():
            return self.score(q, k)
        # every part gives a gradient of all keys and vectors: the sum is not rounded part by part
        k, score = to_float32(k), map_tensors(self.score, to_float32)
        parts = [checkpoint(score, part, k, use_reentrant=False) for part in q.split(rows, 2)]
        return torch.cat(parts, 2)


def _can_use_blocks(call: Call) -> bool:
    # how many blocks there are would be written into a program that is exported
    return _has_band(call) and not torch.compiler.is_exporting()


def _has_band(call: Call) -> bool:
    near = math.isfinite(sum(rules.band(call.rule)))
    return (
        near
        and selects.is_position_independent(call.select)
        and isinstance(call.score, (*DOT_PRODUCT_SCORES, Additive))
    )


def _can_gather_keys(call: Call) -> bool:
    near = local.find_around_rule(call.rule) is not None
    simple = selects.is_position_independent(call.select) or isinstance(call.select, Gaussian)
    return near and simple and isinstance(call.score, (*DOT_PRODUCT_SCORES, Additive))


def _block_size(call: Call) -> int:
    """How many queries share a stretch of keys: about as many as they see to either side."""
    return BLOCK_QUERIES * max(1, math.ceil(max(local.visible_band(call)) / BLOCK_QUERIES))


def _has_fewer_pairs(call: Call) -> bool:
    """True if the blocks have fewer pairs than all queries and keys."""
    _, _, Q, K = call.sizes
    block = _block_size(call)
    stretch = sum(math.ceil(reach / block) for reach in local.visible_band(call)) + 1
    return math.ceil(Q / block) * stretch * block**2 < Q * K


def _can_tile(call: Call) -> bool:
    """True if the additive score may be tiled over everything."""
    return isinstance(call.score, Additive) and call.select is softmax and not call.dropout


def _is_fully_visible(call: Call) -> bool:
    """Whether no query is blind and no key near enough is hidden: then nothing needs guarding."""
    _, _, Q, K = call.sizes
    steady = local.is_translation_invariant(call.rule)
    return steady and Q <= K and call.bias is None and isinstance(call.score, DOT_PRODUCT_SCORES)


def _attend_fully_visible(pieces: Call) -> Tensor:
    """Dense pieces in which every query sees a key and every key is seen or zero."""
    if pieces.select is not softmax:
        return _attend_pieces(pieces)
    assert isinstance(pieces.score, DOT_PRODUCT_SCORES) and isinstance(pieces.rule, DenseMask)
    q, k, scale = pieces.score.fold(pieces.q, pieces.k)
    return sdpa.run_kernel(q, k, pieces.v, pieces.rule.mask, pieces.dropout, scale=scale)


def _attend_pieces(pieces: Call) -> Tensor:
    if sdpa.why_not(pieces) is None:
        return sdpa.attention(pieces)
    if isinstance(pieces.score, Additive) and pieces.select is softmax and not pieces.dropout:
        return _attend_tiled(pieces)
    return plain.run_call(pieces)


def _attend_tiled(part: Call) -> Tensor:
    assert isinstance(part.score, Additive)
    if _has_few_terms(part):
        return plain.run_call(part)
    seen = plain.dense_mask(part.q, part.k, part.rule)
    bias = None if part.bias is None else plain.dense_bias(part.q, part.k, part.bias)
    return additive_reference_tiled.attention(
        plain.without_blind_queries(part.q, seen),
        plain.without_hidden_keys(part.k, seen),
        plain.without_hidden_keys(part.v, seen),
        vector=part.score.vector,
        mask=seen,
        bias=bias,
    )


def _has_few_terms(part: Call) -> bool:
    """True if an additive score is formed as a whole, as what fits one tile is.

    Then its gradients have gradients, and derivatives may be taken as PyTorch likes.
    """
    B, H, Q, K = part.sizes
    few = not torch.compiler.is_exporting() and B * H * Q * K * part.q.shape[3] <= UNTILED_MAX_TERMS
    return few or is_differentiated_by_transform()


def _chunk_log_probability(part: Call, index: Tensor) -> Tensor:
    if not isinstance(part.score, Additive) or _has_few_terms(part):
        return plain.log_probability(
            part.q, part.k, index, score=part.score, rule=part.rule, bias=part.bias
        ).to(part.q.dtype)
    seen = plain.dense_mask(part.q, part.k, part.rule)
    bias = None if part.bias is None else plain.dense_bias(part.q, part.k, part.bias)
    q, k = plain.without_blind_queries(part.q, seen), plain.without_hidden_keys(part.k, seen)
    return additive_reference_tiled.log_probability(
        q, k, index, vector=part.score.vector, mask=seen, bias=bias
    )


def _query_chunks(call: Call, *, scores: bool = False) -> Iterator[tuple[slice, Call]]:
    """The call for a few queries at a time, so that what is (Q, K) in it stays small.

    Rules and biases are always spelled out; with `scores`, so is a score for each row and head.
    """
    B, H, Q, K = call.sizes
    call = local.with_dot_product(call)
    pairs = K * (B * H if scores else 1)
    rows = max(1, CHUNK_MAX_PAIRS // max(pairs, 1))
    whole = not scores and call.rule is None and call.bias is None
    whole |= torch.compiler.is_exporting()
    if whole or rows >= Q:
        yield slice(0, Q), call
        return
    # every chunk gives a gradient of all keys, biases and parameters of the score: the sum is not
    # rounded chunk by chunk
    call = replace(
        call, k=to_float32(call.k), v=to_float32(call.v), score=map_tensors(call.score, to_float32)
    )
    if call.bias is not None:
        call = replace(call, bias=biases.in_float32(call.bias))
    b, h, at, k = rules.index_grid(B, H, Q, K, device=call.q.device)
    for start, q in zip(range(0, Q, rows), call.q.split(rows, 2), strict=True):
        places = (b, h, at[start : start + rows], k)
        seen = None if call.rule is None else DenseMask(call.rule(*places))
        bias = None if call.bias is None else biases.DenseBias(call.bias(*places))
        yield slice(start, start + rows), replace(call, q=q, rule=seen, bias=bias)

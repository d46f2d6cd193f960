"""Additive attention, tile by tile: no (Q, K, D) tensor, forward or backward.

The twin is `regard.functional.scores.Additive` with `selects.softmax`. Plain PyTorch, so it runs on
every device and needs no compiler. It wants as many heads in k and v as in q, knows no dropout and
has no second derivative. The derivation, and what was tried: `docs/kernels.md`.
"""

from collections.abc import Iterator
from itertools import product
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from regard.functional.precision import cast_finite, without_autocast
from regard.kernels.operators import forbid_second_derivative, register_operator
from regard.runtime.onednn import Workspace

# Bytes of a tile, the working set: pass after pass goes over it, and all threads meet after each.
# On a CPU small enough to stay in cache, large enough that they do not meet too often; elsewhere
# large enough that launching kernels costs little.
TILE_BYTES = {"cpu": 2**23}
DEFAULT_TILE_BYTES = 2**25

Block = tuple[slice, slice, slice]  # batch, heads, queries


class _TiledCall:
    """One call, cut into blocks of (batch, heads, queries), and these into tiles.

    A block holds scores (n, q, K) of n pairs of a batch row and a head; what is small work is done
    for a block at once. A tile holds the hidden layer (n, q, k, D) of a part of a block.
    """

    def __init__(
        self, q: Tensor, k: Tensor, vector: Tensor, mask: Tensor | None, bias: Tensor | None
    ) -> None:
        (self.B, self.H, self.Q, D), self.K = q.shape, k.shape[2]
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.q, self.k = self.to_compute_dtype(q), self.to_compute_dtype(k)
        self.vector = vector.to(self.dtype)[..., None].expand(self.B, self.H, D, 1)
        bias = None if bias is None else cast_finite(bias, self.dtype)
        self.mask, self.bias = (
            None if x is None else x.expand(self.B, self.H, self.Q, self.K) for x in (mask, bias)
        )
        self.least = torch.finfo(self.dtype).min
        elements = TILE_BYTES.get(q.device.type, DEFAULT_TILE_BYTES) // self.q.itemsize
        *self.block, self.rows, self.keys = self._block_and_tile_sizes(
            elements, max(1, elements // max(1, D))
        )
        count = self.block[0] * self.block[1] * self.rows * self.keys * D
        self.workspace = Workspace(count, self.q)

    def _block_and_tile_sizes(self, elements: int, pairs: int) -> tuple[int, int, int, int, int]:
        """Batch, heads and queries of a block; queries and keys of a tile of `pairs` of them."""
        Q, K = max(1, self.Q), max(1, self.K)
        if pairs >= Q * K:
            heads = max(1, min(self.H, pairs // (Q * K)))
            return max(1, min(self.B, pairs // (heads * Q * K))), heads, Q, Q, K
        # Whole rows if they fit, since backward needs them whole. Otherwise as square as can be, so
        # that queries and keys are touched least often; but their scores have to fit as well.
        rows = pairs // K or max(1, min(Q, isqrt(pairs), elements // K))
        keys = min(K, pairs // rows)
        # Eight tiles of rows make a block: the work between tiles is small then, and the gradient
        # of keys is summed in short runs, tiles within blocks, which keeps its last digits.
        return 1, 1, rows * max(1, min(8, elements // K // rows)), rows, keys

    def to_compute_dtype(self, x: Tensor) -> Tensor:
        return x.to(self.dtype).contiguous()

    def blocks(self) -> Iterator[Block]:
        """Slices that cover all queries; none if there is nothing to see."""
        batch, heads, rows = self.block
        queries = self.Q if self.K else 0
        return product(
            _slices(0, self.B, batch), _slices(0, self.H, heads), _slices(0, queries, rows)
        )

    def inputs(self, block: Block) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (n, q, D), keys (n, K, D) and vectors (n, D, 1) of a block."""
        q, k, vector = self.q[block], self.k[block[:2]], self.vector[block[:2]]
        return q.flatten(0, 1), k.flatten(0, 1), vector.flatten(0, 1)

    def key_ranges(self, block: Block) -> list[list[slice]]:
        """The runs of keys that each tile of rows of a block has to visit."""
        cuts = _slices(0, block[2].stop - block[2].start, self.rows)
        # Keys before the first and after the last that any row sees are left out: a window costs
        # what the window costs. Only where reading the mask is no synchronisation.
        if self.mask is None or self.mask.device.type != "cpu":
            return [_slices(0, self.K, self.keys)] * len(cuts)
        seen = self.mask[block].flatten(0, 1).any(0)  # (q, K)
        keys = torch.arange(self.K, dtype=torch.int32)
        first = torch.where(seen, keys, self.K).amin(-1).tolist()
        last = torch.where(seen, keys + 1, 0).amax(-1).tolist()
        return [_slices(min(first[cut]), max(last[cut]), self.keys) for cut in cuts]

    def score_offset(self, block: Block) -> Tensor | None:
        """What mask and bias add to the scores of a block, (n, q, K)."""
        if self.mask is None:
            return None if self.bias is None else self.bias[block].flatten(0, 1)
        shown = self.q.new_zeros(()) if self.bias is None else self.bias[block]
        return torch.where(self.mask[block], shown, -torch.inf).flatten(0, 1)

    def tanh(self, q: Tensor, k: Tensor) -> Tensor:
        """The hidden layer (n, q, k, D) of a tile, which lasts until the next one."""
        return self.workspace.tanh_of_sum(q[:, :, None], k[:, None])


def _slices(first: int, last: int, step: int) -> list[slice]:
    return [slice(i, min(i + step, last)) for i in range(first, last, step)]


def _tile_scores(hidden: Tensor, vector: Tensor) -> Tensor:
    """Scores (n, q, k) of a tile."""
    n, q, k, D = hidden.shape
    return torch.bmm(hidden.view(n, q * k, D), vector).view(n, q, k)


@without_autocast
def _run_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    index: Tensor,
    vector: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What is read from v (B, H, Q, Dv), log softmax at index (B, H, Q, N), which rows see a key.

    Attention has N = 0 and pointing Dv = 0: one core for both.
    """
    call = _TiledCall(q, k, vector, mask, bias)
    values = call.to_compute_dtype(v)
    out = values.new_zeros(*q.shape[:3], v.shape[3])
    chosen = values.new_full((*q.shape[:3], index.shape[3]), -torch.inf)
    sees = torch.zeros_like(out[..., :1], dtype=torch.bool)
    for block in call.blocks():
        scores = _block_scores(call, block).view(*call.q[block].shape[:3], call.K)
        # A blind row has the peak -inf: anything finite instead makes its weights exp(-inf) = 0.
        scores -= scores.amax(-1, keepdim=True).clamp_(min=call.least)
        weights = scores.exp()
        total = weights.sum(-1, keepdim=True)
        sees[block] = total > 0
        # The peak itself weighs 1, so the total is at least 1 unless the row is blind.
        total.clamp_(min=1)
        out[block] = (weights @ values[block[:2]]).div_(total)
        chosen[block] = scores.gather(-1, index[block]) - total.log_()
    return out.to(q.dtype), chosen.to(q.dtype), sees


def _block_scores(call: _TiledCall, block: Block) -> Tensor:
    """Scores (n, q, K) of a block, -inf where not seen."""
    q, k, vector = call.inputs(block)
    scores = q.new_full((*q.shape[:2], call.K), -torch.inf)
    tiles = zip(
        q.split(call.rows, 1), scores.split(call.rows, 1), call.key_ranges(block), strict=True
    )
    for q_rows, score_rows, runs in tiles:
        for run in runs:
            score_rows[:, :, run] = _tile_scores(call.tanh(q_rows, k[:, run]), vector)
    offset = call.score_offset(block)
    return scores if offset is None else scores.add_(offset)


_forward = register_operator("additive_forward", _run_forward)


@torch.library.register_fake("regard::additive_forward")
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    index: Tensor,
    vector: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    rows = q.shape[:3]
    return (
        q.new_empty(*rows, v.shape[3]),
        q.new_empty(*rows, index.shape[3]),
        q.new_empty(*rows, 1, dtype=torch.bool),
    )


@without_autocast
def _run_backward(
    grad_out: Tensor,
    grad_chosen: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    index: Tensor,
    vector: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    chosen: Tensor,
    sees: Tensor,
    bias_wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, vector and bias (empty if not wanted)."""
    call = _TiledCall(q, k, vector, mask, bias)
    values = call.to_compute_dtype(v)
    # A blind row passes nothing on, nor does a choice that may not be seen: it stays at -inf.
    d_out = call.to_compute_dtype(grad_out).masked_fill(~sees, 0)  # (B, H, Q, Dv)
    d_chosen = call.to_compute_dtype(grad_chosen).masked_fill(
        chosen == -torch.inf, 0
    )  # (B, H, Q, N)
    dq, dk, dv, d_vector = (torch.zeros_like(x) for x in (call.q, call.k, values, call.q))
    d_bias = values.new_zeros(bias.shape if bias is not None and bias_wanted else 0)
    for block in call.blocks():
        heads = block[:2]
        d_weights = d_out[block] @ values[heads].mT  # (b, h, q, K)
        dk_block = torch.zeros_like(call.k[heads])
        weights, d_scores = _tiles_backward(
            call,
            block,
            [x.flatten(0, 1) for x in (d_weights, d_chosen[block], index[block])],
            [x.flatten(0, 1) for x in (dq[block], d_vector[block], dk_block)],
        )
        dk[heads] += dk_block
        dv[heads] += weights.view_as(d_weights).mT @ d_out[block]
        if d_bias.numel():
            add_bias_gradient(d_scores.view_as(d_weights), d_bias, block)
    dq *= call.vector.mT
    dk *= call.vector.mT
    return (
        dq.to(q.dtype),
        dk.to(k.dtype),
        dv.to(v.dtype),
        d_vector.sum((0, 2)).to(vector.dtype),
        d_bias.to(q.dtype if bias is None else bias.dtype),
    )


_backward = register_operator("additive_backward", _run_backward)


def _tiles_backward(
    call: _TiledCall, block: Block, rows: list[Tensor], grads: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Weights and gradient of the scores of a block (n, q, K); adds to `grads` of q, vector, k."""
    q, k, vector = call.inputs(block)
    dq, d_vector, dk = grads
    if call.keys < call.K:
        # Rows too long for a tile: the gradient of a score needs its whole row, so all scores of
        # the block are computed once more before any tile goes through tanh.
        weights, d_scores = _softmax_backward(
            _block_scores(call, block), rows[0], rows[1], rows[2], 0, call.least
        )
    else:
        weights, d_scores = torch.zeros_like(rows[0]), torch.zeros_like(rows[0])
    offset = call.score_offset(block)
    parts = [x.split(call.rows, 1) for x in (q, dq, d_vector, weights, d_scores, *rows)]
    for i, (runs, *part) in enumerate(zip(call.key_ranges(block), *parts, strict=True)):
        q_, dq_, d_vector_, w, d, d_weights, d_chosen, index = part
        for run in runs:
            hidden = call.tanh(q_, k[:, run])
            if call.keys == call.K:
                scores = _tile_scores(hidden, vector)
                if offset is not None:
                    scores += offset[:, i * call.rows : (i + 1) * call.rows, run]
                w[:, :, run], d[:, :, run] = _softmax_backward(
                    scores, d_weights[:, :, run], d_chosen, index, run.start, call.least
                )
            _backward_through_tanh(d[:, :, run], hidden, dq_, dk[:, run], d_vector_)
    return weights, d_scores


def _softmax_backward(
    scores: Tensor, d_weights: Tensor, d_chosen: Tensor, index: Tensor, first: int, least: float
) -> tuple[Tensor, Tensor]:
    """Weights and gradient of whole rows of scores (n, q, k), whose first key is `first`.

    What comes in for a blind row is zero.
    """
    weights = torch.softmax(scores.clamp_(min=least), -1)
    # Mean and difference from the same weights: a row's gradients then sum to zero, as closely as
    # in plain PyTorch. A mean from d_out · out does not, and costs dq and d_vector a digit.
    d = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
    if index.numel():
        d -= weights * d_chosen.sum(-1, keepdim=True)
        # An index outside this run is of a key that may not be seen; zero comes in for it.
        d.scatter_add_(-1, (index - first).clamp_(0, d.shape[2] - 1), d_chosen)
    return weights, d


def _backward_through_tanh(
    d: Tensor, hidden: Tensor, dq: Tensor, dk: Tensor, d_vector: Tensor
) -> None:
    """Add what the gradient of the scores (n, q, k) gives q, k and vector; spends `hidden`.

    The factor `vector` of dq and dk is the same for all tiles and is left for the end.
    """
    n, q, k, D = hidden.shape
    # Row by row, summed at the very end: in one long product the sum would lose a digit.
    d_vector += torch.bmm(d.reshape(n * q, 1, k), hidden.view(n * q, k, D)).view(n, q, D)
    torch.ops.aten.tanh_backward.grad_input(d[..., None], hidden, grad_input=hidden)
    dq += hidden.sum(2)
    if q > 16:
        dk += hidden.sum(1)
    else:
        # A product with ones has the speed of two sums, but would round off a long one.
        dk.view(n, 1, k * D).baddbmm_(d.new_ones(n, 1, q), hidden.view(n, q, k * D))


def add_bias_gradient(d: Tensor, total: Tensor, block: Block) -> None:
    """Add `d` (b, h, q, K) to a bias gradient, summed over the axes that the bias spreads along."""
    total = total.view((1,) * (4 - total.ndim) + total.shape)
    once = [axis for axis in range(4) if total.shape[axis] == 1]
    at = tuple(slice(None) if axis in once else cut for axis, cut in enumerate(block))
    total[at] += d.sum(once, keepdim=True) if once else d


@torch.library.register_fake("regard::additive_backward")
def _(
    grad_out: Tensor,
    grad_chosen: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    index: Tensor,
    vector: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    chosen: Tensor,
    sees: Tensor,
    bias_wanted: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    dq, dk, dv, d_vector = (x.new_empty(x.shape) for x in (q, k, v, vector))
    if bias is None or not bias_wanted:
        return dq, dk, dv, d_vector, (q if bias is None else bias).new_empty(0)
    return dq, dk, dv, d_vector, bias.new_empty(bias.shape)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, *output[1:])


def _autograd_backward(
    ctx: Any, grad_out: Tensor, grad_chosen: Tensor, *_: Tensor
) -> tuple[Tensor | None, ...]:
    wanted = ctx.needs_input_grad[6]
    dq, dk, dv, d_vector, d_bias = _backward(grad_out, grad_chosen, *ctx.saved_tensors, wanted)
    return dq, dk, dv, None, d_vector, None, d_bias if wanted else None


forbid_second_derivative("additive_backward", "additive attention: the tiled form")
torch.library.register_autograd(
    "regard::additive_forward", _autograd_backward, setup_context=_setup_context
)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    vector: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Bahdanau et al. 2015, A.1.2: read v by the softmax of `vector · tanh(q + k)`.

    Args:
        q: projected queries (B, H, Q, D).
        k: projected keys (B, H, K, D).
        v: values (B, H, K, Dv).
        vector: (H, D).
        mask: bool, spreads to (B, H, Q, K); True may be seen. A row that sees nothing reads zeros.
        bias: float, spreads to (B, H, Q, K); added to the scores.
    """
    index = torch.empty((*q.shape[:3], 0), dtype=torch.int64, device=q.device)
    out: Tensor = _forward(q, k, v, index, vector, mask, bias)[0]
    return out


def log_probability(
    q: Tensor,
    k: Tensor,
    index: Tensor,
    *,
    vector: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Log softmax of `vector · tanh(q + k)` at the key `index` (B, H, Q) of each query.

    It is -inf, with no gradient, where that key may not be seen. Other arguments as in `attention`.
    """
    v = k.new_empty(*k.shape[:3], 0)
    chosen: Tensor = _forward(q, k, v, index[..., None], vector, mask, bias)[1]
    return chosen[..., 0]

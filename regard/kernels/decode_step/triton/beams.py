"""What a step of beam search does with the largest log-probabilities of its beams, in one launch.

The twin is the plain half of `regard.decode.beam_search`: the beams that end and those that go on,
the pool of the finished, and whether more is to come. Sums are float32. A program has one source.
"""

# What Triton compiles has no Python types.
# mypy: disallow-untyped-defs=False

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.kernels.decode_step.triton import dependent_launch as chain
from regard.kernels.decode_step.triton.dependent_launch import wait_for_previous_launch
from regard.kernels.decode_step.triton.top_k import (
    LOWEST_KEY,
    index_from_key,
    sort_key,
    value_from_key,
)

# Up to so many candidates, one warp has them: it need not wait for others.
ONE_WARP_MAX_CANDIDATES = 128


# fmt: off
@triton.jit
def _best_candidates(
    log_probs_ptr, running_ptr,
    W: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr,
):
    """The keys of the best K of W · N sums, best first, (BK,)."""
    # fmt: on
    c = tl.arange(0, BC)
    real = c < W * N
    running = tl.load(running_ptr + c // N, mask=real, other=0.0)
    totals = running + tl.load(log_probs_ptr + c, mask=real, other=0.0)
    # the row of no beam has no say, were it NaN
    totals = tl.where(running == -float("inf"), running, totals)
    keys = tl.where(real, sort_key(totals, c), LOWEST_KEY)
    best, k = tl.full([BK], LOWEST_KEY, tl.int64), tl.arange(0, BK)
    for rank in range(K):
        most = tl.max(keys, 0)
        best = tl.where(k == rank, most, best)
        keys = tl.where(keys == most, LOWEST_KEY, keys)
    return best


@triton.jit
def _count_better(keys, others):
    """How many of the others stand before each of the keys."""
    return tl.sum((others[None, :] > keys[:, None]).to(tl.int32), 1)


@triton.jit
def _score_at_rank(rank: tl.constexpr, old, old_rank, new, new_rank):
    """The score that has a rank in the pool."""
    one = tl.max(tl.where(old_rank == rank, old, LOWEST_KEY), 0)
    return value_from_key(tl.maximum(one, tl.max(tl.where(new_rank == rank, new, LOWEST_KEY), 0)))


@triton.jit
def _store_by_rank(ptr, old, old_rank, new, new_rank, P: tl.constexpr):
    """Write what has one of the first P ranks in its place."""
    tl.store(ptr + old_rank, old, mask=old_rank < P)
    tl.store(ptr + new_rank, new, mask=new_rank < P)


# fmt: off
@triton.jit
def _advance_beams_kernel(
    log_probs_ptr, candidates_ptr, running_ptr, tokens_ptr, parents_ptr,
    scores_ptr, totals_ptr, lengths_ptr, slots_ptr, last_tokens_ptr,
    done_ptr, step_counts_ptr, failed_steps_ptr, step_ptr, history_ptr, limits_ptr, penalties_ptr,
    B, T, end, limits_stride,
    W: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
    BC: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr, CHAINED: tl.constexpr,
):
    """Grow W beams by the best K of their W · N candidates, with a pool of P."""
    # fmt: on
    row = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, BP)
    pooled, in_pool = row * P + p, p < P
    wait_for_previous_launch(CHAINED)
    step, settled = tl.load(step_ptr), tl.load(done_ptr + row).to(tl.int32)
    limit = tl.load(limits_ptr + row * limits_stride).to(tl.int64)
    old_scores = tl.load(scores_ptr + pooled, mask=in_pool, other=0.0)
    old_totals = tl.load(totals_ptr + pooled, mask=in_pool, other=0.0)
    old_lengths = tl.load(lengths_ptr + pooled, mask=in_pool, other=0)
    old_slots = tl.load(slots_ptr + pooled, mask=in_pool, other=0)
    old_lasts = tl.load(last_tokens_ptr + pooled, mask=in_pool, other=0)
    # nothing is read behind the last of them, whatever the step
    penalty = tl.load(penalties_ptr + tl.minimum(step, T - 1))
    ahead = tl.load(penalties_ptr + tl.minimum(step + 1, T - 1))
    ahead = tl.maximum(ahead, tl.load(penalties_ptr + tl.minimum(limit, T) - 1))

    best = _best_candidates(log_probs_ptr + row * W * N, running_ptr + row * W, W, N, K, BC, BK)
    k = tl.arange(0, BK)
    real, totals = k < K, value_from_key(best)
    slots = index_from_key(best) // N
    tokens = tl.load(candidates_ptr + row * W * N + index_from_key(best), mask=real, other=0)
    ends, goes = real & (tokens == end), real & (tokens != end)
    # those that go on stand first, and those that end fill the places behind them: no beams
    many = tl.sum(goes.to(tl.int32), 0)
    behind = many + tl.cumsum(ends.to(tl.int32), 0)
    at = tl.where(ends, behind, tl.cumsum(goes.to(tl.int32), 0)) - 1
    onward = real & (at < W)

    # where the limit is reached, those that still run count as finished
    enters = (ends & (k < W)) | (goes & onward & (limit == step + 1))
    scores = tl.div_rn(totals, tl.zeros_like(totals) + penalty)
    # of equals the one found first stays: the old, the ended, the cut
    new = sort_key(scores, P + tl.where(ends, k, W + at))
    new = tl.where(enters & (settled == 0), new, LOWEST_KEY)
    old = tl.where(in_pool, sort_key(old_scores, p), LOWEST_KEY)
    new_rank = _count_better(new, new) + _count_better(new, old)
    old_rank = p + _count_better(old, new)

    last = _score_at_rank(P - 1, old, old_rank, new, new_rank)
    largest = value_from_key(tl.max(tl.where(goes & onward, best, LOWEST_KEY), 0))
    may_enter = tl.div_rn(largest, ahead) > last  # not where it is NaN, or there is none
    over = (settled != 0) | (limit <= step + 1) | (may_enter == 0)
    nan = tl.max((goes & onward & (totals != totals)).to(tl.int32), 0)
    empty = _score_at_rank(0, old, old_rank, new, new_rank) == -float("inf")
    lost = (settled == 0) & ((nan != 0) | (over & empty))

    # all was read before anything is written over it
    tl.debug_barrier()
    _store_by_rank(scores_ptr + row * P, old_scores, old_rank, scores, new_rank, P)
    _store_by_rank(totals_ptr + row * P, old_totals, old_rank, totals, new_rank, P)
    _store_by_rank(lengths_ptr + row * P, old_lengths, old_rank, step + 1, new_rank, P)
    _store_by_rank(slots_ptr + row * P, old_slots, old_rank, slots, new_rank, P)
    _store_by_rank(last_tokens_ptr + row * P, old_lasts, old_rank, tokens, new_rank, P)
    beam = row * W + at
    tl.store(running_ptr + beam, tl.where(ends, -float("inf"), totals), mask=onward)
    tl.store(tokens_ptr + beam, tokens, mask=onward)
    tl.store(parents_ptr + beam, slots, mask=onward)
    tl.store(done_ptr + row, over.to(tl.int8))
    tl.store(step_counts_ptr + row, tl.load(step_counts_ptr + row) + (settled == 0).to(tl.int64))
    if step < T:  # a history that is full stays as it is
        tl.store(history_ptr + step * B * W + beam, slots, mask=onward)
        tl.store(history_ptr + (T + step) * B * W + beam, tokens, mask=onward)
        if lost:
            tl.store(failed_steps_ptr + step, 1)


def advance_beams(
    log_probs: Tensor,
    candidates: Tensor,
    *,
    running: Tensor,
    tokens: Tensor,
    pool: Sequence[Tensor],
    done: Tensor,
    step_counts: Tensor,
    failed_steps: Tensor,
    step: Tensor,
    history: Tensor,
    limits: Tensor,
    penalties: Tensor,
    end: int,
) -> Tensor:
    """Grow the beams by one token; returns which of its source each comes from (B, W).

    All else is changed in place, but `step`, the limits and the penalties. Each is without gaps.

    Args:
        log_probs: of the likeliest tokens of each beam (B · W, n), best first.
        candidates: those tokens (B · W, n).
        running: log p of each beam (B, W).
        tokens: the last of each (B, W).
        pool: the finished: scores, totals, lengths, slots and last tokens, each (B, N), best first.
        done: whether no beam can enter the pool any more (B,).
        step_counts: how many steps were made until then (B,).
        failed_steps: at which steps a source had no token to take (T,).
        step: how many were made, of all sources (1,).
        history: parents and tokens of each step (2, T, B, W).
        limits: the most tokens of each source (B,).
        penalties: for each length, from 1 on (T,).
        end: the token that ends a beam.
    """
    (B, W), n, P, T = running.shape, log_probs.shape[1], pool[0].shape[1], history.shape[1]
    K, parents = min(2 * W, W * n), torch.empty_like(tokens)
    BC, BK, BP = map(triton.next_power_of_2, (W * n, K, P))
    with torch.cuda.device_of(log_probs):
        _advance_beams_kernel[(B,)](
            log_probs, candidates, running, tokens, parents, *pool,
            done.view(torch.int8), step_counts, failed_steps.view(torch.int8), step, history,
            limits, penalties,
            B, T, end, limits.stride(0), W=W, N=n, K=K, P=P, BC=BC, BK=BK, BP=BP,
            num_warps=1 if BC <= ONE_WARP_MAX_CANDIDATES else 4, **chain.launch_options(log_probs),
        )  # fmt: skip
    # torch did not see it: who counts what is written is told
    torch.autograd.graph.increment_version(
        (running, tokens, *pool, done, step_counts, failed_steps, history)
    )
    return parents

"""Beam search that stops early only when it can prove that nothing better is to come."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import check, fast_path
from regard.decode import cuda_graph_cache, states, steps, top_tokens
from regard.decode.fast import decoder_of
from regard.decode.hypotheses import Hypotheses
from regard.decode.steps import StepModel
from regard.kernels.decode_step import api as decode_step
from regard.looking import is_observed, keep_batch_rows

# Wider beams have more candidates than one program should sort.
FUSED_MAX_BEAM_WIDTH = 16


@torch.no_grad()
def beam(
    model: StepModel,
    source: Any,
    *,
    begin: int,
    end: int,
    longest: int | Tensor,
    width: int = 5,
    length_penalty: check.Number = 0.0,
    best: int = 1,
) -> Hypotheses:
    """The `best` hypotheses a source that a search with `width` beams finds.

    A hypothesis is finished when its `end` is among the `width` best candidates of a step; `width`
    others run on. A source is done when none of them can enter its `best` any more, so the answer
    is that of running to `longest`, where those that still run count as finished.

    Args:
        width: how many hypotheses of a source run at a time.
        length_penalty: α of Wu et al. 2016, equation 14: hypotheses are ranked by
            log p / ((5 + length) / 6)^α. 0 ranks by log p; above 0 favours the longer ones.
        best: how many finished hypotheses to return, at most `width`.

    The other arguments are those of `greedy`.
    """
    if not 1 <= best <= width:
        raise ValueError(f"beam: expected best from 1 to width = {width}, got {best}")
    # beyond, the penalties of long sentences leave what float32 can hold
    if not -10 <= length_penalty <= 10:
        raise ValueError(f"beam: expected length_penalty from -10 to 10, got {length_penalty}")
    most = steps.step_limit("beam", longest)
    recorder = cuda_graph_cache.graph_cache_for(model, source, most)
    room = {} if recorder is None else {"size": cuda_graph_cache.round_up_steps(most)}
    size = room.get("size", most)

    def start_search(inputs: Any) -> tuple[_BeamState, Callable[[_BeamState], _BeamState]]:
        decoder = decoder_of(model, static=bool(room))
        state = decoder.start(inputs[0], **room)
        B, device = states.batch_size_and_device("beam", state)
        tokens = torch.full((B, width), begin, device=device)
        search, fresh = _init_beams(state, tokens, best, end, size, *inputs[1:])
        return search, partial(_advance_beams, decoder, end, fresh)

    penalties = ((5 + torch.arange(1, size + 1, dtype=torch.float64)) / 6) ** length_penalty
    if recorder is None:
        # `along` follows the beams of a look, by `Hypotheses.rows`
        with keep_batch_rows() if is_observed() else nullcontext():
            search = steps.run_loop("beam", start_search, (source, longest, penalties), most)
    else:
        inputs = (source, *(steps.limits_like(source, x) for x in (longest, penalties)))
        how = (begin, end, size, width, best)
        search = recorder.run_loop("beam", how, start_search, inputs, most)
    parents, tokens = search.history[:, : int(search.step_counts.max())].clone()
    return _backtrack(_Pool(*map(torch.clone, search.pool)), parents, tokens, end=end)


class _BeamState(NamedTuple):
    """W beams of each source on their way."""

    state: Any
    tokens: Tensor  # (B, W): the last of each
    log_probabilities: Tensor  # (B, W): log p
    pool: "_Pool"
    is_done: Tensor  # (B,): whether no beam can enter the pool any more
    step_counts: Tensor  # (B,): how many steps were made until then
    invalid_steps: Tensor  # (T,): at which steps a source had no token to take
    step: Tensor  # (1,)
    history: Tensor  # (2, T, B, W): parents and tokens of each step
    limits: Tensor  # (B,)
    penalties: Tensor  # (T,): for each length, from 1 on


def _init_beams(
    state: Any, tokens: Tensor, best: int, end: int, size: int, limits: Any, penalties: Tensor
) -> tuple[_BeamState, states.RepeatedTensors]:
    """The beams before their first step, and what of their state is the same for all of a source.

    Args:
        tokens: what each beam begins with (B, W).
        size: for how many steps there is room.
    """
    (B, width), device, dtype = tokens.shape, tokens.device, states.sum_dtype(state)
    state, fresh = states.repeat_rows(state, width)
    # The beams of a source start alike, so only one of them counts.
    running = torch.full((B, width), -torch.inf, dtype=dtype, device=device)
    running[:, :1] = 0
    search = _BeamState(
        state,
        tokens,
        running,
        pool=_Pool.empty(B, best, end, running),
        is_done=torch.zeros(B, dtype=torch.bool, device=device),
        step_counts=torch.zeros_like(tokens[:, 0]),
        invalid_steps=torch.zeros(size, dtype=torch.bool, device=device),
        step=torch.zeros(1, dtype=torch.int64, device=device),
        history=tokens.new_zeros(2, size, B, width),
        limits=steps.row_limits("beam", limits, B, device),
        penalties=penalties.to(device=device, dtype=dtype),
    )
    return search, fresh


def _advance_beams(
    model: StepModel, end: int, repeated: states.RepeatedTensors, beams: _BeamState
) -> _BeamState:
    """The beams with one token more, and the pool with those that ended."""
    settled, limits, penalties = beams.is_done, beams.limits, beams.penalties
    B, W = beams.log_probabilities.shape
    logits, state = model.step(beams.tokens.flatten(), beams.state)
    logits = steps.check_logits("beam", logits, B * W, end)
    if _can_use_fused_step(logits, beams.log_probabilities):
        return _advance_beams_fused(logits, beams, state, end, repeated)
    ended, going = _next_candidates(beams.log_probabilities, steps.to_float32(logits), end)
    step = beams.step + 1
    # where the limit is reached, those that still run count as finished
    cut = _Candidates(
        going.log_probabilities.masked_fill((limits != step)[:, None], -torch.inf), *going[1:]
    )
    pool = beams.pool.with_candidates([ended, cut], settled, step, penalties[beams.step])
    running, parents, tokens = going
    # penalties rise or fall with the length: the largest to come is the last or the next
    following = penalties[step.clamp(max=len(penalties) - 1)]
    ahead = penalties[limits - 1].maximum(following)
    done = settled | (limits <= step) | ~_can_enter_pool(pool, running, ahead)
    lost = running.isnan().any(1) | (done & pool.scores[:, 0].isneginf())
    beams.invalid_steps.index_copy_(0, beams.step, (lost & ~settled).any()[None])
    beams.history.index_copy_(1, beams.step, torch.stack([parents, tokens])[:, None])
    return beams._replace(
        state=states.reorder_rows("beam", state, parents, repeated),
        tokens=tokens,
        log_probabilities=running,
        pool=pool,
        is_done=done,
        step_counts=beams.step_counts + ~settled,
        step=step,
    )


def _can_use_fused_step(logits: Tensor, log_probabilities: Tensor) -> bool:
    """Whether a few launches may do all that comes after the logits (B·W, V)."""
    fits = (
        log_probabilities.dtype == torch.float32
        and log_probabilities.shape[1] <= FUSED_MAX_BEAM_WIDTH
    )
    quick = decode_step.supports_gpu(logits) and fast_path.allowed(logits)
    return fits and quick and logits.stride(1) == 1


def _advance_beams_fused(
    logits: Tensor, beams: _BeamState, state: Any, end: int, repeated: states.RepeatedTensors
) -> _BeamState:
    """The beams with one token more, in few launches; all but the state is changed in place."""
    from regard.kernels.decode_step.triton import beams as one_query_beams
    from regard.kernels.decode_step.triton import top_k

    # a state may have kept the last tokens
    tokens = states.copy_if_shared(state, beams.tokens)
    most = min(2 * tokens.shape[1], logits.shape[1])
    parents = one_query_beams.advance_beams(
        *top_k.top_k_log_probs(logits, most),
        running=beams.log_probabilities,
        tokens=tokens,
        pool=beams.pool,
        done=beams.is_done,
        step_counts=beams.step_counts,
        failed_steps=beams.invalid_steps,
        step=beams.step,
        history=beams.history,
        limits=beams.limits,
        penalties=beams.penalties,
        end=end,
    )
    beams.step.add_(1)
    return beams._replace(
        state=states.reorder_rows("beam", state, parents, repeated), tokens=tokens
    )


class _Candidates(NamedTuple):
    """Beams made one token longer, best first, each (B, W); −inf in `totals` is no beam at all."""

    log_probabilities: Tensor
    parents: Tensor
    tokens: Tensor


def _next_candidates(
    log_probabilities: Tensor, logits: Tensor, end: int
) -> tuple[_Candidates, _Candidates]:
    """The beams that end here and those that go on, by log p so far (B, W) and logits (B·W, V)."""
    B, W = log_probabilities.shape
    # The best 2 W tokens of each beam hold the best 2 W of all, and are soon added up.
    best, tokens = top_tokens.topk(logits, min(2 * W, logits.shape[1]))
    gains = top_tokens.top_log_probabilities(best, logits, tokens)
    # A row that forbids every token has no softmax; the row of no beam has no say, were it NaN.
    gains = gains.masked_fill(best.isneginf(), -torch.inf).view(B, W, -1)
    totals = (log_probabilities[..., None] + gains).masked_fill(
        log_probabilities.isneginf()[..., None], -torch.inf
    )
    # A beam has one token to end with, so at most W of 2 W candidates end, and W can go on.
    totals, places = totals.flatten(1).topk(min(2 * W, W * gains.shape[2]))
    slots, tokens = places // gains.shape[2], tokens.view(B, -1).gather(1, places)
    ends = tokens == end
    ended = _Candidates(totals.masked_fill(~ends, -torch.inf)[:, :W], slots[:, :W], tokens[:, :W])
    onward = ends.byte().sort(dim=1, stable=True).indices[:, :W]
    going = (totals.masked_fill(ends, -torch.inf), slots, tokens)
    return ended, _Candidates(*(x.gather(1, onward) for x in going))


class _Pool(NamedTuple):
    """The N best finished hypotheses of each source, best first, each (B, N)."""

    scores: Tensor
    log_probabilities: Tensor
    lengths: Tensor
    parents: Tensor
    tokens: Tensor

    @classmethod
    def empty(cls, B: int, N: int, end: int, like: Tensor) -> "_Pool":
        """No hypothesis yet: scores of −inf."""
        none = like.new_full((B, N), -torch.inf)
        zeros = torch.zeros_like(none, dtype=torch.int64)
        # each in memory of its own: they may be changed in place
        return cls(none, none.clone(), zeros, zeros.clone(), zeros + end)

    def with_candidates(
        self, candidates: list[_Candidates], is_done: Tensor, length: Tensor, penalty: Tensor
    ) -> "_Pool":
        """The best of these and of `candidates`, in rows that are not done."""
        totals, slots, tokens = (torch.cat(parts, 1) for parts in zip(*candidates, strict=True))
        scores = (totals / penalty).masked_fill(is_done[:, None], -torch.inf)
        new = (scores, totals, length.expand_as(slots), slots, tokens)
        both = [torch.cat(pair, dim=1) for pair in zip(self, new, strict=True)]
        # Stable: of equals the one found first stays, as it does when the search stops early.
        order = both[0].sort(dim=1, descending=True, stable=True).indices
        return _Pool(*(x.gather(1, order[:, : self.scores.shape[1]]) for x in both))


def _can_enter_pool(pool: _Pool, log_probabilities: Tensor, largest_penalty: Tensor) -> Tensor:
    """Whether a running beam can still enter a pool (B,), with the largest penalties to come (B,).

    A beam of log p that ends later has log p' / penalty with log p' <= log p <= 0. The largest
    penalty to come bounds that from above, whatever the sign of α: log p / largest. Rounding
    keeps the order of sums and quotients, so the bound holds for the numbers computed, too.
    """
    return log_probabilities.amax(1) / largest_penalty > pool.scores[:, -1]


def _backtrack(pool: _Pool, parents: Tensor, tokens: Tensor, *, end: int) -> Hypotheses:
    """The hypotheses of a pool, walked back from their last tokens to their first."""
    T, B, W = parents.shape
    slots, words, rows = pool.parents, [], []
    for t in reversed(range(T)):
        before = t < pool.lengths - 1
        last = pool.tokens.masked_fill(t >= pool.lengths, end)
        words.append(torch.where(before, tokens[t].gather(1, slots), last))
        slots = torch.where(before, parents[t].gather(1, slots), slots)
        rows.append(slots)
    first = torch.arange(B, device=parents.device)[:, None, None] * W
    return Hypotheses(
        tokens=torch.stack(words[::-1], dim=2),
        lengths=pool.lengths,
        finished=(pool.tokens == end) & (pool.lengths > 0),
        scores=pool.scores,
        log_probabilities=pool.log_probabilities,
        parents=parents,
        rows=torch.stack(rows[::-1], dim=2) + first,
    )

"""One hypothesis a source: the likeliest token at each step, or one that is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
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

# From logits (B, V) to a token for each row and its log-probability, (B,) both.
ChooseToken = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Draw:
    """How `sample` draws: first the temperature, then `top_k`, then `top_p` of what is left.

    Args:
        temperature: below 1 the likely tokens are likelier still; towards 0 it is greedy.
        top_k: only the k likeliest tokens may be drawn.
        top_p: only the fewest likeliest tokens whose probabilities reach p may be drawn.
    """

    temperature: check.Number = 1.0
    top_k: int | None = None
    top_p: check.Number | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"Draw: expected temperature > 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"Draw: expected top_k >= 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"Draw: expected top_p above 0 and up to 1, got {self.top_p}")


@torch.no_grad()
def greedy(
    model: StepModel, source: Any, *, begin: int, end: int, longest: int | Tensor
) -> Hypotheses:
    """One hypothesis a source: at each step the likeliest token.

    Args:
        source: handed to `model.start`.
        begin: the token that is fed first.
        end: the token that ends a hypothesis.
        longest: the most tokens of a hypothesis, `end` counted; one number, or one a source (B,).
    """
    return _decode_one_each(
        "greedy", model, source, _greedy_tokens, begin=begin, end=end, longest=longest
    )


@torch.no_grad()
def sample(
    model: StepModel,
    source: Any,
    *,
    begin: int,
    end: int,
    longest: int | Tensor,
    draw: Draw | None = None,
    generator: torch.Generator | None = None,
) -> Hypotheses:
    """One hypothesis a source: at each step a token drawn by its probability.

    Args:
        draw: temperature, top-k and top-p; None draws from the model's own probabilities.
        generator: makes the draws repeatable; on the model's device.

    The other arguments are those of `greedy`. Log-probabilities are the model's own, whatever the
    temperature.
    """
    choose = partial(_sampled_tokens, draw=draw or Draw(), generator=generator)
    return _decode_one_each("sample", model, source, choose, begin=begin, end=end, longest=longest)


class _DecodeState(NamedTuple):
    """One hypothesis a source, on its way."""

    state: Any
    tokens: Tensor  # (B,): the last of each
    is_done: Tensor  # (B,): whether it was the end, or the limit is reached
    step: Tensor  # (B,): how many were made, the same for all
    history: Tensor  # (B, T): all tokens, and the end behind them
    log_probabilities: Tensor  # (B, T): their log-probabilities, and zeros behind them
    limits: Tensor  # (B,)

    @property
    def invalid_steps(self) -> Tensor:
        """At which steps a row had no token to take (T,)."""
        return ~self.log_probabilities.isfinite().all(0)


def _decode_one_each(
    where: str,
    model: StepModel,
    source: Any,
    choose: ChooseToken,
    *,
    begin: int,
    end: int,
    longest: int | Tensor,
) -> Hypotheses:
    """One hypothesis a source, each next token chosen by `choose` from its logits."""
    most = steps.step_limit(where, longest)
    # a GPU draws by a generator, which no recording knows
    recorder = cuda_graph_cache.graph_cache_for(model, source, most) if where == "greedy" else None
    room = {} if recorder is None else {"size": cuda_graph_cache.round_up_steps(most)}

    def start_decoding(inputs: Any) -> tuple[_DecodeState, Callable[[_DecodeState], _DecodeState]]:
        source, limits = inputs
        decoder = decoder_of(model, static=bool(room))
        state = decoder.start(source, **room)
        B, device = states.batch_size_and_device(where, state)
        tokens = torch.full((B,), begin, device=device)
        history = tokens.new_full((B, room.get("size", most)), end)
        going = _DecodeState(
            state,
            tokens,
            is_done=torch.zeros(B, dtype=torch.bool, device=device),
            step=torch.zeros_like(tokens),
            history=history,
            log_probabilities=torch.zeros_like(history, dtype=states.sum_dtype(state)),
            limits=steps.row_limits(where, limits, B, device),
        )
        return going, partial(_advance, where, decoder, choose, end)

    if recorder is None:
        going = steps.run_loop(where, start_decoding, (source, longest), most)
    else:
        inputs = (source, steps.limits_like(source, longest))
        going = recorder.run_loop(where, (begin, end, room["size"]), start_decoding, inputs, most)
    return _to_hypotheses(going, end)


def _advance(
    where: str, model: StepModel, choose: ChooseToken, end: int, decoding: _DecodeState
) -> _DecodeState:
    """The hypotheses with one token more, if they are not done."""
    logits, state = model.step(decoding.tokens, decoding.state)
    logits = steps.check_logits(where, logits, len(decoding.tokens), end)
    if choose is _greedy_tokens and _can_use_fused_step(logits):
        return _advance_fused(logits, decoding, state, end)
    chosen, gain = choose(steps.to_float32(logits))
    tokens, gain = chosen.masked_fill(decoding.is_done, end), gain.masked_fill(decoding.is_done, 0)
    gains = decoding.log_probabilities.to(gain.dtype)
    decoding.history.scatter_(1, decoding.step[:, None], tokens[:, None])
    gains.scatter_(1, decoding.step[:, None], gain[:, None])
    step = decoding.step.add_(1)
    done = (tokens == end) | (decoding.limits <= step)
    return decoding._replace(state=state, tokens=tokens, is_done=done, log_probabilities=gains)


def _can_use_fused_step(logits: Tensor) -> bool:
    """True if one launch may do all that comes after the logits (B, V)."""
    quick = decode_step.supports_gpu(logits) and fast_path.allowed(logits)
    return quick and logits.stride(1) == 1


def _advance_fused(logits: Tensor, decoding: _DecodeState, state: Any, end: int) -> _DecodeState:
    """The hypotheses with their likeliest token more, in one launch."""
    from regard.kernels.decode_step.triton import greedy as one_query_choice

    # a state may have kept the last tokens
    tokens = states.copy_if_shared(state, decoding.tokens)
    one_query_choice.append_greedy_token(
        logits,
        tokens,
        done=decoding.is_done,
        step=decoding.step,
        history=decoding.history,
        log_probs=decoding.log_probabilities,
        limits=decoding.limits,
        end=end,
    )
    return decoding._replace(state=state, tokens=tokens)


def _to_hypotheses(decoding: _DecodeState, end: int) -> Hypotheses:
    """What was said, in memory of its own."""
    B = len(decoding.history)
    # behind the last token of a row there is nothing but the end
    before = (decoding.history != end).long().cumprod(1).sum(1)
    lengths = (before + 1).minimum(decoding.limits)[:, None]
    T, total = int(lengths.max()), decoding.log_probabilities.sum(1)[:, None]
    return Hypotheses(
        tokens=decoding.history[:, None, :T].clone(),
        lengths=lengths,
        finished=(before < decoding.limits)[:, None],
        scores=total,
        log_probabilities=total.clone(),
        parents=lengths.new_zeros(T, B, 1),
        rows=torch.arange(B, device=lengths.device)[:, None, None].expand(B, 1, T),
    )


def _greedy_tokens(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest token of each row, and its log-probability."""
    tokens = top_tokens.argmax(logits)[:, None]
    gains = top_tokens.top_log_probabilities(logits.gather(1, tokens), logits, tokens)
    return tokens[:, 0], gains[:, 0]


def _sampled_tokens(
    logits: Tensor, *, draw: Draw, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """A token of each row, drawn by its probability, and its log-probability."""
    gains = logits.log_softmax(-1)
    # The best stands at 0, so that no temperature is too low for it.
    scores = (gains - gains.amax(-1, keepdim=True)) / draw.temperature
    places = None
    if draw.top_k is not None or draw.top_p is not None:
        V = scores.shape[-1]
        scores, places = scores.topk(min(draw.top_k or V, V))
    shares = scores.softmax(-1)
    if draw.top_p is not None:
        before = shares.cumsum(-1) - shares
        shares = shares.masked_fill(before >= draw.top_p, 0)
    # A row without a share to draw from is the business of `steps.is_loop_done`.
    drawn = shares.nan_to_num(1.0).multinomial(1, generator=generator)
    tokens = drawn if places is None else places.gather(-1, drawn)
    return tokens[:, 0], gains.gather(1, tokens)[:, 0]

"""One hypothesis a source: the likeliest token at each step, or one that is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import check
from regard.decode import likeliest, recorded, states, steps
from regard.decode.decoded import Decoded
from regard.decode.steps import Steps
from regard.kernels import one_query

# From logits (B, V) to a token for each row and its log-probability, (B,) both.
Choose = Callable[[Tensor], tuple[Tensor, Tensor]]


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
def greedy(model: Steps, source: Any, *, begin: int, end: int, longest: int | Tensor) -> Decoded:
    """One hypothesis a source: at each step the likeliest token.

    Args:
        source: handed to `model.start`.
        begin: the token that is fed first.
        end: the token that ends a hypothesis.
        longest: the most tokens of a hypothesis, `end` counted; one number, or one a source (B,).
    """
    return _alone("greedy", model, source, _best, begin=begin, end=end, longest=longest)


@torch.no_grad()
def sample(
    model: Steps,
    source: Any,
    *,
    begin: int,
    end: int,
    longest: int | Tensor,
    draw: Draw | None = None,
    generator: torch.Generator | None = None,
) -> Decoded:
    """One hypothesis a source: at each step a token drawn by its probability.

    Args:
        draw: temperature, top-k and top-p; None draws from the model's own probabilities.
        generator: makes the draws repeatable; on the model's device.

    The other arguments are those of `greedy`. Log-probabilities are the model's own, whatever the
    temperature.
    """
    choose = partial(_drawn, draw=draw or Draw(), generator=generator)
    return _alone("sample", model, source, choose, begin=begin, end=end, longest=longest)


class _Going(NamedTuple):
    """One hypothesis a source, on its way."""

    state: Any
    tokens: Tensor  # (B,): the last of each
    done: Tensor  # (B,): whether it was the end, or the limit is reached
    step: Tensor  # (B,): how many were made, the same for all
    history: Tensor  # (B, T): all tokens, and the end behind them
    gains: Tensor  # (B, T): their log-probabilities, and zeros behind them
    limits: Tensor  # (B,)

    @property
    def lost(self) -> Tensor:
        """At which steps a row had no token to take (T,)."""
        return ~self.gains.isfinite().all(0)


def _alone(
    where: str,
    model: Steps,
    source: Any,
    choose: Choose,
    *,
    begin: int,
    end: int,
    longest: int | Tensor,
) -> Decoded:
    """One hypothesis a source, each next token chosen by `choose` from its logits."""
    most = steps.most(where, longest)
    # a card draws by a generator, which no recording knows
    recorder = recorded.of(model, source, most) if where == "greedy" else None
    room = {} if recorder is None else {"size": recorded.rounded(most)}

    def begun(inputs: Any) -> tuple[_Going, Callable[[_Going], _Going]]:
        source, limits = inputs
        state = model.start(source, **room)
        B, device = states.batch(where, state)
        tokens = torch.full((B,), begin, device=device)
        history = tokens.new_full((B, room.get("size", most)), end)
        going = _Going(
            state,
            tokens,
            done=torch.zeros(B, dtype=torch.bool, device=device),
            step=torch.zeros_like(tokens),
            history=history,
            gains=torch.zeros_like(history, dtype=states.sums(state)),
            limits=steps.limits(where, limits, B, device),
        )
        return going, partial(_advanced, where, model, choose, end)

    if recorder is None:
        going = steps.run(where, begun, (source, longest), most)
    else:
        inputs = (source, steps.beside(source, longest))
        going = recorder.run(where, (begin, end, room["size"]), begun, inputs, most)
    return _told(going, end)


def _advanced(where: str, model: Steps, choose: Choose, end: int, going: _Going) -> _Going:
    """The hypotheses with one token more, if they are not done."""
    logits, state = model.step(going.tokens, going.state)
    logits = steps.checked(where, logits, len(going.tokens), end)
    if choose is _best and one_query.takes(logits) and logits.stride(1) == 1:
        return _chosen(logits, going, state, end)
    chosen, gain = choose(steps.wide(logits))
    tokens, gain = chosen.masked_fill(going.done, end), gain.masked_fill(going.done, 0)
    gains = going.gains.to(gain.dtype)
    going.history.scatter_(1, going.step[:, None], tokens[:, None])
    gains.scatter_(1, going.step[:, None], gain[:, None])
    step = going.step.add_(1)
    done = (tokens == end) | (going.limits <= step)
    return going._replace(state=state, tokens=tokens, done=done, gains=gains)


def _chosen(logits: Tensor, going: _Going, state: Any, end: int) -> _Going:
    """The hypotheses with their likeliest token more, in one launch."""
    from regard.kernels import one_query_choice

    # a state may have kept the last tokens
    tokens = states.unheld(state, going.tokens)
    one_query_choice.choose(
        logits,
        tokens,
        done=going.done,
        step=going.step,
        history=going.history,
        gains=going.gains,
        limits=going.limits,
        end=end,
    )
    return going._replace(state=state, tokens=tokens)


def _told(going: _Going, end: int) -> Decoded:
    """What was said, in memory of its own."""
    B = len(going.history)
    # behind the last token of a row there is nothing but the end
    before = (going.history != end).long().cumprod(1).sum(1)
    lengths = (before + 1).minimum(going.limits)[:, None]
    T, total = int(lengths.max()), going.gains.sum(1)[:, None]
    return Decoded(
        tokens=going.history[:, None, :T].clone(),
        lengths=lengths,
        finished=(before < going.limits)[:, None],
        scores=total,
        log_probabilities=total.clone(),
        parents=lengths.new_zeros(T, B, 1),
        rows=torch.arange(B, device=lengths.device)[:, None, None].expand(B, 1, T),
    )


def _best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest token of each row, and its log-probability."""
    tokens = likeliest.best(logits)[:, None]
    gains = likeliest.normed(logits.gather(1, tokens), logits, tokens)
    return tokens[:, 0], gains[:, 0]


def _drawn(
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
    # A row without a share to draw from is the business of `steps.over`.
    drawn = shares.nan_to_num(1.0).multinomial(1, generator=generator)
    tokens = drawn if places is None else places.gather(-1, drawn)
    return tokens[:, 0], gains.gather(1, tokens)[:, 0]

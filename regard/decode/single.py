"""One hypothesis a source: the likeliest token at each step, or one that is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard import check
from regard.decode import states, steps
from regard.decode.decoded import Decoded
from regard.decode.steps import Steps


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
    best = partial(torch.argmax, dim=-1)
    return _alone("greedy", model, source, best, begin=begin, end=end, longest=longest)


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


def _alone(
    where: str,
    model: Steps,
    source: Any,
    choose: Callable[[Tensor], Tensor],
    *,
    begin: int,
    end: int,
    longest: int | Tensor,
) -> Decoded:
    """One hypothesis a source, each next token chosen by `choose` from log-probabilities (B, V)."""
    state = model.start(source)
    B, device = states.batch(where, state)
    limits = steps.limits(where, longest, B, device)
    tokens = torch.full((B,), begin, device=device)
    total = torch.zeros(B, device=device)
    count, done = torch.zeros_like(tokens), torch.zeros_like(tokens).bool()
    ended = done
    history = []
    for length in range(1, int(limits.max()) + 1):
        logits, state = model.step(tokens, state)
        gains = steps.checked(where, logits, B, end).log_softmax(-1)
        chosen = choose(gains)
        gain = gains.gather(1, chosen[:, None])[:, 0]
        tokens = chosen.masked_fill(done, end)
        total = total + gain.masked_fill(done, 0)
        count = count + ~done
        ended = ended | (~done & (tokens == end))
        done = ended | (limits <= length)
        history.append(tokens)
        if steps.over(where, done, ~total.isfinite(), length):
            break
    T = len(history)
    return Decoded(
        tokens=torch.stack(history, dim=1)[:, None],
        lengths=count[:, None],
        finished=ended[:, None],
        scores=total[:, None],
        log_probabilities=total[:, None],
        parents=tokens.new_zeros(T, B, 1),
        rows=torch.arange(B, device=device)[:, None, None].expand(B, 1, T),
    )


def _drawn(gains: Tensor, *, draw: Draw, generator: torch.Generator | None) -> Tensor:
    """Tokens (B,), drawn by their log-probabilities (B, V)."""
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
    return (drawn if places is None else places.gather(-1, drawn))[:, 0]

"""Attention sees a set: tokens in another order give the same rows in that order."""

import torch
from torch import Tensor

from regard.dispatch import attend
from regard.functional.positions import rotary, sinusoidal
from regard.view.lessons.fields import Choice, Permutation
from regard.view.lessons.formats import script_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson

WIDTH = 8
_POSITION_CODE = {
    "none": ("", "x, x, x"),
    "sinusoidal": ("x = x + sinusoidal(x.shape[2], 8)", "x, x, x"),
    "rotary": ("turned = rotary(x, torch.arange(x.shape[2]))", "turned, turned, x"),
}


def compute(order: list[int], positions: str) -> Answer:
    """What tokens read in the first order and in another, and how far the two are apart."""
    x = torch.randn(
        1, 1, len(order), WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    before = self_attention(x, positions)
    after = self_attention(x[:, :, order], positions)
    moved = before[:, :, order]
    return {
        "tokens": to_numbers(x[0, 0]),
        "before": to_numbers(before[0, 0]),
        "after": to_numbers(after[0, 0]),
        "moved": to_numbers(moved[0, 0]),
        "error": to_numbers((after - moved).norm()),
        "errors": to_numbers((after - moved)[0, 0].norm(dim=-1)),
        "pooled": to_numbers((after.mean(2) - before.mean(2)).norm()),
        "code": _code(order, positions),
    }


def self_attention(x: Tensor, positions: str) -> Tensor:
    """Self-attention without weights, its tokens told where they stand or not."""
    if positions == "sinusoidal":
        x = x + sinusoidal(x.shape[2], WIDTH)
    turned = rotary(x, torch.arange(x.shape[2])) if positions == "rotary" else x
    return attend(turned, turned, x)


def _code(order: list[int], positions: str) -> str:
    line, arguments = _POSITION_CODE[positions]
    imports = [f"from regard.functional.positions import {positions}"] if line else []
    return script_code(
        *imports,
        "def f(x):",
        *([f"    {line}"] if line else []),
        f"    return regard.attend({arguments})",
        f"order, g = {order}, torch.Generator().manual_seed(0)",
        f"x = torch.randn(1, 1, {len(order)}, {WIDTH}, dtype=torch.float64, generator=g)",
        "error = (f(x[:, :, order]) - f(x)[:, :, order]).norm()",
        "pooled = (f(x[:, :, order]).mean(2) - f(x).mean(2)).norm()",
    )


LESSON = Lesson(
    name="permuting",
    title="Order does not matter",
    question="“dog bites man” and “man bites dog”: can attention alone tell them apart?",
    guesses=("Yes, words stand elsewhere", "Only with more heads", "No, it sees a set of words"),
    right=2,
    aha=(
        "Shuffle the tokens and the same rows come out, shuffled the same way; their mean does not "
        "change at all. Only once each token is told where it stands does order matter."
    ),
    fields={
        "order": Permutation(2, 8, (4, 1, 2, 3, 0)),
        "positions": Choice(tuple(_POSITION_CODE), "none"),
    },
    compute=compute,
)

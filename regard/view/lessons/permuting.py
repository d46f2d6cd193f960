"""Attention sees a set: tokens in another order give the same rows in that order."""

import torch
from torch import Tensor

from regard.door import attend
from regard.functional.positions import rotary, sinusoidal
from regard.view.lessons.fields import Choice, Order
from regard.view.lessons.lesson import Answer, Lesson
from regard.view.lessons.writing import exact, script

WIDTH = 8
_POSITIONED = {
    "none": ("", "x, x, x"),
    "sinusoidal": ("x = x + sinusoidal(x.shape[2], 8)", "x, x, x"),
    "rotary": ("turned = rotary(x, torch.arange(x.shape[2]))", "turned, turned, x"),
}


def compute(order: list[int], positions: str) -> Answer:
    """What tokens read in the first order and in another, and how far the two are apart."""
    x = torch.randn(
        1, 1, len(order), WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    before = read(x, positions)
    after = read(x[:, :, order], positions)
    moved = before[:, :, order]
    return {
        "tokens": exact(x[0, 0]),
        "before": exact(before[0, 0]),
        "after": exact(after[0, 0]),
        "moved": exact(moved[0, 0]),
        "error": exact((after - moved).norm()),
        "errors": exact((after - moved)[0, 0].norm(dim=-1)),
        "pooled": exact((after.mean(2) - before.mean(2)).norm()),
        "code": _code(order, positions),
    }


def read(x: Tensor, positions: str) -> Tensor:
    """Self-attention without weights, its tokens told where they stand or not."""
    if positions == "sinusoidal":
        x = x + sinusoidal(x.shape[2], WIDTH)
    turned = rotary(x, torch.arange(x.shape[2])) if positions == "rotary" else x
    return attend(turned, turned, x)


def _code(order: list[int], positions: str) -> str:
    line, arguments = _POSITIONED[positions]
    imports = [f"from regard.functional.positions import {positions}"] if line else []
    return script(
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
        "order": Order(2, 8, (4, 1, 2, 3, 0)),
        "positions": Choice(tuple(_POSITIONED), "none"),
    },
    compute=compute,
)

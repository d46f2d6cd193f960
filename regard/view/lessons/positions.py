"""Where does a token stand? Four ways to say so, and what a dot product then knows."""

import torch
from torch import Tensor

from regard.dispatch import logits
from regard.functional.positions import rotary, sinusoidal
from regard.functional.scores import Relative, Score, dot
from regard.view.lessons.fields import Choice, Integer, Real
from regard.view.lessons.formats import script_code, to_numbers, to_rounded_numbers
from regard.view.lessons.lesson import Answer, Lesson

LENGTH, WIDTH, MAX_DISTANCE = 48, 16, 8
_RANDOM_TABLE_CODE = {
    "learned": f"table = torch.randn({LENGTH}, {WIDTH}, generator=g)",
    "relative": f"table = torch.randn({2 * MAX_DISTANCE + 1}, {WIDTH}, generator=g)",
}


def compute(kind: str, position: int, pair: int, base: float) -> Answer:
    """The table of a kind of position, and the scores of all places with all others."""
    table, x, score = build_positions(kind, base)
    dots = logits(x[None, None], x[None, None], score=score)[0, 0]
    return {
        "table": to_rounded_numbers(table),
        "dots": to_rounded_numbers(dots),
        "row": to_numbers(dots[position]),
        "waves": to_rounded_numbers(table[:, 2 * pair : 2 * pair + 2]),
        "turn": float(base ** (-2 * pair / WIDTH)),
        "spread": to_numbers(max_score_spread(dots)),
        "code": _code(kind, base, position),
    }


def build_positions(kind: str, base: float) -> tuple[Tensor, Tensor, Score]:
    """The table of this kind, the tokens that know their place by it, and their score."""
    generator = torch.Generator().manual_seed(0)
    if kind == "sinusoidal":
        table = sinusoidal(LENGTH, WIDTH, base=base)
        return table, table, dot
    if kind == "learned":
        table = torch.randn(LENGTH, WIDTH, generator=generator)
        return table, table, dot
    same = torch.ones(LENGTH, WIDTH)
    if kind == "relative":
        table = torch.randn(2 * MAX_DISTANCE + 1, WIDTH, generator=generator)
        return table, same, Relative(table[None])
    turned = rotary(same[None, None], torch.arange(LENGTH), base=base)[0, 0]
    return turned, turned, dot


def max_score_spread(dots: Tensor) -> Tensor:
    """How much scores at one distance differ, at most: 0 where distance is all that counts."""
    n = len(dots)
    lines = [dots.diagonal(apart) for apart in range(1 - n, n)]
    return torch.stack([line.max() - line.min() for line in lines]).max()


def _code(kind: str, base: float, position: int) -> str:
    ones = f"x = torch.ones({LENGTH}, {WIDTH})[None, None]"
    score = "regard.scores.dot"
    if kind == "sinusoidal":
        lines = [f"x = sinusoidal({LENGTH}, {WIDTH}, base={base})[None, None]"]
    elif kind == "rotary":
        lines = [ones, f"x = rotary(x, torch.arange({LENGTH}), base={base})"]
    else:
        lines = ["g = torch.Generator().manual_seed(0)", _RANDOM_TABLE_CODE[kind]]
        lines.append(ones if kind == "relative" else "x = table[None, None]")
        score = "regard.scores.Relative(table[None])" if kind == "relative" else score
    imports = (
        [f"from regard.functional.positions import {kind}"]
        if kind not in _RANDOM_TABLE_CODE
        else []
    )
    return script_code(
        *imports,
        *lines,
        f"dots = regard.logits(x, x, score={score})",
        f"row = dots[0, 0, {position}]",
    )


LESSON = Lesson(
    name="places",
    title="Positions",
    question="Two tokens five places apart: does their score depend on where the pair stands?",
    guesses=("Only with learned ones", "With all kinds of positions", "With none of them"),
    right=0,
    aha=(
        "Sines and cosines, turned pairs and tables of distances all know how far apart two tokens "
        "are, and nothing else. A learned table gives each place a vector of its own and has to "
        "find out."
    ),
    fields={
        "kind": Choice(("sinusoidal", "learned", "relative", "rotary"), "sinusoidal"),
        "position": Integer(0, LENGTH - 1, 20),
        "pair": Integer(0, WIDTH // 2 - 1, 1),
        "base": Real(2, 100000, 1000.0),
    },
    compute=compute,
)

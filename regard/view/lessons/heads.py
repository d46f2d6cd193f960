"""Why several heads: one softmax cannot look at two places and keep what it reads apart.

Each token needs two things, two numbers each: what the token before says, and what the first one
says. A head that has to serve both needs does no better, on average, than half and half.
"""

import torch
from torch import Tensor

from regard.dispatch import attend, weigh
from regard.functional.scores import dot
from regard.view.lessons.fields import Choice, Integer, Subset
from regard.view.lessons.formats import script_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson

TOKENS, WIDTH = 6, 4
# So strong is a match that nothing else is read.
MATCH_STRENGTH = 30
PREVIOUS_TOKEN, FIRST_TOKEN = [0, 0, 1, 2, 3, 4], [0, 0, 0, 0, 0, 0]


def compute(heads: str, killed: list[int], seed: int) -> Answer:
    """The maps of one, two or four heads of one width together, and how far they miss the need."""
    H = int(heads)
    if killed and killed[-1] >= H:
        raise ValueError(f"lesson heads: killed: there are {H} heads, got {killed[-1]}")
    v = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(seed))
    q, k, values = head_queries(H), torch.eye(TOKENS).expand(1, H, -1, -1), split_values(v, H)
    out = attend(q, k, values, score=dot)
    out[:, killed] = 0
    read = out[0].transpose(0, 1).flatten(1)  # (Q, E)
    wanted = torch.cat([v[PREVIOUS_TOKEN, :2], v[FIRST_TOKEN, 2:]], -1)
    missed = (read - wanted).square()
    return {
        "weights": to_numbers(weigh(q, k, score=dot)[0]),
        "values": to_numbers(v),
        "read": to_numbers(read),
        "wanted": to_numbers(wanted),
        "error": to_numbers(missed.mean().sqrt()),
        "errors": to_numbers(torch.stack([missed[:, :2].mean(), missed[:, 2:].mean()]).sqrt()),
        "code": _code(H, killed, seed),
    }


def head_queries(heads: int) -> Tensor:
    """What each head asks for (1, H, Q, K): both needs, or one of them."""
    place = torch.eye(TOKENS)
    before, first = place[PREVIOUS_TOKEN], place[FIRST_TOKEN]
    # tokens whose two needs are one place ask for it once
    both = (before + first).clamp_max(1)
    rows = {1: [both], 2: [before, first], 4: [before, before, first, first]}[heads]
    return MATCH_STRENGTH * torch.stack(rows)[None]


def split_values(v: Tensor, heads: int) -> Tensor:
    """Values cut into as many heads: (K, E) -> (1, H, K, E / H)."""
    return v.view(TOKENS, heads, WIDTH // heads).transpose(0, 1)[None]


def _code(H: int, killed: list[int], seed: int) -> str:
    rows = {1: "(before + first).clamp_max(1)", 2: "before, first"}
    rows[4] = "before, before, first, first"
    return script_code(
        f"v = torch.randn({TOKENS}, {WIDTH}, generator=torch.Generator().manual_seed({seed}))",
        f"place = torch.eye({TOKENS}); before, first = place[{PREVIOUS_TOKEN}], "
        f"place[{FIRST_TOKEN}]",
        f"q = {MATCH_STRENGTH} * torch.stack([{rows[H]}])[None]",
        f"k = place.expand(1, {H}, {TOKENS}, {TOKENS})",
        f"heads = v.view({TOKENS}, {H}, {WIDTH // H}).transpose(0, 1)[None]",
        "out = regard.attend(q, k, heads, score=regard.scores.dot)",
        *([f"out[:, {killed}] = 0"] if killed else []),
        "read = out[0].transpose(0, 1).flatten(1)",
    )


LESSON = Lesson(
    name="heads",
    title="Heads",
    question=(
        "Each token needs the one before it and the first one. What does a single head bring back?"
    ),
    guesses=("A blend of the two", "Both, side by side", "Whichever matches better"),
    right=0,
    aha=(
        "A softmax has one unit of weight to give. Two needs in one head come back as their "
        "average; the same width cut into two heads brings back both, exactly."
    ),
    fields={
        "heads": Choice(("1", "2", "4"), "1"),
        "killed": Subset(4),
        "seed": Integer(0, 9999, 1),
    },
    compute=compute,
)

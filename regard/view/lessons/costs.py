"""What attention costs: N² weights, unless one looks near, or never holds them all at once."""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor

from regard.dispatch import attend
from regard.functional import attention as plain
from regard.functional import rules
from regard.functional.scores import dot
from regard.view.lessons.fields import Integer
from regard.view.lessons.formats import script_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson

# The width of a head; the longest that is run whole; how many keys are streamed for show.
HEAD_WIDTH, MAX_MEASURED_LENGTH, NUM_STREAMED_KEYS = 64, 256, 16
FLOAT_BYTES = 4


def compute(length: int, reach: int, block: int, seed: int) -> Answer:
    """Pairs, bytes and operations of three ways, and one query's softmax, block by block."""
    whole, near = length * length, window_pair_count(length, reach)
    scores, values = torch.randn(
        2, NUM_STREAMED_KEYS, generator=torch.Generator().manual_seed(seed)
    )
    steps = online_softmax(scores, values, block)
    q, k, v = torch.ones(1, 1, 1, 1), scores[None, None, :, None], values[None, None, :, None]
    return {
        "pairs": {"whole": whole, "window": near},
        "bytes": {
            "whole": FLOAT_BYTES * whole,
            "window": FLOAT_BYTES * near,
            # the largest, the sum and the blend so far, for each query
            "streaming": FLOAT_BYTES * length * (HEAD_WIDTH + 2),
        },
        # a multiplication and an addition, for scores and for values
        "operations": {"whole": 4 * HEAD_WIDTH * whole, "window": 4 * HEAD_WIDTH * near},
        **_measurements(length, reach),
        "scores": to_numbers(scores),
        "values": to_numbers(values),
        "steps": steps,
        "streaming": steps[-1]["read"],
        "read": to_numbers(attend(q, k, v, score=dot)[0, 0, 0, 0]),
        "code": _code(length, block, seed),
    }


def window_pair_count(length: int, reach: int) -> int:
    """How many pairs of a query and a key a window lets see each other."""
    reach = min(reach, length - 1)
    return length * (2 * reach + 1) - reach * (reach + 1)


def online_softmax(scores: Tensor, values: Tensor, block: int) -> list[Answer]:
    """Milakov & Gimelshein 2018: a softmax that sees each score once, and what it holds then.

    What was summed under a smaller maximum is shrunk by `exp(old − new)` once a larger one comes.
    """
    most, total, blend = -math.inf, 0.0, 0.0
    steps = []
    for s, v in zip(scores.double().split(block), values.double().split(block), strict=True):
        larger = max(most, s.max().item())
        shrunk, powers = math.exp(most - larger), (s - larger).exp()
        total = total * shrunk + powers.sum().item()
        blend = blend * shrunk + (powers * v).sum().item()
        most = larger
        held = {"most": most, "shrunk": shrunk, "total": total, "blend": blend}
        steps.append(
            {name: float(f"{x:.7g}") for name, x in held.items()} | {"read": blend / total}
        )
    return steps


def _measurements(length: int, reach: int) -> Answer:
    """Milliseconds of a run that is short enough, and how far the near way is from a mask."""
    n = min(length, MAX_MEASURED_LENGTH)
    x = torch.randn(1, 1, n, HEAD_WIDTH, generator=torch.Generator().manual_seed(0))
    window = rules.window(min(reach, n))
    whole, _ = _time_call(lambda: attend(x, x, x))
    local, near = _time_call(lambda: attend(x, x, x, rule=window))
    masked = plain.attention(x, x, x, rule=window)
    return {
        "measured": {"length": n, "whole": whole, "window": local},
        "difference": to_numbers((near - masked).abs().max()),
    }


def _time_call(call: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """The best of three, in milliseconds, and what came out."""
    best, out = math.inf, call()
    for _ in range(3):
        start = time.perf_counter()
        out = call()
        best = min(best, time.perf_counter() - start)
    return round(1000 * best, 4), out


def _code(length: int, block: int, seed: int) -> str:
    return script_code(
        f"whole = {FLOAT_BYTES} * {length} * {length}  # bytes of all weights",
        f"scores, values = torch.randn(2, {NUM_STREAMED_KEYS}, "
        f"generator=torch.Generator().manual_seed({seed}))",
        "most, total, blend = torch.tensor(-torch.inf), 0.0, 0.0",
        f"for s, v in zip(scores.split({block}), values.split({block})):",
        "    larger = torch.maximum(most, s.max())",
        "    shrunk, powers, most = (most - larger).exp(), (s - larger).exp(), larger",
        "    total, blend = total * shrunk + powers.sum(), blend * shrunk + (powers * v).sum()",
        "streaming = blend / total",
        "k, v = scores[None, None, :, None], values[None, None, :, None]",
        "read = regard.attend(torch.ones(1, 1, 1, 1), k, v, score=regard.scores.dot)",
    )


LESSON = Lesson(
    name="costs",
    title="What it costs",
    question="A text becomes 8 times as long. How much more memory do all weights take?",
    guesses=("8 times", "16 times", "64 times"),
    right=2,
    aha=(
        "N² weights: 8,192 tokens are 256 MiB for one head of one layer. A window costs what the "
        "window costs; and a softmax can be streamed, block by block, to the same answer, without "
        "ever holding the square."
    ),
    fields={
        "length": Integer(16, 8192, 2048),
        "reach": Integer(0, 512, 16),
        "block": Integer(1, NUM_STREAMED_KEYS, 4),
        "seed": Integer(0, 9999, 0),
    },
    compute=compute,
)

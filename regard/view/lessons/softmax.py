"""The softmax by hand: what moves it, what does not, and how it stays finite."""

import torch
from torch import Tensor

from regard.functional import selects
from regard.view.lessons.fields import Real, Row
from regard.view.lessons.formats import script_code, tensor_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson


def compute(scores: list[float], shift: float) -> Answer:
    """Weights of shifted scores, ours and as the formula stands, and how each moves with each."""
    shifted = torch.tensor(scores)[None, None, None] + shift
    weights = selects.softmax(shifted)
    powers = shifted.exp()
    p = weights[0, 0, 0]
    jacobian = p.diag() - p.outer(p)
    return {
        "shifted": to_numbers(shifted[0, 0, 0]),
        "weights": to_numbers(p),
        "total": to_numbers(p.sum()),
        "powers": to_numbers(powers[0, 0, 0]),
        "naive": to_numbers(naive_softmax(shifted)[0, 0, 0]),
        "jacobian": to_numbers(jacobian),
        "sums": to_numbers(jacobian.sum(-1)),
        "code": script_code(
            tensor_code("scores", scores, f"[None, None, None] + {shift}"),
            "weights = regard.selects.softmax(scores)",
            "naive = scores.exp() / scores.exp().sum(-1, keepdim=True)",
            "p = weights.flatten()",
            "jacobian = p.diag() - p.outer(p)",
        ),
    }


def naive_softmax(scores: Tensor) -> Tensor:
    """The formula as it stands, which overflows from a score of 89 on."""
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


LESSON = Lesson(
    name="softmax",
    title="Softmax by hand",
    question="Add 1000 to every score. What happens to the weights?",
    guesses=("Nothing at all", "They all grow", "The largest takes everything"),
    right=0,
    aha=(
        "Only differences of scores count. So the largest may be subtracted first, and nothing "
        "overflows; the formula as it stands breaks at 89. What one weight gains, others lose: "
        "each row of the Jacobian sums to 0."
    ),
    fields={
        "scores": Row(2, 10, 20, (2.0, 1.0, 0.0, -1.0, 0.5)),
        "shift": Real(-1000, 1000, 0.0),
    },
    compute=compute,
)

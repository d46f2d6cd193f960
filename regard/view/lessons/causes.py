"""A weight is not an influence: take a key away and see how much what is read moves."""

import torch

from regard.dispatch import attend, weigh
from regard.functional.scores import dot
from regard.view.lessons.fields import Choice, Row, Rows
from regard.view.lessons.formats import script_code, tensor_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson


def compute(scores: list[float], values: list[list[float]], how: str) -> Answer:
    """Weights, how long values are, and how far the result moves without each key."""
    K = len(scores)
    if len(values) != K:
        raise ValueError(f"lesson causes: expected {K} values for {K} scores, got {len(values)}")
    q, k = torch.ones(1, 1, 1, 1), torch.tensor(scores)[None, None, :, None]
    v = torch.tensor(values)[None, None]
    weights, read = weigh(q, k, score=dot), attend(q, k, v, score=dot)
    # row i does without key i
    others = ~torch.eye(K, dtype=torch.bool)
    if how == "zero":
        without = (weights * others) @ v
    else:
        without = attend(q.expand(1, 1, K, 1), k, v, score=dot, rule=others)
    return {
        "weights": to_numbers(weights[0, 0, 0]),
        "lengths": to_numbers(v[0, 0].norm(dim=-1)),
        "read": to_numbers(read[0, 0, 0]),
        "without": to_numbers(without[0, 0]),
        "changes": to_numbers((without - read)[0, 0].norm(dim=-1)),
        "code": script_code(
            tensor_code("k", scores, "[None, None, :, None]"),
            tensor_code("v", values),
            "q, dot = torch.ones(1, 1, 1, 1), regard.scores.dot",
            "weights = regard.weigh(q, k, score=dot)",
            "read = regard.attend(q, k, v, score=dot)",
            f"others = ~torch.eye({K}, dtype=torch.bool)  # row i does without key i",
            "without = (weights * others) @ v"
            if how == "zero"
            else f"without = regard.attend(q.expand(1, 1, {K}, 1), k, v, score=dot, rule=others)",
            "changes = (without - read).norm(dim=-1)",
        ),
    }


_VALUE = Row(2, 2, 3, ())

LESSON = Lesson(
    name="causes",
    title="Attention is not the cause",
    question="One key holds most of the weight. Does zeroing that weight change the result most?",
    guesses=("Yes, always", "Not if its value says little"),
    right=1,
    aha=(
        "What a key adds to the result is its weight times its value. A sink takes most of the "
        "weight and says nothing; a small weight on a long value moves everything. Do not read a "
        "map as a list of causes: take keys away and look."
    ),
    fields={
        "scores": Row(2, 12, 6, (2.4, 0.6, 1.0, 0.5, 0.8)),
        "values": Rows(
            2, 12, _VALUE, ((-0.15, -0.15), (1.6, 0.5), (1.3, -1.2), (-2.4, 2.8), (0.6, 1.5))
        ),
        "how": Choice(("zero", "hide"), "zero"),
    },
    compute=compute,
)

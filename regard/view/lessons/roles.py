"""Query, key and value are three roles of one point: who asks, who is found, what is read."""

import torch

from regard.dispatch import attend, logits, weigh
from regard.view.lessons.fields import Row, Rows
from regard.view.lessons.formats import script_code, tensor_code, to_numbers
from regard.view.lessons.lesson import Answer, Lesson

REACH = 2.0


def compute(points: list[list[float]], query: list[list[float]], key: list[list[float]]) -> Answer:
    """The points as queries and as keys, all their scores, and how far these are from a mirror."""
    x, wq, wk = (torch.tensor(rows)[None, None] for rows in (points, query, key))
    q, k = x @ wq, x @ wk
    scores = logits(q, k)[0, 0]
    weights = weigh(q, k)[0, 0]
    return {
        "queries": to_numbers(q[0, 0]),
        "keys": to_numbers(k[0, 0]),
        "scores": to_numbers(scores),
        "weights": to_numbers(weights),
        "read": to_numbers(attend(q, k, x)[0, 0]),
        "asymmetry": to_numbers((scores - scores.mT).abs().max()),
        "reach": REACH,
        "code": script_code(
            tensor_code("x", points),
            tensor_code("wq", query, ""),
            tensor_code("wk", key, ""),
            "scores = regard.logits(x @ wq, x @ wk)",
            "weights = regard.weigh(x @ wq, x @ wk)",
            "read = regard.attend(x @ wq, x @ wk, x)",
        ),
    }


_ROW = Row(2, 2, 3, ())

LESSON = Lesson(
    name="roles",
    title="Query, key, value",
    question="A attends strongly to B. Must B attend strongly to A?",
    guesses=("No, asking and being found are two roles", "Yes, a score is a similarity"),
    right=0,
    aha=(
        "Each token is projected twice: as one who asks and as one who is found. With one matrix "
        "for both, scores are a mirror image; with two, A → B and B → A have nothing to do with "
        "each other."
    ),
    fields={
        "points": Rows(
            2, 8, Row(2, 2, REACH, ()), ((1.4, 0.3), (0.2, 1.3), (-1.2, 0.5), (-0.4, -1.2))
        ),
        "query": Rows(2, 2, _ROW, ((1.0, 0.0), (0.0, 1.0))),
        "key": Rows(2, 2, _ROW, ((0.0, 1.5), (-1.5, 0.0))),
    },
    compute=compute,
)

"""Six ways to say how well a query matches a key, on the same points."""

import math

import torch

from regard.dispatch import logits, weigh
from regard.functional import scores as kinds
from regard.functional.scores import Score
from regard.view.lessons.dictionary import plane_grid
from regard.view.lessons.fields import Choice, Integer, Row, Rows
from regard.view.lessons.formats import script_code, tensor_code, to_numbers, to_rounded_numbers
from regard.view.lessons.lesson import Answer, Lesson

REACH, SIDE = 2.0, 33
# What the kinds with weights have: a mirror, a vector of ones.
GENERAL_WEIGHT, ADDITIVE_VECTOR = [[0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0]]
FORMULAS = {
    "dot": "q · k",
    "scaled_dot": "q · k / √D",
    "cosine": "cos(q, k)",
    "general": "q · W · k",
    "additive": "v · tanh(q + k)",
    "location": "q · W",
}


def compute(score: str, query: list[float], keys: list[list[float]], focus: int) -> Answer:
    """Scores and weights at the query; one key's score, and all weights, all over the plane."""
    if focus >= len(keys):
        raise ValueError(
            f"lesson scoring: focus: expected one of {len(keys)} keys, counted from 0, got {focus}"
        )
    q, k = torch.tensor([query])[None, None], torch.tensor(keys)[None, None]
    chosen = build_score(score, len(keys))
    there = logits(plane_grid(REACH, SIDE), k, score=chosen)[0, 0]  # (SIDE², K)
    return {
        "scores": to_numbers(logits(q, k, score=chosen)[0, 0, 0]),
        "weights": to_numbers(weigh(q, k, score=chosen)[0, 0, 0]),
        "landscape": to_rounded_numbers(there[:, focus], 2),
        "shares": to_rounded_numbers(there.softmax(-1), 2),
        "side": SIDE,
        "reach": REACH,
        "table": _score_table(query, keys, focus),
        "code": script_code(
            tensor_code("q", [query]),
            tensor_code("k", keys),
            f"score = {_score_code(score, len(keys))}",
            "scores = regard.logits(q, k, score=score)",
            "weights = regard.weigh(q, k, score=score)",
        ),
    }


def build_score(name: str, num_keys: int) -> Score:
    """The score of this name, for so many keys."""
    if name == "dot":
        return kinds.dot
    if name == "scaled_dot":
        return kinds.scaled_dot
    if name == "cosine":
        return kinds.Cosine()
    if name == "general":
        return kinds.General(torch.tensor([GENERAL_WEIGHT]))
    if name == "additive":
        return kinds.Additive(torch.tensor(ADDITIVE_VECTOR))
    return kinds.Location(torch.tensor([_location_weight(num_keys)]))


def _location_weight(num_keys: int) -> list[list[float]]:
    """Where the places lie that `location` looks at: on a circle, from the right, leftwards."""
    angles = [2 * math.pi * i / num_keys for i in range(num_keys)]
    return [[round(f(a), 3) for a in angles] for f in (math.cos, math.sin)]


def _score_table(query: list[float], keys: list[list[float]], focus: int) -> list[Answer]:
    """Each kind's score of the key in focus, and of that key made twice as long."""
    longer = [[2 * x for x in key] if i == focus else key for i, key in enumerate(keys)]
    q, k = torch.tensor([query])[None, None], torch.tensor([keys, longer])[:, None]
    found = {}
    for name in FORMULAS:
        both = logits(q.expand(2, -1, -1, -1), k, score=build_score(name, len(keys)))
        found[name] = to_numbers(both[:, 0, 0, focus])
    return [
        {"score": name, "formula": FORMULAS[name], "now": now, "longer": twice}
        for name, (now, twice) in found.items()
    ]


def _score_code(name: str, num_keys: int) -> str:
    """The score of this name, as code."""
    weights = {
        "general": [GENERAL_WEIGHT],
        "additive": ADDITIVE_VECTOR,
        "location": [_location_weight(num_keys)],
    }
    if name in weights:
        return f"regard.scores.{name.title()}(torch.tensor({weights[name]}))"
    return "regard.scores.Cosine()" if name == "cosine" else f"regard.scores.{name}"


_POINT = Row(2, 2, REACH, ())

LESSON = Lesson(
    name="scoring",
    title="Score functions",
    question="A key is made twice as long and keeps its direction. Whose score stays the same?",
    guesses=("The dot product’s", "The cosine’s", "Both", "Neither"),
    right=1,
    aha=(
        "The dot product prefers long keys, the cosine knows directions alone, the additive score "
        "has a ceiling, and location never looks at the keys at all."
    ),
    fields={
        "score": Choice(tuple(FORMULAS), "dot"),
        "query": Row(2, 2, REACH, (0.8, 0.7)),
        "keys": Rows(2, 8, _POINT, ((0.6, 0.2), (0.4, 1.7), (-1.0, 0.4), (0.3, -0.9))),
        "focus": Integer(0, 7, 0),
    },
    compute=compute,
)

"""Attention is a dictionary that answers with a blend: all keys, by how near they are."""

import torch
from torch import Tensor

from regard.dispatch import attend, weigh
from regard.functional.scores import Score
from regard.view.lessons.fields import Real, Row, Rows
from regard.view.lessons.formats import script_code, tensor_code, to_numbers, to_rounded_numbers
from regard.view.lessons.lesson import Answer, Lesson

# How far the plane reaches to every side, and how many places of it are tried a side.
REACH, SIDE = 2.0, 33


def compute(
    query: list[float], keys: list[list[float]], values: list[list[float]], temperature: float
) -> Answer:
    """What is read at the query, by how much of each key, and what would be read elsewhere."""
    if len(values) != len(keys):
        raise ValueError(
            f"lesson dictionary: expected a value for each of {len(keys)} keys, got {len(values)}"
        )
    q, k, v = (torch.tensor(rows)[None, None] for rows in ([query], keys, values))
    near = negative_squared_distance(temperature)
    return {
        "distances": to_numbers(torch.cdist(q, k)[0, 0, 0]),
        "weights": to_numbers(weigh(q, k, score=near)[0, 0, 0]),
        "read": to_numbers(attend(q, k, v, score=near)[0, 0, 0]),
        "field": to_rounded_numbers(attend(plane_grid(REACH, SIDE), k, v, score=near)[0, 0], 2),
        "side": SIDE,
        "reach": REACH,
        "code": script_code(
            tensor_code("q", [query]),
            tensor_code("k", keys),
            tensor_code("v", values),
            f"near = lambda q, k: -torch.cdist(q, k).square() / {temperature}",
            "weights = regard.weigh(q, k, score=near)",
            "read = regard.attend(q, k, v, score=near)",
        ),
    }


def negative_squared_distance(temperature: float) -> Score:
    """Minus the square of the distance, over a temperature."""

    def near(q: Tensor, k: Tensor) -> Tensor:
        return -torch.cdist(q, k).square() / temperature

    return near


def plane_grid(reach: float, side: int) -> Tensor:
    """Places all over the plane (1, 1, side², 2), row by row from the top left."""
    steps = torch.linspace(-reach, reach, side)
    y, x = torch.meshgrid(-steps, steps, indexing="ij")
    return torch.stack([x, y], -1).view(1, 1, -1, 2)


_POINT = Row(2, 2, REACH, ())
_COLOUR = Row(3, 3, 1, (), non_negative=True)
# Colours that are told apart without red and green too: Okabe & Ito 2008.
_COLOURS = (
    (0.9, 0.62, 0.0),
    (0.34, 0.71, 0.91),
    (0.0, 0.62, 0.45),
    (0.84, 0.37, 0.0),
    (0.8, 0.47, 0.65),
)

LESSON = Lesson(
    name="dictionary",
    title="A soft dictionary",
    question="Turn the temperature up as far as it goes. What will be read?",
    guesses=(
        "The value of the nearest key",
        "Nothing: all weights become 0",
        "The plain mean of all values, wherever the query is",
    ),
    right=2,
    aha=(
        "A dictionary looks up one key. Attention reads all of them, weighed by how near they are: "
        "cold, it is an exact lookup; hot, the mean. All between can be learned by gradients."
    ),
    fields={
        "query": Row(2, 2, REACH, (0.3, 0.4)),
        "keys": Rows(
            2, 16, _POINT, ((-1.2, 0.9), (0.2, 1.4), (1.3, 0.5), (0.7, -1.0), (-0.9, -0.8))
        ),
        "values": Rows(2, 16, _COLOUR, _COLOURS),
        "temperature": Real(0.001, 1000, 0.5),
    },
    compute=compute,
)

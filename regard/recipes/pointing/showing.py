"""How sure a model was of each point that it pointed at, and what it saw when it read them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import looking
from regard.data.instances import Order
from regard.functional.pointing import END
from regard.recipes.pointing import asked
from regard.view.axes import Points, Steps
from regard.view.trace import Header, Map, Trace

# The most points of which all that read all are kept.
MOST_READ = 200


@dataclass(frozen=True)
class Prediction:
    """The answer in words, and the same as data; a pointer makes no other candidates."""

    text: str
    details: dict[str, Any] = field(default_factory=dict)
    candidates: list[tuple[str, float]] = field(default_factory=list)


@torch.no_grad()
def traced(
    loaded: Any,
    points: np.ndarray,
    ready: np.ndarray,
    answer: list[int],
    order: Order,
    shown: dict[str, Any],
) -> Trace:
    """The probability of each point at each step of an answer, and who looked at whom before.

    Args:
        points: in the coordinates of who asks (n, D).
        ready: the same, as the model reads them.
        answer: the points that it pointed at.
        shown: what it answered.
    """
    batch, (places,) = asked.laid([ready], order)
    # where each of the points given stands as it is read
    stands = np.argsort(places)
    with looking.look(loaded.model) as seen:
        state = loaded.model.start((batch.points, batch.lengths))
        read = _read(seen, stands) if len(points) <= MOST_READ else []
    tokens = [int(stands[i]) + 1 for i in answer]
    # tours begin at every city, and the shortest is kept: the first is no choice
    rows = _rows(loaded.model, state, tokens, begun=shown["task"] == "tour")
    cells = rows[:, 1:][:, torch.from_numpy(stands)]
    labels = [f"→ {i}" for i in answer] + ["end"] * (len(cells) - len(answer))
    xy = points if points.shape[1] == 2 else np.stack([np.arange(len(points)), points[:, 0]], 1)
    return Trace(
        axes=[Steps("steps", labels), Points("points", torch.from_numpy(xy.astype(np.float64)))],
        maps=[Map("pointer", "steps", "points", cells[None, None]), *read],
        outputs=shown,
        header=Header(
            model=loaded.card["name"],
            family=loaded.config.kind,
            title=f"{len(points)} points → {shown['text']}",
            dtype="float32",
        ),
    )


def _rows(model: Any, state: Any, tokens: list[int], *, begun: bool) -> Tensor:
    """The probabilities of the end and of each point, at every step of an answer (T, K).

    Args:
        begun: whether the first step was not chosen but given.
    """
    rows, last = [], END
    for step, token in enumerate([*tokens, END]):
        logits, state = model.step(torch.tensor([last]), state)
        shares = logits[0].float().softmax(-1)
        if begun and step == 0:
            shares = torch.zeros_like(shares).index_fill_(0, torch.tensor([token]), 1.0)
        rows.append(shares)
        last = token
    # where the end had to come it was no step
    return torch.stack(rows[:-1] if bool(rows[-1][END] == 1) else rows)


def _read(seen: Any, stands: np.ndarray) -> list[Map]:
    """Who looked at whom while the points were read: a layer each, points by their own numbers."""
    layers = [seen[name].weights()[0] for name in seen.names() if name.endswith(".own")]
    if not layers:
        return []
    index = torch.from_numpy(stands)
    cells = torch.stack(layers)[:, :, index][:, :, :, index]
    return [Map("reading", "points", "points", cells, *cells.shape[:2])]

"""How sure a model was of each point that it pointed at, and what it saw when it read them."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard import decode, looking
from regard.data.instances import Order
from regard.functional.pointing import END
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointing import asked
from regard.view.axes import Points, Steps
from regard.view.inputs import Tell
from regard.view.trace import WHERE_NOT_WHY, Header, Map, Trace

# The most points of which all that read all are kept.
MOST_READ = 200
# The attention that points, by the kind of the model; and one that looks around before it does.
POINTERS = {"pointer_network": ["pointer"], "attention_pointer": ["touring"]}
GLIMPSE = "touring.glimpse"


@dataclass(frozen=True)
class Prediction:
    """The answer in words, and the same as data; a pointer makes no other candidates."""

    text: str
    details: dict[str, Any] = field(default_factory=dict)
    candidates: list[tuple[str, float]] = field(default_factory=list)


class Walked(NamedTuple):
    """How a model came to an answer, by the numbers of who asks."""

    answer: list[int]
    shares: Tensor  # (T, N): the probability of each point at each step, the rest that of the end
    looks: list[Map]  # what it looked at before and meanwhile


@torch.no_grad()
def walked(
    loaded: Any,
    ready: np.ndarray,
    order: Order,
    *,
    led: list[int],
    given: bool = False,
    tell: Tell | None = None,
) -> Walked:
    """An answer, greedily, step by step.

    Args:
        ready: the points as the model reads them (n, D).
        led: the points that the answer begins with.
        given: whether the first of them was no choice of the model's at all.
        tell: told of every step; what it raises ends the run at once.
    """
    batch, (places,) = asked.laid([ready], order)
    batch, N = batch.to(next(loaded.model.parameters()).device), len(ready)
    # where each of the points given stands as it is read
    stands = np.argsort(places)
    total, rows = N if _follows(loaded.config) == "each" else None, list[Tensor]()

    def hear(said: list[int], logits: Tensor) -> None:
        rows.append(logits.float().softmax(-1).cpu())
        if tell is not None:
            tell(len(said), total, " ".join(str(places[token - 1]) for token in said) or None)

    tokens = [int(stands[i]) + 1 for i in led]
    model = decode.Beginning(decode.Telling(loaded.model, hear), [tokens])
    source, few = (batch.points, batch.lengths), N <= MOST_READ
    with looking.look(loaded.model) if few else nullcontext() as seen:
        # a triangulation of N points has fewer than 2N triangles
        said = decode.greedy(model, source, begin=END, end=END, longest=6 * N + 1).sequences()
        shares = _shares(rows[: len(said[0][0]) + 1], tokens[:1] if given else [])
        looks = [] if seen is None else _looks(seen, torch.from_numpy(stands), len(shares))
    answer = [int(places[token - 1]) for token in said[0][0]]
    return Walked(answer, shares[:, 1:][:, torch.from_numpy(stands)], looks)


def traced(loaded: Any, points: np.ndarray, found: Walked, shown: dict[str, Any]) -> Trace:
    """The probability of each point at each step of an answer, and who looked at whom before.

    Args:
        points: in the coordinates of who asks (n, D).
        shown: what it answered.
    """
    answer, shares = found.answer, found.shares
    labels = [f"→ {i}" for i in answer] + ["end"] * (len(shares) - len(answer))
    xy = points if points.shape[1] == 2 else np.stack([np.arange(len(points)), points[:, 0]], 1)
    names = [name for name in POINTERS[loaded.config.kind] if _points(loaded.config)]
    return Trace(
        axes=[Steps("steps", labels), Points("points", torch.from_numpy(xy.astype(np.float64)))],
        maps=[Map("pointer", "steps", "points", shares[None, None], names=names), *found.looks],
        outputs=shown,
        header=Header(
            model=loaded.card["name"],
            family=loaded.config.kind,
            title=f"{len(points)} points → {shown['text']}",
            dtype="float32",
            notes=[WHERE_NOT_WHY],
        ),
    )


def placed(
    places: np.ndarray, edits: Sequence[Mapping[str, Any]], *, first: int
) -> list[dict[str, Any]]:
    """Edits in the numbers of who asks, as edits in those of a model's attentions.

    Args:
        places: which of the points given stands at each place, as the model reads them.
        first: the key of the first of them, where a model points: before it, there may be the end.
    """
    stands = np.argsort(places).tolist()

    def moved(at: Any, cell: Any) -> list[Any]:
        query, key = cell
        own = str(at).endswith(".own")
        return [_at(stands, query, 0) if own else query, _at(stands, key, 0 if own else first)]

    found = []
    for edit in edits:
        changed = dict(edit)
        if changed.get("do") == "hide" and _cells(changed.get("cells")):
            changed["cells"] = [moved(changed.get("at"), cell) for cell in changed["cells"]]
        if changed.get("do") == "force" and {"query", "key"} <= changed.keys():
            cell = moved(changed.get("at"), (changed["query"], changed["key"]))
            changed["query"], changed["key"] = cell
        found.append(changed)
    return found


def _cells(given: Any) -> bool:
    # what is no cell is refused where edits become changes
    return isinstance(given, list) and all(isinstance(x, list) and len(x) == 2 for x in given)


def _at(stands: list[int], index: Any, first: int) -> Any:
    if isinstance(index, bool) or not isinstance(index, int):
        return index
    if not 0 <= index < len(stands):
        raise ValueError(f"edit: expected points from 0 to {len(stands) - 1}, got {index!r:.80}")
    return stands[index] + first


def _follows(config: Any) -> str:
    return config.follows if isinstance(config, PointerNetworkConfig) else "each"


def _points(config: Any) -> bool:
    return not isinstance(config, PointerNetworkConfig) or config.says == "pointer"


def _shares(rows: list[Tensor], given: list[int]) -> Tensor:
    """The probabilities of the end and of each point, at every step of an answer (T, K).

    Args:
        given: the token of the first step, if that was not chosen but given.
    """
    if given:
        rows[0] = torch.zeros_like(rows[0]).index_fill_(0, torch.tensor(given), 1.0)
    # where the end had to come it was no step
    return torch.stack(rows[:-1] if bool(rows[-1][END] == 1) else rows)


def _looks(seen: Any, stands: Tensor, steps: int) -> list[Map]:
    """Who looked at whom, points by their own numbers: while they were read, and at each step."""
    found, own = [], [name for name in seen.names() if name.endswith(".own")]
    if own:
        cells = torch.stack([seen[name].weights()[0].cpu() for name in own])
        cells = cells[:, :, stands][:, :, :, stands]
        layers, heads = cells.shape[:2]
        found.append(Map("reading", "points", "points", cells, layers, heads, names=own))
    if GLIMPSE in seen:
        cells = seen[GLIMPSE].weights().cpu()[:, :, :steps, stands]
        found.append(Map("glimpse", "steps", "points", cells, 1, cells.shape[1], names=[GLIMPSE]))
    return found

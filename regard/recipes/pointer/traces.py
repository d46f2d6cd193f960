"""How sure a model was of each point that it pointed at, and what it saw when it read them."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard import decode, looking
from regard.data.geometry.instances import ReadingOrder
from regard.functional.pointing_rules import END
from regard.models.pointer_network import PointerNetworkConfig
from regard.recipes.pointer import problems
from regard.view.inputs import ProgressCallback
from regard.view.traces.axes import Points, Steps
from regard.view.traces.trace import NOT_CAUSES_NOTE, Header, Map, Trace

# The most points of which all that read all are kept.
MAX_ATTENTION_POINTS = 200
# The attention that points, by the kind of the model; and one that looks around before it does.
POINTER_MODULES = {"pointer_network": ["pointer"], "attention_pointer": ["decoder"]}
GLIMPSE_MODULE = "decoder.glimpse"


@dataclass(frozen=True)
class Prediction:
    """The answer in words, and the same as data; a pointer makes no other candidates."""

    text: str
    details: dict[str, Any] = field(default_factory=dict)
    candidates: list[tuple[str, float]] = field(default_factory=list)


class AnswerRecord(NamedTuple):
    """How a model came to an answer, by the numbers of who asks."""

    answer: list[int]
    probabilities: (
        Tensor  # (T, N): the probability of each point at each step, the rest that of the end
    )
    attention_maps: list[Map]  # what it looked at before and meanwhile


@torch.no_grad()
def record_answer(
    loaded: Any,
    points: np.ndarray,
    order: ReadingOrder,
    *,
    prefix: list[int],
    fixed_start: bool = False,
    on_progress: ProgressCallback | None = None,
) -> AnswerRecord:
    """An answer, greedily, step by step.

    Args:
        points: the points as the model reads them (n, D).
        prefix: the points that the answer begins with.
        fixed_start: whether the first of them was no choice of the model's at all.
        on_progress: told of every step; what it raises ends the run at once.
    """
    batch, (places,) = problems.collate_points([points], order)
    batch, N = batch.to(next(loaded.model.parameters()).device), len(points)
    # where each of the points given stands as it is read
    stands = np.argsort(places)
    total, rows = N if _pointing_rule(loaded.config) == "permutation" else None, list[Tensor]()

    def record_step(token_ids: list[int], logits: Tensor) -> None:
        rows.append(logits.float().softmax(-1).cpu())
        if on_progress is not None:
            on_progress(
                len(token_ids),
                total,
                " ".join(str(places[token - 1]) for token in token_ids) or None,
            )

    tokens = [int(stands[i]) + 1 for i in prefix]
    model = decode.ForcedPrefix(decode.ProgressReporter(loaded.model, record_step), [tokens])
    source, few = (batch.points, batch.lengths), N <= MAX_ATTENTION_POINTS
    with looking.look(loaded.model) if few else nullcontext() as seen:
        # a triangulation of N points has fewer than 2N triangles
        said = decode.greedy(model, source, begin=END, end=END, longest=6 * N + 1).sequences()
        shares = _step_probabilities(rows[: len(said[0][0]) + 1], tokens[:1] if fixed_start else [])
        looks = [] if seen is None else _attention_maps(seen, torch.from_numpy(stands), len(shares))
    answer = [int(places[token - 1]) for token in said[0][0]]
    return AnswerRecord(answer, shares[:, 1:][:, torch.from_numpy(stands)], looks)


def build_trace(
    loaded: Any, points: np.ndarray, record: AnswerRecord, outputs: dict[str, Any]
) -> Trace:
    """The probability of each point at each step of an answer, and who looked at whom before.

    Args:
        points: in the coordinates of who asks (n, D).
        outputs: what it answered.
    """
    answer, shares = record.answer, record.probabilities
    labels = [f"→ {i}" for i in answer] + ["end"] * (len(shares) - len(answer))
    xy = points if points.shape[1] == 2 else np.stack([np.arange(len(points)), points[:, 0]], 1)
    names = [
        name for name in POINTER_MODULES[loaded.config.kind] if _has_pointer_output(loaded.config)
    ]
    return Trace(
        axes=[Steps("steps", labels), Points("points", torch.from_numpy(xy.astype(np.float64)))],
        maps=[
            Map("pointer", "steps", "points", shares[None, None], names=names),
            *record.attention_maps,
        ],
        outputs=outputs,
        header=Header(
            model=loaded.card["name"],
            family=loaded.config.kind,
            title=f"{len(points)} points → {outputs['text']}",
            dtype="float32",
            notes=[NOT_CAUSES_NOTE],
        ),
    )


def to_model_edits(
    reading_order: np.ndarray, edits: Sequence[Mapping[str, Any]], *, first_key: int
) -> list[dict[str, Any]]:
    """Edits in the numbers of who asks, as edits in those of a model's attentions.

    Args:
        reading_order: which of the points given stands at each place, as the model reads them.
        first_key: the key of the first of them, where a model points: before it, there may be the
            end.
    """
    stands = np.argsort(reading_order).tolist()

    def to_model_cell(at: Any, cell: Any) -> list[Any]:
        query, key = cell
        own = str(at).endswith(".self_attention")
        return [
            _model_index(stands, query, 0) if own else query,
            _model_index(stands, key, 0 if own else first_key),
        ]

    found = []
    for edit in edits:
        changed = dict(edit)
        if changed.get("do") == "hide" and _is_cell_list(changed.get("cells")):
            changed["cells"] = [to_model_cell(changed.get("at"), cell) for cell in changed["cells"]]
        if changed.get("do") == "force" and {"query", "key"} <= changed.keys():
            cell = to_model_cell(changed.get("at"), (changed["query"], changed["key"]))
            changed["query"], changed["key"] = cell
        found.append(changed)
    return found


def _is_cell_list(value: Any) -> bool:
    # what is no cell is refused where edits become changes
    return isinstance(value, list) and all(isinstance(x, list) and len(x) == 2 for x in value)


def _model_index(positions: list[int], index: Any, first: int) -> Any:
    if isinstance(index, bool) or not isinstance(index, int):
        return index
    if not 0 <= index < len(positions):
        raise ValueError(f"edit: expected points from 0 to {len(positions) - 1}, got {index!r:.80}")
    return positions[index] + first


def _pointing_rule(config: Any) -> str:
    return config.pointing_rule if isinstance(config, PointerNetworkConfig) else "permutation"


def _has_pointer_output(config: Any) -> bool:
    return not isinstance(config, PointerNetworkConfig) or config.output == "pointer"


def _step_probabilities(rows: list[Tensor], fixed_tokens: list[int]) -> Tensor:
    """The probabilities of the end and of each point, at every step of an answer (T, K).

    Args:
        fixed_tokens: the token of the first step, if that was not chosen but given.
    """
    if fixed_tokens:
        rows[0] = torch.zeros_like(rows[0]).index_fill_(0, torch.tensor(fixed_tokens), 1.0)
    # where the end had to come it was no step
    return torch.stack(rows[:-1] if bool(rows[-1][END] == 1) else rows)


def _attention_maps(seen: Any, positions: Tensor, steps: int) -> list[Map]:
    """Who looked at whom, points by their own numbers: while they were read, and at each step."""
    found = []
    reading = [name for name in seen.names() if name.endswith(".self_attention")]
    if reading:
        cells = torch.stack([seen[name].weights()[0].cpu() for name in reading])
        cells = cells[:, :, positions][:, :, :, positions]
        layers, heads = cells.shape[:2]
        found.append(Map("reading", "points", "points", cells, layers, heads, names=reading))
    if GLIMPSE_MODULE in seen:
        cells = seen[GLIMPSE_MODULE].weights().cpu()[:, :, :steps, positions]
        found.append(
            Map("glimpse", "steps", "points", cells, 1, cells.shape[1], names=[GLIMPSE_MODULE])
        )
    return found

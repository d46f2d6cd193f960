"""What a machine answers, and what it did with its memory for it."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.data.ntm.episodes import Episodes, format_vectors
from regard.models.ntm import NTM, StepDetails
from regard.recipes.ntm.config import check_fits_memory
from regard.recipes.ntm.loss import output_logits
from regard.view.inputs import ProgressCallback
from regard.view.traces.axes import Slots, Steps
from regard.view.traces.trace import (
    NOT_CAUSES_NOTE,
    Header,
    Map,
    Series,
    Trace,
    UnseenError,
)

ADDRESSING_STAGES = ("content", "gated", "shifted")
# The module in which heads compare what they seek with what there is; those that read come first.
ADDRESSING_MODULE = "heads"
# The most steps of an episode that is typed.
MAX_STEPS = 10_000


@dataclass(frozen=True)
class Prediction:
    """The answer in bits, and the right one; a machine makes no other candidates."""

    text: str
    answer: str
    candidates: list[tuple[str, float]] = field(default_factory=list)


@torch.no_grad()
def predict_episode(where: str, loaded: Any, episode: Episodes) -> Prediction:
    """What a model answers to one episode."""
    _check_episode(where, loaded, episode)
    outputs = torch.sigmoid(output_logits(loaded.model, episode.inputs))
    return Prediction(format_vectors(outputs[episode.target_mask]), target_text(episode))


def target_text(episode: Episodes) -> str:
    """What is right."""
    return format_vectors(episode.targets[episode.target_mask])


@torch.no_grad()
def trace_episode(
    where: str,
    loaded: Any,
    episode: Episodes,
    *,
    title: str,
    flags: tuple[str, ...],
    on_progress: ProgressCallback | None = None,
) -> Trace:
    """The memory after every step, and how each head found its place.

    Args:
        flags: what the channels of the input tell that stand behind the bits of a vector.
        on_progress: told of every step; what it raises ends the run at once.
    """
    _check_episode(where, loaded, episode)
    model = loaded.model
    if not isinstance(model, NTM):
        raise UnseenError(f"trace: a model of kind {loaded.config.kind} has no memory to look at")
    steps = _run_steps(model, episode, on_progress)
    outputs = torch.sigmoid(torch.cat([step.logits for step in steps]))
    text, right = format_vectors(outputs[episode.target_mask[0]]), target_text(episode)
    return Trace(
        axes=[
            Steps("steps", _labels(episode, outputs, flags)),
            Slots("slots", steps[-1].state.memory.shape[1]),
        ],
        maps=_maps(steps, model.config.read_heads),
        series=[
            Series("inputs", "steps", episode.inputs[0]),
            Series("targets", "steps", episode.targets[0]),
            Series("outputs", "steps", outputs),
            *_series(steps, model.config.read_heads),
        ],
        outputs={"text": text, "answer": right, "right": text == right},
        header=Header(
            model=loaded.card["name"],
            family=loaded.config.kind,
            title=f"{title} → {text}",
            dtype="float32",
            notes=[
                NOT_CAUSES_NOTE,
                "a head finds its place in four stages: content, gated, shifted, and the last",
            ],
        ),
    )


def _run_steps(
    model: NTM, episode: Episodes, on_progress: ProgressCallback | None
) -> list[StepDetails]:
    """All that happens in every step."""
    state, steps, words = model.start(1), list[StepDetails](), list[str]()
    asked = episode.target_mask[0].tolist()
    for x, answers in zip(episode.inputs.unbind(1), asked, strict=True):
        steps.append(model.step_with_details(x, state))
        state = steps[-1].state
        if answers:
            words.append(format_vectors(torch.sigmoid(steps[-1].logits)))
        if on_progress is not None:
            on_progress(len(steps), len(asked), " ".join(words) or None)
    return steps


def _check_episode(where: str, loaded: Any, episode: Episodes) -> None:
    if episode.inputs.shape[1] > MAX_STEPS:
        raise ValueError(
            f"{where}: expected at most {MAX_STEPS} steps, got {episode.inputs.shape[1]}"
        )
    if isinstance(loaded.model, NTM):
        check_fits_memory(where, episode.slots, loaded.config.slots)


def _labels(episode: Episodes, outputs: Tensor, flags: tuple[str, ...]) -> list[str]:
    """What came in at a step, bits or a flag alone, or behind an arrow what was said."""
    asked, bits = episode.target_mask[0].tolist(), episode.inputs.shape[2] - len(flags)
    named = []
    for answers, x, y in zip(asked, episode.inputs[0], outputs, strict=True):
        raised = [flag for flag, value in zip(flags, x[bits:].tolist(), strict=True) if value == 1]
        alone = raised and not x[:bits].any()
        came = raised[0] if alone else format_vectors(x[None, :bits])
        named.append(f"→ {format_vectors(y[None])}" if answers else came)
    return named


def _maps(steps: list[StepDetails], reads: int) -> list[Map]:
    """The places of reading and of writing heads, and the three stages before each."""
    found = []
    for name, heads in (("read", slice(reads)), ("write", slice(reads, None))):
        places = torch.cat([step.stages.sharpened[:, heads] for step in steps])
        stages = {
            stage: torch.cat([getattr(step.stages, stage)[:, heads] for step in steps])
            for stage in ADDRESSING_STAGES
        }
        for id, weights in ((name, places), *((f"{name}.{s}", w) for s, w in stages.items())):
            cells = weights.transpose(0, 1)[None]  # (1, heads, steps, slots)
            # of the one attention of all heads, those that read are the first: an edit of a head
            # means the same head there as here
            names = (ADDRESSING_MODULE,) if id == "read.content" else ()
            found.append(Map(id, "steps", "slots", cells, 1, cells.shape[1], names=names))
    return found


def _series(steps: list[StepDetails], reads: int) -> list[Series]:
    """The memory, what was read and added, and what each head was told."""
    orders = [step.head_parameters for step in steps]
    found = {
        "memory": torch.cat([step.state.memory.flatten(1) for step in steps]),
        "reads": torch.cat([step.state.read.flatten(1) for step in steps]),
        "adds": torch.cat([each.add.flatten(1) for each in orders]),
        "erases": torch.cat([each.erase.flatten(1) for each in orders]),
    }
    for name, heads in (("read", slice(reads)), ("write", slice(reads, None))):
        for part in ("strength", "gate", "shift", "sharpness"):
            told = torch.cat([getattr(each, part)[:, heads].flatten(1) for each in orders])
            found[f"{name}.{part}"] = told
    return [Series(id, "steps", values) for id, values in found.items()]

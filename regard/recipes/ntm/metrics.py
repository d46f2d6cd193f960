"""How good a machine is, on episodes that nobody has seen."""

import time
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import torch

from regard.data.ntm.episodes import Episodes, Task
from regard.models.ntm import NTMConfig
from regard.recipes.ntm.config import check_fits_memory
from regard.recipes.ntm.loss import score_episodes
from regard.train.runs import hardware

# What the numbers of a card are drawn with.
CARD_SEED = 1000
# As large as any size of a model that is loaded.
MAX_SLOTS = 2**24
# The numbers of all memories that are held at a time.
MAX_STATE_ELEMENTS = 2**22


def held_out_episodes(task: Task, sequences: int, seed: int) -> Episodes:
    """So many episodes that no training draws."""
    # batches are drawn by three numbers; with a fourth, nothing is ever drawn twice
    return task.draw(np.random.default_rng([seed, 0, 0, 1]), sequences)


def episode_metrics(
    where: str, loaded: Any, batch: Episodes, slots: int | None = None
) -> dict[str, Any]:
    """`bits_per_sequence`, and `perfect`, the share of episodes without one wrong bit."""
    config = loaded.config
    if isinstance(config, NTMConfig):
        slots = slots or config.slots
        check_fits_memory(where, batch.slots, slots, hint="set slots")
    elif slots is not None:
        raise ValueError(f"{where}: a model of kind {config.kind} has no slots")
    began, device = time.perf_counter(), next(loaded.model.parameters()).device
    parts = _split_batch(batch, slots * config.slot_width if slots else config.width)
    found = [score_episodes(loaded.model, part.to(device), slots=slots) for part in parts]
    bits, right = (torch.cat(each).cpu() for each in zip(*found, strict=True))
    return {
        "bits_per_sequence": float(bits.mean()),
        "perfect": float(right.double().mean()),
        "sequences": len(batch),
        "slots": slots,
        "seconds": round(time.perf_counter() - began, 2),
        "hardware": hardware(device.type),
    }


def check_evaluation(where: str, evaluation: Any, *names: str) -> None:
    """Refuse an evaluation with less than one of what is named, or a negative seed."""
    for name, least in (*((name, 1) for name in names), ("seed", 0)):
        given = getattr(evaluation, name)
        if given is not None and given < least:
            raise ValueError(f"{where}: expected {name} of at least {least}, got {given!s:.40}")
    if "slots" in names and evaluation.slots is not None and evaluation.slots > MAX_SLOTS:
        raise ValueError(
            f"{where}: expected slots of at most {MAX_SLOTS}, got {evaluation.slots!s:.40}"
        )


def _split_batch(batch: Episodes, row_elements: int) -> Iterator[Episodes]:
    """Some episodes at a time, so that their states of this size are not too large together."""
    rows = max(1, min(256, MAX_STATE_ELEMENTS // row_elements))
    for i in range(0, len(batch), rows):
        yield batch.map_tensors(itemgetter(slice(i, i + rows)))

"""All the random state there is, as a tree that can be saved: torch, its GPU, numpy, Python."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def get_rng_state() -> dict[str, Any]:
    """Where every generator of this process stands."""
    drawn = np.random.get_state(legacy=False)
    assert isinstance(drawn, dict)
    numbers = {**drawn, "state": {**drawn["state"], "key": drawn["state"]["key"].tolist()}}
    card = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    metal = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    return {
        "torch": torch.get_rng_state(),
        "cuda": card,
        "mps": metal,
        "numpy": numbers,
        "python": random.getstate(),
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Put every generator back to where it stood."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    if state["mps"] is not None and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])
    numbers = state["numpy"]
    key = np.array(numbers["state"]["key"], dtype=np.uint32)
    np.random.set_state({**numbers, "state": {**numbers["state"], "key": key}})
    random.setstate(state["python"])


def seed_everything(number: int) -> None:
    """Start every generator from `number`."""
    # the seed of another process may lie beyond what torch takes
    torch.manual_seed(number % 2**64)
    np.random.seed(number % 2**32)
    random.seed(number)


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """What is drawn inside is not missed outside."""
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)

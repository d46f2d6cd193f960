"""A trained model into a folder, from which `load` reads it again."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import to_json
from regard.runtime import atomic_files
from regard.zoo import model_kinds, untrusted_files

SAVE_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def save(
    folder: Path,
    model: nn.Module,
    config: Any,
    card: dict[str, Any],
    *,
    tokenizer: Any | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a model's weights, card and tokenizer; each file is there whole, or not at all.

    Args:
        folder: where to; made if it is not there.
        model: of a kind that can be loaded.
        config: the model's own, from which it was built.
        card: `name`, `recipe`, and what else is known; schema, kind and config are added.
        tokenizer: what has `save(path)`, if the model reads text.
        dtype: what numbers are stored in; float16 and bfloat16 take half the room.

    Raises:
        ValueError: the model or the card could not be loaded again, or not in this dtype.
    """
    from safetensors.torch import save as packed

    if dtype not in SAVE_DTYPES:
        raise ValueError(
            f"save: expected dtype as one of {', '.join(map(str, SAVE_DTYPES))}, got {dtype}"
        )
    card = {
        "schema": untrusted_files.SCHEMA_VERSION,
        **card,
        "model": model_kinds.kind_of(model),
        "config": to_json(config),
    }
    text = _card_json(card)
    tensors = _unique_tensors(model, dtype)
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer is not None:
        tokenizer.save(folder / "tokenizer.json")
    atomic_files.write_file(folder / "model.safetensors", packed(tensors))
    # last, because a folder with a card is a whole model
    atomic_files.write_file(folder / "card.json", text)


def _card_json(card: dict[str, Any]) -> str:
    wrong = untrusted_files.wrong_field(card)
    if wrong:
        raise ValueError(f"save: {wrong} in the card")
    try:
        return json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"save: expected a card that JSON can hold: {error}") from None


def _unique_tensors(model: nn.Module, dtype: torch.dtype) -> dict[str, Tensor]:
    """The tensors of a model, a tied one under its first name only."""
    stored: dict[str, Tensor] = {}
    seen = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"save: expected a state of tensors only, got {name}")
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        floats = tensor.is_floating_point()
        # a copy, because two views of one storage cannot be stored
        kept = tensor.detach().to("cpu", dtype if floats else tensor.dtype, copy=True).contiguous()
        if floats and not torch.isfinite(kept).all():
            raise ValueError(f"save: {name} has numbers that are not finite in {dtype}")
        stored[name] = kept
    return stored

"""From sentences to their translations: many at a time, or one with all that the beams found."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from regard import decode
from regard.data.batches import BEGIN, END, Batch, TokenBatches
from regard.decode.telling import Hear
from regard.layers import products
from regard.layers.ready import prepared

# What matrices are multiplied in.
Precision = Literal["float32", "int8"]

# Source or target tokens in a batch when nothing has to be remembered for a backward pass.
AT_ONCE = 8192
# Chosen on development pairs, where five beams gain more with it than without:
# regard evaluate translate-en-fr-small part=development beam=5 length_penalty=…
PENALTY = 1.0


def tokenizer_of(loaded: Any) -> Any:
    """The tokenizer of a trained model, without which there is no translation."""
    if loaded.tokenizer is None:
        raise ValueError(
            "translate: expected tokenizer.json beside the card.json of "
            f"{loaded.card.get('name')!r:.60}, got none; its recipe may be another"
        )
    return loaded.tokenizer


def translated(
    model: nn.Module,
    vocabulary: Any,
    texts: list[str],
    *,
    beam: int = 1,
    length_penalty: float = PENALTY,
    precision: Precision = "float32",
) -> list[str]:
    """The best translation of each text."""
    ready, device = _ready(model, precision), _device(model)
    sources = vocabulary.encode_all(texts)
    most = AT_ONCE // beam
    batches = TokenBatches([(s, []) for s in sources], tokens=most, seed=0, shuffle=False)
    found = [""] * len(texts)
    for batch in batches.epoch(0):
        decoded = _searched(ready, batch.to(device), beam, length_penalty)
        for index, best in zip(batch.indices.tolist(), decoded.sequences(), strict=True):
            found[index] = vocabulary.decode(best[0])
    return found


def searched(
    model: nn.Module,
    source: list[int],
    beam: int,
    *,
    best: int = 1,
    prefix: Sequence[int] = (),
    hear: Hear | None = None,
) -> decode.Decoded:
    """The `best` hypotheses for one source.

    Args:
        prefix: the tokens that each of them begins with.
        hear: told at every step what was said; what it raises ends the search.
    """
    [batch] = TokenBatches([(source, [])], tokens=AT_ONCE, seed=0).epoch(0)
    longest = _longest(len(source))
    if len(prefix) >= longest:
        raise ValueError(
            f"translate: expected a prefix of fewer than {longest} tokens, got {len(prefix)}"
        )
    ready = _ready(model, "float32")
    ready = ready if hear is None else decode.Telling(ready, hear)
    ready = decode.Beginning(ready, [prefix]) if prefix else ready
    return _searched(ready, batch.to(_device(model)), beam, PENALTY, best=best)


def _longest(source: Any) -> Any:
    """The most tokens of a translation, of how many its source has."""
    return 2 * source + 10


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _ready(model: nn.Module, precision: Precision) -> Any:
    """What is decoded: on a CPU, a model whose weights were made ready."""
    if _device(model).type == "cuda":
        if precision == "int8":
            raise ValueError("translate: int8 is for a CPU, and the model lies on a card")
        return model
    return prepared(model, products.int8 if precision == "int8" else products.packed)


def _searched(
    model: Any, batch: Batch, beam: int, length_penalty: float, *, best: int = 1
) -> decode.Decoded:
    source = (batch.source, batch.source_lengths)
    longest = _longest(batch.source_lengths)
    if beam == 1:
        return decode.greedy(model, source, begin=BEGIN, end=END, longest=longest)
    return decode.beam(
        model,
        source,
        begin=BEGIN,
        end=END,
        longest=longest,
        width=beam,
        best=best,
        length_penalty=length_penalty,
    )

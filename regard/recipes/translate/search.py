"""From sentences to their translations: many at a time, or one with all that the beams found."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from regard import decode
from regard.data.text.batches import BEGIN, END, Batch, TokenBatches
from regard.decode.progress import OnStep
from regard.fast_decode import packed_linear
from regard.fast_decode.prepare import prepare_for_cpu_decode

# What matrices are multiplied in.
Precision = Literal["float32", "int8"]

# Source or target tokens in a batch when nothing has to be remembered for a backward pass.
INFERENCE_BATCH_TOKENS = 8192
# Chosen on development pairs, where five beams gain more with it than without:
# regard evaluate translate-en-fr-small part=development beam=5 length_penalty=…
LENGTH_PENALTY = 1.0


def tokenizer_of(loaded: Any) -> Any:
    """The tokenizer of a trained model, without which there is no translation."""
    if loaded.tokenizer is None:
        raise ValueError(
            "translate: expected tokenizer.json beside the card.json of "
            f"{loaded.card.get('name')!r:.60}, got none; its recipe may be another"
        )
    return loaded.tokenizer


def translate_texts(
    model: nn.Module,
    vocabulary: Any,
    texts: list[str],
    *,
    beam: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    precision: Precision = "float32",
) -> list[str]:
    """The best translation of each text."""
    ready, device = _prepare_model(model, precision), _device(model)
    sources = vocabulary.encode_all(texts)
    most = INFERENCE_BATCH_TOKENS // beam
    batches = TokenBatches([(s, []) for s in sources], tokens=most, seed=0, shuffle=False)
    found = [""] * len(texts)
    for batch in batches.epoch(0):
        decoded = _decode_batch(ready, batch.to(device), beam, length_penalty)
        for index, best in zip(batch.indices.tolist(), decoded.sequences(), strict=True):
            found[index] = vocabulary.decode(best[0])
    return found


def decode_source(
    model: nn.Module,
    source: list[int],
    beam: int,
    *,
    best: int = 1,
    prefix: Sequence[int] = (),
    on_step: OnStep | None = None,
) -> decode.Hypotheses:
    """The `best` hypotheses for one source.

    Args:
        prefix: the tokens that each of them begins with.
        on_step: told at every step what was said; what it raises ends the search.
    """
    [batch] = TokenBatches([(source, [])], tokens=INFERENCE_BATCH_TOKENS, seed=0).epoch(0)
    longest = _max_target_length(len(source))
    if len(prefix) >= longest:
        raise ValueError(
            f"translate: expected a prefix of fewer than {longest} tokens, got {len(prefix)}"
        )
    ready = _prepare_model(model, "float32")
    ready = ready if on_step is None else decode.ProgressReporter(ready, on_step)
    ready = decode.ForcedPrefix(ready, [prefix]) if prefix else ready
    return _decode_batch(ready, batch.to(_device(model)), beam, LENGTH_PENALTY, best=best)


def _max_target_length(source_length: Any) -> Any:
    """The most tokens of a translation, of how many its source has."""
    return 2 * source_length + 10


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _prepare_model(model: nn.Module, precision: Precision) -> Any:
    """What is decoded: on a CPU, a model whose weights were made ready."""
    if _device(model).type == "cuda":
        if precision == "int8":
            raise ValueError("translate: int8 is for a CPU, and the model lies on a GPU")
        return model
    return prepare_for_cpu_decode(
        model, packed_linear.int8 if precision == "int8" else packed_linear.packed
    )


def _decode_batch(
    model: Any, batch: Batch, beam: int, length_penalty: float, *, best: int = 1
) -> decode.Hypotheses:
    source = (batch.source, batch.source_lengths)
    longest = _max_target_length(batch.source_lengths)
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

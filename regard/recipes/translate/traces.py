"""What a translator answers, and what it looked at for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.text.batches import BEGIN, END, PAD
from regard.data.text.bpe import Vocabulary
from regard.decode.progress import OnStep
from regard.looking import Seen, look
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.seq2seq import Seq2SeqConfig
from regard.recipes.translate.config import ModelConfig
from regard.recipes.translate.search import decode_source, tokenizer_of
from regard.view.inputs import Input, Option, ProgressCallback
from regard.view.traces.axes import Tokens
from regard.view.traces.trace import (
    NOT_CAUSES_NOTE,
    Header,
    Map,
    Trace,
    UnseenError,
)

# Tokens that a page may ask for, and bytes, of which a token is at least one.
MAX_PAGE_TOKENS, MAX_PAGE_BYTES = 100, 600
# Likeliest tokens that are told of each step.
ALTERNATIVES_PER_STEP = 5
MEAN_NOTE = "alignment is the mean over all layers and heads of cross"


@dataclass(frozen=True)
class Prediction:
    """The best translation, and all that the beam ended with: (text, score), best first."""

    text: str
    candidates: list[tuple[str, float]]


def predict(loaded: Any, input: str, *, beam: int = 5) -> Prediction:
    """The translation of one sentence."""
    decoded = decode_source(loaded.model, _encode_text(loaded, input), beam, best=beam)
    texts = map(tokenizer_of(loaded).decode, decoded.sequences()[0])
    candidates = list(zip(texts, decoded.scores[0].tolist(), strict=True))
    return Prediction(candidates[0][0], candidates)


def trace(
    loaded: Any,
    input: str,
    *,
    beam: int = 5,
    prefix: str = "",
    on_progress: ProgressCallback | None = None,
) -> Trace:
    """Which words of a sentence the model looked at for each word of its translation.

    Args:
        prefix: what the translation has to begin with.
        on_progress: told of every step; what it raises ends the run at once.
    """
    if not has_attention(loaded.config):
        raise UnseenError(
            f"trace: a model with attention {loaded.config.attention} looks at nothing"
        )
    source, vocabulary = _encode_text(loaded, input), tokenizer_of(loaded)
    hear = None if on_progress is None else _build_step_callback(vocabulary, on_progress)
    # a blank at its end would be a word of its own
    begun = vocabulary.encode(prefix.strip())
    decoded = decode_source(loaded.model, source, beam, prefix=begun, on_step=hear)
    target = decoded.tokens[0, 0, : int(decoded.lengths[0, 0])].tolist()
    text = vocabulary.decode(target)
    if on_progress is not None:
        on_progress(len(target), len(target), text)
    maps, shares = _maps_and_probabilities(loaded, source, target)
    words = [("source", source), ("target", target), ("before", [BEGIN, *target[:-1]])]
    return Trace(
        axes=[_axis(name, ids, vocabulary) for name, ids in words],
        maps=maps,
        outputs={
            "text": text,
            "score": float(decoded.scores[0, 0]),
            "tokens": vocabulary.labels(target),
            "probabilities": shares[torch.arange(len(target)), target].tolist(),
            "steps": _top_tokens(shares, vocabulary),
        },
        header=Header(
            model=loaded.card["name"],
            family=loaded.config.kind,
            title=f"{input} → {text}",
            dtype="float32",
            notes=[NOT_CAUSES_NOTE, *([] if len(maps) == 1 else [MEAN_NOTE])],
        ),
    )


def input_spec(card: Mapping[str, Any]) -> Input:
    """What a page may give to the model of a card."""
    captions = "multi30k" in str(card.get("settings", {}).get("data", {}).get("name"))
    example = "A brown dog is running through the snow." if captions else "She is eating an apple."
    beam = Option("beam", "hypotheses side by side; 1 is greedy", "whole", 1, 1, 8)
    prefix = Option("prefix", "what the translation begins with", "text", "", most=MAX_PAGE_BYTES)
    return Input("text", "a sentence", example, MAX_PAGE_TOKENS, options=(beam, prefix))


def parse_input(card: Mapping[str, Any], text: str) -> str:
    """What was typed, if a page may ask it."""
    if len(text.encode(errors="replace")) > MAX_PAGE_BYTES:
        raise ValueError(
            f"translate: expected a text of at most {MAX_PAGE_BYTES} bytes, got a longer one"
        )
    return text


def to_model_edits(
    card: Mapping[str, Any], input: str, edits: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Edits in the numbers of a trace's maps; those of its attentions are the same."""
    return [dict(edit) for edit in edits]


def has_attention(config: ModelConfig) -> bool:
    """Whether a model of this config attends to its source."""
    return not isinstance(config, Seq2SeqConfig) or config.attention not in ("none", "context")


def attention_maps(loaded: Any, source: list[int], target: list[int]) -> list[Map]:
    """All that a model looks at while it writes `target`; the map of the alignment comes first."""
    return _maps_and_probabilities(loaded, source, target)[0]


@torch.no_grad()
def _maps_and_probabilities(
    loaded: Any, source: list[int], target: list[int]
) -> tuple[list[Map], Tensor]:
    """What `attention_maps` gives, and how probable each token was at every step (T, V)."""
    device = next(loaded.model.parameters()).device
    tokens = torch.tensor([source], device=device)
    lengths = torch.tensor([len(source)], device=device)
    with look(loaded.model) as seen:
        before = torch.tensor([[BEGIN, *target[:-1]]], device=device)
        logits = loaded.model((tokens, lengths), before)
        return _maps(loaded.config, seen, len(source)), logits[0].float().softmax(-1).cpu()


def _maps(config: ModelConfig, seen: Seen, length: int) -> list[Map]:
    if isinstance(config, Seq2SeqConfig):
        [name] = seen.names()
        cells = seen[name].weights().cpu().clone()
        return [Map(name, "target", "source", cells, names=[name])]
    return (
        _decoder_only_maps(seen, length)
        if isinstance(config, DecoderOnlyConfig)
        else _encoder_decoder_maps(seen)
    )


def _encoder_decoder_maps(seen: Seen) -> list[Map]:
    """Encoder and decoder: three attentions a layer."""
    cross, encoder, decoder = (
        _module_names(seen, *ends)
        for ends in (("cross", ""), ("self_attention", "encoder"), ("self_attention", "decoder"))
    )
    return [
        _alignment_map(_stack_weights(seen, cross)),
        _build_map("cross", ("target", "source"), _stack_weights(seen, cross), names=cross),
        _build_map("encoder", ("source", "source"), _stack_weights(seen, encoder), names=encoder),
        _build_map(
            "decoder",
            ("target", "before"),
            _stack_weights(seen, decoder),
            names=decoder,
            causal=True,
        ),
    ]


def _decoder_only_maps(seen: Seen, length: int) -> list[Map]:
    """One sequence of source and target: the part of it that looks from the target.

    Two maps are cut out of each attention, whose own queries and keys are counted through both
    sentences, so an edit could not name a cell of them: they have no names.
    """
    weights = _stack_weights(seen, _module_names(seen, "self_attention", ""))
    cross, before = weights[:, :, length:, :length], weights[:, :, length:, length:]
    return [
        _alignment_map(cross),
        _build_map("cross", ("target", "source"), cross),
        _build_map("decoder", ("target", "before"), before, causal=True),
    ]


def _alignment_map(cross: Tensor) -> Map:
    """The mean over all layers and heads."""
    return Map("alignment", "target", "source", cross.mean((0, 1), keepdim=True))


def _build_map(
    id: str,
    axes: tuple[str, str],
    weights: Tensor,
    *,
    names: Sequence[str] = (),
    causal: bool = False,
) -> Map:
    layers, heads = weights.shape[:2]
    return Map(id, *axes, weights, layers, heads, causal, names=names)


def _module_names(seen: Seen, suffix: str, prefix: str) -> list[str]:
    """Every layer's attention of this name."""
    return [n for n in seen.names() if n.startswith(prefix) and n.endswith(f".{suffix}")]


def _stack_weights(seen: Seen, names: list[str]) -> Tensor:
    """The weights of these (layers, H, Q, K)."""
    return torch.cat([seen[name].weights().cpu() for name in names])


def _top_tokens(probabilities: Tensor, vocabulary: Vocabulary) -> list[list[dict[str, Any]]]:
    """The likeliest tokens of every step, the likeliest first."""
    best = probabilities.topk(min(ALTERNATIVES_PER_STEP, probabilities.shape[1]))
    rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [
        [
            {"token": label, "probability": share}
            for label, share in zip(vocabulary.labels(ids), values, strict=True)
        ]
        for values, ids in rows
    ]


def _build_step_callback(vocabulary: Vocabulary, on_progress: ProgressCallback) -> OnStep:
    """A callback of decoding that tells `on_progress` every step, as text."""

    def report_step(token_ids: list[int], logits: Tensor) -> None:
        on_progress(len(token_ids), None, vocabulary.decode(token_ids) or None)

    return report_step


def _encode_text(loaded: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer_of(loaded).encode(text)
    if not text.strip():
        raise ValueError("translate: expected a sentence, got an empty one")
    return ids


def _axis(name: str, ids: list[int], vocabulary: Vocabulary) -> Tokens:
    words, labels = vocabulary.word_ids(ids), vocabulary.labels(ids)
    names = []
    for word in range(words[-1] + 1):
        places = [i for i, w in enumerate(words) if w == word]
        text = vocabulary.decode([ids[i] for i in places]).strip()
        names.append(text or labels[places[0]])
    special = tuple(i for i, token in enumerate(ids) if token in (PAD, BEGIN, END))
    return Tokens(name, tuple(labels), words=tuple(words), names=tuple(names), special=special)

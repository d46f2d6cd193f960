"""What a translator answers, and what it looked at for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.batches import BEGIN, END, PAD
from regard.data.bpe import Vocabulary
from regard.decode.telling import Hear
from regard.looking import Seen, look
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.seq2seq import Seq2SeqConfig
from regard.recipes.translate.config import ModelConfig
from regard.recipes.translate.searching import searched, tokenizer_of
from regard.view.axes import Tokens
from regard.view.inputs import Input, Option, Tell
from regard.view.trace import WHERE_NOT_WHY, Header, Map, Trace, UnseenError

# Tokens that a page may ask for, and bytes, of which a token is at least one.
MOST, BYTES = 100, 600
# Likeliest tokens that are told of each step.
ALTERNATIVES = 5
MEAN = "alignment is the mean over all layers and heads of cross"


@dataclass(frozen=True)
class Prediction:
    """The best translation, and all that the beam ended with: (text, score), best first."""

    text: str
    candidates: list[tuple[str, float]]


def predict(loaded: Any, input: str, *, beam: int = 5) -> Prediction:
    """The translation of one sentence."""
    decoded = searched(loaded.model, _ids(loaded, input), beam, best=beam)
    texts = map(tokenizer_of(loaded).decode, decoded.sequences()[0])
    candidates = list(zip(texts, decoded.scores[0].tolist(), strict=True))
    return Prediction(candidates[0][0], candidates)


def trace(
    loaded: Any, input: str, *, beam: int = 5, prefix: str = "", tell: Tell | None = None
) -> Trace:
    """Which words of a sentence the model looked at for each word of its translation.

    Args:
        prefix: what the translation has to begin with.
        tell: told of every step; what it raises ends the run at once.
    """
    if not looks(loaded.config):
        raise UnseenError(
            f"trace: a model with attention {loaded.config.attention} looks at nothing"
        )
    source, vocabulary = _ids(loaded, input), tokenizer_of(loaded)
    hear = None if tell is None else _heard(vocabulary, tell)
    # a blank at its end would be a word of its own
    begun = vocabulary.encode(prefix.strip())
    decoded = searched(loaded.model, source, beam, prefix=begun, hear=hear)
    target = decoded.tokens[0, 0, : int(decoded.lengths[0, 0])].tolist()
    text = vocabulary.decode(target)
    if tell is not None:
        tell(len(target), len(target), text)
    maps, shares = _written(loaded, source, target)
    words = [("source", source), ("target", target), ("before", [BEGIN, *target[:-1]])]
    return Trace(
        axes=[_axis(name, ids, vocabulary) for name, ids in words],
        maps=maps,
        outputs={
            "text": text,
            "score": float(decoded.scores[0, 0]),
            "tokens": vocabulary.labels(target),
            "probabilities": shares[torch.arange(len(target)), target].tolist(),
            "steps": _alternatives(shares, vocabulary),
        },
        header=Header(
            model=loaded.card["name"],
            family=loaded.config.kind,
            title=f"{input} → {text}",
            dtype="float32",
            notes=[WHERE_NOT_WHY, *([] if len(maps) == 1 else [MEAN])],
        ),
    )


def asks(card: Mapping[str, Any]) -> Input:
    """What a page may give to the model of a card."""
    captions = "multi30k" in str(card.get("settings", {}).get("data", {}).get("name"))
    example = "A brown dog is running through the snow." if captions else "She is eating an apple."
    beam = Option("beam", "hypotheses side by side; 1 is greedy", "whole", 1, 1, 8)
    prefix = Option("prefix", "what the translation begins with", "text", "", most=BYTES)
    return Input("text", "a sentence", example, MOST, options=(beam, prefix))


def typed(card: Mapping[str, Any], text: str) -> str:
    """What was typed, if a page may ask it."""
    if len(text.encode(errors="replace")) > BYTES:
        raise ValueError(f"translate: expected a text of at most {BYTES} bytes, got a longer one")
    return text


def placed(
    card: Mapping[str, Any], input: str, edits: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Edits in the numbers of a trace's maps; those of its attentions are the same."""
    return [dict(edit) for edit in edits]


def looks(config: ModelConfig) -> bool:
    """Whether a model of this config attends to its source."""
    return not isinstance(config, Seq2SeqConfig) or config.attention not in ("none", "context")


def looked(loaded: Any, source: list[int], target: list[int]) -> list[Map]:
    """All that a model looks at while it writes `target`; the map of the alignment comes first."""
    return _written(loaded, source, target)[0]


@torch.no_grad()
def _written(loaded: Any, source: list[int], target: list[int]) -> tuple[list[Map], Tensor]:
    """What `looked` gives, and how probable each token was at every step (T, V)."""
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
    return _alone(seen, length) if isinstance(config, DecoderOnlyConfig) else _both(seen)


def _both(seen: Seen) -> list[Map]:
    """Encoder and decoder: three attentions a layer."""
    cross, encoder, decoder = (
        _named(seen, *ends) for ends in (("cross", ""), ("own", "encoder"), ("own", "decoder"))
    )
    return [
        _alignment(_stacked(seen, cross)),
        _map("cross", ("target", "source"), _stacked(seen, cross), names=cross),
        _map("encoder", ("source", "source"), _stacked(seen, encoder), names=encoder),
        _map("decoder", ("target", "before"), _stacked(seen, decoder), names=decoder, causal=True),
    ]


def _alone(seen: Seen, length: int) -> list[Map]:
    """One sequence of source and target: the part of it that looks from the target.

    Two maps are cut out of each attention, whose own queries and keys are counted through both
    sentences, so an edit could not name a cell of them: they have no names.
    """
    own = _stacked(seen, _named(seen, "own", ""))
    cross, before = own[:, :, length:, :length], own[:, :, length:, length:]
    return [
        _alignment(cross),
        _map("cross", ("target", "source"), cross),
        _map("decoder", ("target", "before"), before, causal=True),
    ]


def _alignment(cross: Tensor) -> Map:
    """The mean over all layers and heads."""
    return Map("alignment", "target", "source", cross.mean((0, 1), keepdim=True))


def _map(
    id: str,
    axes: tuple[str, str],
    weights: Tensor,
    *,
    names: Sequence[str] = (),
    causal: bool = False,
) -> Map:
    layers, heads = weights.shape[:2]
    return Map(id, *axes, weights, layers, heads, causal, names=names)


def _named(seen: Seen, ending: str, beginning: str) -> list[str]:
    """Every layer's attention of this name."""
    return [n for n in seen.names() if n.startswith(beginning) and n.endswith(f".{ending}")]


def _stacked(seen: Seen, names: list[str]) -> Tensor:
    """The weights of these (layers, H, Q, K)."""
    return torch.cat([seen[name].weights().cpu() for name in names])


def _alternatives(shares: Tensor, vocabulary: Vocabulary) -> list[list[dict[str, Any]]]:
    """The likeliest tokens of every step, the likeliest first."""
    best = shares.topk(min(ALTERNATIVES, shares.shape[1]))
    rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [
        [
            {"token": label, "probability": share}
            for label, share in zip(vocabulary.labels(ids), values, strict=True)
        ]
        for values, ids in rows
    ]


def _heard(vocabulary: Vocabulary, tell: Tell) -> Hear:
    """What tells `tell` of every step, as text."""

    def hear(said: list[int], logits: Tensor) -> None:
        tell(len(said), None, vocabulary.decode(said) or None)

    return hear


def _ids(loaded: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer_of(loaded).encode(text)
    if not text.strip():
        raise ValueError("translate: expected a sentence, got an empty one")
    return ids


def _axis(name: str, ids: list[int], vocabulary: Vocabulary) -> Tokens:
    words, labels = vocabulary.words(ids), vocabulary.labels(ids)
    names = []
    for word in range(words[-1] + 1):
        places = [i for i, w in enumerate(words) if w == word]
        text = vocabulary.decode([ids[i] for i in places]).strip()
        names.append(text or labels[places[0]])
    special = tuple(i for i, token in enumerate(ids) if token in (PAD, BEGIN, END))
    return Tokens(name, tuple(labels), words=tuple(words), names=tuple(names), special=special)

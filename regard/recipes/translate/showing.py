"""What a translator answers, and what it looked at for it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.data.batches import BEGIN, END, PAD
from regard.data.bpe import Vocabulary
from regard.looking import Seen, look
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.seq2seq import Seq2SeqConfig
from regard.recipes.translate.config import ModelConfig
from regard.recipes.translate.searching import searched
from regard.view.axes import Tokens
from regard.view.trace import Header, Map, Trace, UnseenError


@dataclass(frozen=True)
class Prediction:
    """The best translation, and all that the beam ended with: (text, score), best first."""

    text: str
    candidates: list[tuple[str, float]]


def predict(loaded: Any, input: str, *, beam: int = 5) -> Prediction:
    """The translation of one sentence."""
    decoded = searched(loaded.model, _ids(loaded, input), beam, best=beam)
    texts = map(loaded.tokenizer.decode, decoded.sequences()[0])
    candidates = list(zip(texts, decoded.scores[0].tolist(), strict=True))
    return Prediction(candidates[0][0], candidates)


def trace(loaded: Any, input: str, *, beam: int = 5) -> Trace:
    """Which words of a sentence the model looked at for each word of its translation."""
    if not looks(loaded.config):
        raise UnseenError(
            f"trace: a model with attention {loaded.config.attention} looks at nothing"
        )
    source = _ids(loaded, input)
    decoded = searched(loaded.model, source, beam)
    target = decoded.tokens[0, 0, : int(decoded.lengths[0, 0])].tolist()
    text = loaded.tokenizer.decode(target)
    words = [("source", source), ("target", target), ("before", [BEGIN, *target[:-1]])]
    return Trace(
        axes=[_axis(name, ids, loaded.tokenizer) for name, ids in words],
        maps=looked(loaded, source, target),
        outputs={"text": text, "score": float(decoded.scores[0, 0])},
        header=Header(
            model=loaded.card["name"],
            family=loaded.config.kind,
            title=f"{input} → {text}",
            dtype="float32",
        ),
    )


def looks(config: ModelConfig) -> bool:
    """Whether a model of this config attends to its source."""
    return not isinstance(config, Seq2SeqConfig) or config.attention not in ("none", "context")


@torch.no_grad()
def looked(loaded: Any, source: list[int], target: list[int]) -> list[Map]:
    """All that a model looks at while it writes `target`; the map of the alignment comes first."""
    device = next(loaded.model.parameters()).device
    tokens = torch.tensor([source], device=device)
    lengths = torch.tensor([len(source)], device=device)
    with look(loaded.model) as seen:
        loaded.model((tokens, lengths), torch.tensor([[BEGIN, *target[:-1]]], device=device))
        if isinstance(loaded.config, Seq2SeqConfig):
            [name] = seen.names()
            return [Map(name, "target", "source", seen[name].weights().cpu().clone())]
        if isinstance(loaded.config, DecoderOnlyConfig):
            return _alone(_stacked(seen, "own"), len(source))
        return _both(seen)


def _both(seen: Seen) -> list[Map]:
    """Encoder and decoder: three attentions a layer."""
    cross = _stacked(seen, "cross")
    return [
        _alignment(cross),
        _map("cross", "target", "source", cross),
        _map("encoder", "source", "source", _stacked(seen, "own", "encoder")),
        _map("decoder", "target", "before", _stacked(seen, "own", "decoder"), causal=True),
    ]


def _alone(own: Tensor, length: int) -> list[Map]:
    """One sequence of source and target: the part of it that looks from the target."""
    cross, before = own[:, :, length:, :length], own[:, :, length:, length:]
    return [
        _alignment(cross),
        _map("cross", "target", "source", cross),
        _map("decoder", "target", "before", before, causal=True),
    ]


def _alignment(cross: Tensor) -> Map:
    """The mean over all layers and heads."""
    return Map("alignment", "target", "source", cross.mean((0, 1), keepdim=True))


def _map(id: str, query: str, key: str, weights: Tensor, *, causal: bool = False) -> Map:
    layers, heads = weights.shape[:2]
    return Map(id, query, key, weights, layers, heads, causal)


def _stacked(seen: Seen, ending: str, beginning: str = "") -> Tensor:
    """The weights of every layer's attention of this name (layers, H, Q, K)."""
    names = [n for n in seen.names() if n.startswith(beginning) and n.endswith(f".{ending}")]
    return torch.cat([seen[name].weights().cpu() for name in names])


def _ids(loaded: Any, text: str) -> list[int]:
    ids: list[int] = loaded.tokenizer.encode(text)
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

"""Translate with a recurrent net that attends (Bahdanau et al. 2015), or one that does not.

    regard train translate                            10,000 short English-French pairs
    regard train translate model.attention=none       the same without attention
    regard train translate data.pairs=mine.tsv        your own pairs

Expect BLEU 39 on 1,000 held-out pairs, 14 without attention. Seeds, times, hardware and commands:
docs/results/translate.md.
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import config as configs
from regard import decode, zoo
from regard.data import bpe
from regard.data.batches import BEGIN, END, PAD, Batch, TokenBatches
from regard.data.bleu import bleu, needed
from regard.data.bpe import Vocabulary
from regard.data.corpus import Corpus, examples, facts, vocabulary
from regard.data.pairs import read
from regard.looking import look
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.train import checkpoints, fit, silent
from regard.train.runs import circumstances, hardware, opened
from regard.train.settings import Optimizer, Schedule, Training
from regard.view.axes import Tokens
from regard.view.trace import Header, Map, Trace, UnseenError

# The attention of the model, as a look names it.
ATTENTION = "decoder.attention"
# Source or target tokens in a batch when nothing has to be remembered for a backward pass.
AT_ONCE = 8192
# Chosen on development pairs, where five beams gain more with it than without:
# regard evaluate translate-en-fr-small part=development beam=5 length_penalty=…
PENALTY = 1.0


SMALL = Seq2SeqConfig(
    vocabulary=2000,
    embedding=128,
    width=128,
    alignment=96,
    readout=128,
    dropout=0.2,
    tied=True,
)
QUICK = Training(
    steps=1200,
    optimizer=Optimizer("adam", rate=5e-3),
    schedule=Schedule("cosine", warmup=100),
    judge_every=300,
    save_every=300,
)


@dataclass(frozen=True)
class Config:
    """The whole recipe; the defaults are sized for two cores and a minute or two."""

    # stands in the name of the run's folder
    name: str = "small"
    data: Corpus = field(default_factory=Corpus)
    model: Seq2SeqConfig = SMALL
    training: Training = QUICK
    # places of source or target in a batch, padding included
    tokens: int = 800
    # share of the probability that is spread over all words
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        # all that can be known before a folder is opened
        if self.tokens < 1 or not 0 <= self.smoothing < 1:
            raise ValueError(
                f"translate: expected tokens of at least 1 and smoothing from 0 to less than 1, "
                f"got {self.tokens} and {self.smoothing}"
            )
        if self.model.vocabulary < bpe.FEWEST:
            raise ValueError(
                f"translate: expected model.vocabulary of at least {bpe.FEWEST} (every byte), "
                f"got {self.model.vocabulary}"
            )
        if self.training.devices > 1:
            raise ValueError("translate: one device for now, got training.devices of more")


@dataclass(frozen=True)
class Result:
    """What a run gives; `examples` are (source, prediction, reference)."""

    folder: Path
    metrics: dict[str, float]
    stopped: str
    seconds: float
    examples: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on the pairs held out of the training, or on those of a file."""

    pairs: Path | None = None
    target: Path | None = None
    part: Literal["test", "development"] = "test"
    # 1 is greedy, and quick
    beam: int = 1
    length_penalty: float = PENALTY

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= 100 or not 0 <= self.length_penalty <= 10:
            raise ValueError(
                f"translate: expected beam from 1 to 100 and length_penalty from 0 to 10, "
                f"got {self.beam} and {self.length_penalty}"
            )
        if self.target is not None and self.pairs is None:
            raise ValueError("translate: expected pairs beside target: the source side of the two")


@dataclass(frozen=True)
class Prediction:
    """The best translation, and all that the beam ended with: (text, score), best first."""

    text: str
    candidates: list[tuple[str, float]]


def run(
    config: Config,
    *,
    out: Path | None = None,
    report: Any = None,
    resume: Path | None = None,
    step: int | None = None,
) -> Result:
    """Train, keep the best weights by the development pairs, and measure them on the test pairs."""
    needed()
    report, found = report or silent, config.data.read()
    parts = config.data.parted(found.pairs)
    report.note(f"{config.data}: {found}")
    report.note(
        f"{len(parts.train):,} to learn from, {len(parts.development):,} to choose by, "
        f"{len(parts.test):,} to judge by"
    )
    known = facts(parts)
    folder = opened(
        "translate", config, data=known, name=config.name, out=out, resume=resume, step=step
    )
    words = vocabulary(parts.train, config.model.vocabulary, folder / "tokenizer.json")
    batches = TokenBatches(
        examples(parts.train, words, longest=config.data.longest),
        tokens=config.tokens,
        seed=config.training.seed,
    )
    torch.manual_seed(config.training.seed)
    model = Seq2Seq(replace(config.model, vocabulary=words.size))
    held = TokenBatches(examples(parts.development, words), tokens=AT_ONCE, seed=0, shuffle=False)
    fitted = fit(
        model,
        lambda model, batch: _loss(model, batch, config.smoothing),
        batches,
        config.training,
        run=folder,
        judge=lambda model: {"loss": _mean_loss(model, held)},
        report=report,
        resume=resume is not None if step is None else checkpoints.name(step),
    )
    if fitted.stopped == "interrupted":
        return Result(folder, fitted.metrics, fitted.stopped, fitted.seconds, [])
    device = next(model.parameters()).device.type
    card = {
        "name": folder.name,
        "recipe": "translate",
        "about": "translates, and shows which words it looks at",
        "settings": configs.plain(config),
        "data": str(config.data),
        "facts": known,
        "seed": config.training.seed,
        **circumstances(folder, seconds=fitted.seconds, device=device),
    }
    loaded = zoo.Loaded(model.cpu().eval(), words, model.config, card)
    card["numbers"] = evaluate(loaded, Evaluation())
    zoo.save(folder, model, model.config, card, tokenizer=words)
    metrics = {k: v for k, v in card["numbers"].items() if isinstance(v, int | float)}
    told = [(one.source, predict(loaded, one.source).text, one.target) for one in parts.test[:5]]
    return Result(folder, metrics, fitted.stopped, fitted.seconds, told)


def evaluate(loaded: Any, evaluation: Evaluation) -> dict[str, Any]:
    """BLEU and chrF in points, and the loss a token, on pairs that the training did not see."""
    needed()
    if evaluation.pairs is None:
        if not {"settings", "facts"} <= loaded.card.keys():
            raise ValueError(
                "translate: the card does not say which pairs were held out; give pairs=FILE"
            )
        settings = configs.restored(Config, loaded.card["settings"])
        parts = settings.data.parted(settings.data.read().pairs)
        if facts(parts) != loaded.card["facts"]:
            raise ValueError(
                f"translate: {settings.data} is not what the model was trained on; its test pairs "
                "may be among those it learned from"
            )
        pairs = parts.test if evaluation.part == "test" else parts.development
    else:
        pairs = read(evaluation.pairs, evaluation.target).pairs
    began = time.perf_counter()
    texts = _translated(
        loaded,
        [pair.source for pair in pairs],
        beam=evaluation.beam,
        length_penalty=evaluation.length_penalty,
    )
    seconds = time.perf_counter() - began
    held = TokenBatches(examples(pairs, loaded.tokenizer), tokens=AT_ONCE, seed=0, shuffle=False)
    return {
        **bleu(texts, [pair.target for pair in pairs]),
        "loss": _mean_loss(loaded.model, held),
        "pairs": len(pairs),
        "beam": evaluation.beam,
        "sentences_a_second": len(pairs) / seconds,
        "seed": loaded.card.get("seed"),
        "hardware": hardware(),
    }


def predict(loaded: Any, input: str, *, beam: int = 5) -> Prediction:
    """The translation of one sentence."""
    decoded = _decoded(loaded, _ids(loaded, input), beam, best=beam)
    texts = map(loaded.tokenizer.decode, decoded.sequences()[0])
    candidates = list(zip(texts, decoded.scores[0].tolist(), strict=True))
    return Prediction(candidates[0][0], candidates)


def trace(loaded: Any, input: str, *, beam: int = 5) -> Trace:
    """Which words of a sentence the model looked at for each word of its translation."""
    if loaded.config.attention != "additive":
        raise UnseenError(
            f"trace: a model with attention {loaded.config.attention} looks at nothing"
        )
    source = _ids(loaded, input)
    with look(loaded.model) as seen:
        decoded = _decoded(loaded, source, beam)
        weights = decode.along(decoded, seen[ATTENTION].weights())[0, :1]  # (1, H, T, S)
    length = int(decoded.lengths[0, 0])
    target = decoded.tokens[0, 0, :length].tolist()
    text = loaded.tokenizer.decode(target)
    return Trace(
        axes=(_axis("source", source, loaded.tokenizer), _axis("target", target, loaded.tokenizer)),
        maps=(Map(ATTENTION, "target", "source", weights[:, :, :length].clone()),),
        outputs={"text": text, "score": float(decoded.scores[0, 0])},
        header=Header(
            model=loaded.card["name"], family="seq2seq", title=f"{input} → {text}", dtype="float32"
        ),
    )


def _loss(model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy a token, of every word given those before it."""
    logits = model((batch.source, batch.source_lengths), batch.target[:, :-1])
    return F.cross_entropy(
        logits.flatten(0, 1),
        batch.target[:, 1:].flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
    )


@torch.no_grad()
def _mean_loss(model: nn.Module, batches: TokenBatches) -> float:
    device = next(model.parameters()).device
    sums = [(float(_loss(model, b.to(device))) * b.tokens, b.tokens) for b in batches.epoch(0)]
    return sum(loss for loss, _ in sums) / sum(tokens for _, tokens in sums)


def _translated(loaded: Any, texts: list[str], *, beam: int, length_penalty: float) -> list[str]:
    """The best translation of each text, many at a time."""
    sources = loaded.tokenizer.encode_all(texts)
    most = AT_ONCE // beam
    batches = TokenBatches([(s, []) for s in sources], tokens=most, seed=0, shuffle=False)
    found = [""] * len(texts)
    for batch in batches.epoch(0):
        decoded = _searched(loaded.model, batch, beam, length_penalty)
        for index, best in zip(batch.indices.tolist(), decoded.sequences(), strict=True):
            found[index] = loaded.tokenizer.decode(best[0])
    return found


def _decoded(loaded: Any, source: list[int], beam: int, *, best: int = 1) -> decode.Decoded:
    [batch] = TokenBatches([(source, [])], tokens=AT_ONCE, seed=0).epoch(0)
    return _searched(loaded.model, batch, beam, PENALTY, best=best)


def _searched(
    model: Any, batch: Batch, beam: int, length_penalty: float, *, best: int = 1
) -> decode.Decoded:
    source = (batch.source, batch.source_lengths)
    longest = 2 * batch.source_lengths + 10
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

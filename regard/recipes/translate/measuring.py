"""How good a translator is: on pairs held out of its training, or on any others."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard import config as configs
from regard.data import bootstrap, ordered
from regard.data.batches import END, TokenBatches
from regard.data.bleu import bleu, needed
from regard.data.corpus import examples, facts
from regard.data.pairs import Pair, read
from regard.recipes.translate.config import Config
from regard.recipes.translate.learning import mean_loss
from regard.recipes.translate.searching import AT_ONCE, PENALTY, Precision, tokenizer_of, translated
from regard.recipes.translate.showing import looked
from regard.train.runs import hardware
from regard.zoo import reading


@dataclass(frozen=True)
class Evaluation:
    """How to measure: on the pairs held out of the training, or on those of a file or of two."""

    # .tsv or .jsonl, or the source side of two aligned text files
    pairs: Path | None = None
    # the source side of two aligned text files
    source: Path | None = None
    # the other side
    target: Path | None = None
    part: Literal["test", "development"] = "test"
    # 1 is greedy, and quick
    beam: int = 1
    length_penalty: float = PENALTY
    # of translating, on a CPU: int8 is quicker, and not quite the same; the loss stays float32's
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= 100 or not 0 <= self.length_penalty <= 10:
            raise ValueError(
                f"translate: expected beam from 1 to 100 and length_penalty from 0 to 10, "
                f"got {self.beam} and {self.length_penalty}"
            )
        if self.pairs is not None and self.source is not None:
            raise ValueError("translate: expected pairs or source, got both")
        if (self.pairs or self.source) is None and self.target is not None:
            raise ValueError("translate: expected source beside target: the other side of the two")
        if self.source is not None and self.target is None:
            raise ValueError("translate: expected target beside source: the other side of the two")


def evaluate(loaded: Any, evaluation: Evaluation) -> dict[str, Any]:
    """BLEU and chrF in points, and the loss a token, on pairs that the training did not see."""
    needed()
    given = evaluation.source or evaluation.pairs
    if given is not None:
        pairs = read(given, evaluation.target).pairs
    else:
        parts = _held_out(loaded)
        pairs = parts.test if evaluation.part == "test" else parts.development
    found, _ = measured(
        loaded,
        pairs,
        beam=evaluation.beam,
        length_penalty=evaluation.length_penalty,
        precision=evaluation.precision,
    )
    return {**found, "seed": loaded.card.get("seed"), "hardware": hardware()}


def measured(
    loaded: Any,
    pairs: list[Pair],
    *,
    beam: int,
    length_penalty: float = PENALTY,
    precision: Precision = "float32",
) -> tuple[dict[str, Any], list[str]]:
    """The numbers of some pairs, and the translations they are of."""
    model, vocabulary = loaded.model, tokenizer_of(loaded)
    began = time.perf_counter()
    sources = [pair.source for pair in pairs]
    texts = translated(
        model,
        vocabulary,
        sources,
        beam=beam,
        length_penalty=length_penalty,
        precision=precision,
    )
    seconds = time.perf_counter() - began
    held = TokenBatches(examples(pairs, vocabulary), tokens=AT_ONCE, seed=0, shuffle=False)
    numbers = {
        **bleu(texts, [pair.target for pair in pairs]),
        "loss": mean_loss(model, held),
        "pairs": len(pairs),
        "beam": beam,
        "precision": precision,
        "sentences_a_second": len(pairs) / seconds,
    }
    return numbers, texts


def misaligned(loaded: Any, pairs: list[Pair]) -> float:
    """The alignment error rate of pairs whose alignment is known, read from where a model looks.

    The right translation is written, and each of its words is aligned with the word it looks at
    most: Luong et al. 2015, 5.4.
    """
    vocabulary = tokenizer_of(loaded)
    found, gold = [], []
    for pair in pairs:
        source, target = (vocabulary.encode(side) for side in pair)
        weights = looked(loaded, source, [*target, END])[0].weights()
        summed = _by_word(weights.T, vocabulary.words(source)).T  # (T, source words)
        found.append(_by_word(summed[:-1], vocabulary.words(target)).argmax(1).tolist())
        gold.append(ordered.alignment(pair))
    return ordered.alignment_error(found, gold)


def compared(ours: list[Path], theirs: list[Path]) -> str:
    """How much better the translations of some runs are than those of others, seed by seed."""
    said = []
    for a, b in zip(ours, theirs, strict=True):
        data = configs.restored(Config, reading.card(a).get("settings", {})).data
        name, pairs = next(iter(data.tests().items()))
        mine, other = (
            (run / f"{name}.txt").read_text(encoding="utf-8").split("\n")[:-1] for run in (a, b)
        )
        said.append(str(bootstrap.paired(mine, other, [pair.target for pair in pairs])))
    return "; ".join(said)


def _by_word(rows: Tensor, words: Sequence[int]) -> Tensor:
    """Rows added up that belong to one word."""
    summed = rows.new_zeros(words[-1] + 1, rows.shape[1])
    return summed.index_add(0, torch.tensor(words), rows)


def _held_out(loaded: Any) -> Any:
    if not {"settings", "facts"} <= loaded.card.keys():
        raise ValueError(
            "translate: the card does not say which pairs were held out; give pairs=FILE"
        )
    settings = configs.restored(Config, loaded.card["settings"])
    parts = settings.data.parts()
    if facts(parts) != loaded.card["facts"]:
        raise ValueError(
            f"translate: {settings.data} is not what the model was trained on; its test pairs "
            "may be among those it learned from"
        )
    return parts

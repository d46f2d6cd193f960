"""How good a translator is: on pairs held out of its training, or on any others."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard import config as configs
from regard.data.text import bootstrap, word_order
from regard.data.text.batches import END, TokenBatches
from regard.data.text.bleu import bleu, check_sacrebleu
from regard.data.text.corpus import encode_pairs, split_fingerprint
from regard.data.text.pairs import Pair, read_pairs
from regard.recipes.translate.config import Config
from regard.recipes.translate.loss import mean_loss
from regard.recipes.translate.search import (
    INFERENCE_BATCH_TOKENS,
    LENGTH_PENALTY,
    Precision,
    tokenizer_of,
    translate_texts,
)
from regard.recipes.translate.traces import attention_maps
from regard.train.runs import hardware
from regard.zoo import untrusted_files


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
    length_penalty: float = LENGTH_PENALTY
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
    check_sacrebleu()
    given = evaluation.source or evaluation.pairs
    if given is not None:
        pairs = read_pairs(given, evaluation.target).pairs
    else:
        parts = _held_out_splits(loaded)
        pairs = parts.test if evaluation.part == "test" else parts.development
    found, _ = translate_and_score(
        loaded,
        pairs,
        beam=evaluation.beam,
        length_penalty=evaluation.length_penalty,
        precision=evaluation.precision,
    )
    return {**found, "seed": loaded.card.get("seed"), "hardware": hardware()}


def translate_and_score(
    loaded: Any,
    pairs: list[Pair],
    *,
    beam: int,
    length_penalty: float = LENGTH_PENALTY,
    precision: Precision = "float32",
) -> tuple[dict[str, Any], list[str]]:
    """The numbers of some pairs, and the translations they are of."""
    model, vocabulary = loaded.model, tokenizer_of(loaded)
    began = time.perf_counter()
    sources = [pair.source for pair in pairs]
    texts = translate_texts(
        model,
        vocabulary,
        sources,
        beam=beam,
        length_penalty=length_penalty,
        precision=precision,
    )
    seconds = time.perf_counter() - began
    held = TokenBatches(
        encode_pairs(pairs, vocabulary), tokens=INFERENCE_BATCH_TOKENS, seed=0, shuffle=False
    )
    numbers = {
        **bleu(texts, [pair.target for pair in pairs]),
        "loss": mean_loss(model, held),
        "pairs": len(pairs),
        "beam": beam,
        "precision": precision,
        "sentences_a_second": len(pairs) / seconds,
    }
    return numbers, texts


def alignment_error_rate(loaded: Any, pairs: list[Pair]) -> float:
    """The alignment error rate of pairs whose alignment is known, read from where a model looks.

    The right translation is written, and each of its words is aligned with the word it looks at
    most: Luong et al. 2015, 5.4.
    """
    vocabulary = tokenizer_of(loaded)
    found, gold = [], []
    for pair in pairs:
        source, target = (vocabulary.encode(side) for side in pair)
        weights = attention_maps(loaded, source, [*target, END])[0].weights()
        summed = _sum_by_word(weights.T, vocabulary.word_ids(source)).T  # (T, source words)
        found.append(_sum_by_word(summed[:-1], vocabulary.word_ids(target)).argmax(1).tolist())
        gold.append(word_order.alignment(pair))
    return word_order.alignment_error(found, gold)


def compare_runs(ours: list[Path], theirs: list[Path]) -> str:
    """How much better the translations of some runs are than those of others, seed by seed."""
    said = []
    for a, b in zip(ours, theirs, strict=True):
        data = configs.from_json(Config, untrusted_files.read_card(a).get("settings", {})).data
        name, pairs = next(iter(data.load_test_sets().items()))
        mine, other = (
            (run / f"{name}.txt").read_text(encoding="utf-8").split("\n")[:-1] for run in (a, b)
        )
        said.append(str(bootstrap.paired_bootstrap(mine, other, [pair.target for pair in pairs])))
    return "; ".join(said)


def _sum_by_word(rows: Tensor, words: Sequence[int]) -> Tensor:
    """Rows added up that belong to one word."""
    summed = rows.new_zeros(words[-1] + 1, rows.shape[1])
    return summed.index_add(0, torch.tensor(words), rows)


def _held_out_splits(loaded: Any) -> Any:
    if not {"settings", "facts"} <= loaded.card.keys():
        raise ValueError(
            "translate: the card does not say which pairs were held out; give pairs=FILE"
        )
    settings = configs.from_json(Config, loaded.card["settings"])
    parts = settings.data.load_split()
    if split_fingerprint(parts) != loaded.card["facts"]:
        raise ValueError(
            f"translate: {settings.data} is not what the model was trained on; its test pairs "
            "may be among those it learned from"
        )
    return parts

"""How good a translation is beside what a person wrote: BLEU and chrF, as sacreBLEU counts them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# N-grams of one to as many words are counted.
MAX_NGRAM_WORDS = 4


def bleu(texts: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU in points without and with case, chrF, and both signatures of BLEU.

    `bleu_lc_tok` is the one to compare with papers that lower-case and tokenize before they
    count; the signature says by which tokenizer.
    """
    BLEU, CHRF = _import_metrics()
    _check_texts("bleu", texts, references)
    chrf = CHRF().corpus_score(list(texts), [list(references)]).score
    counted = {"bleu_lc_tok": BLEU(lowercase=True, tokenize="13a"), "bleu": BLEU()}
    scores = {
        name: each.corpus_score(list(texts), [list(references)]).score
        for name, each in counted.items()
    }
    signed = "; ".join(f"{name} {each.get_signature()}" for name, each in counted.items())
    return {**scores, "chrf": chrf, "signature": signed}


def sentence_statistics(texts: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """What `bleu_lc_tok` is made of, a row a sentence; the sum of the rows is enough for a score.

    A row holds the words of the text, the words of the reference, the n-grams of one to four words
    that are right, and all n-grams of one to four words.
    """
    BLEU, _ = _import_metrics()
    _check_texts("sentence_statistics", texts, references)
    # the effective order changes the score of a sentence, which nobody reads, not its counts
    counted = BLEU(lowercase=True, tokenize="13a", effective_order=True)
    scores = (counted.sentence_score(*each) for each in zip(texts, zip(references), strict=True))
    return np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores], dtype=float)


def check_sacrebleu() -> None:
    """Refuse at once where sacreBLEU is missing, rather than after a training."""
    _import_metrics()


def _check_texts(where: str, texts: Sequence[str], references: Sequence[str]) -> None:
    if len(texts) != len(references) or not texts:
        raise ValueError(
            f"{where}: expected as many texts as references, and some, "
            f"got {len(texts)} and {len(references)}"
        )


def _import_metrics() -> tuple[Any, Any]:
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ModuleNotFoundError:
        raise ModuleNotFoundError("BLEU needs sacrebleu: pip install 'regard[data]'") from None
    return BLEU, CHRF

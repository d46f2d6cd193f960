"""How good a translation is beside what a person wrote: BLEU and chrF, as sacreBLEU counts them."""

from collections.abc import Sequence
from typing import Any


def bleu(texts: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """BLEU and chrF in points, cased, with sacreBLEU's own tokenization, and its signature."""
    BLEU, CHRF = _metrics()
    if len(texts) != len(references) or not texts:
        raise ValueError(
            f"bleu: expected as many texts as references, and some, "
            f"got {len(texts)} and {len(references)}"
        )
    counted = BLEU()
    score = counted.corpus_score(list(texts), [list(references)]).score
    chrf = CHRF().corpus_score(list(texts), [list(references)]).score
    return {"bleu": score, "chrf": chrf, "signature": str(counted.get_signature())}


def needed() -> None:
    """Refuse at once where sacreBLEU is missing, rather than after a training."""
    _metrics()


def _metrics() -> tuple[Any, Any]:
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ModuleNotFoundError:
        raise ModuleNotFoundError("BLEU needs sacrebleu: pip install 'regard[data]'") from None
    return BLEU, CHRF

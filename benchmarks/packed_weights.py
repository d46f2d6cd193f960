"""Packed weights on a CPU: their speed, and the BLEU that eight bits cost.

`python -m benchmarks packed_weights`. Shapes as in `benchmarks.translate`: 64 rows, width 256,
10,000 words.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.measure import Row, race
from regard import load
from regard.data.download import data_folders
from regard.data.text import multi30k
from regard.fast_decode import packed_linear
from regard.functional.precision import tanh
from regard.recipes.translate import Evaluation, evaluate

ROWS = 64
SHAPES = ((256, 256), (256, 1024), (1024, 256), (256, 10_000))
# sets of keys that are read in turn, so that none of them stays in a cache
SETS, HEADS, KEYS, WIDTH = 8, 512, 24, 32
MODELS = ("translate-en-de", "translate-en-de-rnn")


def rows() -> list[Row]:
    """The figures, most of which nobody claims anything about."""
    with torch.no_grad():
        found = [*map(_product, SHAPES), _gaps(3), _gaps(8), _bent()]
    return [*found, *(_rounded(name, part) for name in MODELS for part in ("development", "test"))]


def _product(shape: tuple[int, int]) -> Row:
    """A packed product beside `F.linear`."""
    wide, out = shape
    x, weight = torch.randn(ROWS, wide), torch.randn(out, wide)
    packed = packed_linear.packed(weight, None)
    raced = race(lambda: packed(x), lambda: F.linear(x, weight), rounds=50, inner=4)
    return Row(f"{ROWS} rows, {wide} → {out}, packed over `F.linear`", "", "", str(raced), True)


def _gaps(free: int) -> Row:
    """Keys that lie without gaps beside keys with room for more behind each head."""
    q = torch.randn(HEADS, 1, WIDTH)

    def reading(room: int) -> list[Tensor]:
        return [torch.randn(HEADS, room, WIDTH)[:, :KEYS] for _ in range(SETS)]

    dense, roomy = reading(KEYS), reading(KEYS + free)
    raced = race(
        lambda: [torch.bmm(q, k.mT) for k in dense],
        lambda: [torch.bmm(q, k.mT) for k in roomy],
        rounds=50,
    )
    claim = f"{SETS} × {HEADS} heads of {KEYS} keys, without gaps over room for {free} more a head"
    return Row(claim, "", "", str(raced), True)


def _bent() -> Row:
    """tanh as additive scores take it beside PyTorch's own, both in place."""
    x = torch.randn(ROWS, 20, 512)
    raced = race(lambda: tanh(x.clone()), lambda: x.clone().tanh_(), rounds=50)
    return Row("tanh of 64 × 20 × 512 numbers, by oneDNN over `tanh_`", "", "", str(raced), True)


def _rounded(name: str, part: str) -> Row:
    """What a translator loses where its matrices are multiplied in eight bits."""
    claim = f"`{name}`, {part}, beam 5, bleu_lc_tok in int8"
    places = [source.relative_path for source in multi30k.REMOTE_FILES.values()]
    if not any(all((folder / place).is_file() for place in places) for folder in data_folders()):
        return Row(claim, "", "", "not measured: Multi30k is not at hand", True)
    loaded = load(name)
    exact, eight = (
        evaluate(loaded, Evaluation(part=part, beam=5, precision=precision))["bleu_lc_tok"]
        for precision in ("float32", "int8")
    )
    return Row(claim, "", "", f"{eight:.2f} ({exact:.2f} in float32)", True)

"""Other people's models that a look sees exactly: how many, and which, as docs/looking.md lists.

`python -m benchmarks foreign` looks into each once, tiny and with random weights. What is held to
is the model's own weights where it gives them out, else a plain softmax of its products.
"""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.measure import Row
from tests.looking.foreign_models import ALL, Comparison, compared

PAGE = Path(__file__).parent.parent / "docs" / "looking.md"
MAY_MISS = 4


def rows() -> Iterator[Row]:
    """The row of the claim; the table of the page is written anew."""
    found = {name: _compared(name) for name in ALL}
    PAGE.write_text(written(PAGE.read_text(), found))
    exact = sum(one.is_exact for one in found.values())
    yield Row(
        "other people's models seen exactly (≤ 1e-6 of their own weights), output bit-equal",
        f"all but {MAY_MISS} of {len(ALL)}",
        "all",
        f"{exact} of {len(ALL)}",
        exact >= len(ALL) - MAY_MISS,
    )


def written(page: str, found: dict[str, Comparison]) -> str:
    """The page with its table of models written anew."""
    lines = ["| model | attentions | (B, H, Q, K) of the first | largest gap | output |"]
    lines += ["|---|---|---|---|---|", *(_line(name, one) for name, one in found.items())]
    table = "\n".join(lines)
    return re.sub(
        r"(<!-- models -->\n).*(\n<!-- end -->)", rf"\g<1>{table}\g<2>", page, flags=re.DOTALL
    )


def _line(name: str, found: Comparison) -> str:
    shape = found.shapes[0] if found.shapes else "not seen"
    same = "the same bits" if found.is_equal else "**another**"
    return f"| {name} | {len(found.shapes)} | {shape} | {found.gap:.1e} | {same} |"


def _compared(name: str) -> Comparison:
    torch.manual_seed(0)
    # flex attention is compared without its compiler, which takes a minute
    with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):
        warnings.simplefilter("ignore")
        return compared(name)

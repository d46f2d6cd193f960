"""How soon the command line answers, from the start of its process to the end."""

import statistics
import subprocess
import sys
import time

from benchmarks.measure import Row, in_words

TIMES = 7
SENTENCE = "She is eating a green apple."


def seconds(*words: str) -> float:
    """The median over some runs; the first, which fills the file cache, is not counted."""
    found = []
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "regard", *words], check=True, capture_output=True)
        found.append(time.perf_counter() - began)
    return statistics.median(found[1:])


def torch_alone() -> float:
    """What `import torch` takes by itself, for comparison."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - began


def rows() -> list[Row]:
    """The claims about waiting."""
    shown, told = seconds("--help"), seconds("predict", "translate-en-fr-small", SENTENCE)
    alone = statistics.median(torch_alone() for _ in range(TIMES))
    return [
        Row("`regard --help`", "≤ 0.5 s", "", in_words(shown), shown <= 0.5),
        Row(
            f'`regard predict translate-en-fr-small "{SENTENCE}"`',
            "≤ 3 s",
            "",
            f"{in_words(told)}, of which `import torch` alone {in_words(alone)}",
            told <= 3,
        ),
    ]

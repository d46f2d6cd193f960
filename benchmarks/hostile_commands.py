"""Hostile words and files for every command: `python -m benchmarks.hostile_commands [--seed S]`.

Runs the command line in this process, thousands of times, with what nobody should type: nothing,
far too much, NUL, halves of characters, NaN, 1e400, 5,000 digits, folders, pipes. A command keeps
its word if it ends in time with code 0, 1 or 2, and a refusal is one short sentence that names no
error of Python's. Prints every command that does not, and how many there were.
"""

import argparse
import contextlib
import io
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard import zoo
from regard.cli import main as cli
from regard.cli import resolve

SECONDS = 20
LONGEST_LINE = 1000
FOREIGN = ("Traceback", "run again with --debug")
NUMBERS = ("", "0", "-1", "-0", "nan", "-nan", "inf", "1e400", "-1e400", "1e-400", "1e308", "1_0")
# digits of other scripts: Arabic, superscript, a fraction, full width
NUMBERS += (
    "\u0663",
    "\u00b2",
    "\u00bd",
    "\uff11\uff12",
    "0x10",
    "1" * 5000,
    "-" + "9" * 5000,
    "0." + "0" * 5000 + "1",
)
NUMBERS += (
    "true",
    "none",
    "None",
    "[]",
    "{}",
    "1,",
    ",",
    ";",
    "1;2",
    "1e5",
    "99999999999999999999",
)
TEXTS = (*NUMBERS, " ", "\t", "\n", "\r\n", "\0", "a\0b", "\ud800", "\udcff", "\u202e", "\x1b[31m")
TEXTS += ("é" * 300, "a " * 3000, "🙂" * 50, "?", ":", "x", "0 x 3", "01", "01101001", "-")
TEXTS += ("--", "-1,-1", "0,0", "0,0 0,0 0,0", "0,0 1,1", "1,2,3 4,5,6", "0 1 2", "1 output 1")
TEXTS += (
    "0 0 1 0 output",
    "output",
    "# x",
    "x y\n1 2",
    "x,y\n1,2\n3",
    '"',
    "'",
    '1,"',
    "../..",
    "~",
)
TEXTS += ("/", ".", "~nobody/x.csv", "a/b", "\\", "x.csv", "x.tsp", "x.gz", "x" * 9999, "/" * 99)
FIELDS = ("beam", "points", "instances", "seed", "length", "file", "source", "target", "augment")
FIELDS += ("starts", "slots", "items", "precision", "model", "training", "training.steps", "data")
FIELDS += ("model.width", "training.optimizer.rate", "training.optimizer.betas", "batches.rows")
FIELDS += ("data.pairs", "name", "grid", "like", "x", "", ".", "training.", ".seed", "a.b.c.d")
OPTIONS = ("--beam", "--layer", "--head", "--step", "--map", "--kind", "-o", "--out", "--json")
OPTIONS += ("--prove", "--tokens", "--resume", "--only", "--jobs", "--no-such", "--help")


class HangError(Exception):
    """A command took too long."""


def hostile_files(folder: Path) -> list[str]:
    """Files that are none: each is given by its path."""
    contents = {
        "empty.csv": b"",
        "nul.csv": b"\0" * 999,
        "bytes.csv": bytes(range(256)) * 9,
        "digits.csv": b"1" * 5000 + b"," + b"2" * 5000,
        "long.csv": b"0," * 99_999,
        "nan.csv": b"nan,nan\n1e400,inf\n",
        "half.tsp": b"NAME : a\nTYPE : TSP\nDIMENSION : 9" + b"9" * 4999 + b"\n",
        "nodes.tsp": b"TYPE : TSP\nDIMENSION : 1\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n",
        "answers.txt": b"0 0 1 0 output 1 2 99999\n",
        "bad.gz": b"\x1f\x8b" + bytes(99),
        "card.json": b"{}",
    }
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "device.csv").symlink_to("/dev/zero")
    names = [*contents, "folder.csv", "pipe.csv", "loop.csv", "device.csv", "gone.csv", "."]
    return [str(folder / name) for name in names]


def command_lines(draw: random.Random, folder: Path, models: Sequence[str]) -> Iterator[list[str]]:
    """What somebody might type, without end."""
    files, recipes = hostile_files(folder), list(resolve.RECIPES)
    texts = [*TEXTS, *files]

    def setting() -> str:
        typed = f"{draw.choice(FIELDS)}={draw.choice(texts)}"
        return draw.choice(("", "=", typed, typed, draw.choice(texts)))

    def options() -> list[str]:
        given = draw.choice(OPTIONS)
        takes = given not in ("--json", "--prove", "--tokens", "--help", "--no-such")
        return [given, *([draw.choice(texts)] if takes else [])]

    def some(make: Callable[[], Any], most: int) -> list[Any]:
        return [make() for _ in range(draw.randrange(most))]

    while True:
        model = draw.choice((*models, *models, *models, draw.choice(texts)))
        kind = draw.randrange(6)
        more = [word for words in some(options, 3) for word in words]
        if kind < 2:
            words = [draw.choice(("predict", "look")), model, draw.choice(texts), *more]
        elif kind == 2:
            words = ["evaluate", model, setting(), *some(setting, 2), *more]
        elif kind == 3:
            recipe = draw.choice((*recipes, draw.choice(texts)))
            # a setting that fits would train; this one never does
            words = ["train", recipe, setting(), "training.no_such=1", *some(setting, 2), *more]
        elif kind == 4:
            words = ["why", model, draw.choice(texts)]
        else:
            command = draw.choice(("list", "serve", "predict", "", draw.choice(texts)))
            words = [command, *some(lambda: draw.choice(texts), 2), "--no-such"]
        yield words


def fault(words: list[str], *, seconds: int = SECONDS) -> str | None:
    """What is wrong with how a command ended, or None if it kept its word."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, 0.5 if _is_long_text(words) else seconds)
    stdin, sys.stdin = sys.stdin, io.StringIO("")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(words)
    except HangError:
        return _too_long(words, seconds)
    except BaseException as error:
        return f"let {type(error).__name__} out: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.stdin = stdin
    lines = [line for line in err.getvalue().splitlines() if " … " not in line or "regard" in line]
    if "HangError" in err.getvalue():
        return _too_long(words, seconds)
    if any(word in err.getvalue() for word in FOREIGN):
        return f"let an error of Python's out: {lines[-1][:300]}"
    if code not in (0, 1, 2):
        return f"ended with code {code}"
    if code and (len(lines) != 1 or len(lines[0]) > LONGEST_LINE):
        return (
            f"said {len(lines)} lines, the longest of {max(map(len, lines), default=0)} characters"
        )
    return None


def _is_long_text(words: list[str]) -> bool:
    """True if a long text is to be translated, which takes as long as it takes."""
    translates = any("translate" in word for word in words)
    return translates and any(len(word) > 1000 for word in words)


def _too_long(words: list[str], seconds: int) -> str | None:
    return None if _is_long_text(words) else f"took more than {seconds} s"


def _hang(number: int, frame: Any) -> None:
    raise HangError


@contextlib.contextmanager
def quick_loading() -> Iterator[None]:
    """Load each model of the zoo once."""
    from regard.zoo import loader

    before = loader.load
    loader.load = cache(before)
    try:
        yield
    finally:
        loader.load = before


def attack(
    count: int, seed: int, models: Sequence[str] | None = None
) -> list[tuple[list[str], str]]:
    """The commands among `count` that did not keep their word, and how."""
    models = models or zoo.names()
    draw, found = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name), quick_loading():
        lines = command_lines(draw, Path(name), models)
        for _, words in zip(range(count), lines, strict=False):
            torch.manual_seed(0)
            wrong = fault(words)
            if wrong is not None:
                found.append((words, wrong))
    return found


def main() -> int:
    """Attack, and print what did not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile_commands", description=__doc__
    )
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = attack(given.count, given.seed)
    for words, wrong in found:
        print(f"{[word if len(word) < 60 else word[:60] + '…' for word in words]}: {wrong}")
    print(f"{given.count:,} commands, seed {given.seed}: {len(found)} did not keep their word")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

"""Damaged folders for `regard.load`: `python -m benchmarks.hostile_models [--count N] [--seed S]`.

Takes models of the zoo, changes card, tokenizer or weights at random (values, keys, types, bytes,
the header of the weights), and loads them, thousands of times. A loader keeps its word if it gives
a model, or one line of a ValueError that begins with `load: `, within seconds. Prints what does
not, and how much memory was taken at the most.
"""

import argparse
import json
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.hostile_commands import HangError
from regard import load, zoo

SECONDS, LONGEST_ERROR = 20, 700
MODELS = ("copy", "sort", "translate-en-fr-small", "tsp")
VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 1, 2**24, 2**24 + 1, 2**31, 2**63, 10**30)
VALUES += (10**4000, 0.5, -0.0, 1e-300, 1e300, "", "x", "\0", "é" * 999, "../..", [], {}, [[]])
VALUES += ([0] * 9999, {"": None}, {"a": {"b": {}}}, "float32", "F32", "I64", [2**40, 2**40], [-1])
VALUES += (1e308, "__class__", "os.system", 127, 129, 3, 7, 1000, 65536, 2**20)
BYTES = (b"", b"\0", b"\xff", b"{", b"}", b'"', b"[" * 2000, b"NaN", b"1e999", b"9" * 5000, b",")


def mutated_json(draw: random.Random, value: Any) -> Any:
    """The same with one or a few things changed, somewhere inside."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        value = _changed(draw, value)
    return value


def mutated_bytes(draw: random.Random, data: bytes) -> bytes:
    """The same with some bytes flipped, cut out, put in or said twice."""
    at = draw.randrange(len(data) + 1)
    near = at + draw.choice((1, 8, 100, 10_000))
    return draw.choice(
        (
            data[:at],
            data[at:],
            data[:at] + data[near:],
            data[:near] + data[at:],
            data[:at] + draw.choice(BYTES) + data[at:],
            data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :],
            draw.randbytes(draw.choice((0, 7, 8, 9, 5000))),
        )
    )


def mutate(draw: random.Random, folder: Path) -> str:
    """Change a file of a model's folder; what was changed."""
    path = draw.choice(sorted(folder.iterdir()))
    data = path.read_bytes()
    if draw.random() < 0.3:
        path.write_bytes(mutated_bytes(draw, data))
    elif path.suffix == ".json":
        path.write_text(json.dumps(mutated_json(draw, json.loads(data))))
    else:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.dumps(mutated_json(draw, json.loads(data[8 : 8 + size]))).encode()
        length = draw.choice((len(header), len(header), len(header), 0, 2**40, len(header) + 9))
        path.write_bytes(struct.pack("<Q", length) + header + data[8 + size :])
    return path.name


def fault(folder: Path) -> str | None:
    """What is wrong with how a folder is loaded, or None if the loader keeps its word."""
    before = signal.signal(signal.SIGALRM, _hang)
    signal.alarm(SECONDS)
    try:
        load(folder)
    except ValueError as error:
        line = str(error)
        if "HangError" in line:
            return f"took more than {SECONDS} s"
        if not line.startswith("load: ") or "\n" in line or len(line) > LONGEST_ERROR:
            return f"said {line[:300]!r}, {len(line)} characters"
    except BaseException as error:
        return f"let {type(error).__name__} out: {error}"[:300]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def attack(count: int, seed: int, models: tuple[str, ...] = MODELS) -> list[str]:
    """What did not hold among `count` folders."""
    draw, found = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        for number in range(count):
            shutil.copytree(zoo.find_model_folder(draw.choice(models)), folder)
            changed = mutate(draw, folder)
            wrong = fault(folder)
            if wrong is not None:
                found.append(f"{number}, {changed}: {wrong}")
            shutil.rmtree(folder)
    return found


def peak_memory() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _changed(draw: random.Random, value: Any) -> Any:
    """One thing changed: this value, or one inside it."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.05:
        if type(value) in (int, float) and draw.random() < 0.5:
            return draw.choice((value + 1, value - 1, -value, value * 1000, str(value), [value]))
        return draw.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw.choice(keys)
    copied: Any = value.copy()
    how: Callable[[], Any] = draw.choice((lambda: None, lambda: value[key], lambda: ...))
    if draw.random() < 0.7:
        copied[key] = _changed(draw, value[key])
    elif how() is None:
        del copied[key]
    elif isinstance(copied, dict):
        copied[draw.choice(("", "x", "\0", "kind", "__metadata__", *map(str, keys)))] = value[key]
    else:
        copied.insert(key, draw.choice(VALUES))
    return copied


def _hang(number: int, frame: Any) -> None:
    raise HangError


def main() -> int:
    """Attack, and print what did not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile_models", description=__doc__
    )
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in MODELS:
        load(name)  # so that what is measured is what the attack takes
    before = peak_memory()
    found = attack(given.count, given.seed)
    print("\n".join(found))
    print(
        f"{given.count:,} folders, seed {given.seed}: {len(found)} did not keep their word, "
        f"{peak_memory() - before:.0f} MB beyond loading each model once"
    )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

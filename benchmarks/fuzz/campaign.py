"""Many random calls in several processes, for some seconds or as many calls as asked for.

    python -m benchmarks fuzz --seconds 120 --seed 0          # make fuzz
    python -m benchmarks fuzz --calls 1000000 --save          # kept in docs/benchmarks.md
    python -m benchmarks fuzz --seed 0 --only 1234            # one call again

Exit code 1 if any call is wrong.
"""

import argparse
import json
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from benchmarks.fuzz.draws import Call, call
from benchmarks.fuzz.errors import Wrong
from benchmarks.fuzz.judge import judge
from benchmarks.fuzz.mechanisms import rule_names
from benchmarks.measure import Row, machine, machine_kind

BATCH = 50
PROGRESS_SECONDS = 2.0
SHOWN = 100  # failures, a line each
RESULTS = Path(__file__).parents[2] / "docs" / "benchmarks"
MUST, AIM = 100_000, 1_000_000
KINDS = (
    *("function", "score", "select", "rule", "bias", "dtype", "backend", "edit"),
    *("strides", "magnitude", "sizes", "also", "unsure"),
)


@dataclass
class Tally:
    """What some calls came to."""

    calls: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    luck: tuple[float, float] = (0.0, 0.0)  # of `sampled`: surplus of likely keys, its variance

    def add(self, other: "Tally") -> None:
        self.calls += other.calls
        self.counts.update(other.counts)
        self.failures += other.failures
        self.luck = self.luck[0] + other.luck[0], self.luck[1] + other.luck[1]

    @property
    def sigmas(self) -> float:
        """By how many standard deviations the likeliest keys were drawn too often."""
        return self.luck[0] / self.luck[1] ** 0.5 if self.luck[1] else 0.0


def run(seed: int, numbers: list[int]) -> Tally:
    """Draw and judge these calls."""
    tally = Tally()
    for number in numbers:
        drawn = call(seed, number)
        kinds = list(labels(drawn))
        try:
            word = judge(drawn)
        except Wrong as wrong:
            word = "wrong"
            tally.failures.append((number, f"{summary(drawn)}: {wrong}"))
        except Exception as error:  # the harness itself, which is to be mended as well
            word = "wrong"
            what = f"harness: {type(error).__name__}: {str(error)[:200]}"
            tally.failures.append((number, f"{summary(drawn)}: {what}"))
        if word == "refused":
            kinds = [f"{kind} refused" if kind.startswith("backend ") else kind for kind in kinds]
        if drawn.luck is not None:
            tally.luck = tally.luck[0] + drawn.luck[0], tally.luck[1] + drawn.luck[1]
        kinds += [f"unsure {note}" for note in drawn.notes]
        tally.counts.update(kinds)
        tally.calls += 1
    return tally


def labels(drawn: Call) -> Iterator[str]:
    """What a call is counted under, as a kind and a name."""
    yield f"function {drawn.function}"
    yield f"score {drawn.score[0]}"
    if drawn.function in ("attend", "weigh"):
        yield f"select {drawn.select[0]}"
    yield from (f"rule {name}" for name in sorted(set(rule_names(drawn.rule))))
    yield f"bias {drawn.bias[0] if drawn.bias else 'none'}"
    yield f"dtype {drawn.dtype}"
    yield f"backend {drawn.backend}"
    yield from (f"edit {each[0]}" for each in drawn.edits)
    yield f"strides {drawn.strides}"
    yield from (f"{kind} {name}" for kind, name in drawn.tags.items())
    also = {
        "autocast": drawn.autocast,
        "looked at": drawn.looked,
        "gradient": drawn.gradient,
        "additive in tiles": drawn.tiled and drawn.score[0] == "additive",
        "NaN or infinity in hidden keys": drawn.spoil is not None,
        "grouped heads": drawn.q.shape[1] != drawn.k.shape[1],
        "scale <= 0": drawn.score[0] == "dot" and drawn.score[1] <= 0,
    }
    yield from (f"also {name}" for name, is_so in also.items() if is_so)


def summary(drawn: Call) -> str:
    """One call in a few words."""
    parts = [drawn.function, drawn.dtype, drawn.backend, drawn.score[0], drawn.select[0]]
    parts += [f"rule {'+'.join(rule_names(drawn.rule))}"] if drawn.rule else []
    parts += [f"bias {drawn.bias[0]}"] if drawn.bias else []
    parts += ["autocast"] if drawn.autocast else []
    parts += [f"edits {'+'.join(each[0] for each in drawn.edits)}"] if drawn.edits else []
    return " ".join([*parts, str(drawn.full)])


def start_worker() -> None:
    """One thread a process, and no warnings between the figures."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def campaign(seed: int, calls: int | None, seconds: float | None, jobs: int) -> Tally:
    """As many calls as asked for, or as there is time for, with progress on stderr."""
    tally, started, told, following = Tally(), time.monotonic(), 0.0, 0
    running: dict[Future[Tally], range] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, start_worker) as pool:
        while True:
            late = seconds is not None and time.monotonic() - started > seconds
            while not late and len(running) < 2 * jobs and (calls is None or following < calls):
                stop = following + BATCH if calls is None else min(following + BATCH, calls)
                numbers = range(following, stop)
                running[pool.submit(run, seed, list(numbers))] = numbers
                following = stop
            if not running:
                return tally
            done, _ = wait(running, PROGRESS_SECONDS, FIRST_COMPLETED)
            for each in done:
                numbers = running.pop(each)
                try:
                    found = each.result()
                    tally.add(found)
                    for number, what in found.failures:
                        print(f"fuzz: call {number} is wrong: {what}", file=sys.stderr, flush=True)
                except Exception as error:
                    what = f"a call up to {numbers[-1]} ended its process: {error!r}"
                    tally.failures.append((numbers[0], what))
                    return tally
            now = time.monotonic() - started
            if now - told >= PROGRESS_SECONDS:
                told = now
                print(f"fuzz: {_so_far(tally)} in {now:.0f} s", file=sys.stderr, flush=True)


def _so_far(tally: Tally) -> str:
    return f"{tally.calls:,} calls, {len(tally.failures)} wrong"


def report(tally: Tally, seed: int) -> str:
    """The counts by kind, the failures with what shows each again, and one line of all."""
    lines = []
    for kind in KINDS:
        found = {k[len(kind) + 1 :]: n for k, n in tally.counts.items() if k.startswith(f"{kind} ")}
        ranked = sorted(found.items(), key=lambda item: -item[1])
        lines.append(f"{kind}: " + ", ".join(f"{name} {n:,}" for name, n in ranked))
    lines.append(f"sampled: the likeliest keys {tally.sigmas:+.1f} standard deviations too often")
    for number, what in sorted(tally.failures)[:SHOWN]:
        lines.append(f"python -m benchmarks fuzz --seed {seed} --only {number}  # {what}")
    if len(tally.failures) > SHOWN:
        lines.append(f"… and {len(tally.failures) - SHOWN} more")
    return "\n".join([*lines, f"fuzz: {_so_far(tally)}, seed {seed}"])


def save(tally: Tally, given: argparse.Namespace, path: Path) -> None:
    """Keep the counts with the machine they were made on, in the form of all benchmarks."""
    counts, seed = tally.counts, given.seed
    limits = [f" --{name} {n:.12g}" for name in ("calls", "seconds") if (n := getattr(given, name))]
    command = f"python -m benchmarks fuzz --seed {seed}{''.join(limits)}"
    unsure = sum(n for kind, n in counts.items() if kind.startswith("unsure"))
    measured = (
        f"{_so_far(tally)}; of them {counts['also gradient']:,} with gradients, "
        f"{counts['also looked at']:,} looked at, {counts['also autocast']:,} under autocast, "
        f"{sum(n for k, n in counts.items() if k.startswith('backend') and 'refused' in k):,} "
        f"refused with an error; {unsure:,} compared with a wider tolerance, where rounding "
        f"decides; `{command}`"
    )
    claim = "random calls against an independent float64 program, all mechanisms and backends"
    met = not tally.failures and tally.calls >= MUST
    row = Row(claim, f"{MUST:,} calls, none wrong", f"{AIM:,}", measured, met)
    found = {**machine(), "seed": seed, "calls": tally.calls, "wrong": len(tally.failures)}
    found |= {"counts": dict(sorted(counts.items())), "rows": [asdict(row)]}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, help="stop after this time (120 without --calls)")
    parser.add_argument("--calls", type=int, help="stop after this many calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one call")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--save", action="store_true", help="keep the counts for the page of docs")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run, print and save; 1 if a call is wrong."""
    given = parsed(arguments)
    if given.only is not None:
        start_worker()
        tally = run(given.seed, [given.only])
    else:
        seconds = 120.0 if given.seconds is None and given.calls is None else given.seconds
        tally = campaign(given.seed, given.calls, seconds, given.jobs)
    print(report(tally, given.seed))
    if given.save:
        save(tally, given, RESULTS / f"{machine_kind()}-fuzz.json")
    return 1 if tally.failures or abs(tally.sigmas) > 5 else 0

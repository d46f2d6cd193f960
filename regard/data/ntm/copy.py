"""Vectors to be said again, once or several times: Graves et al. 2014, 4.1 and 4.2."""

import re
from dataclasses import dataclass, replace

import numpy as np

from regard.data.ntm.episodes import (
    Episodes,
    curriculum_max,
    episodes_from_arrays,
    example_vectors,
    parse_vectors,
)

# The most vectors that are said of what is typed.
MAX_TARGET_VECTORS = 10_000


@dataclass(frozen=True)
class Copy:
    """Graves et al. 2014, 4.1: random vectors between two flags, then the same vectors again.

    Two vectors of two bits:

        step     0   1   2   3   4   5
        input        01  11
        start    1
        end                  1
        target                   01  11
    """

    bits: int = 8
    shortest: int = 1
    longest: int = 20

    def __post_init__(self) -> None:
        if self.bits < 1 or not 1 <= self.shortest <= self.longest:
            raise ValueError(f"Copy: expected 1 ≤ bits and 1 ≤ shortest ≤ longest, got {self}")

    @property
    def inputs(self) -> int:
        """The bits of a vector, the start flag and the end flag."""
        return self.bits + len(self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        """What stands behind the bits of a vector."""
        return ("start", "end")

    @property
    def outputs(self) -> int:
        """The bits of a vector."""
        return self.bits

    @property
    def steps(self) -> int:
        """Steps of the longest episode."""
        return 2 * self.longest + 2

    @property
    def slots(self) -> int:
        """Vectors of the longest episode."""
        return self.longest

    def draw(self, random: np.random.Generator, count: int, difficulty: float = 1.0) -> Episodes:
        """So many episodes, all lengths up to the greatest being as likely."""
        lengths = random.integers(
            self.shortest,
            curriculum_max(self.shortest, self.longest, difficulty),
            count,
            endpoint=True,
        )
        vectors = random.integers(0, 2, (count, self.longest, self.bits), np.uint8)
        return self._make_episodes(vectors, lengths)

    def parse_episode(self, text: str) -> Episodes:
        """The episode of `01101001 11110000`, however many vectors these are."""
        vectors = parse_vectors("copy", text, self.bits)
        task = replace(self, shortest=1, longest=len(vectors))
        return task._make_episodes(vectors[None], np.array([len(vectors)]))

    def _make_episodes(self, vectors: np.ndarray, lengths: np.ndarray) -> Episodes:
        inputs = _make_inputs(vectors, lengths, self.steps)
        return episodes_from_arrays(
            inputs, *_make_targets(vectors, lengths, self.steps), self.slots
        )


@dataclass(frozen=True)
class RepeatCopy:
    """Graves et al. 2014, 4.2: the same, to be said so many times, and then that it is done.

    Two vectors of two bits, to be said twice. The count is told as `(2 − mean) / deviation`; beside
    it stands the end flag, since a count near the mean is no signal. The last channel of the target
    is the mark that the copies are over:

        step     0   1   2   3   4   5   6   7   8
        input        01  11
        start    1
        end                  1
        count                −1.22
        target                   01  11  01  11
        mark                                     1

    Args:
        mean: of the counts in training; with `deviation`, it stays as it is where an evaluation
            asks for more copies, or a count would mean something else there.
        deviation: of the same counts, 1 to 10, each as likely.
    """

    bits: int = 8
    shortest: int = 1
    longest: int = 10
    min_repeats: int = 1
    max_repeats: int = 10
    mean: float = 5.5
    deviation: float = 8.25**0.5

    def __post_init__(self) -> None:
        lengths, counts = (self.shortest, self.longest), (self.min_repeats, self.max_repeats)
        ordered = all(1 <= least <= greatest for least, greatest in (lengths, counts))
        if self.bits < 1 or not ordered or not self.deviation > 0:
            raise ValueError(
                "RepeatCopy: expected 1 ≤ bits, 1 ≤ shortest ≤ longest, "
                f"1 ≤ min_repeats ≤ max_repeats and 0 < deviation, got {self}"
            )

    @property
    def inputs(self) -> int:
        """The bits of a vector, the flags of start and end, and the count."""
        return self.bits + len(self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        """What stands behind the bits of a vector."""
        return ("start", "end", "count")

    @property
    def outputs(self) -> int:
        """The bits of a vector and the mark of the end."""
        return self.bits + 1

    @property
    def steps(self) -> int:
        """Steps of the longest episode."""
        return self.longest * (1 + self.max_repeats) + 3

    @property
    def slots(self) -> int:
        """Vectors of the longest episode."""
        return self.longest

    def draw(self, random: np.random.Generator, count: int, difficulty: float = 1.0) -> Episodes:
        """So many episodes, all lengths and counts up to the greatest being as likely.

        Only the count rises with its share: who has learned short lengths first has learned to do
        without a memory.
        """
        most = curriculum_max(self.min_repeats, self.max_repeats, difficulty)
        lengths = random.integers(self.shortest, self.longest, count, endpoint=True)
        repeats = random.integers(self.min_repeats, most, count, endpoint=True)
        vectors = random.integers(0, 2, (count, self.longest, self.bits), np.uint8)
        return self._make_episodes(vectors, lengths, repeats)

    def parse_episode(self, text: str) -> Episodes:
        """The episode of `01101001 11110000 x 3`, however many vectors and copies these are."""
        found = re.fullmatch(r"(.*)[x×]\s*([1-9][0-9]{0,8})\s*", text, re.DOTALL)
        if found is None:
            raise ValueError(
                "repeat copy: expected vectors and how often to say them, "
                f"as in {example_vectors(self.bits)} x 3, got {text!r:.80}"
            )
        vectors, repeats = parse_vectors("repeat copy", found[1], self.bits), int(found[2])
        if len(vectors) * repeats > MAX_TARGET_VECTORS:
            # before anything of that size is made
            raise ValueError(
                f"repeat copy: expected at most {MAX_TARGET_VECTORS:,} vectors to say, "
                f"got {len(vectors)} x {repeats}"
            )
        task = replace(self, shortest=1, longest=len(vectors), min_repeats=1, max_repeats=repeats)
        return task._make_episodes(vectors[None], np.array([len(vectors)]), np.array([repeats]))

    def _make_episodes(
        self, vectors: np.ndarray, lengths: np.ndarray, repeats: np.ndarray
    ) -> Episodes:
        count, places = len(lengths), np.arange(len(lengths))
        inputs = np.zeros((count, self.steps, self.inputs), np.float32)
        inputs[..., :-1] = _make_inputs(vectors, lengths, self.steps)
        inputs[places, 1 + lengths, -1] = (repeats - self.mean) / self.deviation
        said, asked = _make_targets(vectors, lengths, self.steps, repeats)
        end = lengths * (1 + repeats) + 2
        targets = np.zeros((*asked.shape, self.outputs), np.float32)
        targets[..., : self.bits] = said
        targets[places, end, self.bits] = 1
        asked[places, end] = True
        return episodes_from_arrays(inputs, targets, asked, self.slots)


def _make_inputs(vectors: np.ndarray, lengths: np.ndarray, steps: int) -> np.ndarray:
    """Inputs (B, T, bits + 2): the start flag, the vectors, and the end flag behind them."""
    count, longest, bits = vectors.shape
    inputs = np.zeros((count, steps, bits + 2), np.float32)
    inputs[:, 0, bits] = 1
    told = np.arange(longest) < lengths[:, None]  # (B, longest)
    inputs[:, 1 : 1 + longest, :bits] = vectors * told[..., None]
    inputs[np.arange(count), 1 + lengths, bits + 1] = 1
    return inputs


def _make_targets(
    vectors: np.ndarray, lengths: np.ndarray, steps: int, repeats: np.ndarray | int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Targets (B, T, bits), which begin behind the signal, and where they are asked (B, T)."""
    since = np.arange(steps) - (2 + lengths)[:, None]  # (B, T)
    asked = (since >= 0) & (since < (lengths * repeats)[:, None])
    count, longest, bits = vectors.shape
    places = np.arange(count)[:, None] * longest + since % lengths[:, None]  # (B, T)
    # out of one long row: with an index for each axis this takes ten times as long
    said = vectors.reshape(-1, bits).take(places, axis=0)  # (B, T, bits)
    return said * asked[..., None], asked

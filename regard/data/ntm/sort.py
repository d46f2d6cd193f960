"""Vectors to be said again by their priorities, the highest first: Graves et al. 2014, 4.5."""

from dataclasses import dataclass, replace

import numpy as np

from regard.data.ntm.episodes import (
    Episodes,
    curriculum_max,
    episodes_from_arrays,
    example_vectors,
    parse_vectors,
)


@dataclass(frozen=True)
class Sort:
    """Graves et al. 2014, 4.5: random vectors with priorities, then the highest of them in order.

    Three vectors of two bits, of which two are kept. Of equal priorities, the earlier comes first:

        step        0     1     2     3   4   5
        input       01    11    10
        priority   −0.2   0.9   0.5
        end                           1
        target                            11  10
    """

    bits: int = 8
    vectors: int = 20
    top_k: int = 16

    def __post_init__(self) -> None:
        if self.bits < 1 or not 1 <= self.top_k <= self.vectors:
            raise ValueError(f"Sort: expected 1 ≤ bits and 1 ≤ top_k ≤ vectors, got {self}")

    @property
    def inputs(self) -> int:
        """The bits of a vector, its priority and the end flag."""
        return self.bits + len(self.flags)

    @property
    def flags(self) -> tuple[str, ...]:
        """What stands behind the bits of a vector."""
        return ("priority", "end")

    @property
    def outputs(self) -> int:
        """The bits of a vector."""
        return self.bits

    @property
    def steps(self) -> int:
        """Steps of every episode."""
        return self.vectors + 1 + self.top_k

    @property
    def slots(self) -> int:
        """Vectors of an episode: any of them may be among the highest."""
        return self.vectors

    def draw(self, random: np.random.Generator, count: int, difficulty: float = 1.0) -> Episodes:
        """So many episodes, all of one length: all vectors, or of a smaller share fewer."""
        several = curriculum_max(1, self.vectors, difficulty)
        vectors = random.integers(0, 2, (count, several, self.bits), np.uint8)
        # sorted as they are shown, in float32, or neighbours could change places
        priorities = 2 * random.random((count, several), np.float32) - 1
        return self._make_episodes(vectors, priorities, -(-several * self.top_k // self.vectors))

    def parse_episode(self, text: str) -> Episodes:
        """The episode of `01101001:0.5 11110000:-0.2`, of which `top_k` are asked for at most."""
        pairs = [self._parse_vector(each) for each in text.replace(",", " ").split() or [text]]
        vectors, priorities = (np.array(each) for each in zip(*pairs, strict=True))
        task = replace(self, vectors=len(pairs), top_k=min(self.top_k, len(pairs)))
        return task._make_episodes(vectors[None], priorities[None].astype(np.float32), task.top_k)

    def _parse_vector(self, text: str) -> tuple[np.ndarray, float]:
        """The vector and the priority of `01101001:0.5`."""
        vector, _, priority = text.partition(":")
        try:
            (bits,), number = parse_vectors("sort", vector, self.bits), float(priority)
        except ValueError:
            number = np.nan
        if not -1 <= number <= 1:
            first, second = example_vectors(self.bits).split()
            raise ValueError(
                f"sort: expected vectors of {self.bits} bits, each with a priority from -1 to 1, "
                f"as in {first}:0.5 {second}:-0.2, got {text!r:.80}"
            )
        return bits, number

    def _make_episodes(self, vectors: np.ndarray, priorities: np.ndarray, top_k: int) -> Episodes:
        """Episodes of vectors (B, several, bits) and their priorities (B, several)."""
        count, several, bits = vectors.shape
        inputs = np.zeros((count, self.steps, self.inputs), np.float32)
        inputs[:, :several, :bits] = vectors
        inputs[:, :several, bits] = priorities
        inputs[:, several, bits + 1] = 1
        order = np.argsort(-priorities, axis=1, kind="stable")[:, :top_k]
        targets = np.zeros((count, self.steps, bits), np.float32)
        answers = slice(several + 1, several + 1 + top_k)
        targets[:, answers] = vectors[np.arange(count)[:, None], order]
        asked = np.zeros((count, self.steps), bool)
        asked[:, answers] = True
        return episodes_from_arrays(inputs, targets, asked, several)

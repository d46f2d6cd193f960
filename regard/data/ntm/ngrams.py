"""Bits whose chances hang on the bits before, by a table drawn anew: Graves et al. 2014, 4.4."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from regard.data.ntm.episodes import Episodes, episodes_from_arrays


@dataclass(frozen=True)
class NGrams:
    """Graves et al. 2014, 4.4: say of every bit of a sequence how likely it is to be a one.

    Each sequence has a table of its own, with a chance from Beta(½, ½) for every context of
    `order − 1` bits; the first bits, which have no such context, are fair. A step is given the bit
    before, and is asked for its own:

        step     0   1   2   3
        input        0   1   1
        target   0   1   1   0

    All bits are asked for, the fair ones too, since with them the best estimate costs what it does
    in the paper, 133 bits a sequence; each fair bit that is left out makes it one less. The first
    step, then, is given a zero; it always is, so no flag has to tell it from a bit.
    """

    order: int = 6
    length: int = 200

    def __post_init__(self) -> None:
        if not 2 <= self.order <= self.length:
            raise ValueError(f"NGrams: expected 2 ≤ order ≤ length, got {self}")

    @property
    def inputs(self) -> int:
        """The bit before."""
        return 1

    @property
    def flags(self) -> tuple[str, ...]:
        """None: there are only bits."""
        return ()

    @property
    def outputs(self) -> int:
        """The bit."""
        return 1

    @property
    def steps(self) -> int:
        """Steps of every episode."""
        return self.length

    @property
    def slots(self) -> int:
        """Contexts, each with what has followed it."""
        return 2 ** (self.order - 1)

    def draw(self, random: np.random.Generator, count: int, difficulty: float = 1.0) -> Episodes:
        """So many sequences; all have one length, so `difficulty` changes nothing."""
        table = random.beta(0.5, 0.5, count * self.slots)
        chances = random.random((self.length, count))
        bits = np.empty((self.length, count), bool)
        # From a place in the table, a bit leads to one of two neighbours in the same row of it.
        places = np.arange(count * self.slots)
        following = places - places % self.slots + 2 * places % self.slots
        place = places[:: self.slots]
        for step in range(self.length):
            chance = table[place] if step >= self.order - 1 else 0.5
            bits[step] = bit = chances[step] < chance
            place = following[place] + bit
        return self._make_episodes(bits.T)

    def parse_episode(self, text: str) -> Episodes:
        """The episode of `0110100110`, with one step more, which is asked for nothing.

        Nobody knows the bit behind the last, but the output of that step says how likely it is.
        """
        run = "".join(text.split())
        if not run or set(run) - set("01"):
            raise ValueError(f"ngrams: expected bits, as in 0110100110, got {text!r:.80}")
        episode = self._make_episodes(np.array([[*map(int, run), 0]]))
        episode.target_mask[:, -1] = False
        return episode

    def optimal_probabilities(self, inputs: Float32[Tensor, "B T 1"]) -> Float64[Tensor, "B T 1"]:
        """Eq. 10: `(N₁ + ½) / (N₀ + N₁ + 1)`, by what has followed the same context so far.

        No other estimate costs less on average. A bit that has no context is as likely as not.
        """
        bits = inputs[..., 0].cpu().numpy().astype(np.intp)  # (B, T)
        count, steps = bits.shape
        # the context of a step ends with its own input
        padded = np.pad(bits, ((0, 0), (self.order - 2, 0)))
        windows = sliding_window_view(padded, self.order - 1, axis=1)  # (B, T, order − 1)
        contexts = windows @ (2 ** np.arange(self.order - 1))  # (B, T)
        answers = np.pad(bits[:, 1:], ((0, 0), (0, 1)))
        seen, rows = np.zeros((count, self.slots, 2)), np.arange(count)
        chances = np.full((count, steps, 1), 0.5)
        for step in range(self.order - 1, steps):
            zeros, ones = seen[rows, contexts[:, step]].T
            chances[:, step, 0] = (ones + 0.5) / (zeros + ones + 1)
            seen[rows, contexts[:, step], answers[:, step]] += 1
        return torch.from_numpy(chances)

    def optimal_bits(self, episodes: Episodes) -> Float64[Tensor, " B"]:
        """What the best estimate costs in each episode: `−Σ log₂` of the chance of each bit."""
        chances = self.optimal_probabilities(episodes.inputs)
        right = torch.where(episodes.targets.cpu() > 0.5, chances, 1 - chances)[..., 0]  # (B, T)
        return -(right.log2() * episodes.target_mask.cpu()).sum(1)

    def _make_episodes(self, bits: np.ndarray) -> Episodes:
        before = np.pad(bits[:, :-1], ((0, 0), (1, 0)))
        return episodes_from_arrays(
            before[..., None], bits[..., None], np.ones(bits.shape, bool), self.slots
        )

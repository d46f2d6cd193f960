"""What decoding gives back: hypotheses, and by which rows of the batch they came."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard import check


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """N hypotheses for each of B sources, best first, after T steps with W beams.

    Where a source has fewer than N hypotheses, the last ones have length 0 and score −inf.

    Args:
        tokens: (B, N, T) without the first token `begin`; filled with `end` after the end.
        lengths: (B, N), the token `end` counted.
        finished: (B, N), whether `end` came; if not, the hypothesis was cut at `longest`.
        scores: (B, N), by which they are ranked.
        log_probabilities: (B, N), the sum over the tokens, `end` among them.
        parents: (T, B, W), from which beam of step t each beam after it goes on.
        rows: (B, N, T), the row of the batch of B·W that was each hypothesis at step t.
    """

    tokens: Tensor
    lengths: Tensor
    finished: Tensor
    scores: Tensor
    log_probabilities: Tensor
    parents: Tensor
    rows: Tensor

    def sequences(self) -> list[list[list[int]]]:
        """The tokens of each source's hypotheses as lists, without `end` and what is behind it."""
        counts = (self.lengths - self.finished.long()).tolist()
        return [
            [tokens[:n] for tokens, n in zip(row, ns, strict=True)]
            for row, ns in zip(self.tokens.tolist(), counts, strict=True)
        ]


def hypothesis_weights(hypotheses: Hypotheses, beam_weights: Tensor) -> Tensor:
    """What each hypothesis looked at (B, N, H, T, K), from what the batch of beams did.

    Args:
        hypotheses: from `greedy`, `sample` or `beam`.
        beam_weights: (B·W, H, T, K), the weights of all steps, as a look joins them; zeros
            come back after the end of a hypothesis.
    """
    T, B, W = hypotheses.parents.shape
    check.shape(
        "hypothesis_weights",
        "beam_weights",
        beam_weights,
        **{"B·W": B * W, "H": None, "T": T, "K": None},
    )
    rows, lengths = (x.to(beam_weights.device) for x in (hypotheses.rows, hypotheses.lengths))
    steps = torch.arange(T, device=beam_weights.device)
    gathered = beam_weights[rows, :, steps]  # (B, N, T, H, K)
    over = steps >= lengths[:, :, None]
    return gathered.masked_fill(over[..., None, None], 0).transpose(2, 3)

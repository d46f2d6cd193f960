"""Hard attention while it learns: a key is drawn, and REINFORCE asks how likely that was."""

from torch import Tensor

from regard.functional.precision import to_float32
from regard.functional.selects import HIDDEN, sampled
from regard.functional.selects import DrawnKeys as Chosen


class ReinforceSelect:
    """A select for one call that draws a key a query, and keeps what REINFORCE needs.

    Xu et al. 2015, 4.1; a query that sees nothing draws nothing, with probability one.

    Args:
        soft: 0 or 1, a number without axes; where it is 1, the softmax is read and not the draw.
            Drawn once a batch it is the paper's way to halve the noise, and costs no branch.
    """

    def __init__(self, soft: Tensor):
        self.soft = soft
        # what the first call leaves behind; a look that asks again gets the same weights
        self.index: Tensor | None = None
        self._log_probability: Tensor | None = None
        self._entropy: Tensor | None = None

    @property
    def log_probability(self) -> Tensor:
        """Of the drawn key (B, H, Q), with its gradient; 0 where the softmax was read instead."""
        assert self._log_probability is not None, "nothing was drawn yet"
        return self._log_probability

    @property
    def entropy(self) -> Tensor:
        """Of what was drawn from (B, H, Q), in nats, with its gradient."""
        assert self._entropy is not None, "nothing was drawn yet"
        return self._entropy

    def __call__(self, scores: Tensor) -> Tensor:
        """The weights: the drawn key alone, or all by their probability."""
        scores = to_float32(scores)
        blind = (scores == HIDDEN).all(-1, keepdim=True)
        logs = scores.masked_fill(blind, 0).log_softmax(-1)
        shares = logs.exp().masked_fill(blind, 0)
        soft = self.soft.to(shares.dtype)
        if self.index is None:
            self.index = sampled().sample_keys(scores)
            chosen = logs.gather(-1, self.index.clamp_min(0)[..., None])[..., 0]
            self._log_probability = chosen.masked_fill(self.index < 0, 0) * (1 - soft)
            # a hidden key adds nothing, and 0 · −inf would be NaN
            self._entropy = -(shares * logs.masked_fill(logs == HIDDEN, 0)).sum(-1)
        return soft * shares + (1 - soft) * Chosen(self.index)(scores)

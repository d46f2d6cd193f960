"""Pointing: the weights over a memory are the answer, and not the way to one."""

from torch import Tensor, nn

from regard import check, dispatch
from regard.functional.rules import Rule
from regard.layers.scores import AdditiveScore


class Pointer(nn.Module):
    """Vinyals et al. 2015, eq. 3: `softmax(v · tanh(W₁ memory + W₂ x))` is the output.

    Args:
        query_width: how wide `x` is.
        memory_width: how wide `memory` is.
        width: how wide the layer between is.
    """

    def __init__(self, query_width: int, memory_width: int, width: int):
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(memory_width, width)
        self.score = AdditiveScore(1, width)

    def keys(self, memory: Tensor) -> Tensor:
        """`W₁ memory` (B, K, width), the same for every step."""
        check.shape("Pointer", "memory", memory, B=None, K=None, E=self.key.in_features)
        return self.key(memory)

    def forward(self, x: Tensor, keys: Tensor, *, rule: Rule | Tensor | None = None) -> Tensor:
        """How much each query of `x` (B, Q, ·) is for each of `keys` (B, K, width): (B, Q, K).

        −inf where `rule` does not let it be pointed at.
        """
        q, k = self.query(x)[:, None], keys[:, None]
        return dispatch.logits(q, k, score=self.score.value(), rule=rule)[:, 0]

    @dispatch.as_module_call
    def log_probability(
        self, x: Tensor, keys: Tensor, index: Tensor, *, rule: Rule | Tensor | None = None
    ) -> Tensor:
        """The log-probability of pointing at `index` (B, Q) from each of `x` (B, Q, ·): (B, Q).

        All steps of an answer are one fused call; where the index is −1, 0 comes back.
        """
        q, k = self.query(x)[:, None], keys[:, None]
        score = self.score.value()
        return dispatch.log_probability(q, k, index[:, None], score=score, rule=rule)[:, 0]


def check_has_choice(logits: Tensor, remaining: Tensor, step: int) -> None:
    """Refuse to go on where nothing of what is left (B, N) may be pointed at, by an edit."""
    if bool((logits.isneginf().all(1) & remaining.any(1)).any()):
        raise ValueError(f"edit: nothing is left to point at in step {step}; all of it is hidden")

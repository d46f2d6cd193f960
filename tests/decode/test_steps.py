"""What is asked of a step: logits of the right form, and a token to take."""

import math

import pytest
import torch

from regard.decode import StepModel, greedy
from tests.decode.tables import Trigrams


class Said:
    """A model that says the same logits at every step."""

    def __init__(self, logits):
        self.logits = logits

    def start(self, source):
        return source

    def step(self, tokens, state):
        return self.logits, state


REFUSED = {
    "greedy: expected logits of shape (B=2, V), got (2, 1, 3)": torch.zeros(2, 1, 3),
    "greedy: expected logits of shape (B=2, V), got (3, 3)": torch.zeros(3, 3),
    "greedy: expected logits as a float tensor, got a tensor of int64": torch.zeros(2, 3).long(),
    "greedy: expected end from 0 to V - 1 = -1, got 0": torch.zeros(2, 0),
    "greedy: expected logits with a token to take, got NaN or only -inf at step 1": (
        torch.tensor([[1.0, 2.0], [math.nan, 0.0]])
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_logits_that_do_not_fit_are_refused_in_words(words):
    with pytest.raises(ValueError) as refused:
        greedy(Said(REFUSED[words]), torch.zeros(2, 1), begin=1, end=0, longest=3)
    assert str(refused.value) == words


def test_anything_that_can_start_and_step_can_be_decoded():
    assert isinstance(Trigrams(), StepModel) and not isinstance(torch.nn.Linear(1, 1), StepModel)


@pytest.mark.parametrize(
    "dtype, used",
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_log_probabilities_are_those_of_float32_or_better(dtype, used):
    logits = torch.randn(2, 5).to(dtype)
    found = greedy(Said(logits), torch.zeros(2, 1), begin=1, end=0, longest=1)
    assert torch.equal(found.scores[:, 0], logits.to(used).log_softmax(-1).amax(-1))

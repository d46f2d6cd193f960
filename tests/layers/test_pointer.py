"""Pointing by an additive score: by hand, and all steps at once."""

import pytest
import torch
from torch.testing import assert_close

import regard
from regard.layers.pointer import Pointer

B, Q, K, E, D = 2, 3, 5, 7, 11


def test_the_papers_equation_by_hand():
    pointer, x, memory = Pointer(E, D, 4), torch.randn(B, Q, E), torch.randn(B, K, D)
    inner = torch.tanh(pointer.query(x)[:, :, None] + pointer.key(memory)[:, None])
    u = inner @ pointer.score.vector[0]
    assert_close(pointer(x, pointer.keys(memory)), u)


def test_log_probabilities_are_those_of_the_logits():
    pointer, x, memory = Pointer(E, D, 4), torch.randn(B, Q, E), torch.randn(B, K, D)
    rule = torch.rand(B, 1, Q, K) > 0.3
    rule[..., 2] = True
    keys, index = pointer.keys(memory), torch.full((B, Q), 2)
    logits = pointer(x, keys, rule=rule)
    assert (logits[~rule[:, 0]] == -torch.inf).all()
    found = pointer.log_probability(x, keys, index, rule=rule)
    assert_close(found, logits.log_softmax(-1)[..., 2])


def test_a_step_that_is_not_asked_for_is_nought():
    pointer, x, memory = Pointer(E, D, 4), torch.randn(B, Q, E), torch.randn(B, K, D)
    found = pointer.log_probability(x, pointer.keys(memory), torch.full((B, Q), -1))
    assert not found.any()


def test_pointing_can_be_looked_at():
    pointer, x, memory = Pointer(E, D, 4), torch.randn(B, Q, E), torch.randn(B, K, D)
    with regard.look(pointer) as seen:
        logits = pointer(x, pointer.keys(memory))
    assert_close(seen["Pointer"].weights()[:, 0], logits.softmax(-1))


def test_a_memory_of_another_width_is_refused():
    with pytest.raises(ValueError, match="Pointer: expected memory of shape"):
        Pointer(E, D, 4).keys(torch.randn(B, K, E))

"""What was looked at follows the hypothesis through every row it was in."""

import itertools

import pytest
import torch
from torch import Tensor

from regard.decode import Draw, Hypotheses, beam, greedy, hypothesis_weights, sample
from tests.decode.tables import BEGIN, END, Trigrams, tables

MARKS = {"begin": BEGIN, "end": END, "longest": 6}


class Looked(Trigrams):
    """Looks at the token it is fed and at the one before: (B·W, 1, steps, 2)."""

    def __init__(self):
        self.looks = []

    def step(self, tokens: Tensor, state):
        self.looks.append(torch.stack([state.before, tokens], dim=-1))
        return super().step(tokens, state)


WAYS = {
    "greedy": (greedy, {}),
    "sample": (sample, {"draw": Draw(temperature=2.0)}),
    "beam": (beam, {"width": 4, "best": 3}),
    "penalised": (beam, {"width": 3, "best": 3, "length_penalty": 1.0}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_hypothesis_looked_at_its_own_past(way):
    (decode, options), model = WAYS[way], Looked()
    found = decode(model, tables(9, 4), **MARKS, **options)
    looked = hypothesis_weights(found, torch.stack(model.looks, dim=1)[:, None].float())
    for b, hypotheses in enumerate(found.tokens.tolist()):
        for n, tokens in enumerate(hypotheses):
            length, past = int(found.lengths[b, n]), [BEGIN, BEGIN, *tokens]
            pairs = [list(pair) for pair in itertools.pairwise(past)]
            assert looked[b, n, 0, :length].tolist() == pairs[:length]
            assert looked[b, n, 0, length:].eq(0).all()


def test_rows_are_the_parents_walked_back():
    found = beam(Trigrams(), tables(5, 4), **MARKS, width=3)
    for b in range(5):
        length, rows = int(found.lengths[b, 0]), found.rows[b, 0].tolist()
        for t in range(length - 1):
            assert rows[t] == 3 * b + int(found.parents[t, b, rows[t + 1] - 3 * b])


def test_beams_that_swap_by_hand():
    # two beams: the first hypothesis was in row 1, then 0; the second in row 0, then 1, and ended
    found = Hypotheses(
        tokens=torch.tensor([[[7, 8, 9], [5, END, END]]]),
        lengths=torch.tensor([[3, 2]]),
        finished=torch.tensor([[False, True]]),
        scores=torch.tensor([[-1.0, -2.0]]),
        log_probabilities=torch.tensor([[-1.0, -2.0]]),
        parents=torch.tensor([[[1, 0]], [[0, 1]], [[0, 1]]]),
        rows=torch.tensor([[[1, 0, 0], [0, 1, 1]]]),
    )
    looked = torch.tensor([[10.0, 11.0, 12.0], [20.0, 21.0, 22.0]])[:, None, :, None]
    assert hypothesis_weights(found, looked)[..., 0, :, 0].tolist() == [[[20, 11, 12], [10, 21, 0]]]
    assert found.sequences() == [[[7, 8, 9], [5]]]


def test_what_was_looked_at_has_a_row_for_every_step():
    found = greedy(Trigrams(), tables(2, 3), **MARKS)
    T = found.tokens.shape[2]
    words = (
        rf"hypothesis_weights: expected beam_weights of shape \(B·W=2, H, T={T}, K\), "
        rf"got \(2, 1, {T + 1}, 5\)"
    )
    with pytest.raises(ValueError, match=words):
        hypothesis_weights(found, torch.zeros(2, 1, T + 1, 5))


def test_heads_and_keys_stay_where_they_are():
    found = beam(Trigrams(), tables(2, 3), **MARKS, width=3, best=2)
    T = found.tokens.shape[2]
    looked = torch.arange(5 * 7).reshape(5, 1, 7).expand(6, 5, T, 7).float()
    kept = found.lengths[0, 0]
    assert torch.equal(hypothesis_weights(found, looked)[0, 0, :, :kept], looked[0, :, :kept])

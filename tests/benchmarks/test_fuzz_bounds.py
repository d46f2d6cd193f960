"""How far the fuzzer lets rounding go, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.fuzz import bounds
from benchmarks.fuzz.truth import Answer

OF = bounds.Units(scores=1e-3, factors=0.0, weights=1e-6, reading=0.0, stored=0.0)


def call(q, k, score):
    q, k = (np.array(x, dtype=float).reshape(1, 1, -1, 1) for x in (q, k))
    full = (1, 1, q.shape[2], k.shape[2])
    return SimpleNamespace(q=q, k=k, score=score, full=full, edits=(), bias=None, dtype="float64")


def test_the_slope_of_a_tanh_moves_by_twice_its_share_and_by_a_spacing_of_one():
    found = bounds.of_clipped_slope(call([3], [1], ("clipped", ("dot", 1.0), 0.5)), OF)
    # 3 is off by 3 · 7 / 2 thousandths
    assert found.item() == pytest.approx(2 * 0.0105 + 1e-3 * np.cosh(3) ** 2)


def test_the_log_of_a_small_weight_of_a_sparsemax_is_off_by_as_much_as_it_is_small():
    asked = call([1], [0, 0.998], ("dot", 1.0))
    logits, weights = np.array([[[[0, 0.998]]]]), np.array([[[[0.001, 0.999]]]])
    answer = Answer(logits, logits > -1, weights, weights, weights)
    assert bounds.of_log(asked, ("softmax",), answer, OF) == 0
    of_scores = bounds.of_scores(asked, OF, answer).max()
    assert of_scores / 2 < bounds.of_log(asked, ("sparsemax",), answer, OF) * 0.001 < 2 * of_scores

"""Query, key and value: when a score is a mirror image, and when not."""

import pytest
import torch

from regard.view.lessons.roles import LESSON

SAME = [[1.0, 0.5], [-0.5, 2.0]]
POINTS = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def test_scores_by_hand():
    # as queries the points stay; as keys (1, 0) becomes (0, 2) and (0, 1) becomes (1, 0)
    given = {"query": [[1.0, 0.0], [0.0, 1.0]], "key": [[0.0, 2.0], [1.0, 0.0]]}
    found = LESSON.answer({"points": POINTS, **given})
    scale = 2**-0.5
    assert found["scores"][0] == pytest.approx([0, scale, scale])
    assert found["scores"][1] == pytest.approx([2 * scale, 0, 2 * scale])
    assert found["asymmetry"] == pytest.approx(scale)


def test_one_matrix_for_both_roles_makes_a_mirror_of_scores_but_not_of_weights():
    found = LESSON.answer({"points": POINTS, "query": SAME, "key": SAME})
    assert found["asymmetry"] == pytest.approx(0, abs=1e-6)
    weights = torch.tensor(found["weights"])
    assert not torch.allclose(weights, weights.mT, atol=1e-2)


def test_as_it_begins_a_looks_at_b_and_b_does_not_look_at_a():
    found = LESSON.answer({})
    weights = torch.tensor(found["weights"])
    assert (weights - weights.mT).abs().max() > 0.3 and found["asymmetry"] > 1


def test_what_is_read_is_a_blend_of_the_points():
    found = LESSON.answer({})
    blend = torch.tensor(found["weights"]) @ torch.tensor(found["given"]["points"])
    assert torch.allclose(torch.tensor(found["read"]), blend, atol=1e-5)

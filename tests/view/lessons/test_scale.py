"""Why √d: variance, saturation and what is left of a gradient."""

import pytest
import torch

from regard.functional import selects
from regard.view.lessons.scale import LESSON, mean_jacobian_norm


@pytest.mark.parametrize("width", [1, 7, 64, 512])
def test_the_variance_of_a_dot_product_is_its_width(width):
    found = [LESSON.answer({"width": width, "seed": seed})["variance"] for seed in range(8)]
    plain, scaled = (sum(row) / len(row) for row in zip(*found, strict=True))
    assert plain == pytest.approx(width, rel=0.12)
    assert scaled == pytest.approx(1, rel=0.12)


def test_without_the_scale_the_softmax_saturates_and_the_gradient_goes():
    plain, scaled = LESSON.answer({})["slopes"]
    assert plain[-1] < 0.25 * plain[1]
    assert min(scaled[1:]) > 0.8 * max(scaled[1:])


def test_steepness_is_the_norm_of_the_jacobian():
    scores = torch.randn(1, 1, 1, 7)
    jacobian = torch.autograd.functional.jacobian(selects.softmax, scores)
    assert mean_jacobian_norm(selects.softmax(scores)) == pytest.approx(
        jacobian.norm().item(), rel=1e-5
    )
    assert mean_jacobian_norm(torch.tensor([[[[1.0, 0.0, 0.0]]]])) == 0


def test_every_product_is_counted_once():
    for shares in LESSON.answer({"width": 32})["histogram"]:
        assert sum(shares) == pytest.approx(1)


def test_another_seed_draws_other_vectors():
    assert LESSON.answer({"seed": 1})["plain"] != LESSON.answer({"seed": 2})["plain"]

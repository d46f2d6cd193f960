"""Scores from packed factors are those of tanh; `test_additive_gpu.py` has the tensor cores."""

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from regard.kernels.additive.launch import _pack_factors
from regard.kernels.additive.plan import plan_call
from regard.kernels.additive.triton.scores import scores_by_tanh
from regard.kernels.additive.triton.tensor_cores import emulated_tensor_core_sums
from regard.kernels.mask_spec import MaskSpec
from tests.kernels.calls import INTERPRETED, QUIET, inputs, plain_scores, small

pytestmark = [QUIET, INTERPRETED]


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    with small(monkeypatch):
        yield


@triton.jit
def _both_forms(q_ptr, k_ptr, vector_ptr, factors, to_ptr, groups, D, pairs: tl.constexpr):
    row, col = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    to = to_ptr + row * 16 + col
    tl.store(
        to,
        -2 * emulated_tensor_core_sums(factors[0], factors[1], factors[2], groups, row, col, pairs),
    )
    q_ptr, k_ptr = q_ptr + row * D, k_ptr + col * D
    tl.store(to + 256, scores_by_tanh(q_ptr, k_ptr, vector_ptr, D, False, False, False))
    tl.store(to + 512, scores_by_tanh(q_ptr, k_ptr, vector_ptr, D, True, False, False))


# eleven bits a factor, and two bfloat16 a factor; the interpreter cuts the latter, and loses a bit
@pytest.mark.parametrize("dtype, near", [(torch.bfloat16, 2**-9), (torch.float16, 2**-14)], ids=str)
@pytest.mark.parametrize("D", [1, 11])
@pytest.mark.parametrize("scale", [0.3, 5.0])
def test_products_of_exponentials_give_the_scores_of_tanh(scale, D, dtype, near):
    q, k, v, vector = inputs(Q=16, K=16, D=D, dtype=dtype)
    q, k = scale * q, scale * k
    of, plan = plan_call(q, k, v, None, vector, MaskSpec(), None)
    u, w = (_pack_factors(of, plan, x, 16, x is q) for x in (q, k))
    to = torch.empty(3, 16, 16)
    _both_forms[(1,)](
        q, k, vector, (u.words, w.words, u.beta), to, plan.groups, D, dtype == torch.float16
    )
    exact = plain_scores(q.double(), k.double(), vector.double())[0, 0]
    # all but the exact form leave the sum of the vector out
    to[:2] += vector.float().sum()
    size = vector.double().abs().sum().item()
    for found, digits in zip(to.double(), (near, 2**-20, 2**-21), strict=True):
        torch.testing.assert_close(found, exact, atol=digits * size, rtol=0)

"""One launch gives the tokens that a table, a scale and positions give."""

import pytest
import torch

pytest.importorskip("triton")

from regard.kernels.decode_step.triton import embedding as kernels
from tests.kernels.calls import INTERPRETED

pytestmark = INTERPRETED


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("E", [1, 6, 33])
def test_one_launch_gives_what_looking_up_and_adding_give(E, dtype):
    table, places = torch.randn(11, E).to(dtype), torch.randn(5, E).to(dtype)
    tokens = torch.tensor([[3, 1], [0, 1], [10, 1], [3, 1]])[:, 0]  # with gaps
    for position in (0, 2, 4):
        found = kernels.embed_tokens(tokens, table, places, torch.tensor(position), 2.0)
        expected = (table[tokens].float() * 2 + places[position].float()).to(dtype)
        torch.testing.assert_close(found, expected, rtol=0, atol=torch.finfo(dtype).eps * 4)

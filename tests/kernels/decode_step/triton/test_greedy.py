"""One launch takes the token that argmax takes, and writes what greedy decoding writes."""

import pytest
import torch

pytest.importorskip("triton")

from regard.kernels.decode_step.triton import greedy as kernels
from tests.kernels.calls import INTERPRETED, QUIET

pytestmark = [INTERPRETED, QUIET]

END = 3
EACH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)


def begun(B, room=4, limit=4):
    return {
        "done": torch.zeros(B, dtype=torch.bool),
        "step": torch.zeros(B, dtype=torch.int64),
        "history": torch.full((B, room), END),
        "log_probs": torch.zeros(B, room),
        "limits": torch.tensor(limit).expand(B),
        "end": END,
    }


def chosen(logits, **given):
    tokens = torch.zeros(len(logits), dtype=torch.int64)
    kernels.append_greedy_token(logits, tokens, **given)
    return tokens


@EACH
@pytest.mark.parametrize("V", [4, 29, 5000])
def test_it_takes_the_likeliest_and_knows_its_log_probability(V, dtype):
    logits, given = torch.randn(5, V).to(dtype), begun(5)
    tokens = chosen(logits, **given)
    assert torch.equal(tokens, logits.argmax(1))
    assert torch.equal(given["history"][:, 0], tokens)
    expected = logits.float().log_softmax(1).gather(1, tokens[:, None])
    torch.testing.assert_close(given["log_probs"][:, :1], expected, rtol=1e-5, atol=1e-5)
    assert (given["step"] == 1).all() and torch.equal(given["done"], tokens == END)


@pytest.mark.parametrize("numbers", [4, 4096])
def test_of_equals_it_takes_the_first(numbers, monkeypatch):
    monkeypatch.setattr(kernels, "BLOCK_LOGITS", numbers)
    logits = torch.zeros(2, 17)
    logits[0, [5, 6, 13]] = 1.0
    assert chosen(logits, **begun(2)).tolist() == [5, 0]


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_a_row_that_has_no_softmax_gains_nan(poison):
    logits, given = torch.randn(3, 9), begun(3)
    logits[0, 7], logits[1] = poison, -torch.inf
    tokens = chosen(logits, **given)
    assert tokens[0] == 7 and given["log_probs"][:, 0].isnan().tolist() == [True, True, False]


def test_rows_that_are_done_say_the_end_and_gain_nothing():
    given = begun(2)
    given["done"][0] = True
    logits = torch.zeros(2, 9)
    logits[:, 5] = 1.0
    assert chosen(logits, **given).tolist() == [END, 5]
    assert given["log_probs"][0, 0] == 0 and given["done"].tolist() == [True, False]


def test_a_row_is_done_at_its_limit():
    given = begun(2) | {"limits": torch.tensor([1, 2])}
    logits = torch.zeros(2, 9)
    logits[:, 5] = 1.0
    chosen(logits, **given)
    assert given["done"].tolist() == [True, False]
    chosen(logits, **given)
    assert given["done"].tolist() == [True, True]
    assert given["history"].tolist() == [[5, END, END, END], [5, 5, END, END]]


def test_a_history_that_is_full_stays_as_it_is():
    given = begun(2, room=1, limit=9)
    for _ in range(2):
        chosen(torch.eye(9)[:2], **given)
    assert given["history"].tolist() == [[0], [1]] and (given["step"] == 2).all()

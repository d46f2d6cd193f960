"""What a look keeps of a call: no memory that nobody needs, and equal masks once."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import attend, look, rules, weigh
from regard.functional.call import build_call
from regard.looking.record import written_key_count

B, H, D = 2, 3, 4


class Cached(nn.Module):
    """Attends to a cache, as models of other people do."""

    def forward(self, q, k, mask=None):
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)


class Ours(nn.Module):
    """Attends by a call of ours."""

    def forward(self, q, k, **named):
        return attend(q, k, k, **named)


def test_queries_keep_no_projection_alive_that_they_are_a_part_of():
    model, whole = Cached(), torch.randn(B, H, 20, D)
    with look(model) as seen:
        for n in range(5, 21):
            q = torch.randn(B, 1, 3, H, D)[:, :, 0].transpose(1, 2)
            model(q, whole[:, :, :n].clone())
    assert seen.memory() == 4 * (whole.numel() + 16 * B * H * D)


def test_masks_that_are_equal_are_kept_once_and_keep_no_graph():
    model, k = nn.ModuleList([Cached(), Cached()]), torch.randn(B, H, 6, D)
    table = torch.randn(1, H, 6, 6, requires_grad=True)
    with look(model) as seen:
        for part in model:
            part(torch.randn(B, H, 6, D), k, (table * 2)[:, :, -6:])
    # the container ran no forward: its parts are named by their places
    first, second = (seen[name].calls[0].tensors[1][0] for name in ("0", "1"))
    assert first is second and not first.requires_grad


@pytest.mark.parametrize("hidden", ["bool", "float"])
def test_keys_that_no_query_may_see_are_not_written_yet(hidden):
    mask = torch.zeros(1, 1, 2, 7, dtype=torch.bool)
    mask[..., 1:4] = True
    given = {"rule": mask}
    if hidden == "float":
        given = {"bias": torch.zeros(1, 1, 2, 7).masked_fill(~mask, torch.finfo().min)}
    q, k = torch.randn(B, H, 2, D), torch.randn(B, H, 7, D)
    assert written_key_count(build_call(q, k, None, **given)) == 4
    assert written_key_count(build_call(q, k, None)) == 7


def test_a_mask_that_another_rule_may_overrule_says_nothing_of_what_is_written():
    mask = torch.tensor([True, True, False])
    q, k = torch.randn(B, H, 3, D), torch.randn(B, H, 3, D)
    assert written_key_count(build_call(q, k, None, rule=mask)) == 2
    assert written_key_count(build_call(q, k, None, rule=rules.both(rules.window(1), mask))) == 2
    assert written_key_count(build_call(q, k, None, rule=rules.either(rules.causal, mask))) == 3
    model, rule = Ours(), rules.either(rules.causal, mask)
    with look(model) as seen:
        model(q, k, rule=rule)
    torch.testing.assert_close(seen["Ours"].weights(), weigh(q, k, rule=rule))


@pytest.mark.parametrize("bias", [torch.zeros(7), torch.zeros(())], ids=["(K,)", "()"])
def test_a_bias_of_any_form_can_be_looked_at(bias):
    model, q, k = Ours(), torch.randn(B, H, 2, D), torch.randn(B, H, 7, D)
    with look(model) as seen:
        model(q, k, bias=bias)
    torch.testing.assert_close(seen["Ours"].weights(), weigh(q, k))


@pytest.mark.parametrize("copy", [False, True])
def test_a_cache_that_is_written_in_place_is_read_as_it_was(copy):
    model, room, k = Cached(), torch.zeros(B, H, 8, D), torch.randn(B, H, 8, D)
    queries, expected = torch.randn(5, B, H, 1, D), []
    with look(model, copy=copy) as seen:
        for n, q in zip(range(4, 9), queries, strict=True):
            room[:, :, :n] = k[:, :, :n]
            mask = torch.arange(8) < n
            model(q, room, mask.expand(B, 1, 1, 8))
            expected.append(weigh(q, room, rule=mask))
    room.zero_()
    assert torch.equal(seen["Cached"].weights(), torch.cat(expected, 2))


@pytest.mark.parametrize("copy", [False, True])
def test_keys_of_inference_mode_can_be_read_outside_of_it(copy):
    with torch.inference_mode():
        memory = torch.randn(1, 1, 3, 4)
    q = torch.randn(1, 1, 2, 4)
    with torch.no_grad(), look(copy=copy) as seen:
        attend(q, memory, memory)
    assert torch.allclose(seen["attend.0"].weights(), weigh(q, memory.clone()))

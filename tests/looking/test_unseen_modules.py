"""A look that saw nothing, or not all, says so, and names what it did not see."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import look
from regard.looking.unseen_modules import MAX_LISTED_NAMES, is_attention_like, unseen_names
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig

B, Q, E = 2, 5, 8


class HiddenAttention(nn.Module):
    """Has weights from queries to keys, but no softmax."""

    def __init__(self):
        super().__init__()
        self.to_qk, self.norm = nn.Linear(E, E), nn.LayerNorm(E)

    def forward(self, x):
        weights = (self.to_qk(x) @ x.mT).exp()
        return self.norm(weights / weights.sum(-1, keepdim=True) @ x)


class Plain(nn.Module):
    """Attends for everyone to see."""

    def __init__(self):
        super().__init__()
        self.qkv, self.post_attention_norm = nn.Linear(E, 3 * E), nn.LayerNorm(E)

    def forward(self, x):
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        return self.post_attention_norm(F.scaled_dot_product_attention(q, k, v)[:, 0])


class Block(nn.Module):
    """Holds one that attends."""

    def __init__(self, inner):
        super().__init__()
        self.attention = inner

    def forward(self, x):
        return self.attention(x)


def run(*parts, x=None):
    model = nn.Sequential(*parts)
    with look(model) as seen:
        model(torch.randn(B, Q, E) if x is None else x)
    return seen


def test_what_was_not_seen_is_named_at_the_end_with_the_way_out():
    words = (
        r"look: 2 modules of Sequential that ran look like attention, and no call of theirs was "
        r"seen: 0\.attention, 2\.attention\. Seen are .*attn_implementation='eager'"
    )
    with pytest.warns(UserWarning, match=words) as told:
        seen = run(Block(HiddenAttention()), Block(Plain()), Block(HiddenAttention()))
    assert told[0].filename == __file__ and len(told) == 1
    assert seen.names() == ["1.attention"] and seen.unseen == ("0.attention", "2.attention")
    with pytest.raises(KeyError, match=r"there is 1\.attention; not seen: 0\.attention, 2"):
        seen["0.attention"]


def test_a_long_list_is_cut():
    with pytest.warns(UserWarning, match=r"look: 9 modules .* 4\.attention and 4 more\. ") as told:
        run(*(Block(HiddenAttention()) for _ in range(MAX_LISTED_NAMES + 4)))
    assert len(str(told[0].message)) < 500


def test_a_model_without_any_attention_is_said_to_have_none():
    words = "look: no attention was seen in Sequential, of which these ran: Sequential. Seen are"
    with pytest.warns(UserWarning, match=words):
        assert run(nn.Linear(E, E), nn.ReLU()).unseen == ()


def test_what_was_seen_and_what_did_not_run_is_not_complained_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(Block(Plain()), Plain()).unseen == ()
        with look(nn.Sequential(Block(HiddenAttention()))) as seen:
            pass
        with look():
            HiddenAttention()(torch.randn(B, Q, E))
    assert seen.names() == [] and seen.unseen == ()


def test_a_model_of_ours_without_attention_is_not_complained_of():
    model, points = (
        PointerNetwork(PointerNetworkConfig(width=7, output="vocabulary", max_points=7)),
        torch.rand(B, Q, 2),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with look(model) as seen:
            model.encode(points, torch.tensor([Q, Q]))
    assert seen.names() == []


def test_what_was_cleared_was_seen():
    model = Block(Plain())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with look(model) as seen:
            model(torch.randn(B, Q, E))
            seen.clear()
    assert seen.names() == [] and seen.unseen == ()


def test_an_error_inside_is_not_talked_over():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="shape"):
            run(Block(HiddenAttention()), x=torch.randn(B, Q, E + 1))


@pytest.mark.parametrize("children, like", [
    ("q_proj k_proj v_proj", True), ("query key value", True), ("to_q to_kv", True),
    ("qkv proj", True), ("query_key_value dense", True), ("c_attn c_proj", True),
    ("q_a_proj q_b_proj kv_a_proj", True), ("up_proj down_proj", False), ("query out", False),
])  # fmt: skip
def test_parts_for_queries_and_keys_make_attention(children, like):
    module = nn.ModuleDict({name: nn.Linear(2, 2) for name in children.split()})
    assert is_attention_like("block.x", module) is like


class AttentionOutput(nn.Sequential):
    """Projects what an attention read, as LXMERT's does."""


@pytest.mark.parametrize("name, module, like", [
    ("attention.output", AttentionOutput(nn.Linear(2, 2), nn.LayerNorm(2)), False),
    ("bottleneck.attention", nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), False),
    ("block.attn", nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), True),
    ("block.x", nn.MultiheadAttention(4, 2), True),
    ("attn.drop", nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), False),
    ("block.attn_norm", nn.LayerNorm(2), False),
    ("block.attn_drop", nn.Dropout(), False),
    ("block.mlp", nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), False),
])  # fmt: skip
def test_a_norm_or_a_dropout_of_attention_is_none(name, module, like):
    assert is_attention_like(name, module) is like


def test_the_innermost_is_named_and_not_what_holds_it_or_a_part_of_what_was_seen():
    inner = Block(nn.ModuleDict({"attention": HiddenAttention(), "self_attn": Plain()}))
    modules = {path or "Root": module for path, module in inner.named_modules()}
    assert unseen_names(modules, modules, ()) == ("attention.attention", "attention.self_attn")
    assert unseen_names(modules, modules, ["attention.self_attn"]) == ("attention.attention",)
    assert unseen_names(modules, modules, ["attention"]) == ()

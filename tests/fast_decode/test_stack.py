"""A model has a stack by the names of its parts; its class is not asked for."""

import pytest
import torch
from torch import nn

from regard.fast_decode.stack import find_stack, has_plain_attention
from regard.layers.blocks import EncoderBlock
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.transformer import Attention, Transformer, TransformerConfig

SMALL = {"vocabulary": 11, "width": 8, "heads": 2, "layers": 2, "feed_forward_width": 12}


def test_a_transformer_has_its_own_blocks_and_weights():
    model = Transformer(TransformerConfig(**SMALL)).eval()
    stack = find_stack(model)
    assert stack.decoder == tuple(model.decoder.blocks) and len(stack.encoder) == 2
    assert stack.out is model.out and stack.target is model.target
    assert stack.embedding_scale == 8**0.5 and stack.has_plain_attention


def test_another_class_with_the_same_parts_has_a_stack_too():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            inside = Transformer(TransformerConfig(**SMALL)).eval()
            self.encoder, self.decoder = inside.encoder, inside.decoder
            self.out, self.target, self.positions = inside.out, inside.target, inside.positions
            self.embedding_scale = inside.embedding_scale
            self.embed_source, self.embed = inside.embed_source, inside.embed

    assert find_stack(Mine()) is not None


@pytest.mark.parametrize(
    "model", [nn.Linear(2, 2), DecoderOnly(DecoderOnlyConfig(**SMALL)), object()]
)
def test_what_is_built_otherwise_has_none(model):
    assert find_stack(model) is None


def test_attention_is_plain_while_it_is_scaled_dot_and_does_not_train():
    block = EncoderBlock(8, 2, 12)
    assert not has_plain_attention((block,)) and has_plain_attention((block.eval(),))
    other = find_stack(
        Transformer(TransformerConfig(**SMALL, decoder=Attention("additive"))).eval()
    )
    assert not other.has_plain_attention
    assert torch.is_grad_enabled()

"""The fastest decoder is chosen by what a model is made of and where its weights lie."""

import torch

from regard import look, use_backend
from regard.fast_decode import fast_decoder
from regard.fast_decode.cpu import CpuDecoder
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.transformer import Attention, Transformer, TransformerConfig

SMALL = {"vocabulary": 11, "width": 8, "heads": 2, "layers": 1, "feed_forward_width": 12}


def made(**fields):
    return Transformer(TransformerConfig(**SMALL, **fields)).eval().requires_grad_(False)


def test_a_cpu_takes_few_operations_for_plain_attention():
    assert isinstance(fast_decoder(made()), CpuDecoder)


def test_static_shapes_on_a_cpu_are_for_the_model_itself():
    model = made()
    assert fast_decoder(model, static=True) is model


def test_other_models_and_scores_decode_by_themselves():
    for model in (
        made(decoder=Attention("additive")),
        DecoderOnly(DecoderOnlyConfig(**SMALL)),
        object(),
    ):
        assert fast_decoder(model) is model


def test_who_observes_or_trains_gets_the_model_itself():
    model = made()
    with look():
        assert fast_decoder(model) is model
    with use_backend("reference"):
        assert fast_decoder(model) is model
    assert fast_decoder(model.train()) is model
    model.eval().requires_grad_(True)
    assert fast_decoder(model) is model
    with torch.no_grad():
        assert fast_decoder(model) is not model

"""The fastest decoder is found inside the wrappers of decoding too."""

import torch

from regard.decode import CudaGraphCache, ForcedPrefix, ProgressReporter
from regard.decode.fast import decoder_of
from regard.fast_decode.cpu import CpuDecoder
from regard.models.transformer import Transformer, TransformerConfig

SMALL = {"vocabulary": 11, "width": 8, "heads": 2, "layers": 1, "feed_forward_width": 12}


@torch.no_grad()
def test_a_wrapper_stays_around_the_fast_decoder():
    model = Transformer(TransformerConfig(**SMALL)).eval()
    wrapped = ForcedPrefix(ProgressReporter(model, lambda *given: None), [[3]])
    found = decoder_of(wrapped, static=False)
    assert isinstance(found, ForcedPrefix) and found.prefixes == [[3]]
    assert isinstance(found.model, ProgressReporter)
    assert isinstance(found.model.model, CpuDecoder) and found.model.model.model is model
    assert wrapped.model.model is model


@torch.no_grad()
def test_what_remembers_graphs_is_asked_for_its_model():
    model = Transformer(TransformerConfig(**SMALL)).eval()
    assert decoder_of(CudaGraphCache(model), static=True) is model

"""Models of x-transformers, tiny and random."""

from importlib.util import find_spec

import pytest
import torch

MODELS = {
    "with flash": {"attn_flash": True},
    "without flash": {},
    "with ALiBi": {"alibi_pos_bias": True},
    "with query-key norm": {"attn_qk_norm": True},
    "with sinks and grouped heads": {"attn_head_learned_sink": True, "attn_kv_heads": 2},
}


def create(name: str, **options: bool) -> tuple[torch.nn.Module, torch.Tensor]:
    """A model, the same weights each time, and tokens for it."""
    if find_spec("x_transformers") is None:
        pytest.skip("x-transformers is not installed: `make test` installs it without torch")
    from x_transformers import Decoder, TransformerWrapper

    torch.manual_seed(0)
    layers = Decoder(dim=16, depth=2, heads=4, attn_dim_head=4, **MODELS[name] | options)
    model = TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers)
    return model.eval(), torch.randint(0, 50, (2, 7))

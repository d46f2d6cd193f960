"""Small models of Hugging Face with random weights, and what they say of their own attention."""

from typing import Any

import pytest
import torch
from torch import Tensor

NAMES = {"llama": "Llama", "mistral": "Mistral", "gemma3": "Gemma3", "gpt2": "GPT2"}
_WORDS = {"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 59}
_LAYERS = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
_DECODER = _WORDS | _LAYERS | {"num_key_value_heads": 2}
_PAIR = _WORDS | {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
_SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]


def make(name: str) -> Any:
    """A small model by a short name, whose attention is not even."""
    hub = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if name == "llama":
        model = hub.LlamaForCausalLM(hub.LlamaConfig(**_DECODER))
    elif name == "mistral":
        model = hub.MistralForCausalLM(hub.MistralConfig(**_DECODER, sliding_window=8))
    elif name == "gemma3":
        config = hub.Gemma3TextConfig(
            **_DECODER, head_dim=8, sliding_window=8, layer_types=_SLIDING
        )
        model = hub.Gemma3ForCausalLM(config)
    elif name == "gpt2":
        config = hub.GPT2Config(**_WORDS, n_embd=32, n_layer=3, n_head=4, n_positions=64)
        model = hub.GPT2LMHeadModel(config)
    elif name == "t5":
        config = hub.T5Config(
            **_WORDS,
            d_model=32,
            d_kv=8,
            d_ff=40,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        )
        model = hub.T5ForConditionalGeneration(config)
    elif name == "bart":
        model = hub.BartForConditionalGeneration(hub.BartConfig(**_PAIR))
    elif name == "marian":
        model = hub.MarianMTModel(hub.MarianConfig(**_PAIR))
    else:
        assert name == "albert"
        config = _LAYERS | {"vocab_size": 60, "embedding_size": 16, "num_hidden_layers": 4}
        model = hub.AlbertModel(hub.AlbertConfig(**config))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data *= 2
    return model.eval()


def words(length: int) -> Tensor:
    """Two rows of words, of which none is special."""
    return torch.randint(2, 58, (2, length))


def settings(*, new: int) -> dict[str, Any]:
    """For `generate`: so many new words, drawn."""
    return {"max_new_tokens": new, "min_new_tokens": new, "do_sample": True}


def beams(returned: int, *, new: int) -> dict[str, Any]:
    """For `generate`: four beams, and by which rows of the batch the returned ones came."""
    return {
        "max_new_tokens": new,
        "num_beams": 4,
        "num_return_sequences": returned,
        "do_sample": False,
        "output_scores": True,
        "return_dict_in_generate": True,
    }


@torch.no_grad()
def eager(model: Any, tokens: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
    """The attentions of each layer, all at once, as the model itself says them."""
    model.set_attn_implementation("eager")
    given = {"attention_mask": mask, "output_attentions": True}
    if model.config.model_type != "albert":
        given["use_cache"] = False
    return model(tokens, **given).attentions


@torch.no_grad()
def eager_decoder(
    model: Any, tokens: Tensor, target: Tensor, mask: Tensor
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Those of a decoder to itself and to the memory."""
    model.set_attn_implementation("eager")
    found = model(
        tokens,
        attention_mask=mask.repeat_interleave(len(tokens) // len(mask), 0),
        decoder_input_ids=target,
        output_attentions=True,
        use_cache=False,
    )
    return found.decoder_attentions, found.cross_attentions

"""Models of transformers, tiny and random, each with what it is called with."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

TEXT = {"vocab_size": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SMALL = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2}
WIDE = {**TEXT, **SMALL, "intermediate_size": 24}
GROUPED = {**WIDE, "num_key_value_heads": 2, "head_dim": 4}
DECODERS = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "d_model": 16,
}  # fmt: skip
IMAGE = {**SMALL, "intermediate_size": 24, "image_size": 8, "patch_size": 4}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}


@dataclass(frozen=True)
class Foreign:
    """One model of transformers.

    Args:
        build: the class of the model, by name.
        config: the fields of its config.
        given: what it is called with, drawn anew.
        way: how it attends.
    """

    build: str
    config: dict[str, Any]
    given: Callable[[], dict[str, Any]]
    way: str = "sdpa"

    def model(self, way: str | None = None) -> torch.nn.Module:
        """The model, the same weights each time."""
        import transformers

        torch.manual_seed(0)
        kind = getattr(transformers, self.build)
        config = kind.config_class(**deepcopy(self.config))
        return kind._from_config(config, attn_implementation=way or self.way).eval()


def padded() -> dict[str, Any]:
    """Tokens of two sentences, of which one is padded."""
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    ids = torch.randint(3, 50, (2, 8)).masked_fill(mask == 0, 0)
    return {"input_ids": ids, "attention_mask": mask}


def both() -> dict[str, Any]:
    """Tokens for an encoder and a decoder."""
    return {**padded(), "decoder_input_ids": torch.randint(3, 50, (2, 6))}


def image() -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 8, 8)}


def window() -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 16, 16)}


def sound() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 400)}


def speech() -> dict[str, Any]:
    return {
        "input_features": torch.randn(2, 8, 20),
        "decoder_input_ids": torch.randint(3, 50, (2, 6)),
    }


def pictured() -> dict[str, Any]:
    ids = torch.randint(3, 50, (2, 6))
    ids[:, -1] = 2
    return {"input_ids": ids, "pixel_values": torch.randn(2, 3, 8, 8)}


def long() -> dict[str, Any]:
    everywhere = torch.zeros(2, 8).long()
    everywhere[:, 0] = 1
    return {**padded(), "global_attention_mask": everywhere}


GPT_NEO = {**TEXT, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "window_size": 3}
GPT_NEO |= {"attention_types": [[["global", "local"], 1]], "max_position_embeddings": 32}
DEEPSEEK = {**WIDE, "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
DEEPSEEK |= {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4}
DEEPSEEK |= {"v_head_dim": 4, "n_group": 1, "topk_group": 1, "num_key_value_heads": 4}
DEBERTA = {**WIDE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
DEBERTA |= {"position_buckets": 4, "max_position_embeddings": 32}
SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4]}
WHISPER = {**TEXT, **DECODERS, "num_mel_bins": 8, "max_source_positions": 10}
WHISPER |= {"max_target_positions": 12, "decoder_start_token_id": 1}
WAV2VEC2 = {**WIDE, "conv_dim": [8, 8], "conv_stride": [5, 4], "conv_kernel": [5, 4]}
WAV2VEC2 |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4}
WAV2VEC2 |= {"num_conv_pos_embedding_groups": 2, "conv_bias": False}
CLIP = {"text_config": {**WIDE, "max_position_embeddings": 16}, "vision_config": IMAGE}
DISTILBERT = {**TEXT, "dim": 16, "n_heads": 4, "n_layers": 2, "hidden_dim": 24}
BLOOM = {**TEXT, "hidden_size": 16, "n_head": 4, "n_layer": 2}
GPT2 = {**TEXT, "n_embd": 16, "n_head": 4, "n_layer": 2}
T5 = {**TEXT, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
LONGFORMER = {**WIDE, "attention_window": [4, 4], "max_position_embeddings": 32}
FALCON = {**TEXT, **SMALL, "alibi": True}
MODERNBERT = {**WIDE, "local_attention": 4, "global_attn_every_n_layers": 2}
MODERNBERT |= {"cls_token_id": 1, "sep_token_id": 2}
WINDOWED = {**GROUPED, "sliding_window": 4}

MODELS = {
    "BERT": Foreign("BertModel", WIDE, padded),
    "RoBERTa": Foreign("RobertaModel", {**WIDE, "max_position_embeddings": 32}, padded),
    "DistilBERT": Foreign("DistilBertModel", DISTILBERT, padded),
    "ALBERT": Foreign("AlbertModel", {**WIDE, "embedding_size": 8}, padded),
    "ELECTRA": Foreign("ElectraModel", {**WIDE, "embedding_size": 8}, padded),
    "ModernBERT": Foreign("ModernBertModel", MODERNBERT, padded),
    "GPT-2": Foreign("GPT2Model", GPT2, padded),
    "GPT-NeoX": Foreign("GPTNeoXModel", WIDE, padded),
    "OPT": Foreign("OPTModel", {**WIDE, "ffn_dim": 24, "word_embed_proj_dim": 16}, padded),
    "Falcon (ALiBi)": Foreign("FalconModel", FALCON, padded),
    "Llama": Foreign("LlamaModel", GROUPED, padded),
    "Mistral": Foreign("MistralModel", WINDOWED, padded),
    "Mixtral": Foreign("MixtralModel", {**GROUPED, **EXPERTS}, padded),
    "Qwen2": Foreign("Qwen2Model", GROUPED, padded),
    "Qwen3": Foreign("Qwen3Model", GROUPED, padded),
    "Gemma3": Foreign("Gemma3TextModel", WINDOWED, padded),
    "Phi": Foreign("PhiModel", {**WIDE, "partial_rotary_factor": 0.5}, padded),
    "DeepSeek-V2": Foreign("DeepseekV2Model", DEEPSEEK, padded),
    "T5": Foreign("T5Model", T5, both),
    "BART": Foreign("BartModel", {**TEXT, **DECODERS}, both),
    "Marian": Foreign("MarianModel", {**TEXT, **DECODERS, "decoder_start_token_id": 1}, both),
    "Whisper": Foreign("WhisperModel", WHISPER, speech),
    "ViT": Foreign("ViTModel", IMAGE, image),
    "DINOv2": Foreign("Dinov2Model", IMAGE, image),
    "Swin": Foreign("SwinModel", {**SWIN, "window_size": 2}, window),
    "CLIP": Foreign("CLIPModel", CLIP, pictured),
    "Wav2Vec2": Foreign("Wav2Vec2Model", WAV2VEC2, sound),
    "DeBERTa-v2": Foreign("DebertaV2Model", DEBERTA, padded, "eager"),
    "MPNet": Foreign("MPNetModel", {**WIDE, "max_position_embeddings": 32}, padded, "eager"),
    "Longformer": Foreign("LongformerModel", LONGFORMER, long, "eager"),
    "GPT-Neo": Foreign("GPTNeoModel", GPT_NEO, padded, "eager"),
    "Bloom": Foreign("BloomModel", BLOOM, padded, "eager"),
    "Gemma2": Foreign("Gemma2Model", {**WINDOWED, "query_pre_attn_scalar": 4}, padded, "eager"),
    "GPT-OSS": Foreign("GptOssModel", {**WINDOWED, **EXPERTS}, padded, "eager"),
    "Llama (eager)": Foreign("LlamaModel", GROUPED, padded, "eager"),
    "Llama (flex)": Foreign("LlamaModel", GROUPED, padded, "flex_attention"),
}

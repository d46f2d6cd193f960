"""The attention model of Kool et al. 2019 for tours, as its authors published it.

Their checkpoints, as safetensors with the options as JSON beside them, into our `AttentionPointer`.
"""

import json
from pathlib import Path

from torch import Tensor

from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig

# Whole tensors by their names in the paper's code, and in ours.
TENSOR_NAMES = {
    "init_embed.weight": "embed.weight",
    "init_embed.bias": "embed.bias",
    "W_placeholder": "decoder.placeholder",
    "project_node_embeddings.weight": "decoder.nodes.weight",
    "project_fixed_context.weight": "decoder.fixed.weight",
    "project_step_context.weight": "decoder.context.weight",
    "project_out.weight": "decoder.out.weight",
}
# The same within a layer.
LAYER_TENSOR_NAMES = {
    "2.module.0.weight": "feed_forward.inner.weight",
    "2.module.0.bias": "feed_forward.inner.bias",
    "2.module.2.weight": "feed_forward.out.weight",
    "2.module.2.bias": "feed_forward.out.bias",
}
NORM_MODULES = {"1": "self_attention_norm", "3": "feed_forward_norm"}
NORM_TENSOR_NAMES = {
    "weight": "weight",
    "bias": "bias",
    "running_mean": "mean",
    "running_var": "variance",
}
# What each head is projected by (H, E, D), one head after the other.
HEAD_PROJECTIONS = {"W_query": "query", "W_key": "key", "W_val": "value"}


def config_from_options(options: dict[str, object]) -> AttentionPointerConfig:
    """How a model of these options is built.

    Raises:
        ValueError: it is no attention model for tours, or made alike in a way that ours is not.
    """
    wanted = {"problem": "tsp", "model": "attention", "normalization": "batch"}
    for name, value in wanted.items():
        if options.get(name) != value:
            raise ValueError(f"kool: expected {name} {value!r}, got {options.get(name)!r}")
    # the number of heads, and how wide feed-forward layers are, is no option there
    return AttentionPointerConfig(
        width=int(str(options["embedding_dim"])),
        layers=int(str(options["n_encode_layers"])),
        clip=float(str(options["tanh_clipping"])),
        norm="batch",
    )


def convert_state_dict(state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors by our names, those of the heads as one matrix."""
    ours = {mine: state_dict[name] for name, mine in TENSOR_NAMES.items()}
    layers = sorted(
        {name.split(".")[2] for name in state_dict if name.startswith("embedder.layers.")}
    )
    for layer in layers:
        there, here = f"embedder.layers.{layer}.", f"blocks.{layer}."
        ours |= {here + mine: state_dict[there + name] for name, mine in LAYER_TENSOR_NAMES.items()}
        for place, norm in NORM_MODULES.items():
            for name, mine in NORM_TENSOR_NAMES.items():
                ours[f"{here}{norm}.{mine}"] = state_dict[f"{there}{place}.normalizer.{name}"]
        for name, mine in HEAD_PROJECTIONS.items():
            weight = state_dict[f"{there}0.module.{name}"]  # (H, E, D)
            ours[f"{here}self_attention.{mine}.weight"] = weight.mT.flatten(0, 1).contiguous()
        out = state_dict[f"{there}0.module.W_out"]  # (H, D, E)
        ours[f"{here}self_attention.out.weight"] = out.flatten(0, 1).mT.contiguous()
    return ours


def load_model(weights: Path, options: Path) -> AttentionPointer:
    """The model in these two files, ready to be asked."""
    from safetensors.torch import load_file

    model = AttentionPointer(config_from_options(json.loads(options.read_text(encoding="utf-8"))))
    model.load_state_dict(convert_state_dict(load_file(weights)))
    return model.eval()

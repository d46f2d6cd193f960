"""The attention model of Kool et al. 2019 for tours, as its authors published it.

Their checkpoints, as safetensors with the options as JSON beside them, into our `AttentionPointer`.
"""

import json
from pathlib import Path

from torch import Tensor

from regard.models.attention_pointer import AttentionPointer, AttentionPointerConfig

# Whole tensors by their names in the paper's code, and in ours.
NAMES = {
    "init_embed.weight": "embed.weight",
    "init_embed.bias": "embed.bias",
    "W_placeholder": "touring.begin",
    "project_node_embeddings.weight": "touring.nodes.weight",
    "project_fixed_context.weight": "touring.fixed.weight",
    "project_step_context.weight": "touring.context.weight",
    "project_out.weight": "touring.out.weight",
}
# The same within a layer.
LAYER = {
    "2.module.0.weight": "think.inner.weight",
    "2.module.0.bias": "think.inner.bias",
    "2.module.2.weight": "think.out.weight",
    "2.module.2.bias": "think.out.bias",
}
NORMS = {"1": "own_norm", "3": "think_norm"}
NORM = {"weight": "weight", "bias": "bias", "running_mean": "mean", "running_var": "variance"}
# What each head is projected by (H, E, D), one head after the other.
HEADS = {"W_query": "query", "W_key": "key", "W_val": "value"}


def config(options: dict[str, object]) -> AttentionPointerConfig:
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


def renamed(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors by our names, those of the heads as one matrix."""
    ours = {mine: theirs[name] for name, mine in NAMES.items()}
    layers = sorted({name.split(".")[2] for name in theirs if name.startswith("embedder.layers.")})
    for layer in layers:
        there, here = f"embedder.layers.{layer}.", f"blocks.{layer}."
        ours |= {here + mine: theirs[there + name] for name, mine in LAYER.items()}
        for place, norm in NORMS.items():
            for name, mine in NORM.items():
                ours[f"{here}{norm}.{mine}"] = theirs[f"{there}{place}.normalizer.{name}"]
        for name, mine in HEADS.items():
            weight = theirs[f"{there}0.module.{name}"]  # (H, E, D)
            ours[f"{here}own.{mine}.weight"] = weight.mT.flatten(0, 1).contiguous()
        out = theirs[f"{there}0.module.W_out"]  # (H, D, E)
        ours[f"{here}own.out.weight"] = out.flatten(0, 1).mT.contiguous()
    return ours


def loaded(weights: Path, options: Path) -> AttentionPointer:
    """The model in these two files, ready to be asked."""
    from safetensors.torch import load_file

    model = AttentionPointer(config(json.loads(options.read_text(encoding="utf-8"))))
    model.load_state_dict(renamed(load_file(weights)))
    return model.eval()

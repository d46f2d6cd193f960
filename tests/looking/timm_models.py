"""Models of timm, tiny and random, each with the size of its image."""

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

VIT = {"patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 4}
MAXVIT = {"embed_dim": (16, 16, 32, 32), "depths": (1, 1, 1, 1), "stem_width": (8, 8)}
MAXVIT |= {"transformer_dim_head": 8}
PYRAMID = {"depths": (1, 1, 1, 1), "num_heads": (1, 2, 2, 4)}
LEVIT = {"embed_dim": (16, 16, 32), "num_heads": (2, 2, 4), "depth": (1, 1, 1), "key_dim": 8}
STAGES = {"depths": (1, 1), "num_heads": (2, 4)}

MODELS = {
    "vit": ("vit_tiny_patch16_224", 8, VIT),
    "deit3": ("deit3_small_patch16_224", 8, VIT),
    "beit": ("beit_base_patch16_224", 8, VIT),
    "eva02": ("eva02_tiny_patch14_224", 8, VIT),
    "maxvit": ("maxvit_rmlp_pico_rw_256", 64, MAXVIT),
    "pvt_v2": ("pvt_v2_b0", 64, {**PYRAMID, "embed_dims": (8, 8, 16, 16)}),
    "mobilevit": ("mobilevit_xxs", 64, {}),
    "twins": ("twins_svt_small", 32, {**PYRAMID, "embed_dims": [8, 8, 16, 16]}),
    "siglip": ("vit_base_patch16_siglip_224", 8, VIT),
    "naflexvit": ("naflexvit_base_patch16_gap", 8, VIT),
    "swin": ("swin_tiny_patch4_window7_224", 32, {"window_size": 4, "embed_dim": 8, **STAGES}),
    "swinv2": ("swinv2_tiny_window8_256", 32, {"window_size": 4, "embed_dim": 8, **STAGES}),
    "levit": ("levit_128s", 64, LEVIT),
    "levit (convolutions)": ("levit_conv_128s", 64, LEVIT),
    "cait": ("cait_xxs24_224", 32, {"embed_dim": 16, "depth": 2, "num_heads": 4}),
}
# No softmax of theirs goes from queries to keys.
OTHERS = {
    "CoaT": ("coat_tiny", 32, {"serial_depths": (1, 1, 1, 1), "parallel_depth": 0}),
    "XCiT": ("xcit_nano_12_p16_224", 32, {"embed_dim": 16, "depth": 2, "num_heads": 4}),
}


class _Anything(type):
    def __getattr__(cls, name: str) -> "_Anything":
        return _Anything(name, (torch.nn.Module,), {})

    def __iter__(cls):
        return iter(())


class _Stub(ModuleType):
    __path__ = ()

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (torch.nn.Module,), {})


@contextmanager
def without_torchvision():
    """Inside, torchvision is a stub: timm's models import it, and do not need it."""
    parts = "models models.feature_extraction ops ops.misc transforms transforms.functional"
    parts += " datasets utils"
    names = ["torchvision", *(f"torchvision.{part}" for part in parts.split())]
    stubs = {name: _Stub(name) for name in names if name not in sys.modules}
    sys.modules |= stubs
    try:
        yield
    finally:
        for name in stubs:
            del sys.modules[name]


def create(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """A model, the same weights each time, and images for it."""
    if find_spec("timm") is None:
        pytest.skip("timm is not installed: `make test` installs it beside torch alone")
    with without_torchvision():
        timm = import_module("timm")
    build, side, options = (MODELS | OTHERS)[name]
    torch.manual_seed(0)
    if "patch_size" not in options or name == "cait":
        options = {"img_size": side, **options} if _sized(build) else options
    else:
        options = {"img_size": side, **options}
    model = timm.create_model(build, **options).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)  # some begin as zeros, and hide what is read
    return model, torch.randn(2, 3, side, side)


def _sized(build: str) -> bool:
    return not build.startswith(("mobilevit", "twins", "pvt", "xcit", "naflex"))

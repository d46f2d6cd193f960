"""The same Neural Turing Machine as an eager loop over steps: what `benchmarks.ntm` races with.

Plain PyTorch, all rows and heads of a batch at once, as one would write it: nothing is fused or
made ahead, and autograd follows every operation.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.ntm import NTM

TINY = 1e-16


def said(model: NTM, inputs: Tensor) -> Tensor:
    """What a machine with an LSTM says at each step (B, T, O)."""
    c, state = model.config, model.start(len(inputs))
    (h, cell), read, w, memory = state
    H, W, R = c.read_heads + c.write_heads, c.slot_width, c.read_heads
    sizes = [H * W, c.write_heads * W, c.write_heads * W, H, H, H, H * c.shifts]
    outputs = []
    for x in inputs.unbind(1):
        h, cell = model.controller(torch.cat([x, read.flatten(1)], 1), (h, cell))
        told = model.heads.head_parameters(h).split(sizes, 1)
        key = torch.tanh(told[0]).view(-1, H, 1, W)
        add, erase = torch.tanh(told[1]).view(-1, c.write_heads, W), torch.sigmoid(told[2])
        erase = erase.view(-1, c.write_heads, W)
        gate, strength = torch.sigmoid(told[3])[..., None], F.softplus(told[4])[..., None]
        sharp, shift = 1 + F.softplus(told[5])[..., None], told[6].view(-1, H, c.shifts)
        shift = torch.softmax(shift, -1)
        # by content, between there and where it was, around, sharper
        content = F.cosine_similarity(memory[:, None] + TINY, key + TINY, dim=-1)
        w = gate * torch.softmax(strength * content, -1) + (1 - gate) * w
        half = c.shifts // 2
        w = sum(torch.roll(w, j - half, -1) * shift[..., j : j + 1] for j in range(c.shifts))
        w = (w + TINY) ** sharp
        w = w / (w.sum(-1, keepdim=True) + TINY)
        for i in range(c.write_heads):
            place = w[:, R + i, :, None]
            memory = memory * (1 - place * erase[:, i, None]) + place * add[:, i, None]
        read = w[:, :R] @ memory
        outputs.append(model.out(torch.cat([read.flatten(1), h], 1)))
    return torch.stack(outputs, 1)

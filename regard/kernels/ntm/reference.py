"""A machine's steps in few operations, forward and backward, one after the other.

The twin is the loop of `regard.models.ntm`; the algebra is in docs/kernels.md. Slots come last
here, memory is (B, W, N): what is done to a slot's numbers is then done to many slots at once.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.ntm.types import MachineState, Sizes, Weights

# The square of the length up to which a vector has no direction: `functional.scores.Cosine` gives
# one to all but zeros, at the cost of two more passes.
MIN_SQUARED_NORM = 1e-30


class StepActivations(NamedTuple):
    """What a step leaves for the way back."""

    gates: Tensor  # (B, Z): after their bends
    tanh_cell: Tensor  # (B, C): tanh of the cell, or of nothing
    head_parameters: Tensor  # (B, P): after their bends
    cosine: Tensor  # (B, H, N)
    content: Tensor  # (B, H, N)
    gated: Tensor  # (B, H, N)
    shifted: Tensor  # (B, H, N), at least the smallest number


def forward_step(
    projected_input: Tensor, before: MachineState, weights: Weights, sizes: Sizes
) -> tuple[MachineState, StepActivations]:
    """One step: where a machine is after its inputs, multiplied already (B, Z)."""
    z = torch.addmm(projected_input, before.read.flatten(1), weights.read.mT)
    hidden, cell, gates, bent = _controller_step(z, before, weights)
    orders = _activate_head_parameters(
        torch.addmm(weights.bias, hidden, weights.to_heads.mT), sizes
    )
    key, add, erase, gate, strength, sharpness, shift = sizes.split_head_parameters(orders)
    cosine = _cosine_similarity(key, before.memory)
    content = torch.softmax(strength[..., None] * cosine, -1)
    gated = torch.lerp(before.weights, content, gate[..., None])
    shifted = _circular_shift(gated, shift).clamp_min_(torch.finfo(gated.dtype).tiny)
    places = torch.softmax(shifted.log().mul_(sharpness[..., None]), -1)
    reading, writing = places.split([sizes.reads, sizes.writes], 1)
    memory = before.memory * _erase_factor(erase, writing)
    memory = torch.baddbmm(memory, add.mT, writing)
    read = torch.bmm(reading, memory.mT)
    after = MachineState(hidden, cell, read, places, memory)
    return after, StepActivations(gates, bent, orders, cosine, content, gated, shifted)


def backward_step(
    grad: MachineState,
    before: MachineState,
    after: MachineState,
    activations: StepActivations,
    weights: Weights,
    sizes: Sizes,
) -> tuple[MachineState, Tensor, Tensor]:
    """One step back: what its beginning gains, and its gates (B, Z) and orders (B, P) do."""
    key, add, erase, gate, strength, sharpness, shift = sizes.split_head_parameters(
        activations.head_parameters
    )
    reading, writing = after.weights.split([sizes.reads, sizes.writes], 1)
    dM = torch.baddbmm(grad.memory, grad.read.mT, reading)
    dreading = torch.bmm(grad.read, after.memory)
    dwriting = torch.bmm(add, dM)
    dadd = torch.bmm(writing, dM.mT)
    dM, derase, derased = _write_backward(dM, before.memory, erase, writing)
    dplaces = torch.cat([dreading, dwriting + derased], 1) + grad.weights
    # sharpening
    a = _softmax_backward(after.weights, dplaces)
    dsharpness = (a * activations.shifted.log()).sum(-1)
    dshifted = a * sharpness[..., None] / activations.shifted
    # shift
    dgated, dshift = _circular_shift_backward(dshifted, activations.gated, shift)
    dgate = (dgated * (activations.content - before.weights)).sum(-1)
    dcontent = dgated * gate[..., None]
    dbefore = dgated - dcontent
    # content
    dscore = _softmax_backward(activations.content, dcontent)
    dstrength = (dscore * activations.cosine).sum(-1)
    dkey, dM = _cosine_backward(
        dscore * strength[..., None], activations.cosine, key, before.memory, dM
    )
    dshift = _softmax_backward(shift, dshift)
    dorders = torch.cat(
        [
            (dkey * (1 - key * key)).flatten(1),
            (dadd * (1 - add * add)).flatten(1),
            (derase * erase * (1 - erase)).flatten(1),
            dgate * gate * (1 - gate),
            # the slope of softplus, from its value
            -dstrength * torch.expm1(-strength),
            -dsharpness * torch.expm1(1 - sharpness),
            dshift.flatten(1),
        ],
        1,
    )
    dhidden = torch.addmm(grad.hidden, dorders, weights.to_heads)
    dz, dcell = _controller_backward(dhidden, grad.cell, before, activations)
    dread = torch.mm(dz, weights.read).view_as(grad.read)
    dhidden = torch.mm(dz, weights.hidden) if weights.hidden is not None else dhidden * 0
    return MachineState(dhidden, dcell, dread, dbefore, dM), dz, dorders


def _controller_step(
    z: Tensor, before: MachineState, weights: Weights
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if weights.hidden is None:
        hidden = torch.tanh(z)
        return hidden, before.cell, hidden, before.cell
    z = torch.addmm(z, before.hidden, weights.hidden.mT)
    into, keep, new, out = z.chunk(4, 1)
    gates = torch.cat([torch.sigmoid(z[:, : 2 * new.shape[1]]), new.tanh(), out.sigmoid()], 1)
    into, keep, new, out = gates.chunk(4, 1)
    cell = torch.addcmul(into * new, keep, before.cell)
    bent = torch.tanh(cell)
    return out * bent, cell, gates, bent


def _controller_backward(
    dhidden: Tensor, dcell: Tensor, before: MachineState, activations: StepActivations
) -> tuple[Tensor, Tensor]:
    if activations.tanh_cell.shape[1] == 0:
        return dhidden * (1 - activations.gates * activations.gates), dcell
    into, keep, new, out = activations.gates.chunk(4, 1)
    dcell = torch.addcmul(dcell, dhidden * out, 1 - activations.tanh_cell * activations.tanh_cell)
    dz = torch.cat(
        [
            dcell * new * into * (1 - into),
            dcell * before.cell * keep * (1 - keep),
            dcell * into * (1 - new * new),
            dhidden * activations.tanh_cell * out * (1 - out),
        ],
        1,
    )
    return dz, dcell * keep


def _activate_head_parameters(head_parameters: Tensor, sizes: Sizes) -> Tensor:
    tanh, sigmoid, softplus, softmax = head_parameters.split(sizes.activation_sizes, 1)
    positive = torch.nn.functional.softplus(softplus)
    positive[:, sizes.heads :] += 1
    shift = torch.softmax(softmax.view(-1, sizes.heads, sizes.shifts), -1)
    return torch.cat([tanh.tanh(), sigmoid.sigmoid(), positive, shift.flatten(1)], 1)


def _cosine_similarity(key: Tensor, memory: Tensor) -> Tensor:
    product = torch.bmm(_inverse_norm(key, 2) * key, memory)
    return product * _inverse_norm(memory, 1)


def _inverse_norm(x: Tensor, axis: int) -> Tensor:
    """One over the length of vectors along an axis; 0 for one of zeros."""
    squared = (x * x).sum(axis, keepdim=True)
    return squared.masked_fill_(squared < MIN_SQUARED_NORM, torch.inf).rsqrt_()


def _circular_shift(weights: Tensor, shift: Tensor) -> Tensor:
    S = shift.shape[-1]
    found = weights * shift[..., S // 2, None]
    for j in range(S):
        if j != S // 2:
            found = torch.addcmul(found, torch.roll(weights, j - S // 2, -1), shift[..., j, None])
    return found


def _circular_shift_backward(grad: Tensor, weights: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    S = shift.shape[-1]
    rolled = [torch.roll(grad, S // 2 - j, -1) if j != S // 2 else grad for j in range(S)]
    found = rolled[0] * shift[..., 0, None]
    for j in range(1, S):
        found = torch.addcmul(found, rolled[j], shift[..., j, None])
    return found, torch.stack([(each * weights).sum(-1) for each in rolled], -1)


def _erase_factor(erase: Tensor, writing: Tensor) -> Tensor:
    """What the heads leave of each number (B, W, N)."""
    if writing.shape[1] == 1:
        one = writing.new_ones(())
        return torch.baddbmm(one, erase.mT, writing, alpha=-1)
    return (1 - erase[..., None] * writing[:, :, None]).prod(1)


def _write_backward(
    dM: Tensor, memory: Tensor, erase: Tensor, writing: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What the memory before, the erasing vectors and the writing weights gain."""
    lost = dM * memory
    if writing.shape[1] == 1:
        derase, dwriting = torch.bmm(writing, lost.mT), torch.bmm(erase, lost)
        return dM * _erase_factor(erase, writing), -derase, -dwriting
    left = 1 - erase[..., None] * writing[:, :, None]  # (B, writes, W, N)
    # a product of all heads but one, without dividing by what may be zero
    heads = range(left.shape[1])
    others = [left[:, [i for i in heads if i != h]].prod(1) for h in heads]
    each = torch.stack(others, 1) * lost[:, None]
    derase = -(each * writing[:, :, None]).sum(-1)
    return dM * (others[0] * left[:, 0]), derase, -(each * erase[..., None]).sum(2)


def _softmax_backward(probabilities: Tensor, grad: Tensor) -> Tensor:
    """What the scores of a softmax gain."""
    product = probabilities * grad
    return torch.addcmul(product, probabilities, product.sum(-1, keepdim=True), value=-1)


def _cosine_backward(
    grad: Tensor, cosine: Tensor, key: Tensor, memory: Tensor, dM: Tensor
) -> tuple[Tensor, Tensor]:
    """What keys and memory gain of their cosines, the latter on top of `dM`."""
    of_key, of_slot = _inverse_norm(key, 2), _inverse_norm(memory, 1)
    along = grad * cosine
    scaled = grad * of_slot
    direction = key * of_key
    far = along.sum(-1, keepdim=True)
    dkey = of_key * (torch.bmm(scaled, memory.mT) - far * direction)
    near = along.sum(1, keepdim=True) * of_slot.square()
    dM = torch.baddbmm(dM, direction.mT, scaled)
    return dkey, torch.addcmul(dM, memory, near, value=-1)

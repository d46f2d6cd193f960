"""Masks that are large negative numbers: cells of other people's models that may not be seen.

Models mask with −inf, with the smallest number of a dtype, with −10⁹ or with −10⁴. The first is
known by itself; the others are told by how far they lie below the rest of their row.
"""

from dataclasses import replace

from torch import Tensor

from regard.functional.biases import DenseBias
from regard.functional.call import Call
from regard.functional.precision import to_float32

# −10⁴ is the smallest mask in use, 9984 in bfloat16; a learned bias or ALiBi stays far from it.
MASK_GAP = 9000.0


def with_model_mask(call: Call) -> Call:
    """The call with the mask that is in the bias of another's model, if it has one."""
    if not isinstance(call.bias, DenseBias):
        return call
    return replace(call, model_mask=visible_cells(call.bias.values))


def visible_cells(bias: Tensor, logits: Tensor | None = None) -> Tensor | None:
    """True where cells (…, K) may be seen, by what a model adds to their scores; None if unknown.

    Hidden is a cell at which the model adds `MASK_GAP` less than at the best place of its row, and
    of which it reads nothing. So nothing is hidden in a row of which all is masked alike.

    Args:
        bias: what is added; broadcasts to the cells.
        logits: what goes into the softmax, of the same shape, if it is formed.
    """
    if not bias.dim() or not bias.shape[-1]:
        return None
    bias = to_float32(bias.detach())
    # the difference of two equal numbers is exact, and one that overflows is infinite
    hidden = bias.amax(-1, keepdim=True) - bias >= MASK_GAP
    if logits is not None:
        hidden = hidden & (to_float32(logits.detach()).softmax(-1) == 0)
    return ~hidden

"""Fast decoding: objects with `start` and `step` that give a model's numbers in fewer steps."""

from regard.fast_decode.choose import fast_decoder
from regard.fast_decode.packed_linear import int8, packed
from regard.fast_decode.prepare import prepare_for_cpu_decode

__all__ = ["fast_decoder", "int8", "packed", "prepare_for_cpu_decode"]

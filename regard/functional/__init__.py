"""The mathematics of attention: tensors in, tensors out, no weights, no state, no dispatch."""

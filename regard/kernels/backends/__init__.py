"""The backends of attention other than the reference: SDPA, flex, chunked, Triton."""

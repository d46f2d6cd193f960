"""The kinds of PyTorch's functions that scores of attention come from and go through, by name."""

from typing import Any

# What a product goes through without being anything else, by the name of the function.
PASS_NAMES = """
    T add addcmul as_strided cat chunk clamp clamp_max clamp_min clip clone concat concatenate
    contiguous copy data detach diagonal div divide double dropout alpha_dropout expand
    expand_as fill fill_diagonal flatten flip float bfloat16 half gather getitem iadd imul
    index_fill index_select isub itruediv lerp linear conv2d mT masked_fill masked_scatter max
    maximum min minimum movedim mul multiply nan_to_num narrow neg pad permute pow radd relu
    repeat repeat_interleave reshape rmul roll rsub select setitem split square squeeze stack
    sub subtract swapaxes tanh to transpose tril triu true_divide truediv type type_as unbind
    unflatten unsqueeze view view_as where
"""
PRODUCT_NAMES = """
    addmm baddbmm bmm cdist einsum inner linalg_matmul matmul mm rmatmul tensordot
"""
PRODUCT_FUNCTIONS = frozenset(PRODUCT_NAMES.split())
PASS_FUNCTIONS = frozenset(PASS_NAMES.split())
PROJECTION_FUNCTIONS = frozenset(["linear", "conv1d", "conv2d"])

SUM_NAMES = frozenset(["add", "iadd", "radd", "sub", "isub", "rsub", "subtract"])
IN_PLACE_OPERATORS = frozenset(["iadd", "imul", "isub", "itruediv", "setitem"])
# The kinds of functions.
KIND_OTHER = 0
KIND_PASS = 1
KIND_PROJECTION = 2
KIND_PRODUCT = 3
KIND_SOFTMAX = 4


def kind_of(func: Any) -> tuple[int, str]:
    """The kind of a function and its name, without underscores."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", "")
    name = name.strip("_")
    kind = KIND_OTHER
    if name in ("softmax", "special_softmax"):
        kind = KIND_SOFTMAX
    elif name in PRODUCT_FUNCTIONS:
        kind = KIND_PRODUCT
    elif name in PROJECTION_FUNCTIONS:
        kind = KIND_PROJECTION
    elif name in PASS_FUNCTIONS:
        kind = KIND_PASS
    return kind, name


def is_in_place(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if a function writes into its first argument."""
    own = getattr(func, "__name__", "")
    is_inplace = own.endswith("_") and not own.endswith("__")
    is_inplace = is_inplace or name in IN_PLACE_OPERATORS or kwargs.get("out") is not None
    # dropout(input, p, training, inplace)
    asks = name in ("dropout", "alpha_dropout") and len(args) > 3 and args[3]
    return bool(is_inplace or asks or kwargs.get("inplace"))


def written_tensors(
    func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """The tensors that a function writes into: its `out`, or its first argument."""
    if kwargs.get("out") is not None:
        return [kwargs["out"]]
    if not is_in_place(func, name, args, kwargs):
        return []
    return [args[0] if args else kwargs["input"]]

"""Triton's interpreter looks once for what it replaces, not at every call inside a kernel."""

import importlib.util
import os

BUILTIN = {}


def remembered(interpreter):
    """Put a function that knows the names in the place of one that goes through all of them."""
    tl = interpreter.tl
    for pkg in (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base):
        BUILTIN[pkg] = [name for name in dir(pkg) if tl.core.is_builtin(getattr(pkg, name))]

    def _patch_builtin(pkg, builder, scope):
        for name in BUILTIN[pkg]:
            member = getattr(pkg, name)
            # what is replaced already is none of Triton's any more
            if tl.core.is_builtin(member):
                interpreter._patch_attr(pkg, name, member, builder, scope)

    interpreter._patch_builtin = _patch_builtin


if os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton"):
    from triton.runtime import interpreter

    remembered(interpreter)

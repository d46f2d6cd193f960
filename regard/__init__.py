"""Regard: the whole family of attention, working. Score, select, read, under a rule.

Importing the package loads nothing, so that `regard --help` answers at once: the first touch of a
public name brings in torch and all the rest, and puts the names here as ordinary attributes.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and mypy, who read and do not run
    from regard import layers, view
    from regard.dispatch import (
        attend,
        log_probability,
        logits,
        use_backend,
        weigh,
        why,
    )
    from regard.functional import biases, edits, rules, scores, selects
    from regard.looking import edit, look
    from regard.zoo import load

__version__ = "0.1.0"

__all__ = [
    "attend",
    "biases",
    "edit",
    "edits",
    "layers",
    "load",
    "log_probability",
    "logits",
    "look",
    "rules",
    "scores",
    "selects",
    "use_backend",
    "view",
    "weigh",
    "why",
]

# Where the public names live. `load` and `view` come alone: attending needs no zoo, no picture.
_MODULES = {
    "biases": "regard.functional.biases",
    "edits": "regard.functional.edits",
    "layers": "regard.layers",
    "rules": "regard.functional.rules",
    "scores": "regard.functional.scores",
    "selects": "regard.functional.selects",
}
_FUNCTIONS = {
    "regard.dispatch": ("attend", "log_probability", "logits", "use_backend", "weigh", "why"),
    "regard.looking": ("edit", "look"),
}


def __getattr__(name: str) -> Any:
    # Asked only for what is not here yet. torch.compile asks too, so a name may be first touched
    # inside a compiled function.
    if name == "load":
        globals()["load"] = import_module("regard.zoo").load
    elif name == "view":
        globals()["view"] = import_module("regard.view")
    elif name in __all__:
        for home, names in _FUNCTIONS.items():
            globals().update((each, getattr(import_module(home), each)) for each in names)
        globals().update((each, import_module(home)) for each, home in _MODULES.items())
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _ShortPathFinder:
    """Finds `regard.rules`, so that `from regard.rules import causal` works, in its one home."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, last = name.rpartition(".")
        here = package == __name__ and last in _MODULES
        return ModuleSpec(name, _ShortPathFinder) if here else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        # What stands in sys.modules afterwards is what was imported: the module itself, no copy.
        home = _MODULES[module.__name__.rpartition(".")[2]]
        sys.modules[module.__name__] = import_module(home)


# Last in line: only asked for what is not a file here.
sys.meta_path.append(_ShortPathFinder)

"""The trained models that come with the package, and any run's: `load`, `names`, `save`."""

from typing import TYPE_CHECKING, Any

from regard.zoo.catalogue import (
    card,
    describe_card,
    find_model_folder,
    licence,
    names,
    read_run_settings,
)

if TYPE_CHECKING:
    from regard.zoo.loader import Loaded, load
    from regard.zoo.saver import save

__all__ = [
    "Loaded",
    "card",
    "describe_card",
    "find_model_folder",
    "licence",
    "load",
    "names",
    "read_run_settings",
    "save",
]


def __getattr__(name: str) -> Any:
    # these need torch, and `regard list` must not wait for it
    if name in ("Loaded", "load"):
        from regard.zoo import loader

        return getattr(loader, name)
    if name == "save":
        from regard.zoo import saver

        return saver.save
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

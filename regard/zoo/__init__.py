"""The trained models that come with the package, and any run's: `load`, `names`, `save`."""

from typing import TYPE_CHECKING, Any

from regard.zoo.members import about, begun, card, found, licence, names

if TYPE_CHECKING:
    from regard.zoo.loading import Loaded, load
    from regard.zoo.saving import save

__all__ = ["Loaded", "about", "begun", "card", "found", "licence", "load", "names", "save"]


def __getattr__(name: str) -> Any:
    # these need torch, and `regard list` must not wait for it
    if name in ("Loaded", "load"):
        from regard.zoo import loading

        return getattr(loading, name)
    if name == "save":
        from regard.zoo import saving

        return saving.save
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

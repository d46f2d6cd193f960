"""Modules that look like attention and ran, but of which no call was seen."""

import re
from collections.abc import Iterable, Mapping

from torch import nn

# How many names a sentence lists.
MAX_LISTED_NAMES = 5

ATTENTION_NAME = re.compile(r"attention|attn", re.IGNORECASE)
QUERY_NAME = re.compile(r"(to_|in_)?(q|query|queries)(_\w*)?$|(\w*_)?(qkv|query_key_value|c_attn)$")
KEY_NAME = re.compile(r"(to_|in_)?(k|kv|key|keys)(_\w*)?$|(\w*_)?(qkv|query_key_value|c_attn)$")


def is_attention_like(name: str, module: nn.Module) -> bool:
    """True if a module at this path has the name, or the parts, of one that attends."""
    children = dict(module.named_children())
    if any(map(QUERY_NAME.match, children)) and any(map(KEY_NAME.match, children)):
        return True
    if not any(True for _ in module.parameters()):
        return False
    kind = type(module).__name__
    if ATTENTION_NAME.search(kind) and not kind.endswith("Output"):
        return True
    weighted = [
        m
        for m in module.modules()
        if m is not module and hasattr(m, "weight") and "norm" not in type(m).__name__.lower()
    ]
    return bool(ATTENTION_NAME.search(name.rpartition(".")[2])) and len(weighted) > 1


def unseen_names(
    modules: Mapping[str, nn.Module], executed_names: Iterable[str], seen_names: Iterable[str]
) -> tuple[str, ...]:
    """The paths of the innermost modules that ran and look like attention, but were not seen.

    Args:
        modules: by their paths, the root first.
        executed_names: the paths of those that ran.
        seen_names: the paths of those of which a call was seen.
    """
    root = next(iter(modules), None)
    seen_names = set(seen_names)
    found = [
        name
        for name in executed_names
        if is_attention_like(name, modules[name])
        and name not in seen_names
        and not any(
            _is_inside(one, name, root) or _is_inside(name, one, None) for one in seen_names
        )
    ]
    return innermost_names(found, root)


def innermost_names(names: Iterable[str], root: str | None) -> tuple[str, ...]:
    """The names of those modules that hold no other one of them."""
    names = tuple(names)
    return tuple(n for n in names if not any(_is_inside(one, n, root) for one in names))


def unseen_warning(
    modules: Mapping[str, nn.Module], executed_names: Iterable[str], seen_names: Iterable[str]
) -> str | None:
    """The warning at the end of a look; None if all attention was seen, or nothing ran."""
    executed_names, seen_names = tuple(executed_names), tuple(seen_names)
    missed = unseen_names(modules, executed_names, seen_names)
    if not executed_names or (seen_names and not missed):
        return None
    root, model = next(iter(modules.items()))
    if not missed and type(model).__module__.startswith("regard."):
        return None  # ours attend through the door, so one without attention simply has none
    if missed:
        what = (
            f"{len(missed)} modules of {type(model).__name__} that ran look like attention, and no "
            f"call of theirs was seen: {name_list(missed)}"
        )
    else:
        kinds = [
            type(modules[n]).__name__
            for n in executed_names
            if n == root or any(modules[n].children())
        ]
        kinds = kinds or [type(modules[n]).__name__ for n in executed_names]
        what = (
            f"no attention was seen in {type(model).__name__}, of which these ran: "
            f"{name_list(tuple(dict.fromkeys(kinds)))}"
        )
    return f"look: {what}. {UNSEEN_WAY_OUT}"


UNSEEN_WAY_OUT = (
    "Seen are PyTorch's own attention and a softmax of queries times keys that then reads values: "
    "run compiled parts eagerly, Hugging Face's with attn_implementation='eager'; docs/looking.md "
    "says which attention has no such weights"
)


def name_list(names: tuple[str, ...]) -> str:
    """The first names as a list in words, and the number of those left out."""
    more = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")


def _is_inside(name: str, container: str, root: str | None) -> bool:
    """True if a module is inside of another; the root contains all."""
    return name != container and (container == root or name.startswith(f"{container}."))

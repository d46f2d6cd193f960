"""Modules that look like attention and ran, but of which no call was seen."""

import re
from collections.abc import Iterable, Mapping

from torch import nn

# How many names a sentence lists.
MAX_NAMES = 5

NAME = re.compile(r"attention|attn", re.IGNORECASE)
QUERY = re.compile(r"(to_|in_)?(q|query|queries)(_\w*)?$|(\w*_)?(qkv|query_key_value|c_attn)$")
KEY = re.compile(r"(to_|in_)?(k|kv|key|keys)(_\w*)?$|(\w*_)?(qkv|query_key_value|c_attn)$")


def looks_like_attention(name: str, module: nn.Module) -> bool:
    """Whether a module at this path has the name, or the parts, of one that attends."""
    children = dict(module.named_children())
    if any(map(QUERY.match, children)) and any(map(KEY.match, children)):
        return True
    if not any(True for _ in module.parameters()):
        return False
    if NAME.search(type(module).__name__):
        return True
    weighted = [m for m in module.modules() if m is not module and hasattr(m, "weight")]
    return bool(NAME.search(name.rpartition(".")[2])) and len(weighted) > 1


def unseen(
    modules: Mapping[str, nn.Module], ran: Iterable[str], seen: Iterable[str]
) -> tuple[str, ...]:
    """The innermost modules that ran and look like attention, of which nothing was seen.

    Args:
        modules: by their paths, the root first.
        ran: the paths of those that ran.
        seen: the paths of those of which a call was seen.
    """
    root = next(iter(modules), None)
    seen = set(seen)
    found = [
        name
        for name in ran
        if looks_like_attention(name, modules[name])
        and name not in seen
        and not any(_inside(one, name, root) or _inside(name, one, None) for one in seen)
    ]
    return tuple(n for n in found if not any(_inside(one, n, root) for one in found))


def complaint(
    modules: Mapping[str, nn.Module], ran: Iterable[str], seen: Iterable[str]
) -> str | None:
    """What a look says at its end of what it did not see; None if it saw all, or nothing ran."""
    ran, seen = tuple(ran), tuple(seen)
    missed = unseen(modules, ran, seen)
    if not ran or (seen and not missed):
        return None
    root, model = next(iter(modules.items()))
    if not missed and type(model).__module__.startswith("regard."):
        return None  # ours attend through the door, so one without attention simply has none
    if missed:
        what = (
            f"{len(missed)} modules of {type(model).__name__} that ran look like attention, and no "
            f"call of theirs was seen: {listed(missed)}"
        )
    else:
        kinds = [type(modules[n]).__name__ for n in ran if n == root or any(modules[n].children())]
        what = (
            f"no attention was seen in {type(model).__name__}, of which these ran: "
            f"{listed(tuple(dict.fromkeys(kinds)))}"
        )
    return f"look: {what}. {WAY_OUT}"


WAY_OUT = (
    "Seen are PyTorch's own attention and a softmax of queries times keys that then reads values: "
    "run compiled parts eagerly, Hugging Face's with attn_implementation='eager'; docs/looking.md "
    "says which attention has no such weights"
)


def listed(names: tuple[str, ...]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _inside(name: str, container: str, root: str | None) -> bool:
    """Whether a module is inside of another; the root contains all."""
    return name != container and (container == root or name.startswith(f"{container}."))

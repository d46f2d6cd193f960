"""What an annotation lets a field hold: its words, its items, its configs and how to choose."""

import dataclasses
import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

_TYPE_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    NoneType: "none",
}


def field_annotations(cls: type) -> dict[str, Any]:
    """The fields that can be given, with their annotations."""
    found = typing.get_type_hints(cls)
    return {field.name: found[field.name] for field in dataclasses.fields(cls) if field.init}


def is_union(hint: Any) -> bool:
    """Whether an annotation is of the form `A | B`."""
    return typing.get_origin(hint) in (typing.Union, UnionType)


def union_members(hint: Any) -> list[Any]:
    """The members of a union; None is tried first, and text last, since anything is text."""
    return sorted(
        typing.get_args(hint), key=lambda kind: (kind in (Path, str), kind is not NoneType)
    )


def config_classes(hint: Any) -> list[type]:
    """The dataclasses that a field of this annotation may hold."""
    kinds = typing.get_args(hint) if is_union(hint) else (hint,)
    return [kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)]


def config_discriminator(hint: Any) -> tuple[str, dict[str, type]]:
    """The first field of the configs that a field may hold, and the config that each word chooses.

    There are no words where that first field is no Literal, nor where there is no config.
    """
    configs = config_classes(hint)
    firsts = [next(iter(field_annotations(kind).items()), ("", None)) for kind in configs]
    choices = [
        (str(choice), kind)
        for kind, (_, first) in zip(configs, firsts, strict=True)
        for choice in (typing.get_args(first) if typing.get_origin(first) is Literal else ())
    ]
    apart = len(dict(choices)) == len(choices) and {kind for _, kind in choices} == set(configs)
    if len(configs) > 1 and not (apart and len(dict(firsts)) == 1):
        names = " or ".join(kind.__name__ for kind in configs)
        raise ValueError(
            f"config: expected configs that the words of their first field tell apart, got {names}"
        )
    return firsts[0][0] if firsts else "", dict(choices)


def tuple_item_types(hint: Any, count: int) -> tuple[Any, ...]:
    """The annotations of the `count` items of a tuple."""
    kinds = typing.get_args(hint)
    if kinds[-1:] == (...,):
        return kinds[:1] * count
    if len(kinds) != count:
        raise ValueError
    return kinds


def describe_type(hint: Any) -> str:
    """What an annotation lets in, in the words of an error or of a help text."""
    configs, choices = config_classes(hint), config_discriminator(hint)[1]
    named = ["one of " + ", ".join(choices)] if choices else [kind.__name__ for kind in configs]
    if is_union(hint):
        others = [kind for kind in typing.get_args(hint) if kind not in (NoneType, *configs)]
        # Every whole number is a number.
        others = [kind for kind in others if not (kind is int and float in others)]
        optional = [NoneType] if NoneType in typing.get_args(hint) else []
        return " or ".join([*named, *map(describe_type, others + optional)])
    if configs:
        return named[0]
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        kinds = typing.get_args(hint)
        if kinds[-1:] == (...,):
            return f"{describe_type(kinds[0])}, or several with commas between"
        return f"{len(kinds)} values with commas between ({', '.join(map(describe_type, kinds))})"
    return _TYPE_NAMES[hint] if hint in _TYPE_NAMES else str(getattr(hint, "__name__", hint))

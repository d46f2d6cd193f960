"""Frozen dataclasses as settings: overridden by words, listed for help, written as plain JSON.

What a field may hold is read from its annotation: int, float, bool, str, Path, a Literal, a tuple
of these, another dataclass, or one of these or None.
"""

import contextlib
import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar

from regard.meant import meant

C = TypeVar("C")

_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    NoneType: "none",
}


class Field(NamedTuple):
    """One line of a help text; `default` is `dataclasses.MISSING` where a value must be given.

    Args:
        words: what it may hold.
        about: the comment that stands above the field, if there is one.
    """

    name: str
    words: str
    default: Any
    about: str


def override(config: C, settings: Iterable[str]) -> C:
    """The config with some fields set anew, as in `["model.layers=4", "rate=3e-4"]`.

    All are set at once, so that the checks of a `__post_init__` see the whole.

    Raises:
        ValueError: no such field, a value that does not fit it, or a field given twice.
    """
    root, given = type(config).__name__, dict[str, str]()
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise ValueError(f"{root}: expected field=value, got {setting!r}")
        if name in given:
            raise ValueError(f"{root}: expected {name} once, got {given[name]!r} and {text!r}")
        given[name] = text
    return _changed(config, given, root, "")


def plain(config: Any) -> dict[str, Any]:
    """The config as dicts, lists, strings, numbers, truths and None, which JSON can hold."""
    return _plain(config, type(config).__name__, "")


def restored(cls: type[C], plain: Any) -> C:
    """The config of this class that `plain` was made from.

    Raises:
        ValueError: a field is not known, is missing without a default, or holds what it may not.
    """
    return _restored(cls, plain, cls.__name__, "")


def fields(cls: type) -> list[Field]:
    """All fields of a config, those of the configs inside it under dotted names."""
    return list(_listed(cls, None, ""))


def _changed(config: Any, given: dict[str, str], root: str, at: str) -> Any:
    """`config`, found under the name `at` in the root, with the fields of `given`."""
    hints = _hints(type(config))
    changes: dict[str, Any] = {}
    deeper: dict[str, dict[str, str]] = {}
    for name, text in given.items():
        head, _, rest = name.partition(".")
        _refuse_unknown(type(config), head, at)
        if rest:
            deeper.setdefault(head, {})[rest] = text
        else:
            changes[head] = _parsed(text, hints[head], root, at + head)
    for head, inside in deeper.items():
        name, value = at + head, getattr(config, head)
        if head in changes:
            raise ValueError(f"{root}: expected {name} or fields of it, got both")
        if not dataclasses.is_dataclass(value):
            got = f"got {name}.{next(iter(inside))}, but {value!r} has no fields"
            raise ValueError(f"{root}: expected {name} as {_words(hints[head])}, {got}")
        changes[head] = _changed(value, inside, root, f"{name}.")
    return dataclasses.replace(config, **changes)


def _parsed(text: str, hint: Any, root: str, name: str) -> Any:
    """What `text` says for the field `name`, or an error in words."""
    try:
        return _read(text, hint)
    except ValueError:
        inner = _config_of(hint)
        if inner is None:
            raise ValueError(f"{root}: expected {name} as {_words(hint)}, got {text!r}") from None
        names = list(_hints(inner))
        raise ValueError(
            f"{root}: expected a field of {name}, such as {name}.{names[0]}=…, got {name}={text}; "
            f"{inner.__name__} has {', '.join(names)}"
        ) from None


def _read(text: str, hint: Any) -> Any:
    """`text` as a value of this annotation; a bare ValueError if it is none."""
    if _is_union(hint):
        return _first(_read, text, _members(hint))
    if typing.get_origin(hint) is tuple:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        items = parts[:-1] if len(parts) > 1 and not parts[-1] else parts
        return tuple(map(_read, items, _items(hint, len(items))))
    if typing.get_origin(hint) is Literal:
        return _picked(text, {str(choice): choice for choice in typing.get_args(hint)})
    if hint is NoneType:
        return _picked(text.lower(), {"none": None})
    if hint is bool:
        return _picked(text.lower(), {"true": True, "false": False})
    if hint is float:
        return _finite(float(text))
    if hint is Path:
        return Path(text).expanduser()  # no shell does it behind an equals sign
    if hint in (int, str):
        return hint(text)
    raise ValueError


def _plain(value: Any, root: str, name: str) -> Any:
    """`value` as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = {each: getattr(value, each) for each in _hints(type(value))}
        at = f"{name}." if name else ""
        return {each: _plain(held, root, at + each) for each, held in inside.items()}
    if isinstance(value, tuple):
        return [_plain(held, root, name) for held in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{root}: expected {name} as something JSON can hold, got {value!r}")


def _restored(cls: type, given: Any, root: str, at: str) -> Any:
    """The config of class `cls` at the name `at` of the root."""
    if not isinstance(given, dict):
        here = f"{at[:-1]} as " if at else ""
        raise ValueError(f"{root}: expected {here}the fields of {cls.__name__}, got {given!r}")
    hints = _hints(cls)
    for name in given:
        _refuse_unknown(cls, name, at)
    for field in dataclasses.fields(cls):
        needed = field.init and _default(field) is dataclasses.MISSING
        if needed and field.name not in given:
            raise ValueError(f"{root}: expected a value for {at}{field.name}, got none at all")
    return cls(**{name: _taken(held, hints[name], root, at + name) for name, held in given.items()})


def _taken(value: Any, hint: Any, root: str, name: str) -> Any:
    """The value that `value`, as JSON has it, stands for in the field `name`."""
    inner = _config_of(hint)
    if inner is not None and not (value is None and _is_union(hint)):
        return _restored(inner, value, root, f"{name}.")
    try:
        return _fitted(value, hint)
    except (ValueError, OverflowError):
        raise ValueError(f"{root}: expected {name} as {_words(hint)}, got {value!r}") from None


def _fitted(value: Any, hint: Any) -> Any:
    """`value`, as JSON has it, for this annotation; a bare ValueError if it does not fit."""
    if _is_union(hint):
        return _first(_fitted, value, _members(hint))
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return tuple(map(_fitted, value, _items(hint, len(value))))
    if typing.get_origin(hint) is Literal:
        # 1 == True, yet neither is written for the other.
        if (type(value), value) in [(type(choice), choice) for choice in typing.get_args(hint)]:
            return value
    elif hint is Path and isinstance(value, str):
        return Path(value)
    elif hint is float and type(value) in (int, float):
        return _finite(float(value))
    elif hint in (int, bool, str, NoneType) and type(value) is hint:
        return value
    raise ValueError


def _listed(cls: type, config: Any, at: str) -> Iterator[Field]:
    """The fields of `cls`, with their values in `config` as defaults where there is one."""
    hints, comments = _hints(cls), _comments(cls)
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        value = _default(field) if config is None else getattr(config, field.name)
        inner = _config_of(hints[field.name])
        if inner is None or value is None:
            about = comments.get(field.name, "")
            yield Field(at + field.name, _words(hints[field.name]), value, about)
        else:
            held = None if value is dataclasses.MISSING else value
            yield from _listed(inner, held, f"{at}{field.name}.")


def _comments(cls: type) -> dict[str, str]:
    """What stands in comments right above the fields, where the source is at hand."""
    found, above = dict[str, str](), list[str]()
    with contextlib.suppress(OSError, TypeError):
        for line in map(str.strip, inspect.getsource(cls).splitlines()):
            if line.startswith("#"):
                above.append(line.lstrip("# "))
                continue
            name = line.partition(":")[0]
            if above and name.isidentifier():
                found[name] = " ".join(above)
            above.clear()
    return found


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _hints(cls: type) -> dict[str, Any]:
    """The fields that can be given, with their annotations."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, UnionType)


def _members(hint: Any) -> list[Any]:
    """The members of a union; None is tried first, and text last, since anything is text."""
    return sorted(
        typing.get_args(hint), key=lambda kind: (kind in (Path, str), kind is not NoneType)
    )


def _first(reading: Callable[[Any, Any], Any], value: Any, hints: list[Any]) -> Any:
    """What the first of `hints` that fits makes of `value`."""
    for hint in hints:
        with contextlib.suppress(ValueError):
            return reading(value, hint)
    raise ValueError


def _config_of(hint: Any) -> type | None:
    """The dataclass that a field of this annotation holds, if it holds one."""
    kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
    found = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    if len(found) > 1:
        raise ValueError(f"config: expected one kind of config for a field, got {_words(hint)}")
    return found[0] if found else None  # type: ignore[return-value]


def _items(hint: Any, count: int) -> tuple[Any, ...]:
    """The annotations of the `count` items of a tuple."""
    kinds = typing.get_args(hint)
    if kinds[-1:] == (...,):
        return kinds[:1] * count
    if len(kinds) != count:
        raise ValueError
    return kinds


def _picked(text: str, words: dict[str, Any]) -> Any:
    if text not in words:
        raise ValueError
    return words[text]


def _finite(number: float) -> float:
    # JSON has no word for infinity, and no rate or share is one.
    if not math.isfinite(number):
        raise ValueError
    return number


def _words(hint: Any) -> str:
    """What an annotation lets in, in the words of an error or of a help text."""
    if _is_union(hint):
        members = [kind for kind in typing.get_args(hint) if kind is not NoneType]
        # Every whole number is a number.
        members = [kind for kind in members if not (kind is int and float in members)]
        optional = [NoneType] if NoneType in typing.get_args(hint) else []
        return " or ".join(map(_words, members + optional))
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        kinds = typing.get_args(hint)
        if kinds[-1:] == (...,):
            return f"{_words(kinds[0])}, or several with commas between"
        return f"{len(kinds)} values with commas between ({', '.join(map(_words, kinds))})"
    return _WORDS[hint] if hint in _WORDS else str(getattr(hint, "__name__", hint))


def _refuse_unknown(cls: type, name: str, at: str) -> None:
    there = list(_hints(cls))
    if name in there:
        return
    where = f" ({at}{name})" if at else ""
    near = meant(name, there, before=at)
    raise ValueError(
        f"{cls.__name__} has no field {name!r}{where}; it has {', '.join(there)}{near}"
    )

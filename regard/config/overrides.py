"""Frozen dataclasses as settings: overridden by words, listed for help, written as plain JSON.

What a field may hold is read from its annotation: int, float, bool, str, Path, a Literal, a tuple
of these, another dataclass, or one of these or None. A field may also hold one of several
dataclasses that the words of their first field tell apart, such as `kind: Literal["rnn"] = "rnn"`.
"""

import contextlib
import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar

from regard.config import annotations
from regard.config.suggest import suggestion

C = TypeVar("C")


class Field(NamedTuple):
    """One line of a help text; `default` is `dataclasses.MISSING` where a value must be given.

    Args:
        type_description: what it may hold.
        about: the comment that stands above the field, if there is one.
    """

    name: str
    type_description: str
    default: Any
    about: str


def override(config: C, settings: Iterable[str]) -> C:
    """The config with some fields set anew, as in `["model.layers=4", "rate=3e-4"]`.

    All are set at once, so that the checks of a `__post_init__` see the whole. Where a field holds
    a config that begins with a Literal, a word for the whole is the value of that one, whichever
    of several configs knows it: `optimizer=sgd` is `optimizer.kind=sgd`.

    Raises:
        ValueError: no such field, a value that does not fit it, or a field given twice.
    """
    root, given = type(config).__name__, dict[str, str]()
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise ValueError(f"{root}: expected field=value, got {setting!r:.80}")
        if name in given:
            raise ValueError(
                f"{root}: expected {name} once, got {given[name]!r:.80} and {text!r:.80}"
            )
        given[name] = text
    return _with_settings(config, given, root, "")


def to_json(config: Any) -> dict[str, Any]:
    """The config as dicts, lists, strings, numbers, truths and None, which JSON can hold."""
    return _value_to_json(config, type(config).__name__, "")


def from_json(cls: type[C], data: Any) -> C:
    """The config of this class that `data` was made from.

    Raises:
        ValueError: a field is not known, is missing without a default, or holds what it may not.
    """
    return _config_from_json(cls, data, cls.__name__, "")


def fields(config: Any) -> list[Field]:
    """All fields of a config or of a class of them, dotted names for those of configs inside.

    What is chosen by a word comes first, with all the words; then the fields of the chosen one.
    """
    cls, held = (config, None) if isinstance(config, type) else (type(config), config)
    return list(_iter_fields(cls, held, "", None))


def _with_settings(config: Any, settings: dict[str, str], root: str, at: str) -> Any:
    """`config`, found under the name `at` in the root, with these settings."""
    hints = annotations.field_annotations(type(config))
    whole, inside = dict[str, str](), dict[str, dict[str, str]]()
    for name, text in settings.items():
        head, _, rest = name.partition(".")
        _check_field_name(type(config), head, at)
        if rest:
            inside.setdefault(head, {})[rest] = text
        else:
            whole[head] = text
    changes = dict[str, Any]()
    for head in whole | inside:
        said, fields, held = whole.get(head), inside.get(head, {}), getattr(config, head)
        changes[head] = _new_field_value(held, hints[head], said, fields, root, at + head)
    return dataclasses.replace(config, **changes)


def _new_field_value(
    current: Any, hint: Any, text: str | None, nested: dict[str, str], root: str, name: str
) -> Any:
    """What the field `name` holds after a text for the whole of it, or fields inside it, or both.

    Args:
        current: what it held before.
    """
    first, kinds = annotations.config_discriminator(hint)
    word = nested.get(first) if text is None else text
    if word in kinds:
        if text is not None and first in nested:
            raise ValueError(f"{root}: expected {name} or {name}.{first}, got both")
        if not isinstance(current, kinds[word]):
            current = _config_from_json(kinds[word], {}, root, f"{name}.")
        # with the other fields, because a config may refuse the word without them
        return _with_settings(current, {**nested, first: word}, root, f"{name}.")
    if text is None and word is not None and len(set(kinds.values())) > 1:
        raise _wrong_value_error(word, hint, root, f"{name}.{first}")
    if text is not None and nested:
        raise ValueError(f"{root}: expected {name} or fields of it, got both")
    if text is not None:
        return _parse_field(text, hint, root, name)
    if not dataclasses.is_dataclass(current):
        got = f"got {name}.{next(iter(nested))}, but {current!r:.80} has no fields"
        raise ValueError(f"{root}: expected {name} as {annotations.describe_type(hint)}, {got}")
    return _with_settings(current, nested, root, f"{name}.")


def _parse_field(text: str, hint: Any, root: str, name: str) -> Any:
    """What `text` says for the field `name`, or an error in words."""
    try:
        return _parse_value(text, hint)
    except ValueError:
        configs = annotations.config_classes(hint)
        if not configs or annotations.config_discriminator(hint)[1]:
            raise _wrong_value_error(text, hint, root, name) from None
        names = list(annotations.field_annotations(configs[0]))
        raise ValueError(
            f"{root}: expected a field of {name}, such as {name}.{names[0]}=…, got {name}={text}; "
            f"{configs[0].__name__} has {', '.join(names)}"
        ) from None


def _wrong_value_error(value: Any, hint: Any, root: str, name: str) -> ValueError:
    """The error of a value that its field may not hold; a word may have been meant otherwise."""
    kinds = typing.get_args(hint) if annotations.is_union(hint) else (hint,)
    words = [str(c) for k in kinds if typing.get_origin(k) is Literal for c in typing.get_args(k)]
    near = (
        suggestion(value, [*words, *annotations.config_discriminator(hint)[1]])
        if isinstance(value, str)
        else ""
    )
    return ValueError(
        f"{root}: expected {name} as {annotations.describe_type(hint)}, got {value!r:.80}{near}"
    )


def _parse_value(text: str, hint: Any) -> Any:
    """`text` as a value of this annotation; a bare ValueError if it is none."""
    if annotations.is_union(hint):
        return _first_fit(_parse_value, text, annotations.union_members(hint))
    if typing.get_origin(hint) is tuple:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        items = parts[:-1] if len(parts) > 1 and not parts[-1] else parts
        return tuple(map(_parse_value, items, annotations.tuple_item_types(hint, len(items))))
    if typing.get_origin(hint) is Literal:
        return _parse_choice(text, {str(choice): choice for choice in typing.get_args(hint)})
    if hint is NoneType:
        return _parse_choice(text.lower(), {"none": None})
    if hint is bool:
        return _parse_choice(text.lower(), {"true": True, "false": False})
    if hint is float:
        return _check_finite(float(text))
    if hint is Path:
        return _expand_home(Path(text))
    if hint in (int, str):
        return hint(text)
    raise ValueError


def _value_to_json(value: Any, root: str, name: str) -> Any:
    """`value` as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = {each: getattr(value, each) for each in annotations.field_annotations(type(value))}
        at = f"{name}." if name else ""
        return {each: _value_to_json(held, root, at + each) for each, held in inside.items()}
    if isinstance(value, tuple):
        return [_value_to_json(held, root, name) for held in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{root}: expected {name} as something JSON can hold, got {value!r:.80}")


def _config_from_json(cls: type, data: Any, root: str, at: str) -> Any:
    """The config of class `cls` at the name `at` of the root."""
    if not isinstance(data, dict):
        here = f"{at[:-1]} as " if at else ""
        raise ValueError(f"{root}: expected {here}the fields of {cls.__name__}, got {data!r:.80}")
    hints = annotations.field_annotations(cls)
    for name in data:
        _check_field_name(cls, name, at)
    for field in dataclasses.fields(cls):
        needed = field.init and _field_default(field) is dataclasses.MISSING
        if needed and field.name not in data:
            raise ValueError(f"{root}: expected a value for {at}{field.name}, got none at all")
    return cls(
        **{
            name: _field_from_json(held, hints[name], root, at + name)
            for name, held in data.items()
        }
    )


def _field_from_json(value: Any, hint: Any, root: str, name: str) -> Any:
    """The value that `value`, as JSON has it, stands for in the field `name`."""
    configs = annotations.config_classes(hint)
    if configs and (isinstance(value, dict) or not annotations.is_union(hint)):
        first, kinds = annotations.config_discriminator(hint)
        chosen = configs[0]
        if len(configs) > 1 and first in value:
            if str(value[first]) not in kinds:
                raise _wrong_value_error(value[first], hint, root, f"{name}.{first}")
            chosen = kinds[str(value[first])]
        return _config_from_json(chosen, value, root, f"{name}.")
    try:
        return _value_from_json(value, hint)
    except (ValueError, OverflowError):
        raise _wrong_value_error(value, hint, root, name) from None


def _value_from_json(value: Any, hint: Any) -> Any:
    """`value`, as JSON has it, for this annotation; a bare ValueError if it does not fit."""
    if annotations.is_union(hint):
        return _first_fit(_value_from_json, value, annotations.union_members(hint))
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return tuple(map(_value_from_json, value, annotations.tuple_item_types(hint, len(value))))
    if typing.get_origin(hint) is Literal:
        # 1 == True, yet neither is written for the other.
        if (type(value), value) in [(type(choice), choice) for choice in typing.get_args(hint)]:
            return value
    elif hint is Path and isinstance(value, str):
        return Path(value)
    elif hint is float and type(value) in (int, float):
        return _check_finite(float(value))
    elif hint in (int, bool, str, NoneType) and type(value) is hint:
        return value
    raise ValueError


def _iter_fields(cls: type, config: Any, at: str, choice: Field | None) -> Iterator[Field]:
    """The fields of `cls`, with their values in `config` as defaults where there is one.

    Args:
        choice: stands in the place of the first field, where a word chooses this config.
    """
    hints, comments = annotations.field_annotations(cls), _field_comments(cls)
    there = [field for field in dataclasses.fields(cls) if field.init]
    if choice is not None:
        yield choice
    for field in there[choice is not None :]:
        value = _field_default(field) if config is None else getattr(config, field.name)
        name, hint = at + field.name, hints[field.name]
        configs, about = annotations.config_classes(hint), comments.get(field.name, "")
        if not configs or not (value is dataclasses.MISSING or dataclasses.is_dataclass(value)):
            yield Field(name, annotations.describe_type(hint), value, about)
            continue
        held = None if value is dataclasses.MISSING else value
        kind = configs[0] if held is None else type(held)
        yield from _iter_fields(
            kind, held, f"{name}.", _discriminator_field(name, hint, held, about)
        )


def _discriminator_field(name: str, hint: Any, config: Any, about: str) -> Field | None:
    """The line of a config that a word chooses, which says what the other configs have."""
    first, kinds = annotations.config_discriminator(hint)
    if not kinds:
        return None
    default = dataclasses.MISSING if config is None else getattr(config, first)
    listed = next(iter(kinds.values())) if config is None else type(config)
    told = [about, _field_comments(listed).get(first, "")]
    for kind, word in {kind: word for word, kind in kinds.items() if kind is not listed}.items():
        told.append(f"{name}={word} has {', '.join(list(annotations.field_annotations(kind))[1:])}")
    return Field(name, annotations.describe_type(hint), default, "; ".join(filter(None, told)))


def _field_comments(cls: type) -> dict[str, str]:
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


def _field_default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _first_fit(parse: Callable[[Any, Any], Any], value: Any, hints: list[Any]) -> Any:
    """What the first of `hints` that fits makes of `value`."""
    for hint in hints:
        with contextlib.suppress(ValueError):
            return parse(value, hint)
    raise ValueError


def _parse_choice(text: str, words: dict[str, Any]) -> Any:
    if text not in words:
        raise ValueError
    return words[text]


def _expand_home(path: Path) -> Path:
    """The path with a leading ~ replaced, which no shell does behind an equals sign."""
    try:
        return path.expanduser()
    except RuntimeError:  # there is no such user
        raise ValueError from None


def _check_finite(number: float) -> float:
    # JSON has no word for infinity, and no rate or share is one.
    if not math.isfinite(number):
        raise ValueError
    return number


def _check_field_name(cls: type, name: str, at: str) -> None:
    there = list(annotations.field_annotations(cls))
    if name in there:
        return
    where = f" ({at}{name})" if at else ""
    near = suggestion(name, there, prefix=at)
    raise ValueError(
        f"{cls.__name__} has no field {name!r:.80}{where}; it has {', '.join(there)}{near}"
    )

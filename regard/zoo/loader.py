"""A trained model from its folder: safetensors and JSON, checked before anything is allocated."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from regard.config import from_json
from regard.zoo import model_kinds, untrusted_files
from regard.zoo.catalogue import find_model_folder

RANDOM_INIT_FUNCTIONS = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_)
# No model of ours has a size beyond this; a list of 10¹² layers would fill the memory by itself.
MAX_CONFIG_VALUE = 2**24
MAX_CONFIG_DEPTH = 16
# How much may be computed when a model is built, instead of read from its file: masks, positions.
MAX_UNSAVED_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class Loaded:
    """A trained model: ready to use on the CPU, in float32 and in evaluation mode.

    Args:
        model: the module, with its weights.
        tokenizer: what turns text into numbers and back, if the model reads text.
        config: the model's own config, from which it was built.
        card: what is known about it: recipe, command, data, numbers, seed.
    """

    model: nn.Module
    tokenizer: Any | None
    config: Any
    card: dict[str, Any]


def load(name_or_folder: str | Path) -> Loaded:
    """The trained model of this name in the zoo, or in the folder of a run.

    Raises:
        ValueError: there is no such model, or its files are not as they should be, in one line.
    """
    folder = find_model_folder(name_or_folder)
    card = _read_card(folder)
    Config, Model = model_kinds.classes(card["model"])
    try:
        config: Any = from_json(Config, card["config"])
    except (ValueError, TypeError, ArithmeticError) as error:
        raise untrusted_files.load_error(f"{folder / 'card.json'}: {error}") from None
    model = _build_with_weights(lambda: Model(config), folder)
    return Loaded(model.eval(), _load_tokenizer(folder), config, card)


def _read_card(folder: Path) -> dict[str, Any]:
    card = untrusted_files.read_card(folder)
    _check_sizes(card["config"], folder / "card.json")
    return card


def _check_sizes(value: Any, path: Path, name: str = "config", depth: int = 0) -> None:
    if depth > MAX_CONFIG_DEPTH:
        raise untrusted_files.load_error(f"{path}: the config is nested too deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_sizes(inner, path, f"{name}.{key}", depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_sizes(inner, path, name, depth + 1)
    elif isinstance(value, int | float) and abs(value) > MAX_CONFIG_VALUE:
        # a whole number of more than 308 digits does not go into a float
        said = f"{value:.4g}" if abs(value) < 1e300 else "beyond 1e300"
        raise untrusted_files.load_error(
            f"{path}: {name:.60} is {said}, the most is {MAX_CONFIG_VALUE}"
        )


def _load_tokenizer(folder: Path) -> Any | None:
    if not os.path.lexists(folder / "tokenizer.json"):
        return None
    from regard.data.text import bpe

    untrusted_files.read_json_object(folder, "tokenizer.json")  # within the limits of all our JSON
    path = untrusted_files.plain_file_path(folder, "tokenizer.json")
    try:
        return bpe.load_vocabulary(path)
    except Exception as error:  # the library of tokenizers raises bare Exceptions
        raise untrusted_files.load_error(f"{path} is no tokenizer: {error}") from None


def _build_with_weights(build: Callable[[], nn.Module], folder: Path) -> nn.Module:
    """The model with the weights of its file, which must fit before any memory is taken."""
    with untrusted_files.open_weights(folder) as file:
        names = set(file.keys())
        model = _build_on_device(build, "meta", folder, max_parts=10 * len(names) + 1000)
        holders = _names_by_tensor(model)
        _check_tensor_names(holders, names, folder)
        for places in holders.values():
            held = next(name for name in places if name in names)
            tensor = _read_tensor(held, file, _tensor_at(model, places[0]), folder)
            for place in places:  # several, where a weight is tied to another
                _set_tensor(model, place, tensor)
    _fill_unsaved_buffers(model, build, folder)
    return model


def _build_on_device(
    build: Callable[[], nn.Module], device: str, folder: Path, *, max_parts: int
) -> nn.Module:
    """The module on a device; on `meta` it has shapes and no memory."""
    try:
        # the mode comes last, so that it is asked first
        with (
            torch.random.fork_rng(devices=[]),
            _limit_parts(max_parts),
            torch.device(device),
            _SkipRandomInit(),
        ):
            return build()
    except Exception as error:  # whatever a model makes of sizes that make no sense
        raise untrusted_files.load_error(
            f"{folder / 'card.json'}: no model of this config: {error}"
        ) from None


class _SkipRandomInit(TorchFunctionMode):
    """Draws no random weights where there is no memory: torch imports for a second to do so."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        drawn = args[0] if args else kwargs.get("tensor")
        if func in RANDOM_INIT_FUNCTIONS and isinstance(drawn, Tensor) and drawn.is_meta:
            return drawn
        return func(*args, **kwargs)


@contextmanager
def _limit_parts(max_parts: int) -> Iterator[None]:
    """Refuse a module of more parts than this: even without memory 10¹² layers take for ever."""
    count = 0

    def count_part(module: nn.Module, name: str, part: Any) -> None:
        nonlocal count
        count += 1
        if count > max_parts:
            raise ValueError(f"it has over {max_parts} parts, far more than its file")

    handles = [
        hooks.register_module_module_registration_hook(count_part),
        hooks.register_module_parameter_registration_hook(count_part),
        hooks.register_module_buffer_registration_hook(count_part),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _names_by_tensor(model: nn.Module) -> dict[int, list[str]]:
    """The names of each tensor of the model's state: more than one where it is tied."""
    holders: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        holders.setdefault(id(tensor), []).append(name)
    return holders


def _check_tensor_names(
    names_by_tensor: dict[int, list[str]], names: set[str], folder: Path
) -> None:
    known = {name for places in names_by_tensor.values() for name in places}
    missing = [places[0] for places in names_by_tensor.values() if not names.intersection(places)]
    twice = [
        p for places in names_by_tensor.values() for p in sorted(names.intersection(places))[1:]
    ]
    for wrong, words in (
        (sorted(names - known), "has tensors that the model has not"),
        (missing, "lacks tensors of the model"),
        (twice, "holds tied tensors twice"),
    ):
        if wrong:
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            first = ", ".join(f"{name:.60}" for name in wrong[:3])
            raise untrusted_files.load_error(
                f"{folder / 'model.safetensors'} {words}: {first}{more}"
            )


def _read_tensor(name: str, file: Any, expected: Tensor, folder: Path) -> Tensor:
    """The tensor of this name, of the shape that the model wants, in float32 and finite."""
    path, there = folder / "model.safetensors", file.get_slice(name)
    shape = tuple(there.get_shape())
    if shape != tuple(expected.shape):
        raise untrusted_files.load_error(
            f"{path}: expected {name} of shape {tuple(expected.shape)}, got {shape}"
        )
    tensor = file.get_tensor(name)
    floats = tensor.is_floating_point() and expected.is_floating_point()
    if not floats and tensor.dtype != expected.dtype:
        raise untrusted_files.load_error(
            f"{path}: expected {name} as {expected.dtype}, got {tensor.dtype}"
        )
    # a copy, because the file is only mapped: a model must not change when its file does
    tensor = tensor.to(torch.float32 if floats else tensor.dtype, copy=True)
    if floats and not torch.isfinite(tensor).all():
        raise untrusted_files.load_error(f"{path}: {name} has numbers that are not finite")
    if isinstance(expected, nn.Parameter):
        return nn.Parameter(tensor, requires_grad=expected.requires_grad)
    return tensor


def _tensor_at(model: nn.Module, path: str) -> Tensor:
    module, _, name = path.rpartition(".")
    return getattr(model.get_submodule(module), name)


def _set_tensor(model: nn.Module, path: str, tensor: Tensor) -> None:
    module, _, name = path.rpartition(".")
    # setattr, and not the module's dictionaries, because an RNN keeps a second list of its weights
    setattr(model.get_submodule(module), name, tensor)


def _fill_unsaved_buffers(model: nn.Module, build: Callable[[], nn.Module], folder: Path) -> None:
    """Compute what a model holds but does not save, by building it once more with memory."""
    unsaved = {name: x for name, x in model.named_buffers() if x.is_meta}
    size = sum(x.numel() * x.element_size() for x in unsaved.values())
    if size > MAX_UNSAVED_BYTES:
        raise untrusted_files.load_error(
            f"{folder / 'card.json'}: the config asks for {size} bytes beside the weights"
        )
    if unsaved:
        real = _build_on_device(build, "cpu", folder, max_parts=2**40)
        for name in unsaved:
            buffer = _tensor_at(real, name)
            _set_tensor(model, name, buffer.float() if buffer.is_floating_point() else buffer)

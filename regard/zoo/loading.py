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

from regard.config import restored
from regard.zoo import kinds, reading
from regard.zoo.members import found

DRAWS = (Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_)
# No model of ours has a size beyond this; a list of 10¹² layers would fill the memory by itself.
LARGEST_SIZE = 2**24
DEEPEST = 16
# How much may be computed when a model is built, instead of read from its file: masks, positions.
MOST_UNSAVED_BYTES = 2**30


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
    folder = found(name_or_folder)
    card = _card(folder)
    Config, Model = kinds.classes(card["model"])
    try:
        config: Any = restored(Config, card["config"])
    except (ValueError, TypeError, ArithmeticError) as error:
        raise reading.refused(f"{folder / 'card.json'}: {error}") from None
    model = _filled(lambda: Model(config), folder)
    return Loaded(model.eval(), _tokenizer(folder), config, card)


def _card(folder: Path) -> dict[str, Any]:
    card = reading.card(folder)
    _refuse_sizes(card["config"], folder / "card.json")
    return card


def _refuse_sizes(value: Any, path: Path, name: str = "config", depth: int = 0) -> None:
    if depth > DEEPEST:
        raise reading.refused(f"{path}: the config is nested too deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_sizes(inner, path, f"{name}.{key}", depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _refuse_sizes(inner, path, name, depth + 1)
    elif isinstance(value, int | float) and abs(value) > LARGEST_SIZE:
        # a whole number of more than 308 digits does not go into a float
        said = f"{value:.4g}" if abs(value) < 1e300 else "beyond 1e300"
        raise reading.refused(f"{path}: {name:.60} is {said}, the most is {LARGEST_SIZE}")


def _tokenizer(folder: Path) -> Any | None:
    if not os.path.lexists(folder / "tokenizer.json"):
        return None
    from regard.data import bpe

    reading.json_object(folder, "tokenizer.json")  # within the limits of all our JSON
    path = reading.plain_file(folder, "tokenizer.json")
    try:
        return bpe.loaded(path)
    except Exception as error:  # the library of tokenizers raises bare Exceptions
        raise reading.refused(f"{path} is no tokenizer: {error}") from None


def _filled(build: Callable[[], nn.Module], folder: Path) -> nn.Module:
    """The model with the weights of its file, which must fit before any memory is taken."""
    with reading.weights(folder) as file:
        names = set(file.keys())
        model = _built(build, "meta", folder, most=10 * len(names) + 1000)
        holders = _holders(model)
        _refuse_strangers(holders, names, folder)
        for places in holders.values():
            held = next(name for name in places if name in names)
            tensor = _checked(held, file, _at(model, places[0]), folder)
            for place in places:  # several, where a weight is tied to another
                _put(model, place, tensor)
    _fill_unsaved(model, build, folder)
    return model


def _built(build: Callable[[], nn.Module], device: str, folder: Path, *, most: int) -> nn.Module:
    """The module on a device; on `meta` it has shapes and no memory."""
    try:
        # the mode comes last, so that it is asked first
        with torch.random.fork_rng(devices=[]), _of_at_most(most), torch.device(device), _Undrawn():
            return build()
    except Exception as error:  # whatever a model makes of sizes that make no sense
        raise reading.refused(f"{folder / 'card.json'}: no model of this config: {error}") from None


class _Undrawn(TorchFunctionMode):
    """Draws no random weights where there is no memory: torch imports for a second to do so."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        drawn = args[0] if args else kwargs.get("tensor")
        if func in DRAWS and isinstance(drawn, Tensor) and drawn.is_meta:
            return drawn
        return func(*args, **kwargs)


@contextmanager
def _of_at_most(most: int) -> Iterator[None]:
    """Refuse a module of more parts than this: even without memory 10¹² layers take for ever."""
    count = 0

    def counted(module: nn.Module, name: str, part: Any) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise ValueError(f"it has over {most} parts, far more than its file")

    handles = [
        hooks.register_module_module_registration_hook(counted),
        hooks.register_module_parameter_registration_hook(counted),
        hooks.register_module_buffer_registration_hook(counted),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _holders(model: nn.Module) -> dict[int, list[str]]:
    """The names of each tensor of the model's state: more than one where it is tied."""
    holders: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        holders.setdefault(id(tensor), []).append(name)
    return holders


def _refuse_strangers(holders: dict[int, list[str]], names: set[str], folder: Path) -> None:
    known = {name for places in holders.values() for name in places}
    missing = [places[0] for places in holders.values() if not names.intersection(places)]
    twice = [p for places in holders.values() for p in sorted(names.intersection(places))[1:]]
    for wrong, words in (
        (sorted(names - known), "has tensors that the model has not"),
        (missing, "lacks tensors of the model"),
        (twice, "holds tied tensors twice"),
    ):
        if wrong:
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            first = ", ".join(f"{name:.60}" for name in wrong[:3])
            raise reading.refused(f"{folder / 'model.safetensors'} {words}: {first}{more}")


def _checked(name: str, file: Any, wanted: Tensor, folder: Path) -> Tensor:
    """The tensor of this name, of the shape that the model wants, in float32 and finite."""
    path, there = folder / "model.safetensors", file.get_slice(name)
    shape = tuple(there.get_shape())
    if shape != tuple(wanted.shape):
        raise reading.refused(
            f"{path}: expected {name} of shape {tuple(wanted.shape)}, got {shape}"
        )
    tensor = file.get_tensor(name)
    floats = tensor.is_floating_point() and wanted.is_floating_point()
    if not floats and tensor.dtype != wanted.dtype:
        raise reading.refused(f"{path}: expected {name} as {wanted.dtype}, got {tensor.dtype}")
    # a copy, because the file is only mapped: a model must not change when its file does
    tensor = tensor.to(torch.float32 if floats else tensor.dtype, copy=True)
    if floats and not torch.isfinite(tensor).all():
        raise reading.refused(f"{path}: {name} has numbers that are not finite")
    if isinstance(wanted, nn.Parameter):
        return nn.Parameter(tensor, requires_grad=wanted.requires_grad)
    return tensor


def _at(model: nn.Module, place: str) -> Tensor:
    module, _, name = place.rpartition(".")
    return getattr(model.get_submodule(module), name)


def _put(model: nn.Module, place: str, tensor: Tensor) -> None:
    module, _, name = place.rpartition(".")
    # setattr, and not the module's dictionaries, because an RNN keeps a second list of its weights
    setattr(model.get_submodule(module), name, tensor)


def _fill_unsaved(model: nn.Module, build: Callable[[], nn.Module], folder: Path) -> None:
    """Compute what a model holds but does not save, by building it once more with memory."""
    unsaved = {name: x for name, x in model.named_buffers() if x.is_meta}
    size = sum(x.numel() * x.element_size() for x in unsaved.values())
    if size > MOST_UNSAVED_BYTES:
        raise reading.refused(
            f"{folder / 'card.json'}: the config asks for {size} bytes beside the weights"
        )
    if unsaved:
        real = _built(build, "cpu", folder, most=2**40)
        for name in unsaved:
            buffer = _at(real, name)
            _put(model, name, buffer.float() if buffer.is_floating_point() else buffer)

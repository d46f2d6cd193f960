"""A run as a member of the zoo: `python -m benchmarks.publish RUN NAME [--seeds RUN …]`.

Other seeds of the same settings are named by `--seeds`; the card holds the development number of
each, and a run that is not the best of them by it is refused. Afterwards
`python -m benchmarks.licences` writes the licences of the zoo anew.

Weights are stored in bfloat16, small models with `--dtype float32`, those that measure the plane in
float16, which has more digits. What is stored is what is measured: the numbers of the card are
those of the model that comes out of the file again, on every test of its data. What is known of the
training alone stays.
"""

import argparse
import json
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard import load, zoo
from regard.cli.resolve import RECIPES
from regard.config import from_json
from regard.data import licences
from regard.train.runs import hardware

ZOO = Path(zoo.__file__).parent
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
# From the root or from home: at the beginning, or behind what is no part of a path.
PLACE = re.compile(r"(?<![\w./-])(~?/\w[^\s\"']*)")


def published(
    run: Path,
    name: str,
    about: str | None = None,
    *,
    seeds: Sequence[Path] = (),
    dtype: str = "bfloat16",
    into: Path = ZOO,
) -> Path:
    """The folder of the new member; it is there whole, with its numbers, or not at all."""
    found = load(run)
    card = {**found.card, "name": name, "about": about or found.card["about"], "dtype": dtype}
    card["seed_choice"] = seed_choice(found.card, [load(other).card for other in seeds])
    data = licences.LICENCES_BY_NAME.get(found.card["licence"]["data"]["name"], licences.UNKNOWN)
    weights = licences.to_card(licences.published_licence(data))
    card["licence"] = {**found.card["licence"], "weights": weights}
    # where the run lay is no part of what it is
    card["command"] = re.sub(r" --(out|resume)[ =]('[^']*'|\S+)", "", card["command"])
    place = PLACE.search(json.dumps(card))
    if place:
        raise SystemExit(f"publish: expected a card without places of this machine, got {place[1]}")
    with TemporaryDirectory() as folder:
        _store(Path(folder), found, card)
        card["numbers"] = {**found.card.get("numbers", {}), **_measured(Path(folder))}
    _store(into / name, found, card)
    return into / name


def seed_choice(
    card: dict[str, Any], others: Sequence[dict[str, Any]], *, is_default: bool = False
) -> dict[str, Any]:
    """The seeds that were trained, their numbers on development data, and how one was chosen.

    Args:
        card: that of the member.
        others: the cards of runs with other seeds.
        is_default: the member is what its recipe trains without being told a seed: not chosen.

    Raises:
        SystemExit: it was chosen, and another seed is better.
    """
    training = card["settings"]["training"]
    monitor, sign = training["monitor"], 1 if training["monitor_mode"] == "lowest" else -1
    numbers = {each["seed"]: each["development"][monitor] for each in (card, *others)}
    seed, best = card["seed"], min(numbers, key=lambda seed: sign * numbers[seed])
    how = f"the best of {len(numbers)} seeds by {monitor} of development data"
    if is_default:
        how = f"seed {seed} is the default of the recipe, and was not chosen by any number"
    elif best != seed:
        raise SystemExit(
            f"publish: expected the seed that is best by {monitor} of development data, {best} "
            f"with {numbers[best]:.4g}, got seed {seed} with {numbers[seed]:.4g}"
        )
    elif not others:
        how = f"seed {best}, the only one that was trained"
    return {
        "seeds": sorted(numbers),
        "development": {
            "measure": monitor,
            "numbers": {str(seed): numbers[seed] for seed in sorted(numbers)},
        },
        "how": how,
    }


def _measured(folder: Path) -> dict[str, Any]:
    """The numbers of a stored model, and what they were measured on."""
    stored = load(folder)
    recipe = import_module(RECIPES[stored.card["recipe"]][0])
    config = from_json(recipe.Config, stored.card["settings"])
    numbers = recipe.card_metrics(stored, config, folder)
    return {**numbers, "hardware": hardware()}


def _store(folder: Path, found: Any, card: dict[str, Any]) -> None:
    dtype = DTYPES[card["dtype"]]
    zoo.save(folder, found.model, found.config, card, tokenizer=found.tokenizer, dtype=dtype)


def main() -> None:
    """Publish what was asked for, and tell how large it is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish", description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("name", help="what it is called from now on")
    parser.add_argument("--seeds", type=Path, nargs="*", default=[], help="runs of other seeds")
    parser.add_argument("--about", help="what it is, in a few words")
    parser.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    asked = parser.parse_args()
    told = {"seeds": asked.seeds, "dtype": asked.dtype}
    folder = published(asked.run, asked.name, asked.about, **told)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>10,}  {path.relative_to(ZOO)}")


if __name__ == "__main__":
    main()

"""Development numbers of the zoo: `python -m benchmarks.development NAME [--seeds RUN …]`.

For a member whose run is gone, the recipe's own validator measures the stored weights on
development data. `--seeds` names runs of other seeds of the same settings; their cards hold their
numbers. The member's card gets the numbers of all, and a member that is not the best of them is
refused, unless `--default` says that it is what the recipe trains without being told a seed.
"""

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.publish import ZOO, seed_choice
from regard import load
from regard.cli.resolve import RECIPES
from regard.config import from_json
from regard.recipes.translate import train as translate


def development_numbers(loaded: Any) -> dict[str, float]:
    """Metrics of a model on the validation data of its recipe."""
    recipe = import_module(RECIPES[loaded.card["recipe"]][0])
    config = from_json(recipe.Config, loaded.card["settings"])
    if loaded.card["recipe"] == "translate":
        pairs = config.data.load_split(print).development
        validate = translate.build_validator(config, pairs, loaded.tokenizer)
    else:
        validate = recipe.RECIPE.build_validator(config.data)
    with torch.no_grad():
        return validate(loaded.model.eval())


def with_development(
    member: Path, seeds: Sequence[Path] = (), *, is_default: bool = False
) -> dict[str, Any]:
    """The card of a member with its development numbers, and those of other seeds."""
    loaded = load(member)
    card = {**loaded.card, "development": development_numbers(loaded)}
    choice = seed_choice(card, [load(run).card for run in seeds], is_default=is_default)
    seed, how = card["seed"], choice["how"]
    if not seeds:
        how = f"seed {seed} is the default of the recipe, and no other is on record"
    how += f"; the number of seed {seed} is that of the stored weights"
    return {**card, "seed_choice": {**choice, "how": how}}


def main() -> None:
    """Measure one member and write its card anew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.development", description=__doc__)
    parser.add_argument("name", help="a member of the zoo")
    parser.add_argument("--seeds", type=Path, nargs="*", default=[], help="runs of other seeds")
    parser.add_argument("--default", action="store_true", help="the seed was not chosen")
    given = parser.parse_args()
    card = with_development(ZOO / given.name, given.seeds, is_default=given.default)
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    (ZOO / given.name / "card.json").write_text(text, encoding="utf-8")
    print(f"{given.name}: {json.dumps(card['seed_choice'])}")


if __name__ == "__main__":
    main()

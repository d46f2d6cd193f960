"""A run as a member of the zoo: `python -m benchmarks.publish RUN NAME "what it is"`.

Weights are stored in float16, and what is stored is what is measured: the numbers of the card are
those of the model that comes out of the file again.
"""

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from regard import load, zoo
from regard.asking import RECIPES

ZOO = Path(zoo.__file__).parent


def published(run: Path, name: str, about: str) -> Path:
    """The folder of the new member."""
    found, folder = load(run), ZOO / name
    card = {**found.card, "name": name, "about": about}
    # where the run lay is no part of what it is
    card["command"] = re.sub(r" --out[ =]('[^']*'|\S+)", "", card["command"])
    if " /" in json.dumps(card) or '"/' in json.dumps(card):
        raise SystemExit("publish: the card names a place of this machine; train with other words")
    recipe = import_module(RECIPES[card["recipe"]][0])
    _stored(folder, found, card)
    card["numbers"] = recipe.evaluate(load(folder), recipe.Evaluation())
    _stored(folder, found, card)
    return folder


def _stored(folder: Path, found: Any, card: dict[str, Any]) -> None:
    zoo.save(folder, found.model, found.config, card, tokenizer=found.tokenizer, half=True)


if __name__ == "__main__":
    folder = published(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>10,}  {path.relative_to(ZOO)}")

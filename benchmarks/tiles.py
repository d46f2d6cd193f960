"""How large a tile of the additive kernel is best: `python -m benchmarks.tiles` prints a table."""

from collections.abc import Callable
from typing import Any

from benchmarks.additive import ours
from benchmarks.measure import in_words, race
from regard.kernels.additive import reference_tiled

KEPT = reference_tiled.TILE_BYTES["cpu"]


def at(size: int, run: Callable[[], Any]) -> Callable[[], Any]:
    """`run` with tiles of `size` bytes."""

    def sized() -> Any:
        reference_tiled.TILE_BYTES["cpu"] = size
        return run()

    return sized


def main() -> None:
    """Race every size against the one that is kept."""
    print("| tile, MiB | forward, beside the one kept | forward and backward |\n|---|---|---|")
    for mebibytes in (1, 2, 4, 16, 32, 64):
        cells = []
        for run in (ours(False), ours(True)):
            found = race(at(mebibytes << 20, run), at(KEPT, run), rounds=11)
            cells.append(f"{found.times_the_time:.2f} × ({in_words(found.ours)})")
        print(f"| {mebibytes} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

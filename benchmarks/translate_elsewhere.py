"""CTranslate2 in a process without torch, whose threads it would fight with: one run for a line.

`python -m benchmarks.translate_elsewhere FOLDER TYPE WORKERS STEPS SOURCES.json`, then a line on
its standard input for each run; each is answered by the seconds that it took.
"""

import json
import sys
import time
from pathlib import Path


def main(folder: str, kind: str, workers: str, steps: str, sources: str) -> None:
    """Translate whenever a line comes, each worker its share of the sources."""
    import ctranslate2

    translator = ctranslate2.Translator(
        folder, device="cpu", compute_type=kind, inter_threads=int(workers), intra_threads=1
    )
    told = json.loads(Path(sources).read_text())
    for _ in sys.stdin:
        before = time.perf_counter()
        found = translator.translate_batch(
            told,
            beam_size=1,
            max_batch_size=-(-len(told) // int(workers)),
            min_decoding_length=int(steps),
            max_decoding_length=int(steps),
        )
        seconds = time.perf_counter() - before
        assert {len(one.hypotheses[0]) for one in found} == {int(steps)}
        print(seconds, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Whether the first call of a process is as good as the second: `python -m benchmarks.first`.

torch's exp, tanh and their like go to MKL, whose first call may go wrong when several threads make
it; see `regard/runtime/mkl.py`.
"""

import subprocess
import sys

from benchmarks.measure import Row

PROCESSES = 60
TWICE = """
import torch
torch.set_num_threads(2)
x = torch.rand(8192)
print(int(torch.equal(torch.tanh(x), torch.tanh(x))))
"""


def different(before: str) -> int:
    """Of so many processes that did this before, how many called tanh twice to two results."""
    command = [sys.executable, "-c", before + TWICE]
    said = [subprocess.check_output(command, text=True) for _ in range(PROCESSES)]
    return sum(one.strip() == "0" for one in said)


def rows() -> list[Row]:
    """The claim about first calls."""
    alone, ours = different(""), different("import regard; regard.attend")
    return [
        Row(
            "processes whose first `torch.tanh` on two threads differs from their second",
            "none after `import regard`",
            "",
            f"{ours} of {PROCESSES}; {alone} of {PROCESSES} with torch alone",
            ours == 0,
        )
    ]


if __name__ == "__main__":
    for row in rows():
        print(f"{row.claim}: {row.measured}")

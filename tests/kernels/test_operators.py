"""Operators of our own: quick to start, whole to a compiler."""

import subprocess
import sys

FIRST_CALL = """
import sys, torch, regard
q, k, v = (torch.randn(1, 1, 128, 64, requires_grad=True) for _ in range(3))
score = regard.scores.Additive(torch.randn(1, 64))
assert regard.why(q, k, v, score=score).backend == "chunked"
with regard.use_backend("chunked"):
    regard.attend(q, k, v, score=score).sum().backward()
print(sorted({"torch._dynamo", "triton"} & sys.modules.keys()))
"""


def test_the_first_call_imports_no_compiler():
    found = subprocess.run(
        [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"

"""Those that translate as `benchmarks.translate` does, by other people's code at the same sizes.

Each maker gives a function that decodes greedily once and says how many seconds that took, or a
sentence that says why there is none.
"""

import copy
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

Timed = Callable[[], float]
Peer = Timed | str


def timed(run: Callable[[], Any]) -> Timed:
    """Seconds of one run, with the work of the GPU."""

    def once() -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        before = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - before

    return once


def missing(*names: str) -> str | None:
    """The reason why a package of the `bench` extra cannot be imported, or None."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            return f"{name} cannot be imported here ({error})"
    return None


def marian(*, vocabulary: int, width: int, heads: int, layers: int, feed_forward_width: int) -> Any:
    """Hugging Face's Marian of these sizes, with random weights; its last token is the padding."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=feed_forward_width,
        decoder_ffn_dim=feed_forward_width,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=vocabulary - 1,
        decoder_start_token_id=vocabulary - 1,
        eos_token_id=0,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config).eval()


def hugging_face(model: Any, tokens: Tensor, steps: int) -> dict[str, Peer]:
    """`generate` of a Marian for just so many steps, by each cache that it has and compiled."""
    from transformers import CompileConfig

    # reduce-overhead, its default, is a matter of CUDA graphs
    compiled = CompileConfig(mode="reduce-overhead" if tokens.is_cuda else "default")
    compiled._compile_all_devices = True  # by itself it compiles on a GPU alone
    ways: dict[str, dict[str, Any]] = {
        "dynamic cache": {},
        "static cache": {"cache_implementation": "static", "disable_compile": True},
        "static cache, compiled": {"cache_implementation": "static", "compile_config": compiled},
    }
    return {name: _generate(model, tokens, steps, way) for name, way in ways.items()}


def _generate(model: Any, tokens: Tensor, steps: int, way: dict[str, Any]) -> Peer:
    model = copy.deepcopy(model)  # it keeps its static cache, and what it has compiled
    mask = torch.ones_like(tokens)

    def run() -> Tensor:
        with torch.no_grad():
            found: Tensor = model.generate(
                input_ids=tokens,
                attention_mask=mask,
                num_beams=1,
                do_sample=False,
                min_new_tokens=steps,
                max_new_tokens=steps,
                **way,
            )
        return found

    try:
        found = run()
    except BackendCompilerFailed as error:
        return f"cannot be compiled here ({type(error.inner_exception).__name__})"
    assert found.shape == (len(tokens), steps + 1)
    return timed(run)


def ctranslate2(model: Any, tokens: Tensor, steps: int, kind: str) -> Peer:
    """CTranslate2 decoding the same Marian, in numbers of this kind, a worker a core."""
    reason = missing("ctranslate2")
    if reason is not None:
        return reason
    from ctranslate2.converters.transformers import MarianMTLoader

    words = ["</s>", "<unk>", *(f"w{i}" for i in range(2, model.config.vocab_size - 1))]
    spec = MarianMTLoader().get_model_spec(model)
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.decoder_start_token = spec.config.eos_token = "</s>"
    spec.config.unk_token = "<unk>"
    spec.validate()
    spec.optimize(quantization=None if kind == "float32" else kind)
    # the process reads it when it is first asked, and is gone before the folder is
    folder = tempfile.mkdtemp(prefix="regard-bench-")
    spec.save(folder)
    sources = Path(folder) / "sources.json"
    sources.write_text(json.dumps([[words[i] for i in row] for row in tokens.tolist()]))
    told = [folder, kind, str(torch.get_num_threads()), str(steps), str(sources)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.translate_elsewhere", *told],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def once() -> float:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    once()
    return once


def joey(tokens: Tensor, steps: int, *, vocabulary: int, embedding: int, width: int) -> Peer:
    """JoeyNMT's recurrent decoder with Bahdanau's attention, one embedding for both languages."""
    reason = missing("joeynmt.model", "joeynmt.search")
    if reason is not None:
        return reason
    from types import SimpleNamespace

    from joeynmt.model import build_model
    from joeynmt.search import recurrent_greedy
    from joeynmt.vocabulary import Vocabulary

    torch.manual_seed(0)
    marks = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    told = SimpleNamespace(
        **{f"{name}_token": mark for name, mark in marks.items()},
        **{f"{name}_id": i for i, name in enumerate(marks)},
        sep_token=None,
        sep_id=None,
        lang_tags=[],
    )
    words = Vocabulary([f"w{i}" for i in range(vocabulary - 4)], told)
    part = {"type": "recurrent", "rnn_type": "gru", "hidden_size": width}
    part["embeddings"] = {"embedding_dim": embedding, "scale": False}
    config = {"encoder": part, "decoder": {**part, "attention": "bahdanau"}}
    model = build_model({**config, "tied_embeddings": True}, words, words).eval()
    lengths = torch.full((len(tokens),), tokens.shape[1])
    mask = torch.ones(len(tokens), 1, tokens.shape[1], dtype=torch.bool)

    def run() -> Any:
        with torch.no_grad():
            output, last, _, _ = model(
                return_type="encode", src=tokens, src_length=lengths, src_mask=mask
            )
            return recurrent_greedy(
                mask,
                steps,
                model,
                output,
                last,
                min_output_length=steps,
                return_prob="hyp",
            )

    assert run()[0].shape == (len(tokens), steps)
    return timed(run)

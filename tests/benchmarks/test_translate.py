"""A peer is compared by its fastest form, and every form is listed with its time."""

import pytest
import torch

from benchmarks import translate, translate_peers
from benchmarks.translate import fastest
from benchmarks.translate_peers import hugging_face, marian


def test_the_quickest_way_is_raced_and_each_is_named(monkeypatch):
    monkeypatch.setattr(translate.time, "sleep", lambda seconds: None)
    slow, quick = (lambda: 0.3), (lambda: 0.15)
    run, words = fastest({"a": slow, "b": quick, "c": "cannot be compiled here (X)"}, rounds=1)
    assert run is quick
    assert words == (
        "; compared with: b; a step of each: a 10.00 ms, b 5.00 ms, c cannot be compiled here (X)"
    )


def test_hugging_face_is_raced_with_both_caches_and_compiled(monkeypatch):
    pytest.importorskip("transformers")
    asked = []
    monkeypatch.setattr(translate_peers, "_generate", lambda *x: asked.append(x[3]) or "none")
    model = marian(vocabulary=31, width=8, heads=2, layers=1, feed_forward_width=8)
    tokens = torch.randint(2, 29, (2, 5))
    hugging_face(model, tokens, 4)
    monkeypatch.undo()
    assert [way.get("cache_implementation") for way in asked] == [None, "static", "static"]
    for way in asked[:2]:
        assert translate_peers._generate(model, tokens, 4, way)() > 0

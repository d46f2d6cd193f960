"""A small attack of each kind: the server answers a usual client all along, and keeps its bounds.

The large one is `python -m benchmarks serving`.
"""

import contextlib
import json
import random

import pytest

from regard.cli import serve_setup
from regard.view import Trace, load
from tests.view.server import hostile
from tests.view.server.house import BEARER, asgi, status


@pytest.mark.parametrize(
    "make",
    [make for make in hostile.TRACES if make is not hostile._large],
    ids=lambda m: m.__name__,
)
def test_a_hostile_trace_is_read_or_refused_in_a_sentence(make, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(make(random.Random(0)))
    with contextlib.suppress(ValueError):
        assert isinstance(load(path), Trace)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (hostile._many_heads, 413),
        (hostile._more_heads, 400),
        (hostile._costly_outputs, 400),
        (hostile._strange_numbers, 400),
        (hostile._deep, 400),
        (hostile._long_labels, None),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_comes_of_a_hostile_trace_is_an_answer_and_never_a_fault(make, wanted, house):
    sent = house.client.post("/api/traces", content=make(random.Random(0)))
    if wanted == 400:
        assert sent.status_code == 400
        assert len(sent.json()["error"]) <= 300
        return
    at = f"/api/traces/{sent.json()['id']}"
    assert house.client.get(at).status_code == 200
    assert house.client.get(f"{at}/thumbs/m").status_code == 200
    drawn = house.client.get(f"{at}/export/png?view=wall")
    assert drawn.status_code in ((wanted,) if wanted else (200, 400, 413, 422))
    assert house.lines == []


def test_hostile_cards_leave_the_gallery_as_it_was(tmp_path):
    hostile.hostile_cards(tmp_path / "runs", 80, seed=1)
    unreadable = serve_setup.UnreadableRuns()
    found = serve_setup.available_models(tmp_path / "runs", unreadable)
    told = json.dumps([offer.to_json() for offer in found.values()], ensure_ascii=False)
    assert len(told.encode()) < 10 * 2**20
    assert sum(not offer.is_run for offer in found.values()) > 5
    assert unreadable.count > 20
    assert all(len(why) <= 300 for _, why in unreadable.named)


def test_wrong_secrets_are_refused_as_fast_as_they_come(house):
    for number in range(300):
        given = {"host": "127.0.0.1:8000", "authorization": f"Bearer {number}"}
        assert status(asgi(house.app, "GET", "/api/about", given)[0]) == 401
    assert house.app.active_requests == 0
    given = {"host": "127.0.0.1:8000", **BEARER}
    assert status(asgi(house.app, "GET", "/api/about", given)[0]) == 200

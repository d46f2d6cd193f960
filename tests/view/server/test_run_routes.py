"""A model is asked, watched and stopped over the wire; a lesson answers at once."""

import json
import threading
import time

import pytest

from regard.view.server.limits import Limits
from tests.view.server.house import BEARER, asgi, status

ASKED = {"model": "toy", "input": "a b", "options": {"beam": 2}, "edits": []}


def ask(house, **more):
    return house.client.post("/api/runs", json={**ASKED, **more})


def ended(house, id):
    for _ in range(2000):
        told = house.client.get(f"/api/runs/{id}").json()
        if told["state"] in ("done", "failed", "cancelled"):
            return told
        time.sleep(0.002)
    raise AssertionError(told)


def heard(house, id):
    text = house.client.get(f"/api/runs/{id}/events").text
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def test_a_run_ends_in_a_trace_that_knows_how_it_came_about(house):
    answer = ask(house)
    assert answer.status_code == 202
    told = ended(house, answer.json()["id"])
    assert (told["state"], told["error"]) == ("done", None)
    manifest = house.client.get(f"/api/traces/{told['trace']}").json()
    assert manifest["asked"] == ASKED
    assert manifest["title"] == "a b"
    assert manifest["python"] == "trace('a b', {'beam': 2}, [])"
    assert manifest["seconds"] >= 0
    assert house.toy.told == [("a b", {"beam": 2}, [])]


def test_what_is_left_out_is_empty(house):
    answer = house.client.post("/api/runs", json={"model": "toy", "input": "a"})
    ended(house, answer.json()["id"])
    assert house.toy.told == [("a", {}, [])]


def test_events_end_with_the_end_and_who_comes_late_hears_it(house):
    id = ask(house, input="wait").json()["id"]
    threading.Timer(0.1, house.toy.go.set).start()
    early, late = heard(house, id), heard(house, id)
    assert early[-1] == late[0] == {"kind": "done", "trace": ended(house, id)["trace"]}
    assert len(late) == 1
    assert {event["kind"] for event in early} <= {"waiting", "progress", "done"}
    assert {"kind": "progress", "done": early[-2]["done"], "total": None, "text": "so far"} in early


def test_events_are_a_stream_that_nobody_stores(house):
    answer = house.client.get(f"/api/runs/{ask(house).json()['id']}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.endswith("\n\n")


def test_a_run_is_stopped_whether_it_goes_on_or_waits(house):
    ids = [ask(house, input="wait").json()["id"] for _ in range(2)]
    for id in reversed(ids):
        assert house.client.delete(f"/api/runs/{id}").status_code == 204
    assert [ended(house, id)["state"] for id in ids] == ["cancelled"] * 2
    assert heard(house, ids[0]) == [{"kind": "cancelled"}]
    assert house.client.get("/api/traces").json() == []


def test_when_too_many_wait_the_next_is_told_so(house):
    ids = [ask(house, input="wait").json()["id"] for _ in range(1)]
    while house.client.get(f"/api/runs/{ids[0]}").json()["state"] == "waiting":
        time.sleep(0.002)
    answers = [ask(house, input="wait") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [202] * 4 + [503]
    assert answers[-1].json() == {"error": "4 runs wait already; ask again when one is done"}
    assert house.client.get("/api/about").json()["queue"] == {"running": 1, "waiting": 4}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("refuse", "toy: expected another text"),
        ("break", "the model failed; the terminal where regard serve runs says why"),
    ],
)
def test_a_run_that_fails_says_why_in_a_sentence_without_what_is_inside(house, text, error):
    told = ended(house, ask(house, input=text).json()["id"])
    assert (told["state"], told["error"], told["trace"]) == ("failed", error, None)
    assert house.lines == (["RuntimeError: /home/me/secret.py broke"] if text == "break" else [])


@pytest.mark.parametrize("house", [{"limits": Limits(run_seconds=0.05)}], indirect=True)
def test_a_run_that_takes_too_long_is_stopped(house):
    told = ended(house, ask(house, input="wait").json()["id"])
    assert told["error"] == "it took more than 0.05 s and was stopped"


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"model": "no"}, 404, "run: no such model; /api/models lists them"),
        ({"model": "../copy"}, 404, "run: no such model"),
        ({"model": 3}, 400, "run: expected model as a str"),
        ({"input": ["a"]}, 400, "run: expected input as a str"),
        ({"edits": {}}, 400, "run: expected edits as a list"),
        ({"path": "/etc"}, 400, "run: expected model, input, options, edits, got 'path'"),
        ({"options": {"beam": 6}}, 400, "option 'beam': expected 1 to 5, got 6"),
        ({"options": {"beam": True}}, 400, "option 'beam': expected a whole number"),
        ({"options": {"beam": "2"}}, 400, "option 'beam': expected a whole number"),
        ({"options": {"depth": 1}}, 400, "options: expected beam, got 'depth'"),
        ({"input": "a " * 8}, 400, "run: expected at most 7 tokens, got 8"),
        ({"edits": [{"at": "x", "do": "import"}]}, 400, "edit 0: expected do of ablate, hide, "),
        ({"edits": [{"at": "x", "do": "heat"}]}, 400, "edit 0: heat has no 'temperature'"),
        ({"edits": ["x"]}, 400, "run: expected edits as a list of objects"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_before_anything_runs(house, given, status, words):
    answer = ask(house, **given)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(words)
    assert house.toy.told == []


def test_a_million_tokens_are_not_even_read(house):
    answer = ask(house, input="a " * 10**6)
    assert answer.status_code == 413
    pieces = [b'{"input": "' + b"a " * 2000] * 1000
    given = {"host": "127.0.0.1:8000", **BEARER}
    sent, taken = asgi(house.app, "POST", "/api/runs", given, pieces)
    assert status(sent) == 413
    assert taken < 12


@pytest.mark.parametrize("how", ["get", "delete"])
def test_a_run_that_is_not_known_is_nothing(house, how):
    for end in ("", "/events")[: 2 if how == "get" else 1]:
        answer = getattr(house.client, how)(f"/api/runs/{'0' * 32}{end}")
        assert (answer.status_code, answer.json()["error"]) == (
            404,
            "no run of this id is known here",
        )


def test_a_lesson_answers_with_its_numbers(house):
    assert house.client.get("/api/lessons").json()[0]["name"] == "twice"
    answer = house.client.post("/api/lessons/twice", json={"x": 2.5})
    assert answer.json() == {"y": 5.0, "code": "y = 2 * x"}


def test_a_lesson_refuses_in_words_and_breaks_in_silence(house):
    wrong = house.client.post("/api/lessons/twice", json={"x": "wrong"})
    assert (wrong.status_code, wrong.json()) == (400, {"error": "lesson twice: expected a number"})
    broken = house.client.post("/api/lessons/twice", json={})
    assert broken.status_code == 500
    assert broken.json()["error"].startswith("something went wrong here")
    assert house.client.post("/api/lessons/no", json={}).status_code == 404
    assert house.client.post("/api/lessons/twice", content=b"[[").status_code == 400


@pytest.mark.parametrize("house", [{"limits": Limits(run_seconds=0.3, lessons=1)}], indirect=True)
def test_a_lesson_behind_a_long_run_waits_and_too_many_are_refused(house):
    ask(house, input="wait")
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(house.client.post("/api/lessons/twice", json={"x": 1}))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in found} <= {200, 503}
    assert 503 in {answer.status_code for answer in found}


def test_two_clients_at_once_get_each_their_own(house):
    found = {}

    def client(name):
        id = ask(house, input=name).json()["id"]
        found[name] = house.client.get(f"/api/traces/{ended(house, id)['trace']}").json()["title"]

    threads = [threading.Thread(target=client, args=[name]) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"one": "one", "two": "two", "three": "three"}
